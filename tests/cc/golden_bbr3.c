/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prints what cc/bbr3*.h gives for the golden cases, a "name value" line each; test_bbr3.py knows what each must be,
 * from the functions of google/bbr's tcp_bbr.c compiled in user space. The state is set by hand.
 */
#include "cc.h"

#include <stdio.h>

#define MSS 1448

static struct cc_params params;

static void print(const char *prefix, const char *name, unsigned long long value)
{
    printf("%s%s %llu\n", prefix, name, value);
}

/* The kernel's unit, of payload bits per second, rounded up as a sample is. */
static uint64_t q24_of_kbps(uint64_t kbps) { return cc_mul_div_ceil(kbps * 125, BBR3_Q24_ONE, UINT64_C(1000000) * MSS); }

static struct cc_state start(uint64_t srtt_us, uint64_t min_rtt_us)
{
    struct cc_start begin = {0};
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
    bbr3_update_gains(&state->bbr, &params);
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

static void print_windows(const char *prefix, uint64_t kbps, uint64_t min_rtt_us)
{
    struct cc_state state = at(kbps, min_rtt_us, BBR3_CRUISE);
    uint64_t bw_q24 = bbr3_bw_q24(&state.bbr3);

    print(prefix, "_pacing", state.pacing_Bps);
    print(prefix, "_goal", bbr3_tso_goal_pkts(&state.bbr, false, state.pacing_Bps));
    print(prefix, "_bdp_1", bbr3_bdp_pkts(&state, bw_q24, CC_Q16_ONE));
    print(prefix, "_bdp_2", bbr3_bdp_pkts(&state, bw_q24, 2 * CC_Q16_ONE));
    print(prefix, "_inflight_1", bbr3_inflight_pkts(&state, bw_q24));
    print(prefix, "_inflight_2", bbr3_quantize_pkts(&state, bbr3_bdp_pkts(&state, bw_q24, 2 * CC_Q16_ONE)));
    enter(&state, BBR3_UP);
    print(prefix, "_up_window", bbr3_target_cwnd_pkts(&state, &params));
    bbr3_set_pacing(&state, &params, state.bbr.pacing_gain_q16);
    print(prefix, "_up_pacing", state.pacing_Bps);
    enter(&state, BBR3_DOWN);
    bbr3_set_pacing(&state, &params, state.bbr.pacing_gain_q16);
    print(prefix, "_down_pacing", state.pacing_Bps);
}

static void print_slope(void)
{
    struct cc_state state = at(9640, 40000, BBR3_UP);
    int i;

    state.cwnd_pkts = 100;
    for (i = 0; i < 9; i++) {
        char name[] = "0";

        name[0] = (char)('0' + i);
        bbr3_raise_slope(&state);
        print("slope_", name, state.bbr3.up_cnt);
    }
}

static void print_headroom(void)
{
    static const uint32_t levels[] = {4, 6, 7, 20, 100, 1000};
    struct cc_state state = at(9640, 40000, BBR3_CRUISE);
    unsigned i;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        state.bbr3.inflight_hi_pkts = levels[i];
        printf("headroom_%u %u\n", levels[i], bbr3_headroom_level_pkts(&state.bbr3, &params));
    }
}

static void print_level(uint32_t tx_in_flight, uint32_t lost, uint32_t size)
{
    printf("too_high_%u_%u_%u %d\n", tx_in_flight, lost, size, bbr3_loses_too_many(&params, tx_in_flight, lost));
    printf("level_%u_%u_%u %u\n", tx_in_flight, lost, size, bbr3_level_of_loss_pkts(&params, tx_in_flight, lost, size));
}

/* A round with loss in CRUISE. */
static void print_lower_bounds(void)
{
    struct cc_state state = at(9640, 40000, BBR3_CRUISE);
    int i;

    state.cwnd_pkts = 80;
    for (i = 1; i <= 2; i++) {
        state.bbr3.bw_latest_q24 = q24_of_kbps(5000);
        state.bbr3.inflight_latest_pkts = 30;
        state.bbr3.loss_in_round = true;
        bbr3_adapt_lower_bounds(&state, &params);
        print(i == 1 ? "first" : "second", "_bw_lo", bbr3_bound_Bps(&state.bbr, state.bbr3.bw_lo_q24));
        print(i == 1 ? "first" : "second", "_inflight_lo", state.bbr3.inflight_lo_pkts);
    }
}

static void print_excess(void)
{
    struct cc_state state = at(9640, 40000, BBR3_UP);

    state.bbr.cycle_index = BBR3_CRUISE; /* where the target is the BDP alone */
    print("target", "_inflight", (state.cwnd_pkts = 80, bbr3_target_inflight_pkts(&state)));
    state.bbr.cycle_index = BBR3_UP;
    bbr3_handle_too_high(&state, &params, 40, false);
    print("too_high", "_inflight_hi", state.bbr3.inflight_hi_pkts);
    print("too_high", "_phase", cc_phase(&state, &params));

    state = at(9640, 40000, BBR3_CRUISE);
    state.bbr.mode = BBR_STARTUP;
    state.bbr.full_bw_reached = false;
    state.bbr3.inflight_latest_pkts = 45;
    bbr3_end_startup_by_excess(&state);
    print("startup", "_inflight_hi", state.bbr3.inflight_hi_pkts);
    print("startup", "_full", state.bbr.full_bw_reached);
}

static void print_ecn(void)
{
    struct cc_state state = at(9640, 4000, BBR3_CRUISE);
    struct cc_sample rs = {0};

    state.bbr3.ecn_ok = true;
    rs.delivered_pkts = 100;
    rs.total_ce_pkts = 20;
    bbr3_update_alpha(&state, &params, &rs);
    print("ecn", "_alpha", state.bbr3.ecn_alpha_256th);
    state.bbr3.inflight_lo_pkts = 100;
    state.bbr3.ecn_in_round = true;
    bbr3_adapt_lower_bounds(&state, &params);
    print("ecn", "_inflight_lo", state.bbr3.inflight_lo_pkts);
}

int main(void)
{
    struct cc_state state;
    struct cc_sample rs = {0};

    print("start", "_pacing", start(20000, 20000).pacing_Bps);
    print("start", "_pacing_no_rtt", start(0, CC_RTT_UNKNOWN_US).pacing_Bps);
    print_windows("96mbps", 96400, 10000);
    print_windows("9mbps", 9640, 40000);
    print_windows("half_mbps", 500, 40000);
    print_windows("short", 9640, 400);
    print_windows("964mbps", 964000, 1000);
    rs.sample_pkts = 10;
    rs.interval_us = 40000;
    print("sample", "", bbr3_sample_q24(&rs));
    print_slope();
    print_headroom();
    print_level(101, 1, 1);
    print_level(101, 3, 1);
    print_level(100, 2, 2);
    print_level(50, 2, 1);
    print_level(1000, 20, 10);
    print_level(1000, 25, 10);
    print_lower_bounds();
    print_excess();
    state = at(9640, 40000, BBR3_CRUISE);
    print("probe_rtt", "_9mbps", bbr3_probe_rtt_cwnd_pkts(&state, &params));
    state = at(500, 40000, BBR3_CRUISE);
    print("probe_rtt", "_half_mbps", bbr3_probe_rtt_cwnd_pkts(&state, &params));
    print_ecn();
    return 0;
}
