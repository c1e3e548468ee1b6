/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RANDOM_PROBE_RTT, of BBR-PG (Xu et al., Future Internet 2024).
 *
 *   Trand = a whole number of seconds, uniform from low to high, drawn at the start and at each ProbeRTT's end
 *
 * If the low bound exceeds the high one, they are swapped.
 */
#ifndef BBRGYM_CC_MECH_RANDOM_PROBE_RTT_H
#define BBRGYM_CC_MECH_RANDOM_PROBE_RTT_H

#include "bbr_state.h"

static inline void trand_draw(struct bbr_state *bbr, const struct cc_params *params)
{
    uint64_t a_s = (uint64_t)params->pg_trand_low_us / 1000000;
    uint64_t b_s = (uint64_t)params->pg_trand_high_us / 1000000;
    uint64_t low_s = cc_max_u64(cc_min_u64(a_s, b_s), 1);
    uint64_t high_s = cc_max_u64(cc_max_u64(a_s, b_s), low_s);

    bbr->probe_rtt_interval_us = UINT64_C(1000000) * (low_s + cc_rng_below(&bbr->trand_rng, high_s - low_s + 1));
}

#endif
