/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * HyStart, which ends CUBIC's slow start before a loss does (Ha and Rhee, 2008; Linux tcp_cubic.c, hystart_update).
 *
 *   round = one window of packets, from the first ACK on (hystart_rounds); in each, once cwnd >= 16:
 *   ACK train : ACKs each at most 2 ms after the one before, for longer than min_delay / 2     -> ssthresh = cwnd
 *               (a paced sender: min_delay; both after a cushion for bursts of TSO and GRO)
 *   delay     : smallest RTT of the round's first 9 > min_delay + min_delay / 8 (4 to 16 ms)   -> ssthresh = cwnd
 *
 * Linux counts its rounds in sequence numbers, here they are packets delivered: the same while nothing is lost. After a
 * timeout a round begins with the first RTT measured, in Linux when all that had left by then is acknowledged: the same
 * where that was lost, because what is sent again measures no RTT.
 */
#ifndef BBRGYM_CC_CUBIC_HYSTART_H
#define BBRGYM_CC_CUBIC_HYSTART_H

#include "reno.h"

#define CUBIC_HYSTART_LOW_WINDOW_PKTS 16
#define CUBIC_HYSTART_TRAIN_GAP_US 2000 /* longer: the train of ACKs has ended */
#define CUBIC_HYSTART_RTTS 8            /* RTTs of a round before its smallest counts */
#define CUBIC_HYSTART_DELAY_MIN_US 4000 /* an RTT this much above the smallest may be noise */
#define CUBIC_HYSTART_DELAY_MAX_US 16000
#define CUBIC_HYSTART_CUSHION_MAX_US 1000
#define CUBIC_HYSTART_CUSHION_BURSTS 4

static inline void hystart_start_round(struct cubic_hystart *hystart, const struct cc_sample *rs)
{
    hystart->round_start_us = rs->now_us;
    hystart->train_us = rs->now_us;
    hystart->round_end_pkts = cc_add_sat(rs->delivered_pkts, rs->in_flight_pkts);
    hystart->round_rtt_us = CC_RTT_UNKNOWN_US;
    hystart->rtt_count = 0;
}

/* Time of four largest bursts at the rate that Linux allots to the window (tcp_update_pacing_rate). */
static inline uint64_t hystart_cushion_us(const struct cc_state *state, const struct cc_sample *rs)
{
    uint64_t percent = state->cwnd_pkts < state->ssthresh_pkts / 2 ? 200 : 120;
    uint64_t window_bytes = (uint64_t)state->cubic.mss_bytes * state->cwnd_pkts;
    uint64_t rate_Bps;

    if (rs->srtt_us == 0)
        return 0;
    rate_Bps = cc_mul_div(window_bytes, percent * 1000000, cc_mul_sat(rs->srtt_us, 100));
    if (rate_Bps == 0)
        return 0;
    return cc_min_u64(CUBIC_HYSTART_CUSHION_BURSTS * CC_GSO_MAX_BYTES * UINT64_C(1000000) / rate_Bps,
                      CUBIC_HYSTART_CUSHION_MAX_US);
}

/* ACKs have kept coming for as long as a window takes that fills the path. */
static inline bool hystart_train_is_long(struct cc_state *state, const struct cc_sample *rs)
{
    struct cubic_hystart *hystart = &state->cubic.hystart;
    bool is_paced = state->pacing_Bps != UINT64_MAX;
    uint64_t threshold_us;

    if (cc_sub_sat(rs->now_us, hystart->train_us) > CUBIC_HYSTART_TRAIN_GAP_US)
        return false;
    hystart->train_us = rs->now_us;
    threshold_us = cc_add_sat(state->cubic.min_delay_us, hystart_cushion_us(state, rs));
    return cc_sub_sat(rs->now_us, hystart->round_start_us) > (is_paced ? threshold_us : threshold_us / 2);
}

/* The round's RTTs have grown beyond noise. */
static inline bool hystart_delay_is_up(struct cubic_state *cubic, uint64_t rtt_us)
{
    struct cubic_hystart *hystart = &cubic->hystart;
    uint64_t noise_us =
        cc_max_u64(cc_min_u64(cubic->min_delay_us / 8, CUBIC_HYSTART_DELAY_MAX_US), CUBIC_HYSTART_DELAY_MIN_US);

    hystart->round_rtt_us = cc_min_u64(hystart->round_rtt_us, rtt_us);
    if (hystart->rtt_count < CUBIC_HYSTART_RTTS) {
        hystart->rtt_count++;
        return false;
    }
    return hystart->round_rtt_us > cc_add_sat(cubic->min_delay_us, noise_us);
}

/* One RTT of slow start. */
static inline void hystart_on_rtt(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs,
                                  uint64_t rtt_us)
{
    struct cubic_hystart *hystart = &state->cubic.hystart;
    bool is_small = state->cwnd_pkts < CUBIC_HYSTART_LOW_WINDOW_PKTS;
    bool train_is_long, delay_is_up;

    if (is_small && !cc_stack_has(params, CC_STACK_hystart_rounds))
        return;
    if (rs->delivered_pkts > hystart->round_end_pkts)
        hystart_start_round(hystart, rs);
    if (is_small)
        return;
    train_is_long = hystart_train_is_long(state, rs);
    delay_is_up = hystart_delay_is_up(&state->cubic, rtt_us);
    if (train_is_long || delay_is_up) {
        hystart->found = true;
        state->ssthresh_pkts = state->cwnd_pkts;
    }
}

#endif
