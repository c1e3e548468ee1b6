/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CWND_CAP, of BBR+ (Utsumi et al., 2018).
 *
 *   in PROBE_BW:  target = quantise(min(BDP(cwnd gain), alpha * bw * sRTT))
 *
 * With alpha < 1 a standing queue shrinks round by round. The quantisation budget q keeps a lone flow at
 * min(50 q, 2 BDP) instead of letting it decay.
 */
#ifndef BBRGYM_CC_MECH_CWND_CAP_H
#define BBRGYM_CC_MECH_CWND_CAP_H

#include "bbr_state.h"

#define PLUS_KERNEL_WEIGHT_Q16 8192 /* 1/8: then the connection's own sRTT is used */

static inline void plus_update_srtt(struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs)
{
    uint64_t rtt_q16_us, srtt_q16_us = bbr->plus_srtt_q16_us;

    if (rs->rtt_us < 0)
        return;
    rtt_q16_us = cc_min_u64((uint64_t)rs->rtt_us, UINT32_MAX) << 16;
    if (srtt_q16_us == 0)
        bbr->plus_srtt_q16_us = rtt_q16_us;
    else if (rtt_q16_us >= srtt_q16_us)
        bbr->plus_srtt_q16_us += cc_scale(rtt_q16_us - srtt_q16_us, params->plus_srtt_weight_q16);
    else
        bbr->plus_srtt_q16_us -= cc_scale(srtt_q16_us - rtt_q16_us, params->plus_srtt_weight_q16);
}

static inline uint64_t plus_cap_pkts(const struct bbr_state *bbr, const struct cc_params *params, uint64_t bw_Bps,
                                     uint64_t target_pkts)
{
    bool own = params->plus_srtt_weight_q16 != PLUS_KERNEL_WEIGHT_Q16;
    uint64_t srtt_us = own ? bbr->plus_srtt_q16_us >> 16 : bbr->srtt_us;

    if (srtt_us == 0)
        return target_pkts;
    return cc_min_u64(target_pkts, cc_mul_div_ceil(cc_mul_sat(bw_Bps, srtt_us), (uint64_t)params->plus_alpha_q16,
                                                   UINT64_C(1000000) * CC_Q16_ONE * bbr->mss_bytes));
}

#endif
