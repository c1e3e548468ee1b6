/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC by the letter of RFC 9438: the variant cubic-rfc9438. Linux's is cubic.h.
 *
 *   W(t)   = C (t - K)^3 + W_max            C = 0.4, K = cubic root of (W_max - cwnd at epoch start) / C
 *   loss   : W_max = cwnd, lower if it is below the previous W_max (fast convergence); cwnd *= 0.7
 *   W_est  : window of Reno with the same decrease; a lower bound of cwnd
 *
 *   timeout: the curve starts at the window where avoidance begins, K = 0
 *
 * Internal times are milliseconds and windows packets, so that a cube fits 64 bits. No HyStart (RFC 9406).
 */
#ifndef BBRGYM_CC_CUBIC_RFC9438_H
#define BBRGYM_CC_CUBIC_RFC9438_H

#include "reno.h"

#define RFC9438_BETA_PERCENT 70     /* RFC 9438, 4.6 */
#define RFC9438_CONVERGE_PERCENT 85 /* (1 + beta) / 2 (RFC 9438, 4.7) */
#define RFC9438_C_TENTHS 4          /* 0.4 (RFC 9438, 5.1) */
#define RFC9438_ALPHA_MICRO 529412  /* 3 (1 - beta) / (1 + beta) = 9/17 (RFC 9438, 4.3) */
#define RFC9438_MICRO UINT64_C(1000000)
#define RFC9438_MAX_OFFSET_MS 2000000 /* (2000 s)^3 is beyond any window */

static inline void rfc9438_start_epoch(struct cc_state *state, uint64_t now_us)
{
    struct rfc9438_state *cubic = &state->rfc9438;

    cubic->epoch_start_us = cc_max_u64(now_us, 1);
    cubic->w_est_micro_pkts = state->cwnd_pkts * RFC9438_MICRO;
    if (state->cwnd_pkts < cubic->w_max_pkts) {
        /* K^3 = W / C seconds^3 = W * 10 / 4 * 10^9 ms^3 */
        uint64_t below_pkts = cubic->w_max_pkts - state->cwnd_pkts;

        cubic->k_ms = cc_cube_root(cc_mul_sat(below_pkts, UINT64_C(10000000000) / RFC9438_C_TENTHS));
        cubic->origin_pkts = cubic->w_max_pkts;
    } else {
        cubic->k_ms = 0;
        cubic->origin_pkts = state->cwnd_pkts;
    }
}

/* W at a time since the epoch's start, at least 1 packet. */
static inline uint64_t rfc9438_window_pkts(const struct rfc9438_state *cubic, uint64_t since_us)
{
    uint64_t t_ms = since_us / 1000;
    uint64_t offset_ms = t_ms > cubic->k_ms ? t_ms - cubic->k_ms : cubic->k_ms - t_ms;
    uint64_t delta_pkts;

    offset_ms = cc_min_u64(offset_ms, RFC9438_MAX_OFFSET_MS);
    delta_pkts = cc_mul_div(offset_ms * offset_ms * offset_ms, RFC9438_C_TENTHS, UINT64_C(10000000000));
    if (t_ms >= cubic->k_ms)
        return cc_add_sat(cubic->origin_pkts, delta_pkts);
    return cubic->origin_pkts > delta_pkts ? cubic->origin_pkts - delta_pkts : 1;
}

/* RFC 9438, 4.3: alpha packets per window until W_est reaches the window before the last reduction, then one. */
static inline void rfc9438_update_reno_estimate(struct cc_state *state, uint32_t acked_pkts)
{
    struct rfc9438_state *cubic = &state->rfc9438;
    bool below = cubic->w_est_micro_pkts < cubic->prior_cwnd_pkts * RFC9438_MICRO;
    uint64_t alpha_micro = below ? RFC9438_ALPHA_MICRO : RFC9438_MICRO;

    cubic->w_est_micro_pkts =
        cc_add_sat(cubic->w_est_micro_pkts, cc_mul_div(alpha_micro, acked_pkts, cc_max_u32(state->cwnd_pkts, 1)));
}

static inline void rfc9438_avoid_congestion(struct cc_state *state, const struct cc_sample *rs, uint32_t acked_pkts)
{
    struct rfc9438_state *cubic = &state->rfc9438;
    uint64_t cwnd = state->cwnd_pkts;
    uint64_t since_us, target_pkts;

    if (cubic->epoch_start_us == 0)
        rfc9438_start_epoch(state, rs->now_us);
    since_us = cc_sub_sat(rs->now_us, cubic->epoch_start_us);
    rfc9438_update_reno_estimate(state, acked_pkts);

    /* The target is the curve one round trip ahead, at most half a window more (RFC 9438, 4.4). */
    target_pkts = rfc9438_window_pkts(cubic, cc_add_sat(since_us, rs->srtt_us));
    target_pkts = cc_min_u64(cc_max_u64(target_pkts, cwnd), cwnd + cwnd / 2);
    cubic->credit_micro_pkts += cc_mul_div((target_pkts - cwnd) * RFC9438_MICRO, acked_pkts, cc_max_u64(cwnd, 1));
    cwnd += cubic->credit_micro_pkts / RFC9438_MICRO;
    cubic->credit_micro_pkts %= RFC9438_MICRO;
    state->cwnd_pkts = cc_clamp_to_u32(cc_max_u64(cwnd, cubic->w_est_micro_pkts / RFC9438_MICRO));
}

/* The acknowledged packets that grow the window, SACKed ones too: after a timeout all, as slow start begins again. */
static inline uint32_t rfc9438_growth_pkts(const struct cc_sample *rs)
{
    bool is_held_back = rs->is_cwnd_limited && rs->ca_state < CC_CA_CWR;

    return is_held_back || rs->ca_state == CC_CA_LOSS ? rs->acked_pkts : 0;
}

static inline void rfc9438_on_ack(struct cc_state *state, const struct cc_sample *rs)
{
    uint32_t acked_pkts = reno_slow_start(state, rfc9438_growth_pkts(rs));

    state->rfc9438.last_ack_us = rs->now_us;
    if (acked_pkts > 0)
        rfc9438_avoid_congestion(state, rs, acked_pkts);
}

static inline void rfc9438_reduce(struct cc_state *state)
{
    struct rfc9438_state *cubic = &state->rfc9438;
    uint64_t cwnd = state->cwnd_pkts;

    /* Fast convergence: a flow that peaks lower than before makes room (RFC 9438, 4.7). */
    cubic->w_max_pkts = (uint32_t)(cwnd < cubic->w_max_pkts ? cwnd * RFC9438_CONVERGE_PERCENT / 100 : cwnd);
    cubic->prior_cwnd_pkts = state->cwnd_pkts;
    cubic->epoch_start_us = 0;
    cubic->credit_micro_pkts = 0;
    state->ssthresh_pkts = cc_max_u32((uint32_t)(cwnd * RFC9438_BETA_PERCENT / 100), RENO_CWND_FLOOR_PKTS);
}

/* RFC 9438, 4.8: there is no old maximum to return to, so K = 0 when congestion avoidance begins. */
static inline void rfc9438_on_rto(struct cc_state *state)
{
    state->rfc9438.w_max_pkts = 0;
    state->rfc9438.epoch_start_us = 0;
    state->rfc9438.credit_micro_pkts = 0;
}

/* Idle time does not count on the curve. */
static inline void rfc9438_on_restart(struct cc_state *state, uint64_t now_us)
{
    struct rfc9438_state *cubic = &state->rfc9438;
    uint64_t idle_us = cc_sub_sat(now_us, cubic->last_ack_us);

    if (cubic->epoch_start_us != 0 && cubic->last_ack_us != 0)
        cubic->epoch_start_us = cc_min_u64(cc_add_sat(cubic->epoch_start_us, idle_us), now_us);
}

#endif
