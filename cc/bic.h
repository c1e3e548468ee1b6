/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BIC as Linux has it (net/ipv4/tcp_bic.c, at 1000 ticks a second; Xu, Harfoush and Rhee, INFOCOM 2004).
 *
 *   slow start : Reno's
 *   avoidance  : cwnd += 1 per acks_per_pkt, so that in a round trip the window grows by
 *                a quarter of what it lacks to W_max, 16 at most   (binary search)
 *                one fifth of a packet within 4 of W_max
 *                a third of what it exceeds W_max by, 16 at most   (search for a new maximum)
 *                as Reno up to 14 packets; 5 % at least while there is no W_max
 *   loss       : W_max = cwnd, lower if it is below the previous W_max (fast convergence); cwnd *= 0.8, above 14
 * packets timeout    : forgets everything, W_max too
 *
 * acks_per_pkt is scaled by the packets that an ACK acknowledges, an average over 16 ACKs. Linux before 5.7 counts ACKs
 * with it, since then packets (stack fact bic_counts), so that BIC grows about twice as fast behind delayed ACKs. What
 * differs here: the average takes the loss state of the ACK before, so one that a timer changed in between comes late;
 * and what would overflow saturates.
 */
#ifndef BBRGYM_CC_BIC_H
#define BBRGYM_CC_BIC_H

#include "reno.h"

#define BIC_TICK_US 1000 /* Linux: 1 / CONFIG_HZ; 1000 Hz is the finest it offers */
#define BIC_PATIENCE_TICKS (1000 / 32)
#define BIC_LOW_WINDOW_PKTS 14    /* low_window */
#define BIC_MAX_INCREMENT_PKTS 16 /* max_increment */
#define BIC_SMOOTH_PART 20        /* smooth_part: round trips from W_max - 4 to W_max */
#define BIC_SEARCH 4              /* BICTCP_B: a step is this part of the distance */
#define BIC_BETA_1024 819         /* 0.8 */
#define BIC_FIRST_ACKS 20         /* without a maximum: 5 % a round trip */
#define BIC_ACK_RATIO_SHIFT 4
#define BIC_ACK_RATIO_FIRST (2 << BIC_ACK_RATIO_SHIFT)

/* Forgets the path (Linux bictcp_reset). */
static inline void bic_init(struct cc_state *state)
{
    struct bic_state fresh = { 0 };

    fresh.ack_ratio = BIC_ACK_RATIO_FIRST;
    state->bic = fresh;
}

/* Packets that an ACK acknowledges, times 16 (Linux bictcp_acked). */
static inline void bic_note_ack(struct cc_state *state, const struct cc_sample *rs)
{
    struct bic_state *bic = &state->bic;
    uint64_t cumulative_pkts = cc_sub_sat(rs->una_pkts, state->una_pkts);

    if (bic->prior_ca_state == CC_CA_OPEN)
        bic->ack_ratio = cc_clamp_to_u32(bic->ack_ratio - (bic->ack_ratio >> BIC_ACK_RATIO_SHIFT) +
                                         cc_min_u64(cumulative_pkts, UINT32_MAX));
    bic->prior_ca_state = rs->ca_state;
}

/* Packets to be acknowledged for each that the window grows by. */
static inline uint64_t bic_search_acks(uint64_t cwnd_pkts, uint64_t w_max_pkts)
{
    if (cwnd_pkts < w_max_pkts) {
        uint64_t step_pkts = (w_max_pkts - cwnd_pkts) / BIC_SEARCH;

        if (step_pkts > BIC_MAX_INCREMENT_PKTS)
            return cwnd_pkts / BIC_MAX_INCREMENT_PKTS;
        return step_pkts <= 1 ? cwnd_pkts * BIC_SMOOTH_PART / BIC_SEARCH : cwnd_pkts / step_pkts;
    }
    if (cwnd_pkts < w_max_pkts + BIC_SEARCH)
        return cwnd_pkts * BIC_SMOOTH_PART / BIC_SEARCH;
    if (cwnd_pkts < w_max_pkts + BIC_MAX_INCREMENT_PKTS * (BIC_SEARCH - 1))
        return cwnd_pkts * (BIC_SEARCH - 1) / (cwnd_pkts - w_max_pkts);
    return cwnd_pkts / BIC_MAX_INCREMENT_PKTS;
}

/* Computes acks_per_pkt for a new window, or after a 32nd of a second (Linux bictcp_update). */
static inline void bic_update(struct bic_state *bic, uint64_t now_ms, uint32_t cwnd_pkts)
{
    uint64_t acks;

    if (bic->updated_cwnd_pkts == cwnd_pkts && cc_sub_sat(now_ms, bic->updated_ms) <= BIC_PATIENCE_TICKS)
        return;
    bic->updated_cwnd_pkts = cwnd_pkts;
    bic->updated_ms = now_ms;
    if (cwnd_pkts <= BIC_LOW_WINDOW_PKTS) {
        bic->acks_per_pkt = cwnd_pkts;
        return;
    }
    acks = bic_search_acks(cwnd_pkts, bic->w_max_pkts);
    if (bic->w_max_pkts == 0)
        acks = cc_min_u64(acks, BIC_FIRST_ACKS);
    acks = (acks << BIC_ACK_RATIO_SHIFT) / cc_max_u32(bic->ack_ratio, 1);
    bic->acks_per_pkt = cc_max_u32(cc_clamp_to_u32(acks), 1);
}

static inline void bic_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    bool counts_acks = cc_stack_has(params, CC_STACK_bic_counts); /* its second value */
    uint32_t growth_pkts = reno_growth_pkts(state, params, rs);
    bool was_slow_start = state->cwnd_pkts < state->ssthresh_pkts;
    uint32_t acked_pkts;

    bic_note_ack(state, rs);
    acked_pkts = reno_slow_start(state, growth_pkts);
    if (counts_acks) /* and an ACK of slow start is slow start's alone */
        acked_pkts = growth_pkts > 0 && !was_slow_start ? 1 : 0;
    if (acked_pkts > 0) {
        bic_update(&state->bic, rs->now_us / BIC_TICK_US, state->cwnd_pkts);
        reno_avoid_congestion(state, acked_pkts, state->bic.acks_per_pkt);
    }
}

/* Linux bictcp_recalc_ssthresh. */
static inline void bic_reduce(struct cc_state *state)
{
    uint64_t cwnd = state->cwnd_pkts;
    uint64_t ssthresh = cwnd <= BIC_LOW_WINDOW_PKTS ? cwnd / 2 : cwnd * BIC_BETA_1024 / 1024;

    state->bic.w_max_pkts = (uint32_t)(cwnd < state->bic.w_max_pkts ? cwnd * (1024 + BIC_BETA_1024) / 2048 : cwnd);
    state->ssthresh_pkts = cc_max_u32((uint32_t)ssthresh, RENO_CWND_FLOOR_PKTS);
    state->reno_credit_pkts = 0;
}

static inline void bic_on_rto(struct cc_state *state)
{
    bic_init(state);
    state->bic.prior_ca_state = CC_CA_LOSS;
    state->reno_credit_pkts = 0;
}

#endif
