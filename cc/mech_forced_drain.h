/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FORCED_DRAIN, BBQ's first cut (Ma et al., arXiv 1706.09115, section V-A), which its authors rejected.
 *
 *   probe-down lasts until in flight <= max(BDP, 4), however long: no quantisation budget, no time limit
 *
 * The flow that drains leaves room that the others take: one with a short path ends worse off than in BBR.
 */
#ifndef BBRGYM_CC_MECH_FORCED_DRAIN_H
#define BBRGYM_CC_MECH_FORCED_DRAIN_H

#include "bbr_target.h"

static inline bool forced_drain_is_over(const struct bbr_state *bbr, uint64_t in_net_pkts, uint64_t bw_Bps)
{
    uint64_t target_pkts = cc_max_u64(bbr_bdp_pkts(bbr, bw_Bps, CC_Q16_ONE), BBR_CWND_FLOOR_PKTS);

    return in_net_pkts <= target_pkts;
}

#endif
