/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CONGESTION_DETECT, of BBR-ACD (Mahmud et al., Electronics 2020, figures 6 and 7).
 *
 *   congested = three ACKs in a row whose RTTs lie within alpha of each other and above min_rtt,
 *               or RTT > 2 * min_rtt
 *   loss with congestion: for one round, every ACK halves the window, which is at most one BDP; the cwnd gain is 1
 *                         until BBR's next change of state (acd_cap_stays)
 *   loss without:         only the lost packets are deducted, no packet conservation
 *
 * ACKs that measured no RTT neither count nor reset. The paper's text does not have the cap that stays, but the
 * authors' class for ns-3, whose numbers are published, and it does most of the work. The class also takes every
 * recovery for congestion, to its end, because its detector clears its own verdict (acd_verdict).
 */
#ifndef BBRGYM_CC_MECH_CONGESTION_DETECT_H
#define BBRGYM_CC_MECH_CONGESTION_DETECT_H

#include "bbr_target.h"

static inline void acd_detect(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs)
{
    int64_t newest_us = bbr_rtt_us(bbr, rs);
    uint64_t rtt_us, gap_us;
    bool identical;

    if (newest_us < 0 || bbr->min_rtt_us == CC_RTT_UNKNOWN_US)
        return;
    rtt_us = (uint64_t)newest_us;
    gap_us = newest_us > bbr->acd_last_rtt_us ? (uint64_t)(newest_us - bbr->acd_last_rtt_us)
                                              : (uint64_t)(bbr->acd_last_rtt_us - newest_us);
    identical = bbr->acd_last_rtt_us >= 0 && rtt_us > bbr->min_rtt_us && gap_us <= (uint64_t)params->acd_alpha_us;
    bbr->acd_same_count = identical ? cc_min_u32(bbr->acd_same_count + 1, 1000) : 0;
    bbr->acd_last_rtt_us = newest_us;
    bbr->acd_congested = bbr->acd_same_count >= (uint64_t)params->acd_identical_count ||
                         rtt_us > cc_scale(bbr->min_rtt_us, params->acd_rtt_ratio_q16);
}

/* After the gains were set for this ACK: a cut caps the window until the state changes. */
static inline void acd_cap_cwnd_gain(struct bbr_state *bbr, const struct cc_params *params)
{
    if (bbr->acd_capped && bbr->mode != bbr->acd_capped_mode)
        bbr->acd_capped = false;
    if (bbr->acd_capped && params->acd_cap_stays == 1)
        bbr->cwnd_gain_q16 = CC_Q16_ONE;
}

/* The window after an ACK in the first round of a recovery from congestion. */
CC_IN_LINE uint32_t acd_cut_pkts(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs,
                                 uint64_t pacing_Bps, uint64_t bw_Bps, uint32_t cwnd_pkts)
{
    uint64_t target_pkts = bbr_inflight_pkts(bbr, pacing_Bps, bw_Bps, params->acd_inflight_gain_q16);
    bool is_class = params->acd_verdict == 1;
    uint64_t flight_pkts = cc_add_sat(
        bbr_has(bbr, CC_STACK_in_flight_of) && bbr->acd_cut_done ? rs->prior_in_flight_pkts : rs->in_flight_pkts,
        rs->acked_pkts);
    uint64_t from_pkts = is_class ? cc_max_u64(cwnd_pkts, flight_pkts) : cwnd_pkts;
    uint64_t cut_pkts = cc_min_u64(cc_scale(from_pkts, params->acd_cut_q16), target_pkts);

    if (params->acd_halve_mode == 1 && bbr->acd_cut_done)
        cut_pkts = cc_max_u64(cwnd_pkts, flight_pkts);
    bbr->acd_cut_done = true;
    bbr->acd_capped = true;
    bbr->acd_capped_mode = (uint8_t)bbr->mode;
    return cc_max_u32(cc_clamp_to_u32(cut_pkts), BBR_CWND_FLOOR_PKTS);
}

#endif
