/* SPDX-License-Identifier: GPL-2.0-only */
/* Exact values of the arithmetic of cc/, worked out by hand from the kernel's constants. */
#include "golden.h"

static struct cc_state at(enum cc_variant variant, struct cc_params *params, double bw_Mbps, uint64_t min_rtt_us,
                          uint64_t srtt_us, unsigned phase)
{
    struct cc_start start = { 0 };
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

static void check_window(const char *name, unsigned long long expected, enum cc_variant variant, double bw_Mbps,
                         uint64_t min_rtt_us, uint64_t srtt_us, unsigned phase)
{
    struct cc_params params;
    struct cc_state state = at(variant, &params, bw_Mbps, min_rtt_us, srtt_us, phase);

    check(name, bbr_target_cwnd_pkts(&state, &params, bbr_bw_Bps(&state.bbr)), expected);
}

static void check_acd_cuts(void)
{
    static const uint32_t cuts[] = { 40, 20, 10, 5, 4 };
    struct cc_params params;
    /* 40 packets: BDP 34 and three bursts of two. */
    struct cc_state state = at(CC_VARIANT_BBR_ACD, &params, 34.0 * MSS * 8 / 40000, 40000, 40000, 3);
    struct cc_sample rs = { 0 };
    uint32_t cwnd = 100;
    unsigned i;

    check("acd target", bbr_inflight_pkts(&state.bbr, state.pacing_Bps, bbr_bw_Bps(&state.bbr), CC_Q16_ONE), 40);
    rs.acked_pkts = 1;
    for (i = 0; i < COUNT(cuts); i++) {
        cwnd = acd_cut_pkts(&state.bbr, &params, &rs, state.pacing_Bps, bbr_bw_Bps(&state.bbr), cwnd);
        check("acd cut", cwnd, cuts[i]);
    }
}

/* After each RTT: 10 times the count of those alike, and the verdict. */
static void check_acd_detector(const char *name, const uint64_t *rtts_us, const unsigned *expected, unsigned count)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_ACD, &params, 10, 10000, 10000, 3);
    struct cc_sample rs = { 0 };
    unsigned i;

    for (i = 0; i < count; i++) {
        rs.rtt_us = (int64_t)rtts_us[i];
        state.bbr.min_rtt_us = cc_min_u64(state.bbr.min_rtt_us, rtts_us[i]);
        acd_detect(&state.bbr, &params, &rs);
        check(name, state.bbr.acd_same_count * 10u + state.bbr.acd_congested, expected[i]);
    }
}

static void check_pg(uint64_t srtt_us, uint64_t min_rtt_us, unsigned long long gain_q16, unsigned long long window)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_PG, &params, 10, min_rtt_us, srtt_us, 0);

    check("pg window", pg_bw_window_rounds(&params, &state.bbr), window);
    if (gain_q16)
        check("pg gain", (unsigned long long)state.bbr.pacing_gain_q16, gain_q16);
}

/* A fractional power of gamma is within a thousandth. */
static void check_pow(int64_t exponent_q16, uint64_t srtt_us, uint64_t min_rtt_us, double expected)
{
    struct cc_params params;
    struct cc_state state = at(CC_VARIANT_BBR_PG, &params, 10, min_rtt_us, srtt_us, 3);
    double ratio;

    params.pg_gain_exponent_q16 = exponent_q16;
    ratio = (double)pg_scale_gain_q16(&params, &state.bbr, CC_Q16_ONE) / 65536 / expected;
    check("pg power", ratio > 0.999 && ratio < 1.001, 1);
}

int main(void)
{
    static const uint64_t close_us[] = { 15000, 15600, 16500 }, far_us[] = { 15000, 16100 }, high_us[] = { 20100 },
                          low_us[] = { 9900 };
    static const unsigned close[] = { 0, 10, 21 }, far[] = { 0, 0 }, high[] = { 1 }, low[] = { 0 };
    struct cc_params params;
    struct cc_state state;

    /* 96.4 Mbit/s payload, 10 ms: ceil(166.4); bursts of 8; even(167 + 24); with gain 1.25 even(167 + 30) + 2. */
    state = at(CC_VARIANT_BBR, &params, 96.4, 10000, 10000, 3);
    check("bdp", bbr_bdp_pkts(&state.bbr, bbr_bw_Bps(&state.bbr), 2 * CC_Q16_ONE), 167);
    check("tso goal", bbr_tso_goal_pkts(&state.bbr, state.pacing_Bps), 8);
    check_window("96 Mbit/s", 192, CC_VARIANT_BBR, 96.4, 10000, 10000, 3);
    check_window("96 Mbit/s, up", 200, CC_VARIANT_BBR, 96.4, 10000, 10000, 0);
    check_window("9 Mbit/s", 74, CC_VARIANT_BBR, 9.64, 40000, 40000, 3);
    check_window("9 Mbit/s, up", 76, CC_VARIANT_BBR, 9.64, 40000, 40000, 0);
    /* ceil(3.45) + 3, even; without an RTT the initial window and three bursts of one, even. */
    check_window("0.5 Mbit/s", 8, CC_VARIANT_BBR, 0.5, 40000, 40000, 3);
    check_window("no RTT", 14, CC_VARIANT_BBR, 0.5, CC_RTT_UNKNOWN_US, 0, 3);
    /* min(67, ceil(0.98 * 832.2 * 0.06)) + 6, even. */
    check_window("BBR+", 56, CC_VARIANT_BBR_PLUS, 9.64, 40000, 60000, 3);
    check_acd_cuts();
    check_acd_detector("acd, close RTTs", close_us, close, COUNT(close));
    check_acd_detector("acd, RTTs far apart", far_us, far, COUNT(far));
    check_acd_detector("acd, a high RTT", high_us, high, COUNT(high));
    check_acd_detector("acd, a low RTT", low_us, low, COUNT(low));
    check_pg(20000, 10000, 5 * CC_Q16_ONE / 2, 13);
    check_pg(200000, 190000, 86231, 4); /* 1.25 * 65536 * 200 / 190 */
    check_pg(1000, 1000, 0, 184);
    check_pow(CC_Q16_ONE / 2, 20000, 10000, 1.41421356);
    check_pow(-CC_Q16_ONE / 2, 20000, 10000, 0.70710678);
    check_pow(3 * CC_Q16_ONE / 2, 30000, 10000, 5.19615242);
    return golden_exit;
}
