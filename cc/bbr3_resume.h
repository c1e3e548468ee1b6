/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Careful Resume (RFC 9959): STARTUP jumps to half of the window that an earlier connection had on this path.
 *
 *   RECONNAISSANCE --initial window acknowledged--> UNVALIDATED --first ACK beyond it--> VALIDATING --all of it--> OVER
 *     loss, another path: OVER                        loss or mark --> RETREAT <-- loss or mark
 *
 *   pipe   packets in flight before the jump, and those acknowledged since: what the path was seen to hold
 *
 * The RFC is written for a window and a slow-start threshold. Of BBRv3 the jump raises the pacing rate too, to the
 * window per min_rtt, and a retreat, whose threshold ends slow start, ends STARTUP. BBR is not in the RFC's examples.
 */
#ifndef BBRGYM_CC_BBR3_RESUME_H
#define BBRGYM_CC_BBR3_RESUME_H

#include "bbr3_phases.h"

#define BBR3_RESUME_FRACTION 2    /* of saved_cwnd; others may have come since */
#define BBR3_RESUME_RTT_FACTOR 10 /* an RTT longer by this is another path's */

static inline bool bbr3_is_saved_path(const struct cc_state *state, const struct cc_params *params)
{
    uint64_t rtt_us = state->bbr.min_rtt_us, saved_us = (uint64_t)params->bbr3_saved_rtt_us;

    return rtt_us != CC_RTT_UNKNOWN_US &&
           (saved_us == 0 || (rtt_us > saved_us / 2 && rtt_us <= saved_us * BBR3_RESUME_RTT_FACTOR));
}

/* Begin a phase that lasts until what is now in flight is acknowledged. */
static inline void bbr3_set_resume(struct bbr3_state *bbr3, enum bbr3_resume_phase phase, const struct cc_sample *rs)
{
    bbr3->resume = (uint8_t)phase;
    bbr3->resume_end_pkts = rs->delivered_pkts + rs->in_flight_pkts;
}

static inline void bbr3_jump(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t jump_pkts = cc_clamp_to_u32((uint64_t)params->bbr3_saved_cwnd / BBR3_RESUME_FRACTION);

    bbr3->resume = BBR3_RESUME_OVER;
    if (jump_pkts <= state->cwnd_pkts || !bbr3_is_saved_path(state, params))
        return;
    bbr3_set_resume(bbr3, BBR3_RESUME_UNVALIDATED, rs);
    bbr3->pipe_pkts = rs->in_flight_pkts;
    state->cwnd_pkts = jump_pkts;
    state->pacing_Bps = cc_max_u64(
        state->pacing_Bps, cc_mul_div(cc_mul_sat(jump_pkts, state->bbr.mss_bytes), 1000000, state->bbr.min_rtt_us));
}

/* The path has answered beyond the pipe, or the jump is all out: the window becomes what is in flight. */
static inline void bbr3_begin_validating(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t least_pkts = cc_max_u32(bbr3->init_cwnd_pkts, bbr3->min_cwnd_pkts);

    if (rs->in_flight_pkts > bbr3->pipe_pkts)
        bbr3_set_resume(bbr3, BBR3_RESUME_VALIDATING, rs);
    else
        bbr3->resume = BBR3_RESUME_OVER;
    state->cwnd_pkts = cc_max_u32(cc_max_u32(rs->in_flight_pkts, bbr3->pipe_pkts), least_pkts);
}

static inline void bbr3_retreat(struct cc_state *state)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t cap_pkts = cc_max_u32(bbr3->pipe_pkts / 2, bbr3->min_cwnd_pkts);

    state->cwnd_pkts = cc_min_u32(state->cwnd_pkts, cap_pkts);
    state->bbr.prior_cwnd_pkts = cc_min_u32(state->bbr.prior_cwnd_pkts, cap_pkts);
}

/* After the window of an ACK is known. */
static inline void bbr3_resume(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    bool congested = rs->lost_pkts > 0 || rs->ca_state >= CC_CA_CWR;

    if (bbr3->resume == BBR3_RESUME_OVER || params->bbr3_saved_cwnd == 0)
        return;
    if (bbr3->resume == BBR3_RESUME_RECONNAISSANCE) {
        if (congested || state->bbr.mode != BBR_STARTUP)
            bbr3->resume = BBR3_RESUME_OVER;
        else if (rs->delivered_pkts >= bbr3->init_cwnd_pkts)
            bbr3_jump(state, params, rs);
        return;
    }
    bbr3->pipe_pkts = cc_clamp_to_u32((uint64_t)bbr3->pipe_pkts + rs->acked_pkts);
    if (congested && bbr3->resume != BBR3_RESUME_RETREAT) {
        bbr3_set_resume(bbr3, BBR3_RESUME_RETREAT, rs);
        state->bbr.full_bw_reached = true;
    }
    if (bbr3->resume == BBR3_RESUME_RETREAT)
        bbr3_retreat(state);
    else if (bbr3->resume == BBR3_RESUME_UNVALIDATED &&
             (rs->delivered_pkts > bbr3->resume_end_pkts || rs->in_flight_pkts >= state->cwnd_pkts))
        bbr3_begin_validating(state, rs);
    if (rs->delivered_pkts >= bbr3->resume_end_pkts && bbr3->resume != BBR3_RESUME_UNVALIDATED)
        bbr3->resume = BBR3_RESUME_OVER;
}

#endif
