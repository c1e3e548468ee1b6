/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints what the arithmetic of cc/ gives for the golden cases, a "name value" line each; test_golden.py knows
 * what each must be. The state is set by hand, which a caller of the library cannot do.
 */
#include "cc.h"

#include <stdio.h>

#define MSS 1448

static struct cc_state at(enum cc_variant variant, struct cc_params *params, double bw_Mbps, uint64_t min_rtt_us,
                          uint64_t srtt_us, unsigned phase)
{
    struct cc_start start = {0};
    struct cc_state state;

    cc_params_init(params, variant);
    start.srtt_us = srtt_us;
    start.min_rtt_us = min_rtt_us;
    start.mss_bytes = MSS;
    start.initial_cwnd_pkts = 10;
    cc_init(&state, params, &start);
    state.bbr.mode = BBR_PROBE_BW;
    state.bbr.cycle_index = phase;
    state.bbr.full_bw_reached = true;
    cc_max_filter_reset(&state.bbr.bw_filter, 0, (uint64_t)(bw_Mbps * 125000));
    bbr_update_gains(&state.bbr, params);
    bbr_set_pacing(&state, bbr_bw_Bps(&state.bbr), state.bbr.pacing_gain_q16);
    return state;
}

static void print(const char *name, unsigned long long value) { printf("%s %llu\n", name, value); }

static void print_window(const char *name, enum cc_variant variant, double bw_Mbps, uint64_t min_rtt_us,
                         uint64_t srtt_us, unsigned phase)
{
    struct cc_params params;
    struct cc_state state = at(variant, &params, bw_Mbps, min_rtt_us, srtt_us, phase);

    print(name, bbr_target_cwnd_pkts(&state, &params, bbr_bw_Bps(&state.bbr)));
}

static void print_acd_cuts(void)
{
    struct cc_params params;
    /* 40 packets: BDP 34 and three bursts of two. */
    struct cc_state state = at(CC_VARIANT_BBR_ACD, &params, 34.0 * MSS * 8 / 40000, 40000, 40000, 3);
    struct cc_sample rs = {0};
    uint32_t cwnd = 100;
    int i;

    print("acd_target", bbr_inflight_pkts(&state.bbr, state.pacing_Bps, bbr_bw_Bps(&state.bbr), CC_Q16_ONE));
    rs.acked_pkts = 1;
    for (i = 0; i < 5; i++) {
        char name[] = "acd_cut_0";

        name[8] = (char)('0' + i);
        cwnd = acd_cut_pkts(&state.bbr, &params, &rs, state.pacing_Bps, bbr_bw_Bps(&state.bbr), cwnd);
        print(name, cwnd);
    }
}

static void print_acd_detector(const char *name, const uint64_t *rtts_us, int count)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_ACD, &params, 10, 10000, 10000, 3);
    struct cc_sample rs = {0};
    int i;

    for (i = 0; i < count; i++) {
        rs.rtt_us = (int64_t)rtts_us[i];
        state.bbr.min_rtt_us = cc_min_u64(state.bbr.min_rtt_us, rtts_us[i]);
        acd_detect(&state.bbr, &params, &rs);
        printf("%s_%d %u\n", name, i, state.bbr.acd_same_count * 10 + state.bbr.acd_congested);
    }
}

static void print_pg(const char *name, uint64_t srtt_us, uint64_t min_rtt_us)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_PG, &params, 10, min_rtt_us, srtt_us, 0);

    printf("%s_gain_q16 %lld\n", name, (long long)state.bbr.pacing_gain_q16);
    printf("%s_window %llu\n", name, (unsigned long long)pg_bw_window_rounds(&params, &state.bbr));
}

static void print_pow(const char *name, int64_t exponent_q16, uint64_t srtt_us, uint64_t min_rtt_us)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_PG, &params, 10, min_rtt_us, srtt_us, 3);

    params.pg_gain_exponent_q16 = exponent_q16;
    printf("%s %lld\n", name, (long long)pg_scale_gain_q16(&params, &state.bbr, CC_Q16_ONE));
}

int main(void)
{
    static const uint64_t close_rtts[] = {15000, 15600, 16500}, far_rtts[] = {15000, 16100}, high[] = {20100},
                          low[] = {9900};
    struct cc_params params;
    struct cc_state state;

    state = at(CC_VARIANT_BBR, &params, 96.4, 10000, 10000, 3);
    print("bdp_2_96mbps", bbr_bdp_pkts(&state.bbr, bbr_bw_Bps(&state.bbr), 2 * CC_Q16_ONE));
    print("tso_goal_96mbps", bbr_tso_goal_pkts(&state.bbr, state.pacing_Bps));
    print_window("cwnd_96mbps", CC_VARIANT_BBR, 96.4, 10000, 10000, 3);
    print_window("cwnd_96mbps_phase_0", CC_VARIANT_BBR, 96.4, 10000, 10000, 0);
    print_window("cwnd_9mbps", CC_VARIANT_BBR, 9.64, 40000, 40000, 3);
    print_window("cwnd_9mbps_phase_0", CC_VARIANT_BBR, 9.64, 40000, 40000, 0);
    print_window("cwnd_half_mbps", CC_VARIANT_BBR, 0.5, 40000, 40000, 3);
    print_window("cwnd_no_rtt", CC_VARIANT_BBR, 0.5, CC_RTT_UNKNOWN_US, 0, 3);
    print_window("plus_cwnd", CC_VARIANT_BBR_PLUS, 9.64, 40000, 60000, 3);
    print_acd_cuts();
    print_acd_detector("acd_close", close_rtts, 3);
    print_acd_detector("acd_far", far_rtts, 2);
    print_acd_detector("acd_high", high, 1);
    print_acd_detector("acd_low", low, 1);
    print_pg("pg_20_10", 20000, 10000);
    print_pg("pg_200_190", 200000, 190000);
    print_pg("pg_1_1", 1000, 1000);
    print_pow("pow_half", CC_Q16_ONE / 2, 20000, 10000);
    print_pow("pow_minus_half", -CC_Q16_ONE / 2, 20000, 10000);
    print_pow("pow_one_and_a_half", 3 * CC_Q16_ONE / 2, 30000, 10000);
    return 0;
}
