/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBR v1 (Cardwell et al., CACM 2017; Linux net/ipv4/tcp_bbr.c, whose generations differ by the facts of stack.def).
 *
 *   bw      = max over 10 rounds of delivered / interval
 *   min_rtt = min over 10 s of RTT
 *   pacing  = gain * bw * 0.99      (Linux 4.20 and later)
 *   cwnd    = gain * bw * min_rtt, plus a margin for bursts
 *   gains   depend on the state (bbr_model.h) and the phase of the cycle (bbr_cycle.h)
 *
 * Each mechanism of a published variant is a header mech_*.h and a hook that runs where its bit is set.
 *
 * Comments name the function of the kernel's tcp_bbr.c where the one here has another name.
 */
#ifndef BBRGYM_CC_BBR_H
#define BBRGYM_CC_BBR_H

#include "bbr_model.h"
#include "mech_congestion_detect.h"
#include "mech_cwnd_cap.h"
#include "mech_path_change.h"

/* ---- pacing (bbr_init_pacing_rate_from_rtt, bbr_set_pacing_rate) ---- */

/* Below UINT64_MAX, which means unpaced, and never a rate at which nothing leaves. */
static inline uint64_t bbr_bounded_pacing_Bps(const struct bbr_state *bbr, uint64_t rate_Bps)
{
    return cc_max_u64(cc_min_u64(rate_Bps, UINT64_MAX - 1), bbr->mss_bytes / BBR_SLOWEST_PKT_S + 1);
}

static inline uint64_t bbr_pacing_for_Bps(const struct bbr_state *bbr, uint64_t bw_Bps, int64_t gain_q16)
{
    return bbr_bounded_pacing_Bps(bbr, bbr_paced_Bps(bbr, bw_Bps, gain_q16));
}

static inline void bbr_init_pacing(struct cc_state *state)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t rtt_us = BBR_UNKNOWN_RTT_US;

    if (bbr->srtt_us != 0) {
        rtt_us = bbr->srtt_us;
        bbr->has_seen_rtt = true;
    }
    state->pacing_Bps = bbr_pacing_for_Bps(bbr, bbr_rate_Bps(bbr, state->cwnd_pkts, rtt_us), BBR_HIGH_GAIN_Q16);
}

static inline void bbr_set_pacing(struct cc_state *state, uint64_t bw_Bps, int64_t gain_q16)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t rate_Bps = bbr_pacing_for_Bps(bbr, bw_Bps, gain_q16);
    bool may_fall = bbr_has(bbr, CC_STACK_pacing_falls) ? bbr->full_bw_reached : bbr->mode != BBR_STARTUP;

    if (!bbr->has_seen_rtt && bbr->srtt_us != 0 && bbr_has(bbr, CC_STACK_late_rtt_pacing))
        bbr_init_pacing(state);
    if (may_fall || rate_Bps > state->pacing_Bps)
        state->pacing_Bps = rate_Bps;
}

/* ---- window (bbr_set_cwnd_to_recover_or_restore, bbr_set_cwnd) ---- */

static inline uint32_t bbr_conservation_floor_pkts(const struct bbr_state *bbr)
{
    return bbr_has(bbr, CC_STACK_conservation_floor) ? BBR_CWND_FLOOR_PKTS : 1;
}

/* What was in flight before an ACK and the packet to send for it, less what it found lost; stack.def: conservation. */
static inline uint32_t bbr_cwnd_before_ack_pkts(const struct cc_sample *rs)
{
    uint64_t pkts = (uint64_t)rs->prior_in_flight_pkts + cc_max_u32(rs->acked_pkts, 1);

    return cc_max_u32(cc_clamp_to_u32(cc_sub_sat(pkts, rs->lost_pkts)), 1);
}

/*
 * Deducts losses, and on entering and leaving recovery holds the window to what was delivered or restores it.
 * Returns true if that decides the window for this ACK. BBR-ACD asks first whether the loss was congestion.
 */
static inline bool bbr_recover_or_restore(struct cc_state *state, const struct cc_params *params,
                                          const struct cc_sample *rs, uint64_t bw_Bps, uint32_t *cwnd_pkts)
{
    struct bbr_state *bbr = &state->bbr;
    uint32_t flight_pkts = cc_clamp_to_u32((uint64_t)rs->in_flight_pkts + rs->acked_pkts);
    uint32_t cwnd = *cwnd_pkts;
    bool detects = cc_has(params, CC_CONGESTION_DETECT);
    bool lasts_an_ack = bbr_has(bbr, CC_STACK_conservation), conserves;
    bool entered = rs->ca_state == CC_CA_RECOVERY && bbr->prev_ca_state != CC_CA_RECOVERY;
    bool left = rs->ca_state < CC_CA_RECOVERY && bbr->prev_ca_state >= CC_CA_RECOVERY;
    bool restores = bbr->prev_ca_state != CC_CA_LOSS || bbr_has(bbr, CC_STACK_restore_after_timeout);

    if (rs->lost_pkts > 0)
        cwnd = cwnd > rs->lost_pkts ? cwnd - rs->lost_pkts : 1;
    if (detects)
        acd_detect(bbr, params, rs);

    if (entered && (!detects || bbr->acd_congested)) {
        bbr->packet_conservation = true;
        bbr->acd_cut_done = false;
        if (!lasts_an_ack)
            bbr->next_round_delivered_pkts = rs->delivered_pkts;
        if (!detects)
            cwnd = lasts_an_ack ? bbr_cwnd_before_ack_pkts(rs) : flight_pkts;
    } else if (left) {
        bbr->restore_cwnd |= restores;
        bbr->packet_conservation = false;
    }
    bbr->prev_ca_state = rs->ca_state;
    if (bbr->restore_cwnd) {
        cwnd = cc_max_u32(cwnd, bbr->prior_cwnd_pkts);
        bbr->restore_cwnd = false;
    }
    if (detects && params->acd_verdict == 1) {
        bbr->packet_conservation = rs->ca_state == CC_CA_RECOVERY;
        bbr->acd_cut_done = bbr->acd_cut_done && !entered;
    }

    if (bbr->packet_conservation && detects)
        cwnd = acd_cut_pkts(bbr, params, rs, state->pacing_Bps, bw_Bps, cwnd);
    else if (bbr->packet_conservation)
        cwnd = cc_max_u32(cc_max_u32(cwnd, flight_pkts), bbr_conservation_floor_pkts(bbr));
    *cwnd_pkts = cwnd;
    conserves = bbr->packet_conservation;
    if (lasts_an_ack)
        bbr->packet_conservation = false;
    return conserves;
}

static inline uint64_t bbr_target_cwnd_pkts(const struct cc_state *state, const struct cc_params *params,
                                            uint64_t bw_Bps)
{
    const struct bbr_state *bbr = &state->bbr;
    uint64_t target_pkts = bbr_bdp_pkts(bbr, bw_Bps, bbr->cwnd_gain_q16);
    bool capped = cc_has(params, CC_CWND_CAP) && bbr->mode == BBR_PROBE_BW;

    if (capped)
        target_pkts = plus_cap_pkts(bbr, params, bw_Bps, target_pkts);
    if (!capped || params->plus_bonus == 1)
        target_pkts = cc_add_sat(target_pkts, bbr_aggregation_bonus_pkts(bbr));
    return bbr_quantize_pkts(bbr, state->pacing_Bps, target_pkts, bbr->cwnd_gain_q16);
}

static inline void bbr_set_cwnd(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs,
                                uint64_t bw_Bps)
{
    struct bbr_state *bbr = &state->bbr;
    uint32_t cwnd = state->cwnd_pkts;

    if (rs->acked_pkts == 0 && !bbr_has(bbr, CC_STACK_probe_rtt_cap_always))
        return;
    if (rs->acked_pkts > 0 && !bbr_recover_or_restore(state, params, rs, bw_Bps, &cwnd)) {
        uint64_t target_pkts = bbr_target_cwnd_pkts(state, params, bw_Bps);
        uint64_t grown_pkts = (uint64_t)cwnd + rs->acked_pkts;

        if (bbr->full_bw_reached)
            cwnd = cc_clamp_to_u32(cc_min_u64(grown_pkts, target_pkts));
        else if (cwnd < target_pkts || rs->delivered_pkts < BBR_INIT_CWND_PKTS)
            cwnd = cc_clamp_to_u32(grown_pkts);
        cwnd = cc_max_u32(cwnd, BBR_CWND_FLOOR_PKTS);
    }
    if (bbr->mode == BBR_PROBE_RTT)
        cwnd = cc_min_u32(cwnd, BBR_CWND_FLOOR_PKTS);
    state->cwnd_pkts = cwnd;
}

/* ---- events ---- */

static inline void bbr_init(struct cc_state *state, const struct cc_params *params, const struct cc_start *start)
{
    struct bbr_state *bbr = &state->bbr;

    bbr->mode = BBR_STARTUP;
    bbr->stack = params->stack;
    bbr->mss_bytes = cc_max_u32(start->mss_bytes, 1);
    state->pacing_overhead_bytes = bbr_has(bbr, CC_STACK_pacing_unit) ? 0 : BBR_HEADER_BYTES;
    bbr->bw_window_rounds = BBR_BW_WINDOW_ROUNDS;
    bbr->min_rtt_us = cc_max_u64(start->min_rtt_us, 1);
    bbr->min_rtt_stamp_us = start->now_us;
    bbr->srtt_us = start->srtt_us;
    bbr->delivered_time_us = start->now_us;
    bbr->phase_rng = cc_rng_make(start->rng_seed, "probe_bw.phase");
    bbr->trand_rng = cc_rng_make(start->rng_seed, "probe_rtt.interval");
    bbr->acd_last_rtt_us = -1;
    bbr->bbq_data_min_rtt_us = CC_RTT_UNKNOWN_US;
    bbr_aggregation_start_epoch(&bbr->aggregation, start->now_us);
    bbr_update_gains(bbr, params);
    bbr_init_pacing(state);
}

static inline void bbr_note_sample(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs)
{
    bbr->delivered_pkts = rs->delivered_pkts;
    bbr->delivered_time_us = rs->delivered_time_us;
    if (rs->srtt_us != 0)
        bbr->srtt_us = rs->srtt_us;
    plus_update_srtt(bbr, params, rs);
}

/* What the bandwidth takes to deliver what was delivered since the packet left that this ACK acknowledges. */
static inline uint64_t bbr_own_us(const struct bbr_state *bbr, const struct cc_sample *rs)
{
    uint64_t bw_Bps = bbr_max_bw_Bps(bbr);

    if (rs->sample_pkts < 0 || bw_Bps == 0)
        return 0;
    return cc_mul_div((uint64_t)rs->sample_pkts, UINT64_C(1000000) * bbr->mss_bytes, bw_Bps);
}

/* The pacing rate and the window that the model gives. */
static inline void bbr_decide(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t bw_Bps;

    bbr_update_gains(bbr, params);
    bw_Bps = bbr_bw_Bps(bbr);
    bbr_set_pacing(state, bw_Bps, bbr->pacing_gain_q16);
    if (!bbr_has(bbr, CC_STACK_tso_goal))
        bbr->tso_goal_pkts = bbr_tso_goal_pkts(bbr, state->pacing_Bps);
    bbr_set_cwnd(state, params, rs, bw_Bps);
}

/* bbr_main */
static inline void bbr_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    if (cc_has(params, CC_PATH_CHANGE))
        path_has_changed(bbr, params, rs, bbr_own_us(bbr, rs));
    bbr_note_sample(bbr, params, rs);
    bbr_update_bandwidth(bbr, params, rs);
    if (bbr_has(bbr, CC_STACK_aggregation_bonus))
        bbr_update_aggregation(bbr, rs, state->cwnd_pkts);
    bbr_update_cycle(bbr, params, rs, state->pacing_Bps);
    bbr_check_full_pipe(bbr, rs);
    bbr_check_drain(state, rs);
    bbr_update_min_rtt(state, params, rs);
    bbr_decide(state, params, rs);
}

static inline void bbr_on_loss_state(struct cc_state *state, const struct cc_params *params, enum cc_ca_state old_state,
                                     enum cc_ca_state new_state)
{
    (void)params;
    (void)old_state;
    if (new_state >= CC_CA_CWR)
        bbr_save_cwnd(&state->bbr, state->cwnd_pkts);
}

/*
 * bbr_set_state, TCP_CA_Loss: restarts the estimate of a full pipe and reports the timeout to the policer detector as a
 * loss. `saves`: the kernel asks for ssthresh.
 */
static inline void bbr_on_rto(struct cc_state *state, const struct cc_params *params, bool saves,
                              uint64_t total_lost_pkts)
{
    struct bbr_state *bbr = &state->bbr;
    struct cc_sample rs = { 0 };

    if (saves)
        bbr_save_cwnd(bbr, state->cwnd_pkts);
    bbr->prev_ca_state = CC_CA_LOSS;
    bbr->full_bw_Bps = 0;
    bbr->round_start = true;

    rs.lost_pkts = 1;
    rs.delivered_pkts = bbr->delivered_pkts;
    rs.delivered_time_us = bbr->delivered_time_us;
    rs.total_lost_pkts = total_lost_pkts;
    if (bbr_has(bbr, CC_STACK_policer_detection) && bbr_policer_update(bbr, &rs)) {
        bbr_enter_probe_bw(bbr, bbr->delivered_time_us);
        if (bbr_has(bbr, CC_STACK_gains_by_event))
            bbr_update_gains(bbr, params);
    }
}

/*
 * bbr_cwnd_event, CA_EVENT_TX_START: the first packet after idle time: no burst, and the idle time does not count as
 * ACK aggregation.
 */
static inline void bbr_on_restart(struct cc_state *state, const struct cc_params *params, uint64_t now_us,
                                  bool app_limited)
{
    struct bbr_state *bbr = &state->bbr;

    if (!app_limited)
        return;
    bbr->idle_restart = true;
    bbr_aggregation_start_epoch(&bbr->aggregation, now_us);
    if (bbr->mode == BBR_PROBE_BW)
        bbr_set_pacing(state, bbr_bw_Bps(bbr), CC_Q16_ONE);
    else if (bbr->mode == BBR_PROBE_RTT && bbr->probe_rtt_done_us != 0 && now_us > bbr->probe_rtt_done_us &&
             bbr_has(bbr, CC_STACK_restart_ends_probe_rtt))
        bbr_exit_probe_rtt(state, params, now_us);
}

/* bbr_undo_cwnd: the window itself is restored by bbr_recover_or_restore. */
static inline void bbr_on_undo(struct cc_state *state, const struct cc_params *params)
{
    (void)params;
    if (!bbr_has(&state->bbr, CC_STACK_undo_resets))
        return;
    state->bbr.full_bw_Bps = 0;
    state->bbr.full_bw_count = 0;
    bbr_policer_reset(&state->bbr.policer);
}

#endif
