/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Detection of token-bucket policers: two intervals in a row with the same throughput, each losing a fifth of its
 * packets (Linux bbr_lt_bw_sampling).
 *
 *            loss                 4 to 16 rounds, loss >= 19.5 %, same rate as before
 *   idle ---------> sampling --------------------------------------------------> in use
 *    ^                 | application-limited, or more than 16 rounds                |
 *    +-----------------+<-----------------------------------------------------------+ 48 rounds of PROBE_BW
 */
#ifndef BBRGYM_CC_BBR_POLICER_H
#define BBRGYM_CC_BBR_POLICER_H

#include "bbr_state.h"

#define BBR_LT_MIN_ROUNDS 4
#define BBR_LT_MAX_ROUNDS 16
#define BBR_LT_LOSS_256TH 50 /* 19.5 % */
#define BBR_LT_SAME_RATIO 8  /* rates within 1/8 ... */
#define BBR_LT_SAME_Bps 500  /* ... or 4 kbit/s are the same */
#define BBR_LT_MAX_USE_ROUNDS 48

static inline void bbr_policer_start_interval(struct bbr_policer *lt, const struct cc_sample *rs)
{
    lt->last_time_ms = rs->delivered_time_us / 1000;
    lt->last_delivered_pkts = rs->delivered_pkts;
    lt->last_lost_pkts = rs->total_lost_pkts;
    lt->rounds = 0;
}

static inline void bbr_policer_reset(struct bbr_policer *lt)
{
    struct bbr_policer none = { 0 };

    none.holds_gain = lt->holds_gain;
    *lt = none;
}

/* Uses the rate of an interval that ended if the one before had the same. */
static inline void bbr_policer_interval_done(struct bbr_state *bbr, const struct cc_sample *rs, uint64_t bw_Bps)
{
    struct bbr_policer *lt = &bbr->policer;
    uint64_t difference_Bps = bw_Bps > lt->bw_Bps ? bw_Bps - lt->bw_Bps : lt->bw_Bps - bw_Bps;
    uint64_t paced_Bps = bbr_paced_Bps(bbr, difference_Bps, CC_Q16_ONE);

    if (lt->bw_Bps != 0 && (difference_Bps <= lt->bw_Bps / BBR_LT_SAME_RATIO || paced_Bps <= BBR_LT_SAME_Bps)) {
        lt->bw_Bps = difference_Bps / 2 + cc_min_u64(bw_Bps, lt->bw_Bps);
        lt->in_use = true;
        lt->holds_gain = bbr_has(bbr, CC_STACK_gains_by_event);
        lt->rounds = 0;
        bbr->pacing_gain_q16 = CC_Q16_ONE;
        return;
    }
    lt->bw_Bps = bw_Bps;
    bbr_policer_start_interval(lt, rs);
}

/* Returns true when the estimate has expired and the gain cycle restarts. */
static inline bool bbr_policer_update(struct bbr_state *bbr, const struct cc_sample *rs)
{
    struct bbr_policer *lt = &bbr->policer;
    uint64_t lost_pkts, delivered_pkts, now_ms, time_ms;

    if (lt->in_use) {
        if (bbr->mode == BBR_PROBE_BW && bbr->round_start && ++lt->rounds >= BBR_LT_MAX_USE_ROUNDS) {
            bbr_policer_reset(lt);
            return true;
        }
        return false;
    }
    if (!lt->is_sampling) {
        if (rs->lost_pkts == 0)
            return false;
        bbr_policer_start_interval(lt, rs);
        lt->is_sampling = true;
    }
    if (rs->is_app_limited) {
        bbr_policer_reset(lt);
        return false;
    }
    if (bbr->round_start)
        lt->rounds++;
    if (lt->rounds < BBR_LT_MIN_ROUNDS)
        return false;
    if (lt->rounds > BBR_LT_MAX_ROUNDS) {
        bbr_policer_reset(lt);
        return false;
    }
    /* An interval ends with a loss: the policer has run out of tokens. */
    if (rs->lost_pkts == 0)
        return false;
    lost_pkts = cc_sub_sat(rs->total_lost_pkts, lt->last_lost_pkts);
    delivered_pkts = cc_sub_sat(rs->delivered_pkts, lt->last_delivered_pkts);
    if (delivered_pkts == 0 || cc_mul_sat(lost_pkts, 256) < cc_mul_sat(BBR_LT_LOSS_256TH, delivered_pkts))
        return false;
    now_ms = rs->delivered_time_us / 1000;
    time_ms = cc_sub_sat(now_ms, lt->last_time_ms);
    if (time_ms < 1)
        return false;
    if (time_ms >= UINT32_MAX / 1000) {
        bbr_policer_reset(lt);
        return false;
    }
    bbr_policer_interval_done(bbr, rs, bbr_rate_Bps(bbr, delivered_pkts, time_ms * 1000));
    return false;
}

#endif
