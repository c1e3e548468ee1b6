/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PROBE_CAP, of BBQ (Ma et al., arXiv 1706.09115).
 *
 *   queue seen  = RTT >= (1 + beta) * min_rtt          evaluated on each ACK that measured an RTT
 *   probe-up with a queue ends after min(min_rtt, alpha), whatever is in flight
 *   probe-up without a queue ends as in BBR
 *
 * The paper does not say whose min_rtt the threshold uses. By default it is that of data ACKs (bbq_data_min_rtt = 1):
 * on short paths a handshake of 40-byte packets is faster than any data by more than beta.
 */
#ifndef BBRGYM_CC_MECH_PROBE_CAP_H
#define BBRGYM_CC_MECH_PROBE_CAP_H

#include "bbr_target.h"

/* `replace`: min_rtt has expired and this ACK's RTT replaces it. */
static inline void bbq_watch_queue(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs,
                                   bool replace)
{
    int64_t rtt_us = bbr_rtt_us(bbr, rs);
    uint64_t base_us, threshold_us;

    if (rtt_us < 0)
        return;
    if ((uint64_t)rtt_us <= bbr->bbq_data_min_rtt_us || replace)
        bbr->bbq_data_min_rtt_us = cc_max_u64((uint64_t)rtt_us, 1);
    base_us = params->bbq_data_min_rtt == 1 ? bbr->bbq_data_min_rtt_us : bbr->min_rtt_us;
    if (base_us == CC_RTT_UNKNOWN_US)
        return;
    threshold_us = cc_add_sat(cc_scale(base_us, CC_Q16_ONE + params->bbq_beta_q16), (uint64_t)params->bbq_slack_us);
    bbr->bbq_queue_seen = (uint64_t)rtt_us >= threshold_us;
}

/* At the probe's start: keeps the verdict for the whole probe, for bbq_latch = 1. */
static inline void bbq_start_probe(struct bbr_state *bbr) { bbr->bbq_queue_latched = bbr->bbq_queue_seen; }

static inline bool bbq_caps_probe(const struct bbr_state *bbr, const struct cc_params *params)
{
    return params->bbq_latch == 1 ? bbr->bbq_queue_latched : bbr->bbq_queue_seen;
}

static inline bool bbq_probe_is_over(const struct bbr_state *bbr, const struct cc_params *params, uint64_t elapsed_us)
{
    return elapsed_us > cc_min_u64(bbr->min_rtt_us, (uint64_t)params->bbq_alpha_us);
}

#endif
