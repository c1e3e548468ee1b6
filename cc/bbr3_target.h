/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's step from the model to packets.
 *
 *   inflight(bw, gain) = max(ceil(bw * min_rtt * gain), 3 bursts, 4), + 2 in UP
 *   burst              = 1/1024 s of the pacing rate and 64 KB / 2^(min_rtt / 512 us), 64 KB at most
 *                        (v2: one packet below 1.2 Mbit/s; stack.def: bbr3_burst)
 */
#ifndef BBRGYM_CC_BBR3_TARGET_H
#define BBRGYM_CC_BBR3_TARGET_H

#include "bbr3_state.h"
#include "bbr_target.h"
#include "state.h"

/* Draft, 5.6.3: a burst of 1 ms at most, and two packets at least. */
static inline uint32_t bbr3_tso_goal_pkts(const struct bbr_state *bbr, bool is_v2, uint64_t pacing_Bps)
{
    uint64_t bytes = pacing_Bps >> 10;
    uint64_t halvings = bbr->min_rtt_us >> BBR3_TSO_RTT_SHIFT;
    uint32_t least_pkts = is_v2 && pacing_Bps < BBR_MIN_TSO_RATE_Bps ? 1 : BBR3_TSO_MIN_PKTS;

    if (halvings < 32 && !bbr_has(bbr, CC_STACK_bbr3_burst))
        bytes += (uint64_t)BBR3_TSO_BYTES >> halvings;
    return (uint32_t)cc_max_u64(cc_min_u64(bytes, CC_GSO_MAX_BYTES) / bbr->mss_bytes, least_pkts);
}

/* Packets that fill the path `gain` times; before any RTT the initial window. */
static inline uint64_t bbr3_bdp_pkts(const struct cc_state *state, uint64_t bw_q24, int64_t gain_q16)
{
    uint64_t volume_q24;

    if (state->bbr.min_rtt_us == CC_RTT_UNKNOWN_US)
        return state->bbr3.init_cwnd_pkts;
    volume_q24 = cc_scale(cc_mul_sat(bw_q24, state->bbr.min_rtt_us), gain_q16);
    return cc_add_sat(volume_q24, BBR3_Q24_ONE - 1) >> BBR3_Q24_SHIFT;
}

/* Draft, 5.6.4.2: room for three bursts, so that offload does not hold the sender back, and two packets in UP. */
static inline uint64_t bbr3_quantize_pkts(const struct cc_state *state, uint64_t pkts)
{
    const struct bbr_state *bbr = &state->bbr;

    pkts = cc_max_u64(pkts, 3 * (uint64_t)bbr3_tso_goal_pkts(bbr, state->bbr3.is_v2, state->pacing_Bps));
    pkts = cc_max_u64(pkts, state->bbr3.min_cwnd_pkts);
    return bbr3_is_in(bbr, BBR3_UP) ? cc_add_sat(pkts, BBR3_UP_ROOM_PKTS) : pkts;
}

/* Draft, 5.6.4.2: Inflight(gain) is the BDP with that room. */
static inline uint64_t bbr3_inflight_pkts(const struct cc_state *state, uint64_t bw_q24)
{
    return bbr3_quantize_pkts(state, bbr3_bdp_pkts(state, bw_q24, CC_Q16_ONE));
}

/* What is wanted in flight: the BDP, or a window that congestion made smaller. */
static inline uint32_t bbr3_target_inflight_pkts(const struct cc_state *state)
{
    return cc_clamp_to_u32(cc_min_u64(bbr3_inflight_pkts(state, bbr3_bw_q24(&state->bbr3)), state->cwnd_pkts));
}

/* Draft, 5.3.3.9: inflight_hi less room for other flows. */
static inline uint32_t bbr3_headroom_level_pkts(const struct bbr3_state *bbr3, const struct cc_params *params)
{
    uint32_t hi_pkts = bbr3->inflight_hi_pkts, headroom_pkts;

    if (hi_pkts == BBR3_UNSET_PKTS)
        return BBR3_UNSET_PKTS;
    headroom_pkts = cc_max_u32((uint32_t)cc_scale(hi_pkts, params->bbr3_headroom_q16), 1);
    return cc_max_u32(hi_pkts > headroom_pkts ? hi_pkts - headroom_pkts : 0, bbr3->min_cwnd_pkts);
}

/* By the model as it is. */
static inline uint32_t bbr3_probe_rtt_target_pkts(const struct cc_state *state, const struct cc_params *params)
{
    uint64_t pkts = bbr3_bdp_pkts(state, bbr3_bw_q24(&state->bbr3), params->bbr3_probe_rtt_gain_q16);

    return cc_max_u32(cc_clamp_to_u32(pkts), state->bbr3.min_cwnd_pkts);
}

/* Draft, 5.6.4.5: the window in PROBE_RTT; stack.def: bbr3_probe_rtt_window. */
static inline uint32_t bbr3_probe_rtt_cwnd_pkts(const struct cc_state *state, const struct cc_params *params)
{
    if (bbr_has(&state->bbr, CC_STACK_bbr3_probe_rtt_window))
        return cc_max_u32(state->bbr3.probe_rtt_cwnd_pkts, state->bbr3.min_cwnd_pkts);
    return bbr3_probe_rtt_target_pkts(state, params);
}

/* Packets in the network when the next one departs (as v1's bbr_in_net_pkts); stack.def: bbr3_in_flight. */
static inline uint64_t bbr3_in_net_pkts(const struct cc_state *state, const struct cc_sample *rs,
                                        uint32_t in_flight_pkts)
{
    uint64_t pkts = in_flight_pkts;

    if (bbr_has(&state->bbr, CC_STACK_bbr3_in_flight))
        return pkts;
    if (state->bbr.pacing_gain_q16 > CC_Q16_ONE)
        pkts += bbr3_tso_goal_pkts(&state->bbr, state->bbr3.is_v2, state->pacing_Bps);
    if (rs->departure_wait_us == 0)
        return pkts;
    return cc_sub_sat(pkts, bbr3_pkts_in(bbr3_bw_q24(&state->bbr3), rs->departure_wait_us));
}

#endif
