/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An algorithm's decision times 2^a, as Orca's agent acts on CUBIC (Abbasloo et al., SIGCOMM 2020).
 *
 *   cubic-scaled : window = 2^a * CUBIC's, its slow start threshold too
 *   bbr-scaled   : pacing rate = 2^a * BBR v1's
 *
 * Each event goes to the algorithm with its own values, and what it makes of them is scaled. A window that
 * the stack has set meanwhile, after a timeout or a pause, counts for the algorithm divided by 2^a.
 */
#ifndef BBRGYM_CC_SCALED_H
#define BBRGYM_CC_SCALED_H

#include "bbr.h"
#include "cubic.h"

#define SCALED_MOST_Q16 (2 * CC_Q16_ONE)

/* 2^a for a in [-2, 2]: exact for a whole number, else within 0.02 % (a cubic through both ends of each octave). */
static inline int64_t scaled_factor_q16(int64_t a_q16)
{
    int64_t up_q16 = a_q16 + SCALED_MOST_Q16;
    uint64_t above_q16 = up_q16 < 0 ? 0 : cc_min_u64((uint64_t)up_q16, 2 * SCALED_MOST_Q16);
    uint64_t x = above_q16 % CC_Q16_ONE;
    uint64_t octave_q16 = CC_Q16_ONE + (x * (45580 + (x * (14811 + (x * 5145 >> 16)) >> 16)) >> 16);

    return (int64_t)(octave_q16 << above_q16 / CC_Q16_ONE >> 2);
}

/* A window times 2^a; at least RENO_CWND_FLOOR_PKTS, if it is that itself. */
static inline uint32_t scaled_pkts(uint32_t pkts, int64_t factor_q16)
{
    if (pkts == RENO_SSTHRESH_UNSET)
        return pkts;
    return cc_max_u32(cc_clamp_to_u32(cc_scale(pkts, factor_q16)), cc_min_u32(pkts, RENO_CWND_FLOOR_PKTS));
}

/* The algorithm's own value, of which `shown` was made: another one is the stack's. */
static inline uint32_t scaled_own_pkts(uint32_t pkts, uint32_t shown_pkts, uint32_t own_pkts, int64_t factor_q16)
{
    if (pkts == shown_pkts)
        return own_pkts;
    return cc_max_u32(cc_clamp_to_u32(cc_mul_div(pkts, CC_Q16_ONE, (uint64_t)factor_q16)), 1);
}

/* Gives the algorithm its own values back. */
static inline void scaled_take(struct cc_state *state)
{
    const struct scaled_state *scaled = &state->scaled;

    if (scaled->factor_q16 == 0)
        return; /* the first event */
    if (scaled->pacing_Bps != UINT64_MAX) {
        state->pacing_Bps = scaled->pacing_Bps;
        return;
    }
    state->cwnd_pkts =
        scaled_own_pkts(state->cwnd_pkts, scaled->shown_cwnd_pkts, scaled->cwnd_pkts, scaled->factor_q16);
    state->ssthresh_pkts =
        scaled_own_pkts(state->ssthresh_pkts, scaled->shown_ssthresh_pkts, scaled->ssthresh_pkts, scaled->factor_q16);
}

static inline void scaled_give(struct cc_state *state, const struct cc_params *params)
{
    struct scaled_state *scaled = &state->scaled;

    scaled->factor_q16 = scaled_factor_q16(params->scaled_exponent_q16);
    scaled->pacing_Bps = state->pacing_Bps;
    if (state->pacing_Bps != UINT64_MAX) {
        state->pacing_Bps = bbr_bounded_pacing_Bps(&state->bbr, cc_scale(state->pacing_Bps, scaled->factor_q16));
        return;
    }
    scaled->cwnd_pkts = state->cwnd_pkts;
    scaled->ssthresh_pkts = state->ssthresh_pkts;
    state->cwnd_pkts = scaled->shown_cwnd_pkts = scaled_pkts(state->cwnd_pkts, scaled->factor_q16);
    state->ssthresh_pkts = scaled->shown_ssthresh_pkts = scaled_pkts(state->ssthresh_pkts, scaled->factor_q16);
}

/* The events of an algorithm, by `call` in its terms. */
#define SCALED(name, call, ...)                                                                                        \
    CC_APART void scaled_##name(struct cc_state *state, const struct cc_params *params __VA_OPT__(, ) __VA_ARGS__)     \
    {                                                                                                                  \
        scaled_take(state);                                                                                            \
        call;                                                                                                          \
        scaled_give(state, params);                                                                                    \
    }

SCALED(cubic_init, cubic_init(state, start), const struct cc_start *start)
SCALED(cubic_on_ack, cubic_on_ack(state, params, rs), const struct cc_sample *rs)
SCALED(cubic_reduce, cubic_reduce(state); state->cwnd_pkts = state->ssthresh_pkts) /* as the stack sets it then */
SCALED(cubic_on_rto, cubic_on_rto(state))
SCALED(cubic_on_restart, cubic_on_restart(state, now_us), uint64_t now_us)
SCALED(bbr_init, bbr_init(state, params, start), const struct cc_start *start)
SCALED(bbr_on_ack, bbr_on_ack(state, params, rs), const struct cc_sample *rs)
SCALED(bbr_on_rto, bbr_on_rto(state, params, saves, total_lost_pkts), bool saves, uint64_t total_lost_pkts)
SCALED(bbr_on_restart, bbr_on_restart(state, params, now_us, app_limited), uint64_t now_us, bool app_limited)

#undef SCALED

#endif
