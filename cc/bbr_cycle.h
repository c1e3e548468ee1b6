/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PROBE_BW's cycle of pacing gains (Linux bbr_is_next_cycle_phase, bbr_advance_cycle_phase,
 * bbr_update_gains).
 *
 *   phase      0: up                  1: down        2 .. 7: cruise
 *   gain       1.25                   0.75           1
 *   lasts      a min_rtt, and until   a min_rtt, or  a min_rtt each
 *              loss or 1.25 BDP       until 1 BDP
 *
 * A flow enters at any phase but "down", at random, so that flows do not probe in step (stack.def: any_first_phase).
 */
#ifndef BBRGYM_CC_BBR_CYCLE_H
#define BBRGYM_CC_BBR_CYCLE_H

#include "bbr_target.h"
#include "mech_congestion_detect.h"
#include "mech_forced_drain.h"
#include "mech_gain_scale.h"
#include "mech_probe_cap.h"

/* Drains the queue that the up phase built. */
static inline int64_t bbr_down_gain_q16(const struct cc_params *params)
{
    int64_t gain_q16 = 2 * CC_Q16_ONE - params->bbr_up_gain_q16;

    return gain_q16 > BBR_DOWN_GAIN_MIN_Q16 ? gain_q16 : BBR_DOWN_GAIN_MIN_Q16;
}

/* Gain of the current phase by the table above, before GAIN_SCALE. */
static inline int64_t bbr_phase_gain_q16(const struct bbr_state *bbr, const struct cc_params *params)
{
    if (bbr->policer.holds_gain || (bbr->policer.in_use && !bbr_has(bbr, CC_STACK_policer_stops_cycle)))
        return CC_Q16_ONE;
    switch (bbr->cycle_index) {
    case 0: return params->bbr_up_gain_q16;
    case 1: return bbr_down_gain_q16(params);
    default: return CC_Q16_ONE;
    }
}

static inline void bbr_advance_cycle(struct bbr_state *bbr, uint64_t delivered_time_us)
{
    bbr->cycle_index = (bbr->cycle_index + 1) % BBR_CYCLE_PHASES;
    bbr->cycle_time_us = delivered_time_us;
    bbr->policer.holds_gain =
        bbr->policer.in_use && bbr_has(bbr, CC_STACK_gains_by_event) && !bbr_has(bbr, CC_STACK_policer_stops_cycle);
    if (bbr->cycle_index == 0)
        bbq_start_probe(bbr);
}

static inline void bbr_enter_probe_bw(struct bbr_state *bbr, uint64_t delivered_time_us)
{
    uint32_t phases = bbr_has(bbr, CC_STACK_any_first_phase) ? BBR_CYCLE_PHASES : BBR_CYCLE_PHASES - 1;

    bbr_set_mode(bbr, BBR_PROBE_BW);
    bbr->cycle_index = BBR_CYCLE_PHASES - 1 - (uint32_t)cc_rng_below(&bbr->phase_rng, phases);
    bbr_advance_cycle(bbr, delivered_time_us);
}

/* The pacing gain: GAIN_SCALE multiplies the up phase's, possibly to below 1. */
static inline int64_t bbr_paced_gain_q16(const struct bbr_state *bbr, const struct cc_params *params)
{
    int64_t gain_q16 = bbr_phase_gain_q16(bbr, params);

    if (bbr->cycle_index == 0 && gain_q16 != CC_Q16_ONE && cc_has(params, CC_GAIN_SCALE))
        gain_q16 = pg_scale_gain_q16(params, bbr, gain_q16);
    return gain_q16;
}

/* Whether so many packets are the target; in bytes it was rounded down, so they have to exceed it. */
static inline bool bbr_reaches(const struct bbr_state *bbr, uint64_t pkts, uint64_t target_pkts)
{
    return bbr_has(bbr, CC_STACK_window_unit) ? pkts > target_pkts : pkts >= target_pkts;
}

/* Judged by the gain of the last ACK, not by that of a phase entered since (as Linux does). */
static inline bool bbr_phase_is_over(const struct bbr_state *bbr, const struct cc_params *params,
                                     const struct cc_sample *rs, uint64_t pacing_Bps)
{
    int64_t gain_q16 = bbr->pacing_gain_q16;
    uint64_t elapsed_us = cc_sub_sat(rs->delivered_time_us, bbr->cycle_time_us);
    bool full_length = elapsed_us > bbr->min_rtt_us;
    uint64_t bw_Bps = bbr_max_bw_Bps(bbr);
    uint64_t in_net_pkts;

    if (gain_q16 == CC_Q16_ONE)
        return cc_has(params, CC_GAIN_SCALE) ? elapsed_us > pg_cruise_phase_us(params, bbr) : full_length;
    in_net_pkts = bbr_in_net_pkts(bbr, rs, pacing_Bps, rs->prior_in_flight_pkts);
    if (gain_q16 > CC_Q16_ONE) {
        if (cc_has(params, CC_PROBE_CAP) && bbq_caps_probe(bbr, params))
            return bbq_probe_is_over(bbr, params, elapsed_us);
        if (cc_has(params, CC_GAIN_SCALE) && params->pg_end_test == 0)
            gain_q16 = bbr_phase_gain_q16(bbr, params);
        return full_length && (rs->lost_pkts > 0 ||
                               bbr_reaches(bbr, in_net_pkts, bbr_inflight_pkts(bbr, pacing_Bps, bw_Bps, gain_q16)));
    }
    if (cc_has(params, CC_FORCED_DRAIN))
        return forced_drain_is_over(bbr, in_net_pkts, bw_Bps);
    return full_length || in_net_pkts <= bbr_inflight_pkts(bbr, pacing_Bps, bw_Bps, CC_Q16_ONE);
}

static inline void bbr_update_cycle(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs,
                                    uint64_t pacing_Bps)
{
    if (bbr->policer.in_use && bbr_has(bbr, CC_STACK_policer_stops_cycle))
        return;
    if (bbr->mode == BBR_PROBE_BW && bbr_phase_is_over(bbr, params, rs, pacing_Bps))
        bbr_advance_cycle(bbr, rs->delivered_time_us);
}

static inline void bbr_update_gains(struct bbr_state *bbr, const struct cc_params *params)
{
    switch (bbr->mode) {
    case BBR_STARTUP:
        bbr->pacing_gain_q16 = bbr->policer.holds_gain ? CC_Q16_ONE : BBR_HIGH_GAIN_Q16;
        bbr->cwnd_gain_q16 = BBR_HIGH_GAIN_Q16;
        break;
    case BBR_DRAIN:
        bbr->pacing_gain_q16 = bbr->policer.holds_gain ? CC_Q16_ONE : BBR_DRAIN_GAIN_Q16;
        bbr->cwnd_gain_q16 = BBR_HIGH_GAIN_Q16;
        break;
    case BBR_PROBE_BW:
        bbr->pacing_gain_q16 = bbr_paced_gain_q16(bbr, params);
        bbr->cwnd_gain_q16 = params->bbr_cwnd_gain_q16;
        break;
    default:
        bbr->pacing_gain_q16 = CC_Q16_ONE;
        bbr->cwnd_gain_q16 = CC_Q16_ONE;
        break;
    }
    if (cc_has(params, CC_CONGESTION_DETECT))
        acd_cap_cwnd_gain(bbr, params);
}

#endif
