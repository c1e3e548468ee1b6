/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random lives of every controller under ASan and UBSan: prints the number of operations, exits 1 with the
 * operation and the seed at the first broken invariant.
 *
 * usage: fuzz_cc SEED OPERATIONS
 */
#define SAMPLE_BITS 30
#include "events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(bool truth, const char *law, uint64_t seed, uint64_t operation)
{
    if (!truth) {
        fprintf(stderr, "violated: %s (seed %llu, operation %llu)\n", law, (unsigned long long)seed,
                (unsigned long long)operation);
        exit(1);
    }
}

static bool has_phase(const struct cc_state *state, const struct cc_params *params)
{
    uint32_t phase = cc_phase(state, params);

    return phase <= 2 || (8 <= phase && phase < 18);
}

/* Any value of the table's range, the ends included. */
static int64_t between(int64_t low, int64_t high) { return low + (int64_t)below((uint64_t)(high - low) + 1); }

#define TUNE_ratio(name, low, high) params->name##_q16 = between(CC_Q16(low), CC_Q16(high));
#define TUNE_us(name, low, high) params->name = between(low, high);
#define TUNE_count(name, low, high) params->name = between(low, high);
#define TUNE_mode(name, low, high) params->name = between(low, high);
#define TUNE_switch(name, low, high)

static void tune(struct cc_params *params)
{
    params->mechanisms = (uint32_t)below(CC_ALL_MECHANISMS + 1);
#define CC_TUNABLE(name, symbol, kind, def, low, high, scale, mechanism, source) TUNE_##kind(name, low, high)
#include "tunables.def"
#undef CC_TUNABLE
}

/* Whether packets are conserved on the next ACK, but no longer: on the first of a recovery (stack.def: conservation).
 */
static bool conserves_this_ack(const struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    bool is_first = state->bbr.prev_ca_state != CC_CA_RECOVERY;
    bool cuts_on_each = cc_has(params, CC_CONGESTION_DETECT) && params->acd_verdict == 1;

    return cc_stack_has(params, CC_STACK_conservation) && rs->ca_state == CC_CA_RECOVERY && (is_first || cuts_on_each);
}

/* Linux's loss-based algorithms; Westwood's window is set as a reduction ends, by an ACK that may be any. */
static bool grows_with_una(const struct cc_params *params)
{
    return params->algorithm == CC_ALGORITHM_CUBIC || params->algorithm == CC_ALGORITHM_RENO ||
           params->algorithm == CC_ALGORITHM_BIC || params->algorithm == CC_ALGORITHM_VEGAS;
}

/* Several of one flight, which must end as if each were told. Returns whether it does. */
static bool lose_flight(struct cc_state *state, const struct cc_params *params, struct cc_sample *rs)
{
    struct cc_state each = *state;
    struct cc_lost_packet lost = { 0 };
    uint32_t count = 1 + (uint32_t)below(40), left;

    lost.now_us = rs->now_us;
    lost.delivered_pkts = rs->delivered_pkts;
    lost.lost_at_send_pkts = cc_sub_sat(rs->total_lost_pkts, magnitude(6));
    lost.tx_in_flight_pkts = (uint32_t)magnitude(12);
    lost.size_pkts = 1;
    lost.is_app_limited = below(4) == 0;
    for (left = count; left > 0; left--) {
        lost.total_lost_pkts = ++rs->total_lost_pkts;
        cc_on_packet_lost(&each, params, &lost);
    }
    cc_on_packets_lost(state, params, &lost, count);
    return memcmp(&each, state, sizeof(each)) == 0;
}

int main(int argc, char **argv)
{
    struct cc_params params = { 0 };
    struct cc_state state, before;
    struct event e = { 0 };
    const struct cc_sample *rs = &e.sample;
    uint64_t seed, operations, i, una_pkts = 0;
    bool is_bbr = false, delivered_since_timeout = false, keeps_floor, conserves, may_grow;
    uint32_t floor_pkts;

    if (argc != 3) {
        fprintf(stderr, "usage: %s SEED OPERATIONS\n", argv[0]);
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    operations = strtoull(argv[2], NULL, 10);
    rng = cc_rng_make(seed, "fuzz");

    for (i = 0; i < operations; i++) {
        if (i == 0 || below(1000) == 0) {
            cc_params_init(&params, (enum cc_variant)below(CC_VARIANT_COUNT));
            params.stack = below(UINT64_C(1) << CC_STACK_COUNT);
            is_bbr = cc_is_bbr(&params);
            begin(&state, &params, &e);
            delivered_since_timeout = false;
            una_pkts = 0;
        }
        if (below(60) == 0)
            tune(&params);
        before = state;
        draw_event(&e);
        conserves = conserves_this_ack(&state, &params, rs);
        tell(&state, &params, &e);
        switch (e.kind) {
        case RTO:
            require(state.cwnd_pkts == e.in_flight_pkts + 1, "a timeout leaves in flight + 1", seed, i);
            delivered_since_timeout = false;
            break;
        case IDLE:
            require(state.cwnd_pkts <= before.cwnd_pkts, "a pause does not grow a window", seed, i);
            require(state.cwnd_pkts >= cc_min_u32(before.cwnd_pkts, state.initial_cwnd_pkts),
                    "a pause leaves the first window", seed, i);
            require(!is_bbr || state.cwnd_pkts == before.cwnd_pkts, "a pause leaves BBR's window", seed, i);
            break;
        case PACKET_LOST:
            require(lose_flight(&state, &params, &e.sample), "lost at once or one by one, the state is the same", seed,
                    i);
            break;
        case ACK:
            may_grow = (rs->una_pkts != una_pkts || rs->is_reordering) && rs->ca_state != CC_CA_CWR &&
                       rs->ca_state != CC_CA_RECOVERY;
            require(may_grow || !grows_with_una(&params) || state.cwnd_pkts <= before.cwnd_pkts,
                    "SACKs alone grow no window in order, and nothing one that is being reduced", seed, i);
            una_pkts = rs->una_pkts;
            delivered_since_timeout |= rs->acked_pkts > 0;
            keeps_floor = rs->acked_pkts > 0 && !conserves && !state.bbr.packet_conservation;
            floor_pkts = cc_is_bbr3(&params) ? (uint32_t)params.bbr3_min_cwnd : 4;
            require(!is_bbr || !keeps_floor || state.cwnd_pkts >= floor_pkts, "BBR keeps its least window", seed, i);
            break;
        default: break;
        }
        keeps_floor =
            delivered_since_timeout && cc_stack_has(&params, CC_STACK_conservation_floor) && !cc_is_bbr3(&params);
        require(!is_bbr || !keeps_floor || state.cwnd_pkts >= 4, "BBR keeps 4 packets in recovery too", seed, i);
        require(state.cwnd_pkts >= 1, "a window is never empty", seed, i);
        require(state.pacing_Bps > 0, "pacing is never zero", seed, i);
        require(is_bbr == (state.pacing_Bps != UINT64_MAX), "BBR and only BBR paces", seed, i);
        require(!is_bbr || state.bbr.cycle_index < 8, "eight phases", seed, i);
        require(has_phase(&state, &params), "a phase is one of those that worlds know", seed, i);
        require(!is_bbr || state.bbr.pacing_gain_q16 > 0, "a gain is positive", seed, i);
        require(!is_bbr || state.bbr.min_rtt_us > 0, "min_rtt is never zero", seed, i);
        require(!cc_is_bbr3(&params) || state.bbr3.up_cnt > 0, "a slope is never infinite", seed, i);
        require(!cc_is_bbr3(&params) || state.bbr3.ecn_alpha_256th <= 256, "alpha is a share", seed, i);
    }
    printf("%llu operations\n", (unsigned long long)operations);
    return 0;
}
