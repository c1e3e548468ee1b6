/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBR's model of the path: rounds, bottleneck bandwidth, whether the pipe is full, the round-trip propagation delay
 * (Linux bbr_update_bw, bbr_check_full_bw_reached, bbr_check_drain, bbr_update_min_rtt).
 *
 *   STARTUP --pipe full--> DRAIN --in flight <= BDP--> PROBE_BW
 *      ^                                                 |  ^
 *      | pipe not full yet          min_rtt 10 s old     v  | 200 ms and a round at 4 packets
 *      +------------------------------------------- PROBE_RTT
 */
#ifndef BBRGYM_CC_BBR_MODEL_H
#define BBRGYM_CC_BBR_MODEL_H

#include "bbr_aggregation.h"
#include "bbr_cycle.h"
#include "bbr_policer.h"
#include "mech_random_probe_rtt.h"
#include "state.h"

static inline void bbr_update_bandwidth(struct bbr_state *bbr, const struct cc_params *params,
                                        const struct cc_sample *rs)
{
    uint64_t bw_Bps;

    bbr->round_start = false;
    if (rs->sample_pkts < 0 || rs->interval_us <= 0)
        return;
    if (rs->prior_delivered_pkts >= bbr->next_round_delivered_pkts) {
        bbr->next_round_delivered_pkts = rs->delivered_pkts;
        bbr->round_count++;
        bbr->round_start = true;
        bbr->packet_conservation = false;
        bbr->bw_window_rounds = cc_has(params, CC_GAIN_SCALE) ? pg_bw_window_rounds(params, bbr) : BBR_BW_WINDOW_ROUNDS;
    }
    if (bbr_has(bbr, CC_STACK_policer_detection) && bbr_policer_update(bbr, rs))
        bbr_enter_probe_bw(bbr, rs->delivered_time_us);

    bw_Bps = bbr_rate_Bps(bbr, (uint64_t)rs->sample_pkts, (uint64_t)rs->interval_us);
    /* An application-limited sample only shows that the path has at least that much. */
    if (!rs->is_app_limited || bw_Bps >= bbr_max_bw_Bps(bbr))
        cc_max_filter_update(&bbr->bw_filter, bbr->round_count, bbr->bw_window_rounds, bw_Bps);
}

static inline void bbr_check_full_pipe(struct bbr_state *bbr, const struct cc_sample *rs)
{
    uint64_t bw_Bps = bbr_max_bw_Bps(bbr);

    if (bbr->full_bw_reached || !bbr->round_start || rs->is_app_limited)
        return;
    if (bw_Bps >= cc_scale(bbr->full_bw_Bps, BBR_FULL_BW_GROWTH_Q16)) {
        bbr->full_bw_Bps = bw_Bps;
        bbr->full_bw_count = 0;
        return;
    }
    bbr->full_bw_count++;
    bbr->full_bw_reached = bbr->full_bw_count >= BBR_FULL_BW_ROUNDS;
}

static inline void bbr_check_drain(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t bw_Bps = bbr_max_bw_Bps(bbr);

    if (bbr->mode == BBR_STARTUP && bbr->full_bw_reached) {
        bbr_set_mode(bbr, BBR_DRAIN);
        state->ssthresh_pkts = cc_clamp_to_u32(bbr_inflight_pkts(bbr, state->pacing_Bps, bw_Bps, CC_Q16_ONE));
    }
    if (bbr->mode == BBR_DRAIN && bbr_in_net_pkts(bbr, rs, state->pacing_Bps, bbr_in_flight_pkts(bbr, rs)) <=
                                      bbr_inflight_pkts(bbr, state->pacing_Bps, bw_Bps, CC_Q16_ONE))
        bbr_enter_probe_bw(bbr, rs->delivered_time_us);
}

static inline uint64_t bbr_probe_rtt_interval_us(struct bbr_state *bbr, const struct cc_params *params)
{
    if (!cc_has(params, CC_RANDOM_PROBE_RTT))
        return (uint64_t)params->bbr_probe_rtt_interval_us;
    if (bbr->probe_rtt_interval_us == 0)
        trand_draw(bbr, params);
    return bbr->probe_rtt_interval_us;
}

static inline void bbr_exit_probe_rtt(struct cc_state *state, const struct cc_params *params, uint64_t now_us)
{
    struct bbr_state *bbr = &state->bbr;

    bbr->min_rtt_stamp_us = now_us;
    if (bbr_has(bbr, CC_STACK_restore))
        state->cwnd_pkts = cc_max_u32(state->cwnd_pkts, bbr->prior_cwnd_pkts);
    else
        bbr->restore_cwnd = true;
    if (bbr->full_bw_reached)
        bbr_enter_probe_bw(bbr, bbr->delivered_time_us);
    else
        bbr_set_mode(bbr, BBR_STARTUP);
    if (cc_has(params, CC_RANDOM_PROBE_RTT))
        trand_draw(bbr, params);
}

/* In PROBE_RTT: wait for the floor, then 200 ms and a round. */
static inline void bbr_stay_in_probe_rtt(struct cc_state *state, const struct cc_params *params,
                                         const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    state->mark_app_limited = true;
    if (bbr->probe_rtt_done_us == 0) {
        if (bbr_in_flight_pkts(bbr, rs) <= BBR_CWND_FLOOR_PKTS) {
            bbr->probe_rtt_done_us = rs->now_us + BBR_PROBE_RTT_TIME_US;
            bbr->probe_rtt_round_done = false;
            bbr->next_round_delivered_pkts = rs->delivered_pkts;
        }
        return;
    }
    if (bbr->round_start)
        bbr->probe_rtt_round_done = true;
    if (bbr->probe_rtt_round_done && rs->now_us > bbr->probe_rtt_done_us)
        bbr_exit_probe_rtt(state, params, rs->now_us);
}

static inline void bbr_update_min_rtt(struct cc_state *state, const struct cc_params *params,
                                      const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    bool expired = rs->now_us > cc_add_sat(bbr->min_rtt_stamp_us, bbr_probe_rtt_interval_us(bbr, params));
    bool replace = expired && (!rs->is_ack_delayed || !bbr_has(bbr, CC_STACK_delayed_ack_guard));
    int64_t rtt_us = bbr_rtt_us(bbr, rs);
    uint64_t renewing_us = bbr_has(bbr, CC_STACK_min_rtt_rule) ? bbr->min_rtt_us - 1 : bbr->min_rtt_us;

    if (rtt_us >= 0 && ((uint64_t)rtt_us <= renewing_us || replace)) {
        bbr->min_rtt_us = cc_max_u64((uint64_t)rtt_us, 1);
        bbr->min_rtt_stamp_us = rs->now_us;
    }
    if (cc_has(params, CC_PROBE_CAP))
        bbq_watch_queue(bbr, params, rs, replace);
    if (expired && !bbr->idle_restart && bbr->mode != BBR_PROBE_RTT) {
        bbr_set_mode(bbr, BBR_PROBE_RTT);
        bbr_save_cwnd(bbr, state->cwnd_pkts);
        bbr->probe_rtt_done_us = 0;
    }
    if (bbr->mode == BBR_PROBE_RTT)
        bbr_stay_in_probe_rtt(state, params, rs);
    if (rs->sample_pkts > 0 || !bbr_has(bbr, CC_STACK_idle_restart_lasts))
        bbr->idle_restart = false;
}

#endif
