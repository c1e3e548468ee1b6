/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * GAIN_SCALE, of BBR-PG (Xu et al., Future Internet 2024, algorithm 1).
 *
 *   gamma           = sRTT / min_rtt, at least 1
 *   probe-up gain   = up gain * gamma^exponent       (exponent 1 as printed, -1 as its claims require)
 *   filter window   = floor(Tinterval / sRTT) + 4    rounds
 *   cruise          = six phases that together last Tinterval
 */
#ifndef BBRGYM_CC_MECH_GAIN_SCALE_H
#define BBRGYM_CC_MECH_GAIN_SCALE_H

#include "bbr_state.h"

#define PG_CRUISE_PHASES 6
#define PG_GAMMA_UNCAPPED_Q16 (64 * CC_Q16_ONE) /* the cap's upper bound means no cap, as printed */
#define PG_GAIN_MAX_Q16 ((uint64_t)1 << 40)     /* beyond any use; keeps the sign */

/* log2(x) in Q16 for x >= 1 in Q16: the integer part by shifting, each bit of the fraction by squaring. */
CC_VERIFIED_ALONE uint64_t pg_log2_q16(uint64_t x_q16)
{
    uint64_t result = 0;
    int bit;

    for (bit = 0; bit < 64 && x_q16 >= 2 * CC_Q16_ONE; bit++) {
        x_q16 >>= 1;
        result += CC_Q16_ONE;
    }
    for (bit = 15; bit >= 0; bit--) {
        x_q16 = (x_q16 * x_q16) >> 16;
        if (x_q16 >= 2 * CC_Q16_ONE) {
            x_q16 >>= 1;
            result += UINT64_C(1) << bit;
        }
    }
    return result;
}

/* 2^x in Q16 for |x| < 32 in Q16: a factor 2^(2^-k) per bit k of the fraction. */
CC_VERIFIED_ALONE uint64_t pg_exp2_q16(int64_t x_q16)
{
    static const uint32_t roots_q30[16] = { /* 2^(2^-k) * 2^30, k = 1 .. 16 */
                                            1518500249, 1276901416, 1170923761, 1121280435, 1097253708, 1085434105,
                                            1079572135, 1076653033, 1075196443, 1074468887, 1074105294, 1073923543,
                                            1073832680, 1073787251, 1073764537, 1073753180
    };
    int64_t whole = x_q16 >> 16;
    uint64_t fraction = (uint64_t)x_q16 & 0xffff;
    uint64_t result_q30 = UINT64_C(1) << 30;
    int bit;

    for (bit = 0; bit < 16; bit++)
        if (fraction & (UINT64_C(1) << (15 - bit)))
            result_q30 = (result_q30 * roots_q30[bit]) >> 30;
    if (whole >= 14)
        return result_q30 << (cc_min_u64((uint64_t)whole, 32) - 14);
    return whole < -31 ? 0 : result_q30 >> (14 - whole);
}

/* x^exponent, for x >= 1. BPF divides no signed numbers. */
static inline uint64_t pg_power_q16(uint64_t x_q16, int64_t exponent_q16)
{
    bool is_inverse = exponent_q16 < 0;
    uint64_t magnitude_q16 = (uint64_t)(is_inverse ? -exponent_q16 : exponent_q16);
    int64_t log2_q16 = (int64_t)(pg_log2_q16(x_q16) * magnitude_q16 / CC_Q16_ONE);

    return pg_exp2_q16(is_inverse ? -log2_q16 : log2_q16);
}

/* The sRTT used in gamma: at least min_rtt, at most the cap times min_rtt. */
static inline uint64_t pg_capped_srtt_us(const struct cc_params *params, const struct bbr_state *bbr)
{
    uint64_t srtt_us = cc_max_u64(bbr->srtt_us, bbr->min_rtt_us);

    if (params->pg_gamma_cap_q16 >= PG_GAMMA_UNCAPPED_Q16)
        return srtt_us;
    return cc_max_u64(cc_min_u64(srtt_us, cc_scale(bbr->min_rtt_us, params->pg_gamma_cap_q16)), bbr->min_rtt_us);
}

/* gain * gamma^exponent; exact for exponents 1, 0 and -1; never 0. */
static inline int64_t pg_scale_gain_q16(const struct cc_params *params, const struct bbr_state *bbr, int64_t gain_q16)
{
    int64_t exponent_q16 = params->pg_gain_exponent_q16;
    uint64_t min_rtt_us = bbr->min_rtt_us, srtt_us, scaled_q16;

    if (bbr->srtt_us == 0 || min_rtt_us == CC_RTT_UNKNOWN_US || gain_q16 <= 0)
        return gain_q16;
    srtt_us = pg_capped_srtt_us(params, bbr);
    if (exponent_q16 == CC_Q16_ONE) {
        scaled_q16 = cc_mul_div((uint64_t)gain_q16, srtt_us, min_rtt_us);
    } else if (exponent_q16 == -CC_Q16_ONE) {
        scaled_q16 = cc_mul_div((uint64_t)gain_q16, min_rtt_us, srtt_us);
    } else {
        uint64_t gamma_q16 = cc_mul_div(srtt_us, CC_Q16_ONE, min_rtt_us);

        scaled_q16 = cc_scale((uint64_t)gain_q16, (int64_t)pg_power_q16(gamma_q16, exponent_q16));
    }
    return (int64_t)cc_max_u64(cc_min_u64(scaled_q16, PG_GAIN_MAX_Q16), 1);
}

static inline uint64_t pg_bw_window_rounds(const struct cc_params *params, const struct bbr_state *bbr)
{
    uint64_t offset = (uint64_t)params->pg_win_offset;

    return bbr->srtt_us == 0 ? BBR_BW_WINDOW_ROUNDS : (uint64_t)params->pg_tinterval_us / bbr->srtt_us + offset;
}

/* Duration of a phase at gain 1. */
static inline uint64_t pg_cruise_phase_us(const struct cc_params *params, const struct bbr_state *bbr)
{
    return params->pg_cruise_mode == 0 ? (uint64_t)params->pg_tinterval_us / PG_CRUISE_PHASES : bbr->min_rtt_us;
}

#endif
