/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random lives of every controller under ASan and UBSan: prints the number of operations, exits 1 with the
 * operation and the seed at the first broken invariant.
 *
 * usage: fuzz_cc SEED OPERATIONS
 */
#include "cc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cc_rng rng;

static uint64_t below(uint64_t n) { return cc_rng_below(&rng, n); }

/* Spread over magnitudes: 2^0 .. 2^bits - 1. */
static uint64_t magnitude(unsigned bits) { return cc_rng_next(&rng) >> (64 - 1 - below(bits)); }

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

static void lose(struct cc_state *state, const struct cc_params *params, struct cc_sample *rs)
{
    struct cc_lost_packet lost = { 0 };

    lost.now_us = rs->now_us;
    lost.delivered_pkts = rs->delivered_pkts;
    lost.total_lost_pkts = ++rs->total_lost_pkts;
    lost.lost_at_send_pkts = cc_sub_sat(lost.total_lost_pkts, 1 + magnitude(20));
    lost.tx_in_flight_pkts = (uint32_t)magnitude(32);
    lost.size_pkts = 1 + (uint32_t)below(4);
    lost.is_app_limited = below(4) == 0;
    cc_on_packet_lost(state, params, &lost);
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
    struct cc_params params;
    struct cc_state state;
    struct cc_sample rs = { 0 };
    struct cc_start start = { 0 };
    uint64_t seed, operations, i;
    bool is_bbr = false, delivered_since_timeout = false, keeps_floor, conserves, may_grow;
    uint32_t cwnd_pkts, floor_pkts;

    if (argc != 3) {
        fprintf(stderr, "usage: %s SEED OPERATIONS\n", argv[0]);
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    operations = strtoull(argv[2], NULL, 10);
    rng = cc_rng_make(seed, "fuzz");

    for (i = 0; i < operations; i++) {
        uint64_t event = below(1000);

        if (i == 0 || event == 0) {
            cc_params_init(&params, (enum cc_variant)below(CC_VARIANT_COUNT));
            params.stack = below(UINT64_C(1) << CC_STACK_COUNT);
            is_bbr = cc_is_bbr(&params);
            start.now_us = rs.now_us;
            start.mss_bytes = 1 + (uint32_t)below(65000);
            start.initial_cwnd_pkts = (uint32_t)below(1000);
            start.srtt_us = magnitude(24);
            start.min_rtt_us = start.srtt_us ? start.srtt_us : CC_RTT_UNKNOWN_US;
            start.rng_seed = cc_rng_next(&rng);
            start.ecn_ok = below(2) == 0;
            cc_init(&state, &params, &start);
            rs.ca_state = CC_CA_OPEN;
            rs.una_pkts = 0;
            delivered_since_timeout = false;
        } else if (event < 20) {
            rs.ca_state = (uint8_t)below(4);
            cc_on_loss_state(&state, &params, (enum cc_ca_state)rs.ca_state, (uint32_t)magnitude(32));
        } else if (event < 30) {
            uint32_t in_flight = (uint32_t)magnitude(20);

            rs.ca_state = CC_CA_LOSS;
            cc_on_rto(&state, &params, magnitude(1) != 0, (uint32_t)magnitude(32), in_flight, rs.total_lost_pkts);
            require(state.cwnd_pkts == in_flight + 1, "a timeout leaves in flight + 1", seed, i);
            delivered_since_timeout = false;
        } else if (event < 35) {
            cwnd_pkts = state.cwnd_pkts;
            cc_on_idle(&state, &params, magnitude(34), magnitude(30));
            require(state.cwnd_pkts <= cwnd_pkts, "a pause does not grow a window", seed, i);
            require(state.cwnd_pkts >= cc_min_u32(cwnd_pkts, state.initial_cwnd_pkts),
                    "a pause leaves the first window", seed, i);
            require(!is_bbr || state.cwnd_pkts == cwnd_pkts, "a pause leaves BBR's window", seed, i);
        } else if (event < 40) {
            rs.now_us += magnitude(34);
            cc_on_restart(&state, &params, rs.now_us, below(2) == 0);
        } else if (event < 45) {
            cc_on_undo(&state, &params);
        } else if (event < 48) {
            cc_on_probe_repair(&state, &params, rs.now_us, rs.delivered_pkts, below(2) == 0);
        } else if (event < 100) {
            lose(&state, &params, &rs);
            require(lose_flight(&state, &params, &rs), "lost at once or one by one, the state is the same", seed, i);
        } else if (event < 115) {
            tune(&params);
        } else {
            rs.now_us += magnitude(24);
            rs.delivered_time_us = rs.now_us;
            rs.acked_pkts = below(8) == 0 ? 0 : (uint32_t)magnitude(below(50) == 0 ? 32 : 20);
            rs.lost_pkts = below(4) == 0 ? (uint32_t)magnitude(20) : 0;
            rs.total_lost_pkts += rs.lost_pkts;
            rs.prior_delivered_pkts = cc_sub_sat(rs.delivered_pkts, magnitude(20));
            rs.delivered_pkts += rs.acked_pkts;
            rs.sample_pkts = below(10) == 0 ? -1 : (int64_t)magnitude(32);
            rs.interval_us = below(10) == 0 ? -1 : (int64_t)magnitude(25);
            rs.rtt_us = below(4) == 0 ? -1 : (int64_t)magnitude(25);
            rs.srtt_us = magnitude(25);
            rs.min_rtt_us = magnitude(25);
            rs.prior_in_flight_pkts = (uint32_t)magnitude(32);
            rs.in_flight_pkts = (uint32_t)magnitude(32);
            rs.departure_wait_us = below(2) == 0 ? 0 : (uint32_t)magnitude(32);
            rs.is_app_limited = below(4) == 0;
            rs.is_ack_delayed = below(4) == 0;
            rs.is_cwnd_limited = below(2) == 0;
            rs.is_reordering = below(4) == 0;
            rs.tx_in_flight_pkts = (uint32_t)magnitude(below(8) == 0 ? 32 : 20);
            rs.lost_since_pkts = below(4) == 0 ? (uint32_t)magnitude(20) : 0;
            rs.delivered_ce_pkts = below(4) == 0 ? (uint32_t)magnitude(20) : 0;
            rs.total_ce_pkts += below(4) == 0 ? rs.acked_pkts : 0;
            rs.is_ece = below(4) == 0;
            rs.is_acking_tlp = below(50) == 0;
            may_grow = below(2) == 0 || !grows_with_una(&params);
            rs.una_pkts += may_grow ? 1 + magnitude(20) : 0;
            rs.next_pkts = rs.una_pkts + magnitude(20);
            may_grow = (may_grow || rs.is_reordering) && rs.ca_state != CC_CA_CWR && rs.ca_state != CC_CA_RECOVERY;
            cwnd_pkts = state.cwnd_pkts;
            conserves = conserves_this_ack(&state, &params, &rs);
            cc_on_ack(&state, &params, &rs);
            require(may_grow || !grows_with_una(&params) || state.cwnd_pkts <= cwnd_pkts,
                    "SACKs alone grow no window in order, and nothing one that is being reduced", seed, i);
            delivered_since_timeout |= rs.acked_pkts > 0;
            keeps_floor = rs.acked_pkts > 0 && !conserves && !state.bbr.packet_conservation;
            floor_pkts = cc_is_bbr3(&params) ? (uint32_t)params.bbr3_min_cwnd : 4;
            require(!is_bbr || !keeps_floor || state.cwnd_pkts >= floor_pkts, "BBR keeps its least window", seed, i);
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
