/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3 (google/bbr, branch v3: net/ipv4/tcp_bbr.c; draft-ietf-ccwg-bbr-06, of which "Draft" names sections).
 *
 *   bw      = min(max_bw, bw_lo)
 *   min_rtt = min over 10 s of RTT
 *   pacing  = gain * bw * 0.99
 *   cwnd    = min(gain * bw * min_rtt + aggregated ACKs, inflight_hi, inflight_lo), at least bbr3_min_cwnd (4)
 *
 * BBR v1 lost a lot where queues are shallow, and took more than its share from loss-based flows. v3 probes seldom,
 * remembers how much was in flight when 2 % were lost, and leaves room below it. bbr3_model.h has the model,
 * bbr3_phases.h the states, bbr3_resume.h a start from an earlier connection's window, bbr3_target.h what they mean in
 * packets.
 *
 * The kernel skips parts of an ACK where the application limits the sender (its fast path). It is left out: it changes
 * no bound of the model.
 */
#ifndef BBRGYM_CC_BBR3_H
#define BBRGYM_CC_BBR3_H

#include "bbr3_resume.h"
#include "mech_cwnd_cap.h"
#include "mech_path_change.h"

/* ---- pacing ---- */

/* Draft, 5.6.2: pace at 1 % below the gain times the bandwidth, so that the queue drains and delay falls. */
static inline uint64_t bbr3_pacing_for_Bps(const struct bbr_state *bbr, uint64_t bw_q24, int64_t gain_q16)
{
    uint64_t rate_Bps = bbr3_rate_Bps(bbr, bw_q24, gain_q16, 100 - BBR_PACING_MARGIN_PERCENT);

    /* Below UINT64_MAX, which means unpaced, and never a rate at which nothing leaves. */
    return cc_max_u64(cc_min_u64(rate_Bps, UINT64_MAX - 1), bbr->mss_bytes / BBR_SLOWEST_PKT_S + 1);
}

/* Draft, 5.6.2: without a bandwidth, pace the initial window over the smoothed RTT, or over 1 ms. */
static inline void bbr3_init_pacing(struct cc_state *state, const struct cc_params *params)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t rtt_us = BBR_UNKNOWN_RTT_US;

    if (bbr->srtt_us != 0) {
        rtt_us = bbr->srtt_us;
        bbr->has_seen_rtt = true;
    }
    state->pacing_Bps = bbr3_pacing_for_Bps(bbr, ((uint64_t)state->cwnd_pkts << BBR3_Q24_SHIFT) / rtt_us,
                                            params->bbr3_startup_gain_q16);
}

/* Draft, 5.6.2: until the pipe is full the pacing rate never falls. */
static inline void bbr3_set_pacing(struct cc_state *state, const struct cc_params *params, int64_t gain_q16)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t rate_Bps = bbr3_pacing_for_Bps(bbr, bbr3_bw_q24(&state->bbr3), gain_q16);

    if (!bbr->has_seen_rtt && bbr->srtt_us != 0)
        bbr3_init_pacing(state, params);
    if (bbr->full_bw_reached || rate_Bps > state->pacing_Bps)
        state->pacing_Bps = rate_Bps;
}

/* Draft, 5.6.1: 1.25 in UP, 0.90 in DOWN, 1 in CRUISE and REFILL. */
static inline int64_t bbr3_phase_gain_q16(const struct cc_state *state, const struct cc_params *params)
{
    switch (state->bbr.cycle_index) {
    case BBR3_UP: return params->bbr3_up_gain_q16;
    case BBR3_DOWN: return state->bbr3.is_first_down ? params->bbr3_drain_gain_q16 : params->bbr3_down_gain_q16;
    default: return CC_Q16_ONE;
    }
}

/* Draft, 5.6.1: the gains of each state. */
static inline void bbr3_update_gains(struct cc_state *state, const struct cc_params *params)
{
    struct bbr_state *bbr = &state->bbr;

    switch (bbr->mode) {
    case BBR_STARTUP:
        bbr->pacing_gain_q16 = params->bbr3_startup_gain_q16;
        bbr->cwnd_gain_q16 = params->bbr3_startup_cwnd_gain_q16;
        break;
    case BBR_DRAIN:
        bbr->pacing_gain_q16 = params->bbr3_drain_gain_q16;
        bbr->cwnd_gain_q16 = params->bbr3_drain_cwnd_gain_q16;
        break;
    case BBR_PROBE_BW:
        bbr->pacing_gain_q16 = bbr3_phase_gain_q16(state, params);
        bbr->cwnd_gain_q16 = params->bbr3_cwnd_gain_q16;
        if (bbr->cycle_index == BBR3_UP)
            bbr->cwnd_gain_q16 += params->bbr3_up_cwnd_gain_q16;
        break;
    default:
        bbr->pacing_gain_q16 = params->bbr3_probe_rtt_pacing_gain_q16;
        bbr->cwnd_gain_q16 = CC_Q16_ONE;
        break;
    }
}

/* ---- window ---- */

/*
 * CWND_CAP: the share alpha of bw * sRTT and three bursts. In v1 the bursts are what any window has beside the BDP;
 * here a window has none, and one of alpha * bw * sRTT alone would shrink by 1 - alpha each round, to nothing.
 */
static inline uint64_t bbr3_capped_pkts(const struct cc_state *state, const struct cc_params *params,
                                        uint64_t target_pkts)
{
    const struct bbr_state *bbr = &state->bbr;
    uint64_t bw_Bps = bbr3_bound_Bps(bbr, bbr3_bw_q24(&state->bbr3));
    uint64_t bursts_pkts = 3 * (uint64_t)bbr3_tso_goal_pkts(bbr, state->bbr3.is_v2, state->pacing_Bps);
    uint64_t cap_pkts = plus_cap_pkts(bbr, params, bw_Bps, UINT64_MAX);

    return cc_min_u64(target_pkts, cc_add_sat(cap_pkts, bursts_pkts));
}

/* Draft, 5.6.4.2: the window allows gain times the BDP, what aggregated ACKs need, and the offload budget. */
static inline uint64_t bbr3_target_cwnd_pkts(const struct cc_state *state, const struct cc_params *params)
{
    uint64_t pkts = bbr3_bdp_pkts(state, bbr3_bw_q24(&state->bbr3), state->bbr.cwnd_gain_q16);
    bool capped = cc_has(params, CC_CWND_CAP) && state->bbr.mode == BBR_PROBE_BW;

    if (capped)
        pkts = bbr3_capped_pkts(state, params, pkts);
    if (!capped || params->plus_bonus == 1)
        pkts = cc_add_sat(pkts, bbr3_aggregation_bonus_pkts(state));
    return bbr3_quantize_pkts(state, pkts);
}

/* Whether STARTUP's window grows though it has reached its target; stack.def: bbr3_first_growth. */
static inline bool bbr3_is_first_flight(const struct cc_state *state, const struct cc_sample *rs)
{
    if (bbr_has(&state->bbr, CC_STACK_bbr3_first_growth))
        return rs->delivered_pkts < state->bbr3.init_cwnd_pkts;
    return state->cwnd_pkts < 2 * state->bbr3.init_cwnd_pkts;
}

/* Draft, 5.6.4.6: grow by what is acknowledged: up to the target in a full pipe, below it always in STARTUP. */
static inline void bbr3_set_cwnd(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    const struct bbr_state *bbr = &state->bbr;
    uint32_t cwnd = state->cwnd_pkts;

    if (rs->acked_pkts > 0) {
        uint64_t target_pkts = bbr3_target_cwnd_pkts(state, params);
        uint64_t grown_pkts = (uint64_t)cwnd + rs->acked_pkts;

        if (bbr->full_bw_reached)
            cwnd = cc_clamp_to_u32(cc_min_u64(grown_pkts, target_pkts));
        else if (cwnd < target_pkts || bbr3_is_first_flight(state, rs))
            cwnd = cc_clamp_to_u32(grown_pkts);
        cwnd = cc_max_u32(cwnd, state->bbr3.min_cwnd_pkts);
    }
    if (bbr->mode == BBR_PROBE_RTT)
        cwnd = cc_min_u32(cwnd, bbr3_probe_rtt_cwnd_pkts(state, params));
    state->cwnd_pkts = cwnd;
}

/* Draft, 5.6.4.7: stay within inflight_hi where PROBE_BW probes, below it by the headroom in CRUISE and PROBE_RTT. */
static inline void bbr3_bound_cwnd(struct cc_state *state, const struct cc_params *params)
{
    const struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t mode = state->bbr.mode;
    uint32_t cap = BBR3_UNSET_PKTS;

    if (mode == BBR_PROBE_RTT || bbr3_is_in(&state->bbr, BBR3_CRUISE))
        cap = bbr3_headroom_level_pkts(bbr3, params);
    else if (mode == BBR_PROBE_BW)
        cap = bbr3->inflight_hi_pkts;
    cap = cc_max_u32(cc_min_u32(cap, bbr3->inflight_lo_pkts), bbr3->min_cwnd_pkts);
    state->cwnd_pkts = cc_min_u32(state->cwnd_pkts, cap);
}

/* ---- events ---- */

/* Draft, 5.2.1: all state at the connection's start. */
static inline void bbr3_init(struct cc_state *state, const struct cc_params *params, const struct cc_start *start)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3->is_v2 = params->algorithm == CC_ALGORITHM_BBR2;
    bbr->mode = BBR_STARTUP;
    bbr->stack = params->stack;
    bbr->mss_bytes = cc_max_u32(start->mss_bytes, 1);
    bbr->min_rtt_us = cc_max_u64(start->min_rtt_us, 1);
    bbr->min_rtt_stamp_us = start->now_us;
    bbr->srtt_us = start->srtt_us;
    bbr->delivered_time_us = start->now_us;
    bbr->phase_rng = cc_rng_make(start->rng_seed, "probe_bw.phase");
    bbr->trand_rng = cc_rng_make(start->rng_seed, "probe_rtt.interval");
    bbr->bbq_data_min_rtt_us = CC_RTT_UNKNOWN_US;
    bbr_aggregation_start_epoch(&bbr->aggregation, start->now_us);
    bbr3_reset_lower_bounds(bbr3);
    bbr3->inflight_hi_pkts = BBR3_UNSET_PKTS;
    bbr3->loss_round_delivered_pkts = 1;
    bbr3->up_cnt = UINT32_MAX;
    bbr3->probe_rtt_min_us = bbr->min_rtt_us;
    bbr3->probe_rtt_min_stamp_us = start->now_us;
    bbr3->ecn_ok = start->ecn_ok;
    bbr3->ecn_alpha_256th = BBR3_ECN_ONE;
    bbr3->init_cwnd_pkts = cc_min_u32(state->cwnd_pkts, BBR3_INIT_CWND_MAX_PKTS);
    bbr3->min_cwnd_pkts = (uint32_t)params->bbr3_min_cwnd;
    bbr3->now_us = start->now_us;
    bbr3_update_gains(state, params);
    bbr3_init_pacing(state, params);
}

static inline void bbr3_note_sample(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    state->bbr3.now_us = rs->now_us;
    state->bbr3.sample_q24 = bbr3_sample_q24(rs);
    state->bbr3.min_cwnd_pkts = (uint32_t)params->bbr3_min_cwnd;
    bbr->delivered_pkts = rs->delivered_pkts;
    bbr->delivered_time_us = rs->delivered_time_us;
    if (rs->srtt_us != 0)
        bbr->srtt_us = rs->srtt_us;
    if (cc_has(params, CC_CWND_CAP))
        plus_update_srtt(bbr, params, rs);
}

/*
 * PATH_CHANGE: the packets in flight that filled the old path, and a queue, are too few by what the new one is longer;
 * what losses said of the old path is forgotten.
 */
static inline void bbr3_check_path(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr3_state *bbr3 = &state->bbr3;
    uint64_t before_us = bbr->min_rtt_us, bw_q24 = bbr3_max_bw_q24(bbr3), own_us = 0;

    if (rs->sample_pkts > 0 && bw_q24 > 0)
        own_us = cc_mul_div((uint64_t)rs->sample_pkts, BBR3_Q24_ONE, bw_q24);
    if (!path_has_changed(bbr, params, rs, own_us))
        return;
    bbr3->probe_rtt_min_us = bbr->min_rtt_us;
    bbr3->probe_rtt_min_stamp_us = rs->now_us;
    bbr3_reset_lower_bounds(bbr3);
    if (bbr3->inflight_hi_pkts != BBR3_UNSET_PKTS)
        bbr3->inflight_hi_pkts = cc_clamp_to_u32(
            cc_add_sat(bbr3->inflight_hi_pkts, bbr3_pkts_in(bw_q24, cc_sub_sat(bbr->min_rtt_us, before_us))));
}

/* Draft, 5.2.3: on each ACK first the model and the state, then pacing rate and window. */
static inline void bbr3_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr3_state *bbr3 = &state->bbr3;

    if (cc_has(params, CC_PATH_CHANGE))
        bbr3_check_path(state, params, rs);
    bbr3_note_sample(state, params, rs);
    bbr3_update_round(state, rs);
    if (bbr->round_start && bbr3->ecn_ok)
        bbr3_update_alpha(state, params, rs);
    bbr3->ecn_in_round |= bbr3->ecn_eligible && rs->is_ece;
    bbr3_update_latest(state, rs);

    bbr3_update_congestion(state, params, rs);
    bbr3_update_aggregation(state, rs);
    bbr3_check_startup_loss(state, params, rs);
    bbr3_check_full_bw(state, rs);
    bbr3_check_startup_queue(state, params, rs);
    bbr3_check_drain(state, params, rs);
    bbr3_update_phase(state, params, rs);
    bbr3_update_min_rtt(state, params, rs);

    bbr3_update_gains(state, params);
    bbr3_set_pacing(state, params, bbr->pacing_gain_q16);
    bbr3_set_cwnd(state, params, rs);
    bbr3_bound_cwnd(state, params);
    bbr3_resume(state, params, rs);

    bbr3_advance_latest(bbr3, rs);
    bbr->prev_ca_state = rs->ca_state;
    bbr3->loss_in_cycle |= rs->lost_since_pkts > 0;
    bbr3->ecn_in_cycle |= rs->delivered_ce_pkts > 0;
}

/* Draft, 5.5.11.1: what an undo restores. */
static inline void bbr3_save_bounds(struct bbr3_state *bbr3)
{
    bbr3->undo_bw_lo_q24 = bbr3->bw_lo_q24;
    bbr3->undo_inflight_lo_pkts = bbr3->inflight_lo_pkts;
    bbr3->undo_inflight_hi_pkts = bbr3->inflight_hi_pkts;
    bbr3->undo_startup = false;
    bbr3->undo_up = false;
}

/* Before a window is reduced, which BBR's is not. */
static inline void bbr3_save(struct cc_state *state)
{
    bbr_save_cwnd(&state->bbr, state->cwnd_pkts);
    if (!bbr_has(&state->bbr, CC_STACK_bbr3_undo))
        bbr3_save_bounds(&state->bbr3);
}

/* The round that ends a round trip from now shows how much the path delivers beside the loss. */
static inline void bbr3_note_loss(struct cc_state *state, uint64_t delivered_pkts)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (!bbr3->loss_in_round) {
        bbr3->loss_round_delivered_pkts = delivered_pkts;
        if (bbr_has(&state->bbr, CC_STACK_bbr3_undo) && state->ca_state < CC_CA_RECOVERY)
            bbr3_save_bounds(bbr3);
    }
    bbr3->loss_in_round = true;
    bbr3->loss_in_cycle = true;
}

/* Draft, 5.5.10.2: at the first loss of a probe that passes the threshold, the level in flight there ends the probe. */
static inline void bbr3_on_packet_lost(struct cc_state *state, const struct cc_params *params,
                                       const struct cc_lost_packet *lost)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t lost_pkts = cc_clamp_to_u32(cc_sub_sat(lost->total_lost_pkts, lost->lost_at_send_pkts));
    uint32_t level_pkts;

    bbr3->now_us = lost->now_us;
    state->bbr.delivered_pkts = lost->delivered_pkts;
    bbr3_note_loss(state, lost->delivered_pkts);
    if (!bbr3->bw_probe_samples || !bbr3_loses_too_many(params, lost->tx_in_flight_pkts, lost_pkts))
        return;
    level_pkts = bbr3_level_of_loss_pkts(params, lost->tx_in_flight_pkts, lost_pkts, lost->size_pkts);
    bbr3_handle_too_high(state, params, level_pkts, lost->is_app_limited);
}

/*
 * `count` packets that left with the same in flight were marked lost, `last` is the last: where a world sees no more
 * than how many. The first with which the losses pass the threshold decides.
 */
static inline void bbr3_on_packets_lost(struct cc_state *state, const struct cc_params *params,
                                        const struct cc_lost_packet *last, uint32_t count)
{
    struct cc_lost_packet deciding = *last;
    uint64_t allowed_pkts = cc_scale(last->tx_in_flight_pkts, params->bbr3_loss_thresh_q16);
    uint64_t first_pkts = cc_sub_sat(last->total_lost_pkts, count) + 1;
    uint64_t passing_pkts = cc_max_u64(first_pkts, last->lost_at_send_pkts + allowed_pkts + 1);

    deciding.total_lost_pkts = cc_min_u64(last->total_lost_pkts, passing_pkts);
    bbr3_on_packet_lost(state, params, &deciding);
    if (deciding.total_lost_pkts < last->total_lost_pkts)
        bbr3_note_loss(state, last->delivered_pkts); /* the phase that then began sees losses too */
}

/* A tail loss probe repaired the loss of one packet: the last of the flight, of which nothing else is known. */
static inline void bbr3_on_probe_repair(struct cc_state *state, const struct cc_params *params, uint64_t now_us,
                                        uint64_t delivered_pkts, bool is_app_limited)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t tx_in_flight_pkts = cc_clamp_to_u32((uint64_t)bbr3->inflight_latest_pkts + 1);

    if (bbr3->is_v2)
        return; /* it has no such hook */
    bbr3->now_us = now_us;
    state->bbr.delivered_pkts = delivered_pkts;
    bbr3_note_loss(state, delivered_pkts);
    if (bbr3->bw_probe_samples && bbr3_loses_too_many(params, tx_in_flight_pkts, 1))
        bbr3_handle_too_high(state, params, tx_in_flight_pkts, is_app_limited);
}

/* Draft, 5.6.4.4: save the window before a recovery, and restore it afterwards. */
static inline void bbr3_on_loss_state(struct cc_state *state, enum cc_ca_state old_state, enum cc_ca_state new_state)
{
    bool was_reduced = old_state == CC_CA_CWR || old_state == CC_CA_RECOVERY;

    if ((new_state == CC_CA_CWR || new_state == CC_CA_RECOVERY) && !was_reduced)
        bbr3_save(state);
    if (state->bbr.prev_ca_state == CC_CA_LOSS ||
        (new_state < CC_CA_CWR && old_state >= CC_CA_RECOVERY && bbr_has(&state->bbr, CC_STACK_bbr3_restore)))
        state->cwnd_pkts = cc_max_u32(state->cwnd_pkts, state->bbr.prior_cwnd_pkts);
}

/*
 * Before the window becomes `cwnd_pkts`, at which the lower bound begins, or at the one before the timeout. `saves`:
 * the kernel asks for ssthresh.
 */
static inline void bbr3_on_rto(struct cc_state *state, bool saves, uint32_t cwnd_pkts)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (saves)
        bbr3_save(state);
    state->bbr.prev_ca_state = CC_CA_LOSS;
    bbr3_reset_full_bw(state, 0);
    if (!bbr3_is_probing(&state->bbr) && bbr3->inflight_lo_pkts == BBR3_UNSET_PKTS &&
        !bbr_has(&state->bbr, CC_STACK_bbr3_inflight_lo))
        bbr3->inflight_lo_pkts = cc_max_u32(bbr3->is_v2 ? 0 : cwnd_pkts, state->bbr.prior_cwnd_pkts);
}

/* Draft, 5.4.1: after an idle time pace at the bandwidth itself, since there is no queue to drain nor to build. */
static inline void bbr3_on_restart(struct cc_state *state, const struct cc_params *params, uint64_t now_us,
                                   bool app_limited)
{
    struct bbr_state *bbr = &state->bbr;

    if (!app_limited)
        return;
    state->bbr3.now_us = now_us;
    bbr->idle_restart = true;
    bbr_aggregation_start_epoch(&bbr->aggregation, now_us);
    if (bbr->mode == BBR_PROBE_BW)
        bbr3_set_pacing(state, params, CC_Q16_ONE);
    else if (bbr->mode == BBR_PROBE_RTT)
        bbr3_check_probe_rtt_done(state, params);
}

/* Back to the state that the losses ended; stack.def: bbr3_undo. */
static inline void bbr3_return_to_state(struct cc_state *state)
{
    struct bbr_state *bbr = &state->bbr;

    if (state->bbr3.undo_startup && bbr->mode != BBR_STARTUP) {
        bbr->full_bw_reached = false;
        bbr->mode = bbr->mode == BBR_PROBE_RTT ? BBR_PROBE_RTT : BBR_STARTUP;
    } else if (state->bbr3.undo_up && bbr->mode == BBR_PROBE_BW && !bbr3_is_in(bbr, BBR3_UP)) {
        bbr3_start_refill(state, 0);
    }
}

/* Draft, 5.5.11.2: a spurious recovery gives back the larger of each bound, and the plateau is looked for again. */
static inline void bbr3_on_undo(struct cc_state *state)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3_reset_full_bw(state, 0);
    bbr3->loss_in_round = false;
    bbr3->bw_lo_q24 = cc_max_u64(bbr3->bw_lo_q24, bbr3->undo_bw_lo_q24);
    bbr3->inflight_lo_pkts = cc_max_u32(bbr3->inflight_lo_pkts, bbr3->undo_inflight_lo_pkts);
    bbr3->inflight_hi_pkts = cc_max_u32(bbr3->inflight_hi_pkts, bbr3->undo_inflight_hi_pkts);
    if (state->bbr.prior_cwnd_pkts > 0)
        state->cwnd_pkts = state->bbr.prior_cwnd_pkts;
    if (bbr_has(&state->bbr, CC_STACK_bbr3_undo))
        bbr3_return_to_state(state);
    bbr3->undo_startup = bbr3->undo_up = false;
}

#endif
