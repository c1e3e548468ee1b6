/* SPDX-License-Identifier: GPL-2.0-only */
/* What cc/bbr3*.h gives, as the functions of google/bbr's tcp_bbr.c compiled in user space. */
#include "golden.h"

static struct cc_params params;

/* The kernel's unit, of payload bits per second, rounded up as a sample is. */
static uint64_t q24_of_kbps(uint64_t kbps)
{
    return cc_mul_div_ceil(kbps * 125, BBR3_Q24_ONE, UINT64_C(1000000) * MSS);
}

static struct cc_state start(uint64_t srtt_us, uint64_t min_rtt_us)
{
    struct cc_start begin = { 0 };
    struct cc_state state;

    cc_params_init(&params, CC_VARIANT_BBR3);
    begin.srtt_us = srtt_us;
    begin.min_rtt_us = min_rtt_us;
    begin.mss_bytes = MSS;
    begin.initial_cwnd_pkts = 10;
    cc_init(&state, &params, &begin);
    return state;
}

static void enter(struct cc_state *state, enum bbr3_phase phase)
{
    state->bbr.mode = BBR_PROBE_BW;
    state->bbr.cycle_index = phase;
    bbr3_update_gains(state, &params);
}

/* In a phase of PROBE_BW, paced at the bandwidth times `pacing_gain_q16`. */
static struct cc_state at(uint64_t kbps, uint64_t min_rtt_us, enum bbr3_phase phase)
{
    struct cc_state state = start(min_rtt_us, min_rtt_us);

    state.bbr.full_bw_reached = true;
    state.bbr3.bw_hi_q24[1] = q24_of_kbps(kbps);
    enter(&state, phase);
    bbr3_set_pacing(&state, &params, CC_Q16_ONE);
    return state;
}

/* Pacing, burst, BDP, twice the BDP, the two as windows, UP's window and pacing, DOWN's pacing. */
static void check_windows(const char *path, uint64_t kbps, uint64_t min_rtt_us, const uint64_t expected[9])
{
    struct cc_state state = at(kbps, min_rtt_us, BBR3_CRUISE);
    uint64_t bw_q24 = bbr3_bw_q24(&state.bbr3);

    check(path, state.pacing_Bps, expected[0]);
    check(path, bbr3_tso_goal_pkts(&state.bbr, false, state.pacing_Bps), expected[1]);
    check(path, bbr3_bdp_pkts(&state, bw_q24, CC_Q16_ONE), expected[2]);
    check(path, bbr3_bdp_pkts(&state, bw_q24, 2 * CC_Q16_ONE), expected[3]);
    check(path, bbr3_inflight_pkts(&state, bw_q24), expected[4]);
    check(path, bbr3_quantize_pkts(&state, bbr3_bdp_pkts(&state, bw_q24, 2 * CC_Q16_ONE)), expected[5]);
    enter(&state, BBR3_UP);
    check(path, bbr3_target_cwnd_pkts(&state, &params), expected[6]);
    bbr3_set_pacing(&state, &params, state.bbr.pacing_gain_q16);
    check(path, state.pacing_Bps, expected[7]);
    enter(&state, BBR3_DOWN);
    bbr3_set_pacing(&state, &params, state.bbr.pacing_gain_q16);
    check(path, state.pacing_Bps, expected[8]);
}

static void check_slope(void)
{
    static const uint32_t slopes[] = { 100, 50, 25, 12, 6, 3, 1, 1, 1 };
    struct cc_state state = at(9640, 40000, BBR3_UP);
    unsigned i;

    state.cwnd_pkts = 100;
    for (i = 0; i < COUNT(slopes); i++) {
        bbr3_raise_slope(&state);
        check("slope", state.bbr3.up_cnt, slopes[i]);
    }
}

static void check_headroom(void)
{
    static const uint32_t levels[] = { 4, 6, 7, 20, 100, 1000 }, left[] = { 4, 5, 6, 18, 86, 852 };
    struct cc_state state = at(9640, 40000, BBR3_CRUISE);
    unsigned i;

    for (i = 0; i < COUNT(levels); i++) {
        state.bbr3.inflight_hi_pkts = levels[i];
        check("headroom", bbr3_headroom_level_pkts(&state.bbr3, &params), left[i]);
    }
}

/* In flight when a packet left, lost since, its size: whether that is too much, and the level at which it became so. */
static void check_level(uint32_t tx_in_flight, uint32_t lost, uint32_t size, bool too_high, uint32_t level)
{
    check("too high", bbr3_loses_too_many(&params, tx_in_flight, lost), too_high);
    check("level", bbr3_level_of_loss_pkts(&params, tx_in_flight, lost, size), level);
}

/* The first and the second round with loss in CRUISE: 0.7 of 9.64 Mbit/s and of 80 packets; then what was delivered. */
static void check_lower_bounds(void)
{
    static const uint64_t bw_Bps[] = { 847281, 625039 }, inflight_pkts[] = { 56, 39 };
    struct cc_state state = at(9640, 40000, BBR3_CRUISE);
    int i;

    state.cwnd_pkts = 80;
    for (i = 0; i < 2; i++) {
        state.bbr3.bw_latest_q24 = q24_of_kbps(5000);
        state.bbr3.inflight_latest_pkts = 30;
        state.bbr3.loss_in_round = true;
        bbr3_adapt_lower_bounds(&state, &params);
        check("bw_lo", bbr3_bound_Bps(&state.bbr, state.bbr3.bw_lo_q24), bw_Bps[i]);
        check("inflight_lo", state.bbr3.inflight_lo_pkts, inflight_pkts[i]);
    }
}

/* The target of UP, and STARTUP's exit by loss with 45 packets delivered in the round. */
static void check_excess(void)
{
    struct cc_state state = at(9640, 40000, BBR3_UP);

    state.bbr.cycle_index = BBR3_CRUISE; /* where the target is the BDP alone */
    state.cwnd_pkts = 80;
    check("target", bbr3_target_inflight_pkts(&state), 34);
    state.bbr.cycle_index = BBR3_UP;
    bbr3_handle_too_high(&state, &params, 40, false);
    check("inflight_hi after UP", state.bbr3.inflight_hi_pkts, 40);
    check("phase after UP", cc_phase(&state, &params), 9);

    state = at(9640, 40000, BBR3_CRUISE);
    state.bbr.mode = BBR_STARTUP;
    state.bbr.full_bw_reached = false;
    state.bbr3.inflight_latest_pkts = 45;
    bbr3_end_startup_by_excess(&state);
    check("inflight_hi after STARTUP", state.bbr3.inflight_hi_pkts, 45);
    check("full after STARTUP", state.bbr.full_bw_reached, 1);
}

/* 20 of 100 packets marked. */
static void check_ecn(void)
{
    struct cc_state state = at(9640, 4000, BBR3_CRUISE);
    struct cc_sample rs = { 0 };

    state.bbr3.ecn_ok = true;
    rs.delivered_pkts = 100;
    rs.total_ce_pkts = 20;
    bbr3_update_alpha(&state, &params, &rs);
    check("ecn_alpha", state.bbr3.ecn_alpha_256th, 243);
    state.bbr3.inflight_lo_pkts = 100;
    state.bbr3.ecn_in_round = true;
    bbr3_adapt_lower_bounds(&state, &params);
    check("inflight_lo by marks", state.bbr3.inflight_lo_pkts, 68);
}

int main(void)
{
    static const uint64_t fast[] = { 11929583, 8, 84, 167, 84, 167, 190, 14911979, 10811184 };
    static const uint64_t plain[] = { 1192975, 2, 34, 67, 34, 67, 77, 1491219, 1081133 };
    static const uint64_t slow[] = { 61947, 2, 2, 4, 6, 6, 8, 77434, 56139 };
    static const uint64_t near[] = { 1192975, 45, 1, 1, 135, 135, 137, 1491219, 1081133 };
    static const uint64_t fastest[] = { 119295063, 45, 84, 167, 135, 167, 190, 149118829, 108111151 };
    struct cc_state state;
    struct cc_sample rs = { 0 };

    check("first pacing", start(20000, 20000).pacing_Bps, 1987744);
    check("first pacing without RTT", start(0, CC_RTT_UNKNOWN_US).pacing_Bps, 39757743);
    check_windows("96 Mbit/s", 96400, 10000, fast);
    check_windows("9 Mbit/s", 9640, 40000, plain);
    check_windows("0.5 Mbit/s", 500, 40000, slow);
    check_windows("a path of 0.4 ms", 9640, 400, near);
    check_windows("964 Mbit/s", 964000, 1000, fastest);
    rs.sample_pkts = 10;
    rs.interval_us = 40000;
    check("sample", bbr3_sample_q24(&rs), 4195); /* rounded up */
    check_slope();
    check_headroom();
    check_level(101, 1, 1, false, 102);
    check_level(101, 3, 1, true, 100);
    check_level(100, 2, 2, true, 100);
    check_level(50, 2, 1, true, 49);
    check_level(1000, 20, 10, true, 1000);
    check_level(1000, 25, 10, true, 995);
    check_lower_bounds();
    check_excess();
    state = at(9640, 40000, BBR3_CRUISE);
    check("PROBE_RTT", bbr3_probe_rtt_cwnd_pkts(&state, &params), 17);
    state = at(500, 40000, BBR3_CRUISE);
    check("PROBE_RTT at 0.5 Mbit/s", bbr3_probe_rtt_cwnd_pkts(&state, &params), 4);
    check_ecn();
    return golden_exit;
}
