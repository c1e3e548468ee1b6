/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CUBIC (RFC 9438).
 *
 *   W(t)   = C (t - K)^3 + W_max            C = 0.4, K = cubic root of (W_max - cwnd at epoch start) / C
 *   loss   : W_max = cwnd, lower if it is below the previous W_max (fast convergence); cwnd *= 0.7
 *   W_est  : window of Reno with the same decrease; a lower bound of cwnd
 *
 *   timeout: the curve starts at the window where avoidance begins, K = 0
 *
 * Internal times are milliseconds and windows packets, so that a cube fits 64 bits. No HyStart.
 */
#ifndef BBRGYM_CC_CUBIC_H
#define BBRGYM_CC_CUBIC_H

#include "reno.h"

#define CUBIC_BETA_PERCENT 70       /* RFC 9438, 4.6 */
#define CUBIC_CONVERGE_PERCENT 85   /* (1 + beta) / 2 (RFC 9438, 4.7) */
#define CUBIC_C_TENTHS 4            /* 0.4 (RFC 9438, 5.1) */
#define CUBIC_ALPHA_MICRO 529412    /* 3 (1 - beta) / (1 + beta) = 9/17 (RFC 9438, 4.3) */
#define CUBIC_MICRO UINT64_C(1000000)
#define CUBIC_MAX_OFFSET_MS 2000000 /* (2000 s)^3 is beyond any window */

/* Largest r with r^3 <= x, bit by bit. */
static inline uint64_t cubic_root(uint64_t x)
{
    uint64_t root = 0;
    int bit;

    for (bit = 21; bit >= 0; bit--) {
        uint64_t candidate = root | (UINT64_C(1) << bit);
        uint64_t cube = cc_mul_sat(candidate * candidate, candidate);

        if (cube <= x && cube != UINT64_MAX)
            root = candidate;
    }
    return root;
}

static inline void cubic_start_epoch(struct cc_state *state, uint64_t now_us)
{
    struct cubic_state *cubic = &state->cubic;

    cubic->epoch_start_us = cc_max_u64(now_us, 1);
    cubic->w_est_micro_pkts = state->cwnd_pkts * CUBIC_MICRO;
    if (state->cwnd_pkts < cubic->w_max_pkts) {
        /* K^3 = W / C seconds^3 = W * 10 / 4 * 10^9 ms^3 */
        uint64_t below_pkts = cubic->w_max_pkts - state->cwnd_pkts;

        cubic->k_ms = cubic_root(cc_mul_sat(below_pkts, UINT64_C(10000000000) / CUBIC_C_TENTHS));
        cubic->origin_pkts = cubic->w_max_pkts;
    } else {
        cubic->k_ms = 0;
        cubic->origin_pkts = state->cwnd_pkts;
    }
}

/* W at a time since the epoch's start, at least 1 packet. */
static inline uint64_t cubic_window_pkts(const struct cubic_state *cubic, uint64_t since_us)
{
    uint64_t t_ms = since_us / 1000;
    uint64_t offset_ms = t_ms > cubic->k_ms ? t_ms - cubic->k_ms : cubic->k_ms - t_ms;
    uint64_t delta_pkts;

    offset_ms = cc_min_u64(offset_ms, CUBIC_MAX_OFFSET_MS);
    delta_pkts = cc_mul_div(offset_ms * offset_ms * offset_ms, CUBIC_C_TENTHS, UINT64_C(10000000000));
    if (t_ms >= cubic->k_ms)
        return cc_add_sat(cubic->origin_pkts, delta_pkts);
    return cubic->origin_pkts > delta_pkts ? cubic->origin_pkts - delta_pkts : 1;
}

/* RFC 9438, 4.3: alpha packets per window until W_est reaches the window before the last reduction, then one. */
static inline void cubic_update_reno_estimate(struct cc_state *state, uint32_t acked_pkts)
{
    struct cubic_state *cubic = &state->cubic;
    bool below = cubic->w_est_micro_pkts < cubic->prior_cwnd_pkts * CUBIC_MICRO;
    uint64_t alpha_micro = below ? CUBIC_ALPHA_MICRO : CUBIC_MICRO;

    cubic->w_est_micro_pkts =
        cc_add_sat(cubic->w_est_micro_pkts, cc_mul_div(alpha_micro, acked_pkts, cc_max_u32(state->cwnd_pkts, 1)));
}

static inline void cubic_avoid_congestion(struct cc_state *state, const struct cc_sample *rs, uint32_t acked_pkts)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t cwnd = state->cwnd_pkts;
    uint64_t since_us, target_pkts;

    if (cubic->epoch_start_us == 0)
        cubic_start_epoch(state, rs->now_us);
    since_us = cc_sub_sat(rs->now_us, cubic->epoch_start_us);
    cubic_update_reno_estimate(state, acked_pkts);

    /* The target is the curve one round trip ahead, at most half a window more (RFC 9438, 4.4). */
    target_pkts = cubic_window_pkts(cubic, cc_add_sat(since_us, rs->srtt_us));
    target_pkts = cc_min_u64(cc_max_u64(target_pkts, cwnd), cwnd + cwnd / 2);
    cubic->credit_micro_pkts += cc_mul_div((target_pkts - cwnd) * CUBIC_MICRO, acked_pkts, cc_max_u64(cwnd, 1));
    cwnd += cubic->credit_micro_pkts / CUBIC_MICRO;
    cubic->credit_micro_pkts %= CUBIC_MICRO;
    state->cwnd_pkts = cc_clamp_to_u32(cc_max_u64(cwnd, cubic->w_est_micro_pkts / CUBIC_MICRO));
}

static inline void cubic_on_ack(struct cc_state *state, const struct cc_sample *rs)
{
    uint32_t acked_pkts = reno_slow_start(state, reno_growth_pkts(rs));

    if (acked_pkts > 0)
        cubic_avoid_congestion(state, rs, acked_pkts);
}

static inline void cubic_reduce(struct cc_state *state)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t cwnd = state->cwnd_pkts;

    /* Fast convergence: a flow that peaks lower than before makes room (RFC 9438, 4.7). */
    cubic->w_max_pkts = (uint32_t)(cwnd < cubic->w_max_pkts ? cwnd * CUBIC_CONVERGE_PERCENT / 100 : cwnd);
    cubic->prior_cwnd_pkts = state->cwnd_pkts;
    cubic->epoch_start_us = 0;
    cubic->credit_micro_pkts = 0;
    state->ssthresh_pkts = cc_max_u32((uint32_t)(cwnd * CUBIC_BETA_PERCENT / 100), RENO_CWND_FLOOR_PKTS);
}

/* RFC 9438, 4.8: there is no old maximum to return to, so K = 0 when congestion avoidance begins. */
static inline void cubic_on_rto(struct cc_state *state)
{
    state->cubic.w_max_pkts = 0;
    state->cubic.epoch_start_us = 0;
    state->cubic.credit_micro_pkts = 0;
}

/* Idle time does not count on the curve. */
static inline void cubic_on_restart(struct cc_state *state, uint64_t now_us)
{
    struct cubic_state *cubic = &state->cubic;
    uint64_t idle_us = cc_sub_sat(now_us, cubic->last_ack_us);

    if (cubic->epoch_start_us != 0 && cubic->last_ack_us != 0)
        cubic->epoch_start_us = cc_min_u64(cc_add_sat(cubic->epoch_start_us, idle_us), now_us);
}

#endif
