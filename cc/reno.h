/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reno (RFC 5681). Loss recovery is the world's, with SACK instead of RFC 6582.
 *
 *   slow start            cwnd += acked                 while cwnd < ssthresh
 *   congestion avoidance  cwnd += 1 per cwnd acked
 *   loss                  ssthresh = max(in flight / 2, 2); cwnd = ssthresh
 *   timeout               the same ssthresh; the world sets cwnd
 *
 * The window grows only while it limits the sender (RFC 7661, Linux is_cwnd_limited).
 */
#ifndef BBRGYM_CC_RENO_H
#define BBRGYM_CC_RENO_H

#include "state.h"

#define RENO_CWND_FLOOR_PKTS 2
#define RENO_SSTHRESH_UNSET UINT32_MAX

/* Slow start; returns the acknowledged packets left for congestion avoidance. */
static inline uint32_t reno_slow_start(struct cc_state *state, uint32_t acked_pkts)
{
    uint32_t room = state->ssthresh_pkts > state->cwnd_pkts ? state->ssthresh_pkts - state->cwnd_pkts : 0;
    uint32_t taken = cc_min_u32(room, acked_pkts);

    state->cwnd_pkts += taken;
    return acked_pkts - taken;
}

/* Grows by one packet for each `per` packets acknowledged (Linux tcp_cong_avoid_ai). */
static inline void reno_avoid_congestion(struct cc_state *state, uint32_t acked_pkts, uint32_t per)
{
    uint64_t credit = state->reno_credit_pkts;

    per = cc_max_u32(per, 1);
    if (credit >= per) { /* of a larger `per`: worth one packet at most */
        credit = 0;
        state->cwnd_pkts = cc_clamp_to_u32((uint64_t)state->cwnd_pkts + 1);
    }
    credit += acked_pkts;
    state->cwnd_pkts = cc_clamp_to_u32(state->cwnd_pkts + credit / per);
    state->reno_credit_pkts = (uint32_t)(credit % per);
}

/* The acknowledged packets that may grow the window: after a timeout all, because slow start begins again. */
static inline uint32_t reno_growth_pkts(const struct cc_sample *rs)
{
    bool is_held_back = rs->is_cwnd_limited && rs->ca_state < CC_CA_CWR;

    return is_held_back || rs->ca_state == CC_CA_LOSS ? rs->acked_pkts : 0;
}

static inline void reno_on_ack(struct cc_state *state, const struct cc_sample *rs)
{
    uint32_t acked_pkts = reno_slow_start(state, reno_growth_pkts(rs));

    if (acked_pkts > 0)
        reno_avoid_congestion(state, acked_pkts, state->cwnd_pkts);
}

/* ---- what BIC, Vegas and Westwood have of Linux's Reno (tcp_input.c, tcp_cong.c) ---- */

/* The ACK advances, and the window is not being reduced (Linux tcp_cong_control, tcp_may_raise_cwnd). */
static inline bool reno_linux_may_grow(const struct cc_state *state, const struct cc_sample *rs)
{
    return rs->una_pkts > state->una_pkts && (rs->ca_state < CC_CA_CWR || rs->ca_state == CC_CA_LOSS);
}

static inline uint32_t reno_linux_growth_pkts(const struct cc_state *state, const struct cc_sample *rs)
{
    return reno_linux_may_grow(state, rs) ? reno_growth_pkts(rs) : 0;
}

/* Half of the window, not of what is in flight (Linux tcp_reno_ssthresh). */
static inline void reno_linux_reduce(struct cc_state *state)
{
    state->ssthresh_pkts = cc_max_u32(state->cwnd_pkts / 2, RENO_CWND_FLOOR_PKTS);
    state->reno_credit_pkts = 0;
}

/* ---- Reno's own ---- */

static inline void reno_reduce(struct cc_state *state, uint32_t in_flight_pkts)
{
    state->ssthresh_pkts = cc_max_u32(in_flight_pkts / 2, RENO_CWND_FLOOR_PKTS);
    state->reno_credit_pkts = 0;
}

#endif
