/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's states.
 *
 *   STARTUP --plateau, loss or marks--> DRAIN --in flight <= BDP--> PROBE_BW <---> PROBE_RTT
 *
 *   PROBE_BW   DOWN    --in flight <= BDP and room left--> CRUISE
 *              CRUISE  --2 to 3 s, or as long as Reno would wait--> REFILL     (DOWN too)
 *              REFILL  --a round--> UP
 *              UP      --plateau, inflight_hi reached again, loss or marks--> DOWN
 *
 *   PROBE_RTT  every 5 s without a smaller RTT: half a BDP for 200 ms and a round
 */
#ifndef BBRGYM_CC_BBR3_PHASES_H
#define BBRGYM_CC_BBR3_PHASES_H

#include "bbr3_model.h"
#include "mech_probe_cap.h"
#include "mech_random_probe_rtt.h"

/* ---- the starts of PROBE_BW's phases ---- */

/* Draft, 5.3.3.3: forget the lower bounds, and fill the pipe for a round without a queue. */
static inline void bbr3_start_refill(struct cc_state *state, uint32_t up_rounds)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3_reset_lower_bounds(bbr3);
    bbr3->up_rounds = up_rounds;
    bbr3->up_acks = 0;
    bbr3->stopped_risky_probe = false;
    bbr3->ack_phase = BBR3_ACKS_REFILLING;
    bbr3_start_round(state, state->bbr.delivered_pkts);
    state->bbr.cycle_index = BBR3_REFILL;
}

/* Draft, 5.3.3.5: each round of UP inflight_hi grows twice as fast. */
static inline void bbr3_raise_slope(struct cc_state *state)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t growth_pkts = UINT32_C(1) << (bbr3->up_rounds & 31); /* the mask is for BPF's verifier */

    bbr3->up_rounds = cc_min_u32(bbr3->up_rounds + 1, BBR3_UP_ROUNDS_MAX);
    bbr3->up_cnt = cc_max_u32(state->cwnd_pkts / growth_pkts, 1);
}

/* Draft, 5.3.3.4: probe for more bandwidth, above the bandwidth known. */
static inline void bbr3_start_up(struct cc_state *state)
{
    state->bbr3.ack_phase = BBR3_ACKS_PROBE_STARTING;
    bbr3_start_round(state, state->bbr.delivered_pkts);
    state->bbr.cycle_time_us = state->bbr3.now_us;
    if (!state->bbr3.is_v2)
        bbr3_reset_full_bw(state, state->bbr3.sample_q24);
    state->bbr.cycle_index = BBR3_UP;
    bbq_start_probe(&state->bbr);
    bbr3_raise_slope(state);
}

/* Draft, 5.3.3.8.3: when to probe next: at random, so that flows do not probe in step. */
static inline void bbr3_pick_probe_wait(struct cc_state *state, const struct cc_params *params)
{
    uint64_t random_us = cc_max_u64((uint64_t)params->bbr3_probe_wait_random_us, 1);

    state->bbr3.rounds_since_probe = (uint32_t)cc_rng_below(&state->bbr.phase_rng, BBR3_PROBE_ROUNDS);
    state->bbr3.probe_wait_us = (uint64_t)params->bbr3_probe_wait_us + cc_rng_below(&state->bbr.phase_rng, random_us);
}

/* Draft, 5.3.3.1: drain the queue of the probe, and yield room to other flows. */
static inline void bbr3_start_down(struct cc_state *state, const struct cc_params *params)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3_reset_congestion_signals(bbr3);
    bbr3->up_cnt = UINT32_MAX;
    bbr3_pick_probe_wait(state, params);
    state->bbr.cycle_time_us = bbr3->now_us;
    bbr3->ack_phase = BBR3_ACKS_PROBE_STOPPING;
    bbr3_start_round(state, state->bbr.delivered_pkts);
    bbr3->is_first_down = false;
    state->bbr.cycle_index = BBR3_DOWN;
}

/* Draft, 5.3.3.2: stay in flight below what the last probe found, so that others find room. */
static inline void bbr3_start_cruise(struct cc_state *state)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (bbr3->inflight_lo_pkts != BBR3_UNSET_PKTS)
        bbr3->inflight_lo_pkts = cc_min_u32(bbr3->inflight_lo_pkts, bbr3->inflight_hi_pkts);
    state->bbr.cycle_index = BBR3_CRUISE;
}

/* ---- upper bounds ---- */

/* Draft, 5.5.10.2, once a probe. An application that sent too little has not shown how much would be too much. */
static inline void bbr3_handle_too_high(struct cc_state *state, const struct cc_params *params,
                                        uint32_t tx_in_flight_pkts, bool is_app_limited)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3->prev_probe_too_high = true;
    bbr3->bw_probe_samples = false;
    if (!is_app_limited) {
        uint64_t least_pkts = cc_scale(bbr3_target_inflight_pkts(state), CC_Q16_ONE - params->bbr3_beta_q16);

        bbr3->inflight_hi_pkts = cc_max_u32(tx_in_flight_pkts, (uint32_t)least_pkts);
    }
    if (bbr3_is_in(&state->bbr, BBR3_UP)) {
        bbr3->undo_up = true;
        bbr3_start_down(state, params);
    }
}

/* Whether inflight_hi holds the sender back, and the delivery rate with it. */
static inline bool bbr3_is_at_inflight_hi(const struct cc_state *state, const struct cc_sample *rs)
{
    return rs->is_cwnd_limited && state->cwnd_pkts >= state->bbr3.inflight_hi_pkts;
}

/* Draft, 5.3.3.9: inflight_hi grows by a packet per up_cnt acknowledged, exponentially from round to round. */
static inline void bbr3_probe_upward(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint64_t acks = (uint64_t)bbr3->up_acks + rs->acked_pkts;
    uint32_t cnt = cc_max_u32(bbr3->up_cnt, 1);

    if (!bbr3_is_at_inflight_hi(state, rs)) {
        if (bbr3->is_v2)
            bbr3->up_acks = 0;
        return;
    }
    bbr3->inflight_hi_pkts = cc_clamp_to_u32(bbr3->inflight_hi_pkts + acks / cnt);
    bbr3->up_acks = (uint32_t)(acks % cnt);
    if (state->bbr.round_start)
        bbr3_raise_slope(state);
}

/* Draft, 5.3.3.9: a round after a probe its last packets are acknowledged. Returns whether the probe goes on. */
static inline bool bbr3_end_probe_samples(struct cc_state *state, const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    bbr3->bw_probe_samples = false;
    bbr3->ack_phase = BBR3_ACKS_INIT;
    if (state->bbr.mode != BBR_PROBE_BW)
        return false;
    if (!rs->is_app_limited)
        bbr3_advance_max_bw(bbr3);
    if (!bbr3->stopped_risky_probe || bbr3->prev_probe_too_high)
        return false;
    bbr3_start_refill(state, 0); /* inflight_hi was reached and all went well: probe beyond it */
    return true;
}

/* Returns whether a new phase began that leaves no more to decide. */
static inline bool bbr3_adapt_upper_bounds(struct cc_state *state, const struct cc_params *params,
                                           const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;

    if (bbr3->ack_phase == BBR3_ACKS_PROBE_STARTING && state->bbr.round_start)
        bbr3->ack_phase = BBR3_ACKS_PROBE_FEEDBACK;
    if (bbr3->ack_phase == BBR3_ACKS_PROBE_STOPPING && state->bbr.round_start && bbr3_end_probe_samples(state, rs))
        return true;
    if (bbr3_is_too_high(bbr3, params, rs)) {
        if (bbr3->bw_probe_samples && !bbr_has(&state->bbr, CC_STACK_bbr3_excess))
            bbr3_handle_too_high(state, params, rs->tx_in_flight_pkts, rs->is_app_limited);
    } else if (bbr3->inflight_hi_pkts != BBR3_UNSET_PKTS) {
        bbr3->inflight_hi_pkts = cc_max_u32(bbr3->inflight_hi_pkts, rs->tx_in_flight_pkts);
        if (bbr3_is_in(&state->bbr, BBR3_UP))
            bbr3_probe_upward(state, rs);
    }
    return false;
}

/* ---- PROBE_BW ---- */

/* The slope, as rounds of doubling, that begins at half of inflight_hi. */
static inline uint32_t bbr3_reprobe_rounds(const struct bbr3_state *bbr3)
{
    uint32_t pkts = cc_max_u32(bbr3->inflight_hi_pkts >> BBR3_ECN_REPROBE_SHIFT, 1);

    return cc_min_u32(63 - cc_leading_zeros(pkts), BBR3_UP_ROUNDS_MAX);
}

/* Draft, 5.3.3.8.3: the wait is over, or Reno would have probed by now; beside it, marks without losses ceased. */
static inline bool bbr3_check_time_to_probe(struct cc_state *state, const struct cc_params *params,
                                            const struct cc_sample *rs)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint32_t rounds = cc_min_u32((uint32_t)params->bbr3_max_probe_rounds, bbr3_target_inflight_pkts(state));

    if (bbr3->ecn_eligible && bbr3->ecn_in_cycle && !bbr3->loss_in_cycle && rs->ca_state == CC_CA_OPEN) {
        bbr3_start_refill(state, bbr3_reprobe_rounds(bbr3));
        return true;
    }
    if (bbr3->now_us > cc_add_sat(state->bbr.cycle_time_us, bbr3->probe_wait_us) ||
        bbr3->rounds_since_probe >= rounds) {
        bbr3_start_refill(state, 0);
        return true;
    }
    return false;
}

/* v2's UP: a round trip at least, and a queue of a quarter of a BDP. */
static inline bool bbr3_has_queue(const struct cc_state *state, uint64_t in_net_pkts, uint64_t elapsed_us)
{
    uint64_t bdp_pkts = bbr3_bdp_pkts(state, bbr3_max_bw_q24(&state->bbr3), BBR3_V2_QUEUE_GAIN_Q16);

    return elapsed_us > state->bbr.min_rtt_us && in_net_pkts >= bbr3_quantize_pkts(state, bdp_pkts);
}

/*
 * In UP: the last probe found inflight_hi too high and it is reached again, or a plateau. PROBE_CAP ends a probe that
 * sees a queue by time as well, since bbr3 waits for three rounds of a plateau and the queue grows until then.
 */
static inline bool bbr3_probe_is_over(struct cc_state *state, const struct cc_params *params,
                                      const struct cc_sample *rs, uint64_t in_net_pkts)
{
    struct bbr3_state *bbr3 = &state->bbr3;
    uint64_t elapsed_us = cc_sub_sat(bbr3->now_us, state->bbr.cycle_time_us);

    if (bbr3->prev_probe_too_high && in_net_pkts >= bbr3->inflight_hi_pkts) {
        bbr3->stopped_risky_probe = true;
        return true;
    }
    if (cc_has(params, CC_PROBE_CAP) && bbq_caps_probe(&state->bbr, params) &&
        bbq_probe_is_over(&state->bbr, params, elapsed_us))
        return true;
    if (bbr3->is_v2)
        return bbr3_has_queue(state, in_net_pkts, elapsed_us);
    if (bbr3_is_at_inflight_hi(state, rs)) {
        bbr3_reset_full_bw(state, bbr3->sample_q24);
        return false;
    }
    return bbr3->full_bw_now;
}

/* Draft, 5.3.3.1: leave DOWN once the headroom is free and no queue is left. */
static inline bool bbr3_is_time_to_cruise(const struct cc_state *state, const struct cc_params *params,
                                          uint64_t in_net_pkts)
{
    return in_net_pkts <= bbr3_headroom_level_pkts(&state->bbr3, params) &&
           in_net_pkts <= bbr3_inflight_pkts(state, bbr3_max_bw_q24(&state->bbr3));
}

/* Draft, 5.3.3.9: the cycle DOWN, CRUISE, REFILL, UP. */
static inline void bbr3_update_phase(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t in_net_pkts;

    if (!bbr->full_bw_reached || bbr3_adapt_upper_bounds(state, params, rs) || bbr->mode != BBR_PROBE_BW)
        return;
    in_net_pkts = bbr3_in_net_pkts(state, rs, rs->prior_in_flight_pkts);
    switch (bbr->cycle_index) {
    case BBR3_CRUISE: bbr3_check_time_to_probe(state, params, rs); break;
    case BBR3_REFILL:
        if (bbr->round_start) {
            state->bbr3.bw_probe_samples = true;
            bbr3_start_up(state);
        }
        break;
    case BBR3_UP:
        if (bbr3_probe_is_over(state, params, rs, in_net_pkts)) {
            state->bbr3.prev_probe_too_high = false;
            bbr3_start_down(state, params);
        }
        break;
    default:
        if (!bbr3_check_time_to_probe(state, params, rs) && bbr3_is_time_to_cruise(state, params, in_net_pkts))
            bbr3_start_cruise(state);
        break;
    }
}

/* ---- STARTUP, DRAIN ---- */

/* Draft, 5.3.2: drain what STARTUP queued until in flight is at most a BDP. */
static inline void bbr3_check_drain(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    uint64_t full_pkts;
    bool lasts;

    if (bbr->mode == BBR_STARTUP && bbr->full_bw_reached) {
        bbr->mode = BBR_DRAIN;
        state->bbr3.drain_start_round = bbr->round_count;
        state->ssthresh_pkts = cc_clamp_to_u32(bbr3_inflight_pkts(state, bbr3_max_bw_q24(&state->bbr3)));
        bbr3_reset_congestion_signals(&state->bbr3);
    }
    if (bbr->mode != BBR_DRAIN)
        return;
    if (bbr_has(bbr, CC_STACK_bbr3_after_startup)) {
        bbr->mode = BBR_PROBE_BW;
        bbr3_start_down(state, params);
        state->bbr3.is_first_down = true;
        return;
    }
    full_pkts = bbr3_inflight_pkts(state, bbr3_max_bw_q24(&state->bbr3));
    lasts = bbr->round_count > state->bbr3.drain_start_round + BBR3_DRAIN_ROUNDS;
    if (bbr3_in_net_pkts(state, rs, rs->in_flight_pkts) <= full_pkts ||
        (lasts && bbr_has(bbr, CC_STACK_bbr3_drain_rounds))) {
        bbr->mode = BBR_PROBE_BW;
        bbr3_start_down(state, params);
    }
}

/* ---- min_rtt, PROBE_RTT ---- */

/* Draft, 5.3.4.4: back to CRUISE, or to STARTUP if the pipe was not full; the short-term bounds are forgotten. */
static inline void bbr3_exit_probe_rtt(struct cc_state *state, const struct cc_params *params)
{
    struct bbr_state *bbr = &state->bbr;

    state->bbr3.probe_rtt_min_stamp_us = state->bbr3.now_us;
    state->cwnd_pkts = cc_max_u32(state->cwnd_pkts, bbr->prior_cwnd_pkts);
    bbr3_reset_lower_bounds(&state->bbr3);
    if (bbr->full_bw_reached) {
        bbr->mode = BBR_PROBE_BW;
        bbr3_start_down(state, params);
        bbr3_start_cruise(state);
    } else {
        bbr->mode = BBR_STARTUP;
    }
    if (cc_has(params, CC_RANDOM_PROBE_RTT))
        trand_draw(bbr, params);
}

/* Draft, 5.3.4.3: PROBE_RTT is over after 200 ms and a round at the small window. */
static inline void bbr3_check_probe_rtt_done(struct cc_state *state, const struct cc_params *params)
{
    if (state->bbr.probe_rtt_done_us != 0 && state->bbr3.now_us > state->bbr.probe_rtt_done_us)
        bbr3_exit_probe_rtt(state, params);
}

/* Draft, 5.3.4.3: the samples are application-limited; the 200 ms begin once in flight has fallen to the window. */
static inline void bbr3_stay_in_probe_rtt(struct cc_state *state, const struct cc_params *params,
                                          const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;

    state->mark_app_limited = true;
    if (bbr->probe_rtt_done_us == 0) {
        if (rs->in_flight_pkts <= bbr3_probe_rtt_cwnd_pkts(state, params)) {
            bbr->probe_rtt_done_us = rs->now_us + (uint64_t)params->bbr3_probe_rtt_time_us;
            bbr->probe_rtt_round_done = false;
            bbr3_start_round(state, rs->delivered_pkts);
        }
        return;
    }
    bbr->probe_rtt_round_done |= bbr->round_start;
    if (bbr->probe_rtt_round_done)
        bbr3_check_probe_rtt_done(state, params);
}

/* Draft, 5.3.4.3: probe if 5 s brought no smaller RTT. */
static inline uint64_t bbr3_probe_rtt_interval_us(struct cc_state *state, const struct cc_params *params)
{
    if (!cc_has(params, CC_RANDOM_PROBE_RTT))
        return (uint64_t)params->bbr3_probe_rtt_interval_us;
    if (state->bbr.probe_rtt_interval_us == 0)
        trand_draw(&state->bbr, params);
    return state->bbr.probe_rtt_interval_us;
}

/* Draft, 5.3.4.3: two minima: since the last PROBE_RTT, which decides when the next is due, and of ten seconds. */
static inline void bbr3_update_min_rtt(struct cc_state *state, const struct cc_params *params,
                                       const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    struct bbr3_state *bbr3 = &state->bbr3;
    bool expired = rs->now_us > cc_add_sat(bbr3->probe_rtt_min_stamp_us, bbr3_probe_rtt_interval_us(state, params));
    uint64_t below_us = cc_add_sat(bbr3->probe_rtt_min_us, bbr3->is_v2); /* v2 takes an equal one too */
    bool replace = expired && !rs->is_ack_delayed;
    bool enters = expired && !bbr->idle_restart && bbr->mode != BBR_PROBE_RTT;

    if (enters)
        bbr3->probe_rtt_cwnd_pkts = bbr3_probe_rtt_target_pkts(state, params);
    if (rs->rtt_us >= 0 && ((uint64_t)rs->rtt_us < below_us || replace)) {
        bbr3->probe_rtt_min_us = cc_max_u64((uint64_t)rs->rtt_us, 1);
        bbr3->probe_rtt_min_stamp_us = rs->now_us;
    }
    if (bbr3->probe_rtt_min_us <= bbr->min_rtt_us ||
        rs->now_us > cc_add_sat(bbr->min_rtt_stamp_us, (uint64_t)params->bbr3_min_rtt_window_us)) {
        bbr->min_rtt_us = bbr3->probe_rtt_min_us;
        bbr->min_rtt_stamp_us = bbr3->probe_rtt_min_stamp_us;
    }
    if (cc_has(params, CC_PROBE_CAP))
        bbq_watch_queue(bbr, params, rs, replace);
    if (enters) {
        bbr->mode = BBR_PROBE_RTT;
        bbr_save_cwnd(bbr, state->cwnd_pkts);
        bbr->probe_rtt_done_us = 0;
        bbr3->ack_phase = BBR3_ACKS_PROBE_STOPPING;
        bbr3_start_round(state, rs->delivered_pkts);
    }
    if (bbr->mode == BBR_PROBE_RTT)
        bbr3_stay_in_probe_rtt(state, params, rs);
    if (rs->sample_pkts > 0)
        bbr->idle_restart = false;
}

#endif
