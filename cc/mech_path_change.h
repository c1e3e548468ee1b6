/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PATH_CHANGE: a longer path is recognised at once, not when the least RTT of the old one is ten seconds old, until
 * which the window is that of the shorter path. The problem is LeoCC's (Lai et al., SIGCOMM 2025;
 * draft-lai-ccwg-lsncc), whose satellites change every 15 s; LeoCC knows the moment, this finds it.
 *
 *   explained  = max(min_rtt, delivered since the packet left / bw)         what its own queue can take
 *   rise       = max(path_rise * min_rtt, path_rise_us)
 *   suspected  when an ACK comes after a pause, its RTT longer than the last one's, both by the rise
 *   dropped    when an RTT is explained, but for the rise
 *   believed   after path_rounds rounds, or one more, in which another pause was, of half the rise, or else dropped:
 *              min_rtt is the least RTT since the first of them
 *
 * The queue of others and a lower rate lengthen RTTs from ACK to ACK, without a pause. An outage makes a pause, but
 * what queued meanwhile is explained, unless the rate fell too, as at a satellite's handover: for ten rounds the
 * bandwidth is that of before. But a queue is delivered without pauses, a window that is too small for its path is not.
 */
#ifndef BBRGYM_CC_MECH_PATH_CHANGE_H
#define BBRGYM_CC_MECH_PATH_CHANGE_H

#include "bbr_state.h"

/*
 * Before the sample is noted. `own_us`: what the bandwidth takes to deliver what was delivered since the packet left.
 * Returns whether min_rtt is that of a new path.
 */
static inline bool path_has_changed(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs,
                                    uint64_t own_us)
{
    uint64_t pause_us = cc_sub_sat(rs->delivered_time_us, bbr->delivered_time_us), rise_us, explained_us;
    uint32_t rtt_us;

    if (rs->rtt_us < 0 || rs->is_ack_delayed || bbr->min_rtt_us == CC_RTT_UNKNOWN_US)
        return false;
    rtt_us = cc_clamp_to_u32((uint64_t)rs->rtt_us);
    rise_us = cc_max_u64(cc_scale(bbr->min_rtt_us, params->path_rise_q16), (uint64_t)params->path_rise_us);
    explained_us = cc_add_sat(cc_max_u64(bbr->min_rtt_us, own_us), rise_us);
    if (rtt_us < explained_us || rs->is_app_limited || rs->sample_pkts < 0 || rs->ca_state == CC_CA_LOSS ||
        bbr->mode == BBR_PROBE_RTT || !bbr->full_bw_reached) {
        bbr->path_rounds = 0;
        bbr->path_rtt_us = rtt_us;
        return false;
    }
    if (bbr->path_rounds == 0) {
        bbr->path_rounds = pause_us >= rise_us && rtt_us >= bbr->path_rtt_us + rise_us;
        bbr->path_rtt_us = rtt_us;
        bbr->path_pause_us = 0;
        return false;
    }
    if (bbr->round_start && bbr->path_rounds == 1)
        bbr->path_rtt_us = rtt_us; /* the first round may have had an ACK that a timer held back on the old path */
    bbr->path_rtt_us = cc_min_u32(bbr->path_rtt_us, rtt_us);
    bbr->path_pause_us = cc_max_u32(bbr->path_pause_us, cc_clamp_to_u32(pause_us));
    if (!bbr->round_start)
        return false;
    bbr->path_rounds++;
    if (bbr->path_rounds <= (uint64_t)params->path_rounds)
        return false;
    if (bbr->path_pause_us < rise_us / 2) {
        if (bbr->path_rounds > (uint64_t)params->path_rounds + 1)
            bbr->path_rounds = 0;
        return false;
    }
    bbr->path_rounds = 0;
    bbr->min_rtt_us = bbr->bbq_data_min_rtt_us = bbr->path_rtt_us;
    bbr->min_rtt_stamp_us = rs->now_us;
    return true;
}

#endif
