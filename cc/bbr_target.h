/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the path model to packets: BDP, TSO goal, the quantisation budget (Linux bbr_bdp,
 * bbr_tso_segs_goal, bbr_quantization_budget).
 *
 *   inflight(bw, gain) = even(ceil(bw * min_rtt * gain) + 3 TSO bursts), + 2 while probing up
 *   in bytes, of which whole packets are sent: floor(bw * min_rtt * gain) + 3 TSO bursts (stack.def: window_unit)
 */
#ifndef BBRGYM_CC_BBR_TARGET_H
#define BBRGYM_CC_BBR_TARGET_H

#include "bbr_state.h"

#define BBR_TSO_MAX_PKTS 127        /* Linux: 0x7F segments */
#define BBR_MIN_TSO_RATE_Bps 150000 /* 1.2 Mbit/s: slower paths send packet by packet */

/* Segments of one transmission burst: 1/1024 s of data (sk_pacing_shift 10). */
static inline uint32_t bbr_tso_goal_pkts(const struct bbr_state *bbr, uint64_t pacing_Bps)
{
    uint64_t bytes = cc_min_u64(pacing_Bps >> 10, CC_GSO_MAX_BYTES);
    uint64_t least = pacing_Bps < BBR_MIN_TSO_RATE_Bps ? 1 : 2;

    return (uint32_t)cc_min_u64(BBR_TSO_MAX_PKTS, cc_max_u64(bytes / bbr->mss_bytes, least));
}

/* The goal that windows provide for: of the current pacing rate, or of the last ACK's. */
static inline uint32_t bbr_tso_budget_pkts(const struct bbr_state *bbr, uint64_t pacing_Bps)
{
    return bbr_has(bbr, CC_STACK_tso_goal) ? bbr_tso_goal_pkts(bbr, pacing_Bps) : bbr->tso_goal_pkts;
}

/* Packets that fill the path `gain` times. */
static inline uint64_t bbr_bdp_pkts(const struct bbr_state *bbr, uint64_t bw_Bps, int64_t gain_q16)
{
    uint64_t byte_us;

    if (bbr->min_rtt_us == CC_RTT_UNKNOWN_US)
        return BBR_INIT_CWND_PKTS;
    if (gain_q16 <= 0)
        return 0;
    byte_us = cc_mul_sat(bw_Bps, bbr->min_rtt_us);
    if (bbr_has(bbr, CC_STACK_window_unit))
        return cc_mul_div(byte_us, (uint64_t)gain_q16, UINT64_C(1000000) * CC_Q16_ONE * bbr->mss_bytes);
    return cc_mul_div_ceil(byte_us, (uint64_t)gain_q16, UINT64_C(1000000) * CC_Q16_ONE * bbr->mss_bytes);
}

/* `gain_q16`: of the target. */
static inline uint64_t bbr_quantize_pkts(const struct bbr_state *bbr, uint64_t pacing_Bps, uint64_t pkts,
                                         int64_t gain_q16)
{
    bool probes = bbr_has(bbr, CC_STACK_probe_headroom_while) ? bbr->cycle_index == 0 : gain_q16 > CC_Q16_ONE;

    if (bbr->min_rtt_us == CC_RTT_UNKNOWN_US && !bbr_has(bbr, CC_STACK_unknown_rtt_budget))
        return pkts;
    pkts = cc_add_sat(pkts, 3 * (uint64_t)bbr_tso_budget_pkts(bbr, pacing_Bps));
    if (!bbr_has(bbr, CC_STACK_window_unit))
        pkts = cc_add_sat(pkts, pkts & 1);
    if (bbr->mode == BBR_PROBE_BW && probes && bbr_has(bbr, CC_STACK_probe_headroom))
        pkts = cc_add_sat(pkts, 2);
    return pkts;
}

static inline uint64_t bbr_inflight_pkts(const struct bbr_state *bbr, uint64_t pacing_Bps, uint64_t bw_Bps,
                                         int64_t gain_q16)
{
    return bbr_quantize_pkts(bbr, pacing_Bps, bbr_bdp_pkts(bbr, bw_Bps, gain_q16), gain_q16);
}

/*
 * Packets in the network when the next one departs: what pacing holds back until then is delivered less, and a gain
 * above 1 asks whether that next burst reaches the target. Before Linux 4.20 what is in flight now.
 */
static inline uint64_t bbr_in_net_pkts(const struct bbr_state *bbr, const struct cc_sample *rs, uint64_t pacing_Bps,
                                       uint32_t in_flight_pkts)
{
    uint64_t pkts = in_flight_pkts;

    if (!bbr_has(bbr, CC_STACK_in_flight_at_departure))
        return pkts;
    if (bbr->pacing_gain_q16 > CC_Q16_ONE)
        pkts += bbr_tso_budget_pkts(bbr, pacing_Bps);
    if (rs->departure_wait_us == 0)
        return pkts;
    return cc_sub_sat(pkts, bbr_pkts_in(bbr, bbr_bw_Bps(bbr), rs->departure_wait_us));
}

#endif
