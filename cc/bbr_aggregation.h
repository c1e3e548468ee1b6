/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ACK aggregation (Linux bbr_update_ack_aggregation): the window grows by the largest excess, over the last five
 * to ten rounds, of packets acknowledged over packets that the bandwidth explains.
 */
#ifndef BBRGYM_CC_BBR_AGGREGATION_H
#define BBRGYM_CC_BBR_AGGREGATION_H

#include "bbr_state.h"

#define BBR_AGGREGATION_WINDOW_ROUNDS 5
#define BBR_AGGREGATION_MAX_US 100000          /* never more than 100 ms of data */
#define BBR_AGGREGATION_EPOCH_MAX_PKTS 1048576 /* 2^20: a new epoch starts */

static inline void bbr_aggregation_start_epoch(struct bbr_aggregation *a, uint64_t time_us)
{
    a->epoch_time_us = time_us;
    a->epoch_acked_pkts = 0;
}

/* At a round's start: after `window_rounds` of them the older maximum makes room for a new one. */
static inline void bbr_aggregation_turn(struct bbr_aggregation *a, bool round_start, uint32_t window_rounds)
{
    if (!round_start)
        return;
    a->age_rounds = cc_min_u32(31, a->age_rounds + 1);
    if (a->age_rounds >= window_rounds) {
        a->age_rounds = 0;
        a->slot = 1 - a->slot;
        a->extra_pkts[a->slot & 1] = 0; /* the mask is for BPF's verifier */
    }
}

/* An ACK, where the bandwidth explains `expected_pkts` since the epoch began. */
static inline void bbr_aggregation_take(struct bbr_aggregation *a, const struct cc_sample *rs, uint64_t expected_pkts,
                                        uint32_t cwnd_pkts)
{
    uint32_t *slot_pkts = &a->extra_pkts[a->slot & 1];
    uint64_t acked_pkts = (uint64_t)a->epoch_acked_pkts + rs->acked_pkts;
    uint64_t extra_pkts;

    if (a->epoch_acked_pkts <= expected_pkts || acked_pkts >= BBR_AGGREGATION_EPOCH_MAX_PKTS) {
        bbr_aggregation_start_epoch(a, rs->delivered_time_us);
        expected_pkts = 0;
        acked_pkts = rs->acked_pkts;
    }
    a->epoch_acked_pkts = (uint32_t)cc_min_u64(BBR_AGGREGATION_EPOCH_MAX_PKTS - 1, acked_pkts);
    extra_pkts = cc_min_u64(cc_sub_sat(a->epoch_acked_pkts, expected_pkts), cwnd_pkts);
    *slot_pkts = cc_max_u32(*slot_pkts, (uint32_t)extra_pkts);
}

static inline void bbr_update_aggregation(struct bbr_state *bbr, const struct cc_sample *rs, uint32_t cwnd_pkts)
{
    struct bbr_aggregation *a = &bbr->aggregation;

    if (rs->acked_pkts == 0 || rs->sample_pkts < 0 || rs->interval_us <= 0)
        return;
    bbr_aggregation_turn(a, bbr->round_start, BBR_AGGREGATION_WINDOW_ROUNDS);
    bbr_aggregation_take(a, rs, bbr_pkts_in(bbr, bbr_bw_Bps(bbr), cc_sub_sat(rs->delivered_time_us, a->epoch_time_us)),
                         cwnd_pkts);
}

static inline uint64_t bbr_aggregation_bonus_pkts(const struct bbr_state *bbr)
{
    uint32_t most = cc_max_u32(bbr->aggregation.extra_pkts[0], bbr->aggregation.extra_pkts[1]);

    if (!bbr->full_bw_reached)
        return 0;
    return cc_min_u64(most, bbr_pkts_in(bbr, bbr_bw_Bps(bbr), BBR_AGGREGATION_MAX_US));
}

#endif
