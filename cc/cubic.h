/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC as Linux has it (6.x net/ipv4/tcp_cubic.c, at 1000 ticks a second).
 *
 *   slow start : cwnd += acked, until a loss or HyStart (cubic_hystart.h)
 *   avoidance  : cwnd += 1 per acks_per_pkt packets acknowledged, at least 2:
 *                acks_per_pkt = cwnd / (target - cwnd), target = origin + C (t + min_delay - K)^3,  C = 0.4
 *                and at most cwnd / (W_reno - cwnd): the window is at least Reno's with the same decrease
 *   loss       : W_max = cwnd, lower if it is below the previous W_max (fast convergence); cwnd *= 0.7
 *   timeout    : forgets everything, W_max too
 *
 * Linux computes acks_per_pkt once a tick and, while the window stays, every 32nd of a second. Its times are ticks and,
 * under the cube, 1/1024 s. What differs here: the cube root is exact, Linux's (a table and one Newton step) is off by
 * up to 0.15 %; and what would overflow saturates.
 */
#ifndef BBRGYM_CC_CUBIC_H
#define BBRGYM_CC_CUBIC_H

#include "cubic_hystart.h"
#include "params.h"

#define CUBIC_TICK_US 1000 /* Linux: 1 / CONFIG_HZ; 1000 Hz is the finest it offers */
#define CUBIC_TICKS_PER_S 1000
#define CUBIC_PATIENCE_TICKS (CUBIC_TICKS_PER_S / 32)
#define CUBIC_BETA_1024 717 /* 0.7 */
#define CUBIC_C_SHIFT 40    /* C = 410 / 1024, times in 1/1024 s: 10 + 3 * 10 bits */
#define CUBIC_C_1024 410
#define CUBIC_MAX_OFFSET 2000000 /* (2000 s)^3 is beyond any window and fits 64 bits */
#define CUBIC_FLAT_ACKS 100      /* windows a packet, above the curve */
#define CUBIC_FIRST_ACKS 20      /* before the first loss: 5 % a round trip */
#define CUBIC_LEAST_ACKS 2       /* 1.5 windows a round trip at most */
#define CUBIC_RENO_EIGHTHS 15    /* 8 (1 + beta) / 3 / (1 - beta): windows of ACKs per packet of W_reno, times 8 */

static inline void cubic_init(struct cc_state *state, const struct cc_start *start)
{
    state->cubic.mss_bytes = cc_max_u32(start->mss_bytes, 1);
}

/* ---- the delay (Linux cubictcp_acked) ---- */

CC_HOT void cubic_note_rtt(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t now_ms = rs->now_us / CUBIC_TICK_US;
    uint64_t rtt_us;

    if (rs->rtt_us < 0)
        return;
    cubic->last_sent_us = cc_sub_sat(rs->now_us, (uint64_t)rs->rtt_us);
    if (cubic->epoch_start_ms != 0 && cc_sub_sat(now_ms, cubic->epoch_start_ms) < CUBIC_TICKS_PER_S)
        return; /* too soon after a recovery */
    rtt_us = cc_max_u64((uint64_t)rs->rtt_us, 1);
    if (cubic->min_delay_us == 0 || rtt_us < cubic->min_delay_us)
        cubic->min_delay_us = rtt_us;
    if (cc_stack_has(params, CC_STACK_hystart) && !cubic->hystart.found && state->cwnd_pkts < state->ssthresh_pkts)
        hystart_on_rtt(state, params, rs, rtt_us);
}

/* ---- growth (Linux bictcp_update) ---- */

static inline void cubic_start_epoch(struct cubic_state *cubic, uint64_t now_ms, uint32_t cwnd_pkts,
                                     uint32_t acked_pkts)
{
    cubic->epoch_start_ms = cc_max_u64(now_ms, 1);
    cubic->reno_acked_pkts = acked_pkts;
    cubic->reno_cwnd_pkts = cwnd_pkts;
    cubic->k = 0;
    cubic->origin_pkts = cwnd_pkts;
    if (cwnd_pkts < cubic->w_max_pkts) {
        uint64_t factor = (UINT64_C(1) << CUBIC_C_SHIFT) / CUBIC_C_1024;

        cubic->k = cc_cube_root(factor * (cubic->w_max_pkts - cwnd_pkts));
        cubic->origin_pkts = cubic->w_max_pkts;
    }
}

/* The curve at a time a min_delay ahead. */
static inline uint64_t cubic_target_pkts(const struct cubic_state *cubic, uint64_t now_ms)
{
    uint64_t delay_ms = cubic->min_delay_us / CUBIC_TICK_US + (cubic->min_delay_us % CUBIC_TICK_US != 0);
    uint64_t ahead_ms = cc_add_sat(cc_sub_sat(now_ms, cubic->epoch_start_ms), delay_ms);
    uint64_t t = cc_mul_div(ahead_ms, 1024, CUBIC_TICKS_PER_S);
    uint64_t offset = cc_min_u64(t < cubic->k ? cubic->k - t : t - cubic->k, CUBIC_MAX_OFFSET);
    struct cc_u128 scaled = cc_mul_wide(offset * offset * offset, CUBIC_C_1024);
    uint64_t delta_pkts = scaled.high << (64 - CUBIC_C_SHIFT) | scaled.low >> CUBIC_C_SHIFT;

    return t < cubic->k ? cc_sub_sat(cubic->origin_pkts, delta_pkts) : cubic->origin_pkts + delta_pkts;
}

static inline uint32_t cubic_curve_acks(const struct cubic_state *cubic, uint64_t now_ms, uint32_t cwnd_pkts)
{
    uint64_t target_pkts = cubic_target_pkts(cubic, now_ms);
    uint64_t acks =
        target_pkts > cwnd_pkts ? cwnd_pkts / (target_pkts - cwnd_pkts) : (uint64_t)CUBIC_FLAT_ACKS * cwnd_pkts;

    if (cubic->w_max_pkts == 0)
        acks = cc_min_u64(acks, CUBIC_FIRST_ACKS);
    return cc_clamp_to_u32(acks);
}

/*
 * The window of a Reno with the same decrease, and the growth that keeps up with it. Linux adds 0.53 of a packet a
 * round trip throughout; RFC 9438, 4.3, a whole one past the window before the latest reduction.
 */
static inline void cubic_follow_reno(struct cubic_state *cubic, const struct cc_params *params, uint32_t cwnd_pkts)
{
    bool is_past = cubic->reno_cwnd_pkts >= cubic->prior_cwnd_pkts;
    bool is_whole = is_past && cc_stack_has(params, CC_STACK_reno_friendly_rule);
    uint64_t per = is_whole ? cwnd_pkts : (uint64_t)cwnd_pkts * CUBIC_RENO_EIGHTHS / 8;

    per = cc_max_u64(per, 1);
    if (cubic->reno_acked_pkts > per) {
        uint64_t steps = (cubic->reno_acked_pkts - 1) / per;

        cubic->reno_acked_pkts -= steps * per;
        cubic->reno_cwnd_pkts += steps;
    }
    if (cubic->reno_cwnd_pkts > cwnd_pkts)
        cubic->acks_per_pkt =
            cc_min_u32(cubic->acks_per_pkt, cc_clamp_to_u32(cwnd_pkts / (cubic->reno_cwnd_pkts - cwnd_pkts)));
}

CC_HOT void cubic_update(struct cubic_state *cubic, const struct cc_params *params, uint64_t now_ms, uint32_t cwnd_pkts,
                         uint32_t acked_pkts)
{
    uint64_t age_ms = cc_sub_sat(now_ms, cubic->updated_ms);

    cubic->reno_acked_pkts = cc_add_sat(cubic->reno_acked_pkts, acked_pkts);
    if (cubic->updated_cwnd_pkts == cwnd_pkts && age_ms <= CUBIC_PATIENCE_TICKS)
        return;
    if (cubic->epoch_start_ms == 0 || age_ms != 0) {
        cubic->updated_cwnd_pkts = cwnd_pkts;
        cubic->updated_ms = now_ms;
        if (cubic->epoch_start_ms == 0)
            cubic_start_epoch(cubic, now_ms, cwnd_pkts, acked_pkts);
        cubic->acks_per_pkt = cubic_curve_acks(cubic, now_ms, cwnd_pkts);
    }
    cubic_follow_reno(cubic, params, cwnd_pkts);
    cubic->acks_per_pkt = cc_max_u32(cubic->acks_per_pkt, CUBIC_LEAST_ACKS);
}

CC_HOT void cubic_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    uint32_t acked_pkts;

    cubic_note_rtt(state, params, rs);
    acked_pkts = reno_slow_start(state, reno_growth_pkts(state, params, rs));
    if (acked_pkts > 0) {
        cubic_update(&state->cubic, params, rs->now_us / CUBIC_TICK_US, state->cwnd_pkts, acked_pkts);
        reno_avoid_congestion(state, acked_pkts, state->cubic.acks_per_pkt);
    }
}

/* ---- other events ---- */

static inline void cubic_reduce(struct cc_state *state)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t cwnd = state->cwnd_pkts;

    /* Fast convergence: a flow that peaks lower than before makes room. */
    cubic->w_max_pkts = (uint32_t)(cwnd < cubic->w_max_pkts ? cwnd * (1024 + CUBIC_BETA_1024) / 2048 : cwnd);
    cubic->prior_cwnd_pkts = state->cwnd_pkts;
    cubic->epoch_start_ms = 0;
    state->reno_credit_pkts = 0;
    state->ssthresh_pkts = cc_max_u32((uint32_t)(cwnd * CUBIC_BETA_1024 / 1024), RENO_CWND_FLOOR_PKTS);
}

static inline void cubic_on_rto(struct cc_state *state)
{
    struct cubic_state *cubic = &state->cubic;
    struct cubic_state fresh = { 0 };

    fresh.mss_bytes = cubic->mss_bytes;
    fresh.prior_cwnd_pkts = cubic->prior_cwnd_pkts;
    *cubic = fresh;
    state->reno_credit_pkts = 0;
}

/* Nothing is in flight: the time since the last packet left does not count on the curve. */
static inline void cubic_on_restart(struct cc_state *state, uint64_t now_us)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t now_ms = now_us / CUBIC_TICK_US;
    uint64_t idle_ms = cc_sub_sat(now_ms, cubic->last_sent_us / CUBIC_TICK_US);

    if (cubic->epoch_start_ms != 0)
        cubic->epoch_start_ms = cc_min_u64(cc_add_sat(cubic->epoch_start_ms, idle_ms), cc_max_u64(now_ms, 1));
}

#endif
