/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's model of the path: a range of bandwidth and of packets in flight.
 *
 *   max_bw       largest sample of this cycle of PROBE_BW and the one before
 *   bw_lo        max_bw after a loss, times 0.7 each round of loss, at least what it delivered; a probe unsets it
 *   inflight_lo  the same of the window; marks make it smaller too
 *   inflight_hi  in flight when losses in STARTUP or a probe passed 2 %; probes without them raise it
 */
#ifndef BBRGYM_CC_BBR3_MODEL_H
#define BBRGYM_CC_BBR3_MODEL_H

#include "bbr3_target.h"
#include "bbr_aggregation.h"

/* ---- rounds, samples ---- */

static inline bool bbr3_is_valid(const struct cc_sample *rs) { return rs->interval_us > 0 && rs->acked_pkts > 0; }

/* Draft, 5.5.1: a round ends when a packet sent after its start is acknowledged. */
static inline void bbr3_start_round(struct cc_state *state, uint64_t delivered_pkts)
{
    state->bbr.next_round_delivered_pkts = delivered_pkts;
}

/* Draft, 5.5.1: rounds are counted by packets, not by time. */
static inline void bbr3_update_round(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    bbr->round_start = rs->interval_us > 0 && rs->prior_delivered_pkts >= bbr->next_round_delivered_pkts;
    if (!bbr->round_start)
        return;
    bbr3_start_round(state, rs->delivered_pkts);
    bbr->round_count++;
    state->bbr3.rounds_since_probe = cc_min_u32(state->bbr3.rounds_since_probe + 1, BBR3_ROUNDS_MAX);
}

/* Rounded up, so that small rates grow too. */
static inline uint64_t bbr3_sample_q24(const struct cc_sample *rs)
{
    if (rs->interval_us <= 0 || rs->sample_pkts < 0)
        return 0;
    return cc_mul_div_ceil((uint64_t)rs->sample_pkts, BBR3_Q24_ONE, (uint64_t)rs->interval_us);
}

/* ---- excess: too many losses or marks ---- */

/* Draft, 5.5.10.2: of the packets in flight when one left, more than the threshold are lost by now. */
static inline bool bbr3_loses_too_many(const struct cc_params *params, uint32_t tx_in_flight_pkts, uint32_t lost_pkts)
{
    return tx_in_flight_pkts > 0 && lost_pkts > cc_scale(tx_in_flight_pkts, params->bbr3_loss_thresh_q16);
}

/* Draft, 5.5.10.2: more than 2 % of the packets in flight are lost: inflight is too high. */
static inline bool bbr3_is_too_high(const struct bbr3_state *bbr3, const struct cc_params *params,
                                    const struct cc_sample *rs)
{
    if (bbr3_loses_too_many(params, rs->tx_in_flight_pkts, rs->lost_since_pkts))
        return true;
    if (!bbr3->ecn_eligible || rs->delivered_ce_pkts == 0 || rs->sample_pkts <= 0)
        return false;
    return rs->delivered_ce_pkts > cc_scale((uint64_t)rs->sample_pkts, params->bbr3_ecn_thresh_q16);
}

/*
 * In flight when the losses passed the threshold, of a lost packet of `size_pkts` that left as the last of
 * `tx_in_flight_pkts`: from lost / in flight = threshold, both before the packet and rising with each part of it.
 */
static inline uint32_t bbr3_level_of_loss_pkts(const struct cc_params *params, uint32_t tx_in_flight_pkts,
                                               uint32_t lost_pkts, uint32_t size_pkts)
{
    uint64_t thresh_q16 = (uint64_t)params->bbr3_loss_thresh_q16;
    uint64_t before_pkts, lost_before_pkts, budget_pkts;

    if (tx_in_flight_pkts < size_pkts || lost_pkts < size_pkts || thresh_q16 >= CC_Q16_ONE)
        return BBR3_UNSET_PKTS;
    before_pkts = tx_in_flight_pkts - size_pkts;
    lost_before_pkts = lost_pkts - size_pkts;
    budget_pkts = (before_pkts * thresh_q16 + CC_Q16_ONE - 1) / CC_Q16_ONE;
    if (lost_before_pkts < budget_pkts)
        before_pkts += (budget_pkts - lost_before_pkts) * CC_Q16_ONE / (CC_Q16_ONE - thresh_q16);
    return cc_clamp_to_u32(before_pkts);
}

/* ---- lower bounds ---- */

/* Draft, 5.5.10.3: the short-term model is unset. */
static inline void bbr3_reset_lower_bounds(struct bbr3_state *bbr3)
{
    bbr3->bw_lo_q24 = BBR3_UNSET_Q24;
    bbr3->inflight_lo_pkts = BBR3_UNSET_PKTS;
}

/* Draft, 5.5.10.3: no loss yet, and no delivery. */
static inline void bbr3_reset_congestion_signals(struct bbr3_state *bbr3)
{
    bbr3->loss_in_round = false;
    bbr3->ecn_in_round = false;
    bbr3->loss_in_cycle = false;
    bbr3->ecn_in_cycle = false;
    bbr3->bw_latest_q24 = 0;
    bbr3->inflight_latest_pkts = 0;
}

/* inflight_lo after a round of marks. */
static inline uint32_t bbr3_after_marks_pkts(const struct bbr3_state *bbr3, const struct cc_params *params)
{
    uint64_t factor_256th = (uint64_t)params->bbr3_ecn_factor_q16 / 256;
    uint64_t cut_256th = BBR3_ECN_ONE - bbr3->ecn_alpha_256th * factor_256th / BBR3_ECN_ONE;

    return (uint32_t)(bbr3->inflight_lo_pkts * cut_256th / BBR3_ECN_ONE);
}

/* Draft, 5.5.10.3: after a round that lost or was marked, but not of a probe's. */
static inline void bbr3_adapt_lower_bounds(struct cc_state *state, const struct cc_params *params)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t marked_pkts = BBR3_UNSET_PKTS;
    bool is_marked = bbr3->ecn_in_round && params->bbr3_ecn_factor_q16 > 0;

    if (bbr3_is_probing(&state->bbr))
        return;
    if ((is_marked || bbr3->loss_in_round) && bbr3->inflight_lo_pkts == BBR3_UNSET_PKTS)
        bbr3->inflight_lo_pkts = state->cwnd_pkts;
    if (is_marked)
        marked_pkts = bbr3_after_marks_pkts(bbr3, params);
    if (bbr3->loss_in_round) {
        int64_t left_q16 = CC_Q16_ONE - params->bbr3_beta_q16;

        if (bbr3->bw_lo_q24 == BBR3_UNSET_Q24)
            bbr3->bw_lo_q24 = bbr3_max_bw_q24(bbr3);
        bbr3->bw_lo_q24 = cc_max_u64(bbr3->bw_latest_q24, cc_scale(bbr3->bw_lo_q24, left_q16));
        bbr3->inflight_lo_pkts =
            cc_max_u32(bbr3->inflight_latest_pkts, (uint32_t)cc_scale(bbr3->inflight_lo_pkts, left_q16));
    }
    bbr3->inflight_lo_pkts = cc_min_u32(bbr3->inflight_lo_pkts, marked_pkts);
    if (bbr_has(&state->bbr, CC_STACK_bbr3_inflight_lo))
        bbr3->inflight_lo_pkts = BBR3_UNSET_PKTS;
    bbr3->bw_lo_q24 = cc_max_u64(bbr3->bw_lo_q24, 1);
}

/* ---- signals ---- */

/* Draft, 5.5.10.3: the largest bandwidth and delivery of a round trip that begins at the first loss. */
static inline void bbr3_update_latest(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3->loss_round_start = false;
    if (!bbr3_is_valid(rs))
        return;
    bbr3->bw_latest_q24 = cc_max_u64(bbr3->bw_latest_q24, bbr3->sample_q24);
    bbr3->inflight_latest_pkts =
        cc_max_u32(bbr3->inflight_latest_pkts, cc_clamp_to_u32((uint64_t)(rs->sample_pkts < 0 ? 0 : rs->sample_pkts)));
    if (rs->prior_delivered_pkts >= bbr3->loss_round_delivered_pkts) {
        bbr3->loss_round_delivered_pkts = rs->delivered_pkts;
        bbr3->loss_round_start = true;
    }
}

/* The first sample of a round; v2 takes it as soon as the lower bounds are adapted. */
static inline void bbr3_begin_latest(struct bbr3_state *bbr3, const struct cc_sample *rs)
{
    bbr3->bw_latest_q24 = bbr3->sample_q24;
    bbr3->inflight_latest_pkts = cc_clamp_to_u32((uint64_t)(rs->sample_pkts < 0 ? 0 : rs->sample_pkts));
}

/* Draft, 5.5.5: a sample that an application limited counts only if it is at least max_bw. */
static inline void bbr3_update_congestion(struct cc_state *state, const struct cc_params *params,
                                          const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (!bbr3_is_valid(rs))
        return;
    if (!rs->is_app_limited || bbr3->sample_q24 >= bbr3_max_bw_q24(bbr3))
        bbr3->bw_hi_q24[1] = cc_max_u64(bbr3->bw_hi_q24[1], bbr3->sample_q24);
    bbr3->loss_in_round |= rs->lost_pkts > 0;
    if (!bbr3->loss_round_start)
        return;
    bbr3_adapt_lower_bounds(state, params);
    bbr3->loss_in_round = false;
    bbr3->ecn_in_round = false;
    if (bbr3->is_v2)
        bbr3_begin_latest(bbr3, rs);
}

/* At a round's end the next one's maxima begin; an ACK of a tail loss probe leaves those from before the tail. */
static inline void bbr3_advance_latest(struct bbr3_state *bbr3, const struct cc_sample *rs)
{
    if (bbr3->loss_round_start && !rs->is_acking_tlp && !bbr3->is_v2)
        bbr3_begin_latest(bbr3, rs);
}

/* Draft, 5.5.6: max_bw is over the last two cycles of PROBE_BW. */
static inline void bbr3_advance_max_bw(struct bbr3_state *bbr3)
{
    if (bbr3->bw_hi_q24[1] == 0)
        return; /* no sample in this cycle: the one before counts on */
    bbr3->bw_hi_q24[0] = bbr3->bw_hi_q24[1];
    bbr3->bw_hi_q24[1] = 0;
}

/* Draft, 5.5.9: the largest excess of ACKs over the bandwidth, in the last ten rounds. */
static inline void bbr3_update_aggregation(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr_aggregation *a = &bbr->aggregation;
    uint32_t rounds = bbr->full_bw_reached ? BBR_AGGREGATION_WINDOW_ROUNDS : BBR3_AGGREGATION_STARTUP_ROUNDS;
    uint64_t epoch_us = cc_sub_sat(rs->delivered_time_us, a->epoch_time_us);

    if (!bbr3_is_valid(rs) || rs->sample_pkts < 0)
        return;
    bbr_aggregation_turn(a, bbr->round_start, rounds);
    bbr_aggregation_take(a, rs, bbr3_pkts_in(bbr3_bw_q24(&state->bbr3), epoch_us), state->cwnd_pkts);
}

/* Draft, 5.6.4.2: extra_acked provisions for silences between aggregated ACKs. */
static inline uint64_t bbr3_aggregation_bonus_pkts(const struct cc_state *state)
{
    const uint32_t *extra_pkts = state->bbr.aggregation.extra_pkts;

    return cc_min_u64(cc_max_u32(extra_pkts[0], extra_pkts[1]),
                      bbr3_pkts_in(bbr3_bw_q24(&state->bbr3), BBR_AGGREGATION_MAX_US));
}

/* ---- full pipe ---- */

/* Draft, 5.3.1.2: look for a plateau from this bandwidth on. */
static inline void bbr3_reset_full_bw(struct cc_state *state, uint64_t bw_q24)
{
    state->bbr3.full_bw_q24 = bw_q24;
    state->bbr3.full_bw_now = false;
    state->bbr.full_bw_count = 0;
}

/* v2's, as v1's: the largest bandwidth at the starts of rounds, and only until the pipe was full. */
static inline void bbr3_check_full_bw_of_v2(struct cc_state *state)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t bw_q24 = bbr3_max_bw_q24(&state->bbr3);

    if (bbr->full_bw_reached || !bbr->round_start)
        return;
    if (bw_q24 >= cc_scale(state->bbr3.full_bw_q24, BBR_FULL_BW_GROWTH_Q16)) {
        bbr3_reset_full_bw(state, bw_q24);
        return;
    }
    bbr->full_bw_count++;
    bbr->full_bw_reached = bbr->full_bw_count >= BBR_FULL_BW_ROUNDS;
}

/* Draft, 5.3.1.2: three rounds without growth by a quarter; any sample that grew so much begins again (bbr3_plateau).
 */
static inline void bbr3_check_full_bw(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr3_state *bbr3 = &state->bbr3;

    if (bbr3->full_bw_now || rs->is_app_limited)
        return;
    if (bbr3->is_v2) {
        bbr3_check_full_bw_of_v2(state);
        return;
    }
    if (!bbr->round_start && bbr_has(bbr, CC_STACK_bbr3_plateau))
        return;
    if (bbr3->sample_q24 >= cc_scale(bbr3->full_bw_q24, BBR_FULL_BW_GROWTH_Q16)) {
        bbr3_reset_full_bw(state, bbr3->sample_q24);
        return;
    }
    if (!bbr->round_start)
        return;
    bbr->full_bw_count++;
    bbr3->full_bw_now = bbr->full_bw_count >= BBR_FULL_BW_ROUNDS;
    bbr->full_bw_reached |= bbr3->full_bw_now;
}

/*
 * A round without growth that never had less than 1.75 BDP in flight is one of a queue that lasts; so many end STARTUP
 * before the plateau does. google/quiche: Bbr2NetworkModel::CheckPersistentQueue, where it is off by default too.
 */
static inline void bbr3_check_startup_queue(struct cc_state *state, const struct cc_params *params,
                                            const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint64_t bw_q24 = bbr3_bw_q24(bbr3), queue_pkts;
    uint32_t least_pkts = cc_min_u32(bbr3->least_in_flight_pkts, rs->in_flight_pkts);

    if (params->bbr3_startup_queue_rounds == 0 || state->bbr.full_bw_reached)
        return;
    bbr3->least_in_flight_pkts = state->bbr.round_start ? UINT32_MAX : least_pkts;
    if (!state->bbr.round_start || state->bbr.full_bw_count == 0)
        return;
    queue_pkts = cc_max_u64(bbr3_bdp_pkts(state, bw_q24, BBR3_QUEUE_GAIN_Q16),
                            cc_add_sat(bbr3_bdp_pkts(state, bw_q24, CC_Q16_ONE), BBR3_QUEUE_ROOM_PKTS));
    bbr3->queue_rounds = least_pkts < queue_pkts ? 0 : (uint8_t)(bbr3->queue_rounds + 1);
    state->bbr.full_bw_reached = bbr3->queue_rounds >= (uint64_t)params->bbr3_startup_queue_rounds;
}

/* Losses or marks, not the plateau, show that the pipe is full. */
static inline void bbr3_end_startup_by_excess(struct cc_state *state)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t least_pkts = bbr3->is_v2 ? 0 : bbr3->inflight_latest_pkts;

    state->bbr.full_bw_reached = true;
    bbr3->undo_startup = true;
    bbr3->inflight_hi_pkts = cc_max_u32(cc_clamp_to_u32(bbr3_inflight_pkts(state, bbr3_max_bw_q24(bbr3))), least_pkts);
}

/* Draft, 5.3.1.3: six loss events in a round of recovery with more than 2 % lost end STARTUP. */
static inline void bbr3_check_startup_loss(struct cc_state *state, const struct cc_params *params,
                                           const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (state->bbr.full_bw_reached)
        return;
    if (rs->lost_pkts > 0)
        bbr3->loss_events = cc_min_u32(bbr3->loss_events + 1, BBR3_LOSS_EVENTS_MAX);
    if (!bbr3->loss_round_start)
        return;
    if (rs->ca_state == CC_CA_RECOVERY && bbr3->loss_events >= (uint64_t)params->bbr3_full_loss_count &&
        bbr3_is_too_high(bbr3, params, rs))
        bbr3_end_startup_by_excess(state);
    else
        bbr3->loss_events = 0;
}

/* ---- ECN ---- */

static inline void bbr3_check_startup_marks(struct cc_state *state, const struct cc_params *params,
                                            uint64_t marked_256th)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (state->bbr.full_bw_reached || !bbr3->ecn_eligible)
        return;
    if (marked_256th >= (uint64_t)params->bbr3_ecn_thresh_q16 / 256)
        bbr3->startup_ecn_rounds++;
    else
        bbr3->startup_ecn_rounds = 0;
    if (bbr3->startup_ecn_rounds >= BBR3_ECN_FULL_ROUNDS)
        bbr3_end_startup_by_excess(state);
}

/* alpha: the share of marked packets, smoothed over rounds (DCTCP). */
static inline void bbr3_update_alpha(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint64_t gain_256th = (uint64_t)params->bbr3_ecn_alpha_gain_q16 / 256;
    uint64_t delivered_pkts = cc_sub_sat(rs->delivered_pkts, bbr3->alpha_delivered_pkts);
    uint64_t marked_pkts = cc_min_u64(cc_sub_sat(rs->total_ce_pkts, bbr3->alpha_ce_pkts), delivered_pkts);
    uint64_t marked_256th, alpha_256th;

    if (bbr3->ecn_ok && params->bbr3_ecn_factor_q16 > 0 && state->bbr.min_rtt_us <= BBR3_ECN_MAX_RTT_US)
        bbr3->ecn_eligible = true;
    if (!bbr3->ecn_eligible || delivered_pkts == 0)
        return;
    marked_256th = cc_mul_div(marked_pkts, BBR3_ECN_ONE, delivered_pkts);
    alpha_256th = (BBR3_ECN_ONE - gain_256th) * bbr3->ecn_alpha_256th / BBR3_ECN_ONE;
    alpha_256th += gain_256th * marked_256th / BBR3_ECN_ONE;
    bbr3->ecn_alpha_256th = (uint32_t)cc_min_u64(alpha_256th, BBR3_ECN_ONE);
    bbr3->alpha_delivered_pkts = rs->delivered_pkts;
    bbr3->alpha_ce_pkts = rs->total_ce_pkts;
    bbr3_check_startup_marks(state, params, marked_256th);
}

#endif
