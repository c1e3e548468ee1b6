/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rate and the window are tunables: whoever sets them is the algorithm.
 *
 *   factors  (direct_unit 0) : pacing = direct_pacing_gain * bw,  cwnd = direct_cwnd_gain * bw * min_rtt
 *   absolute (direct_unit 1) : pacing = direct_pacing_kbps,       cwnd = direct_cwnd_pkts
 *
 * bw is BBR v1's (the largest delivery rate of 10 rounds), min_rtt the connection's. Losses change neither; a timeout
 * leaves one packet until the next ACK.
 */
#ifndef BBRGYM_CC_DIRECT_H
#define BBRGYM_CC_DIRECT_H

#include "bbr.h"

#define DIRECT_CYCLE_INDEX 2 /* the phase that worlds see: BBR's at the estimate */
#define DIRECT_Bps_OF_KBPS 125

static inline void direct_decide(struct cc_state *state, const struct cc_params *params)
{
    const struct bbr_state *bbr = &state->bbr;
    uint64_t bw_Bps = bbr_max_bw_Bps(bbr), pkts = state->cwnd_pkts, rate_Bps = state->pacing_Bps;

    if (params->direct_unit == 1) {
        rate_Bps = (uint64_t)params->direct_pacing_kbps * DIRECT_Bps_OF_KBPS;
        pkts = (uint64_t)params->direct_cwnd_pkts;
    } else if (bw_Bps != 0) {
        rate_Bps = cc_scale(bw_Bps, params->direct_pacing_gain_q16);
        pkts = bbr_bdp_pkts(bbr, bw_Bps, params->direct_cwnd_gain_q16);
    }
    state->pacing_Bps = bbr_bounded_pacing_Bps(bbr, rate_Bps);
    state->cwnd_pkts = cc_max_u32(cc_clamp_to_u32(pkts), BBR_CWND_FLOOR_PKTS);
}

static inline void direct_init(struct cc_state *state, const struct cc_params *params, const struct cc_start *start)
{
    bbr_init(state, params, start);
    bbr_set_mode(&state->bbr, BBR_PROBE_BW);
    state->bbr.cycle_index = DIRECT_CYCLE_INDEX;
    direct_decide(state, params);
}

static inline void direct_update_bandwidth(struct bbr_state *bbr, const struct cc_sample *rs)
{
    uint64_t bw_Bps;

    if (rs->sample_pkts < 0 || rs->interval_us <= 0)
        return;
    if (rs->prior_delivered_pkts >= bbr->next_round_delivered_pkts) {
        bbr->next_round_delivered_pkts = rs->delivered_pkts;
        bbr->round_count++;
    }
    bw_Bps = bbr_rate_Bps(bbr, (uint64_t)rs->sample_pkts, (uint64_t)rs->interval_us);
    if (!rs->is_app_limited || bw_Bps >= bbr_max_bw_Bps(bbr))
        cc_max_filter_update(&bbr->bw_filter, bbr->round_count, BBR_BW_WINDOW_ROUNDS, bw_Bps);
}

CC_APART void direct_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    direct_update_bandwidth(bbr, rs);
    bbr->min_rtt_us = cc_max_u64(rs->min_rtt_us, 1);
    direct_decide(state, params);
}

#endif
