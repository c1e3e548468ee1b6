/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reno (RFC 5681) as Linux has it (net/ipv4/tcp_cong.c, tcp_input.c). Loss recovery is the world's, with SACK instead
 * of RFC 6582.
 *
 *   slow start            cwnd += acked                 while cwnd < ssthresh
 *   congestion avoidance  cwnd += 1 per cwnd acked
 *   loss                  ssthresh = max(cwnd / 2, 2); cwnd = ssthresh    (ns-3: in flight / 2, fact reno_halves)
 *   timeout               the same ssthresh; the world sets cwnd
 *
 * The window grows while it limits the sender (RFC 7661, Linux is_cwnd_limited) and is not being reduced, on an ACK
 * that advances, by the packets it delivers: so not for those SACKed behind a gap (Disorder). On a path known to
 * reorder it grows for these too.
 */
#ifndef BBRGYM_CC_RENO_H
#define BBRGYM_CC_RENO_H

#include "params.h"
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

/* Whether an ACK may grow the window if that is used (Linux tcp_cong_control, tcp_may_raise_cwnd). */
static inline bool reno_may_grow(const struct cc_state *state, const struct cc_sample *rs)
{
    bool is_reduced = rs->ca_state >= CC_CA_CWR && rs->ca_state != CC_CA_LOSS; /* after a timeout it is not, any more */

    return !is_reduced && (rs->una_pkts > state->una_pkts || (rs->is_reordering && rs->acked_pkts > 0));
}

/* The packets that such an ACK counts for; stack.def: growth. */
static inline uint32_t reno_acked_pkts(const struct cc_state *state, const struct cc_params *params,
                                       const struct cc_sample *rs)
{
    if (cc_stack_has(params, CC_STACK_growth))
        return cc_clamp_to_u32(cc_sub_sat(rs->una_pkts, state->una_pkts));
    return rs->acked_pkts;
}

/* The acknowledged packets that grow the window: after a timeout, used or not, because slow start begins again. */
static inline uint32_t reno_growth_pkts(const struct cc_state *state, const struct cc_params *params,
                                        const struct cc_sample *rs)
{
    bool is_used = rs->is_cwnd_limited || rs->ca_state == CC_CA_LOSS;

    return is_used && reno_may_grow(state, rs) ? reno_acked_pkts(state, params, rs) : 0;
}

static inline void reno_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    uint32_t acked_pkts = reno_slow_start(state, reno_growth_pkts(state, params, rs));

    if (acked_pkts > 0)
        reno_avoid_congestion(state, acked_pkts, state->cwnd_pkts);
}

/* Half of so many packets is the threshold; Linux halves the window (tcp_reno_ssthresh). */
static inline void reno_halve(struct cc_state *state, uint32_t pkts)
{
    state->ssthresh_pkts = cc_max_u32(pkts / 2, RENO_CWND_FLOOR_PKTS);
    state->reno_credit_pkts = 0;
}

/* Reno's reduction; stack.def: reno_halves. */
static inline void reno_reduce(struct cc_state *state, const struct cc_params *params, uint32_t in_flight_pkts)
{
    reno_halve(state, cc_stack_has(params, CC_STACK_reno_halves) ? in_flight_pkts : state->cwnd_pkts);
}

#endif
