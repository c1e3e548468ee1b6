/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds a plugin (cc/plugin.h) to the laws of every controller, under random events of lives of a flow: it ends each
 * event, decides a window and a rate at which packets leave, writes only its state, and remembers nothing elsewhere.
 * Prints a sentence on the first law broken, and ends with 1. usage: check SEED EVENTS
 */
#include "cc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_EVENT_S 5 /* of wall time, under sanitizers on a busy machine; an event takes less than 1 us */
#define EVENTS_OF_A_LIFE 400

extern const struct cc_plugin bbrgym_plugin;

static const char *event_name = "init";
static struct cc_rng rng;

static uint64_t below(uint64_t n) { return cc_rng_below(&rng, n); }

/* Any size up to so many bits. */
static uint64_t magnitude(uint64_t bits) { return below(UINT64_C(1) << below(bits + 1)); }

static void fail(const char *what, unsigned long long value, const char *expected)
{
    printf("%s: %s = %llu, expected %s\n", event_name, what, value, expected);
    fflush(stdout);
    _exit(1);
}

static void too_long(int signal)
{
    static const char text[] = ": does not end, expected a bounded loop\n";

    (void)signal;
    if (write(1, event_name, strlen(event_name)) < 0 || write(1, text, sizeof(text) - 1) < 0)
        _exit(2);
    _exit(1);
}

/* Called by the sanitizers: to look up the lines of a report may take long. */
void __asan_on_error(void) { alarm(0); }
void __ubsan_on_report(void) { alarm(0); }

/* One event, drawn by the caller; each gets the same on two copies of the state. */
struct event {
    uint64_t kind;
    struct cc_sample sample;
    struct cc_lost_packet lost;
    enum cc_ca_state ca_state;
    uint32_t in_flight_pkts;
    bool flag;
};

static const char *const NAMES[] = { "on_loss_state or reduce", "on_rto or reduce", "on_restart", "on_undo",
                                     "on_packet_lost" };

static void tell(struct cc_state *state, const struct cc_params *params, const struct event *e)
{
    event_name = e->kind < 5 ? NAMES[e->kind] : "on_ack";
    switch (e->kind) {
    case 0: cc_on_loss_state(state, params, e->ca_state, e->in_flight_pkts); break;
    case 1:
        cc_on_rto(state, params, e->flag, e->in_flight_pkts, e->in_flight_pkts / 2, e->sample.total_lost_pkts);
        break;
    case 2: cc_on_restart(state, params, e->sample.now_us, e->flag); break;
    case 3: cc_on_undo(state, params); break;
    case 4: cc_on_packet_lost(state, params, &e->lost); break;
    default: cc_on_ack(state, params, &e->sample);
    }
}

static void refuse(const struct cc_params *params, const struct cc_state *state)
{
    (void)params;
    if (state->cwnd_pkts - 1 >= CC_PLUGIN_MAX_CWND_PKTS)
        fail("cwnd_pkts", state->cwnd_pkts, "1 to 2^30");
    fail("pacing_Bps", state->pacing_Bps, "more, or UINT64_MAX for none");
}

static void draw(struct event *e)
{
    struct cc_sample *rs = &e->sample;
    bool is_plain = below(4) != 0; /* otherwise any numbers */

    e->kind = below(200);
    e->ca_state = (enum cc_ca_state)below(4);
    e->in_flight_pkts = (uint32_t)magnitude(24);
    e->flag = below(2) == 0;
    rs->now_us += magnitude(is_plain ? 14 : 34);
    rs->acked_pkts = is_plain ? 1 + (uint32_t)below(3) : (uint32_t)magnitude(24);
    rs->delivered_pkts += rs->acked_pkts;
    rs->una_pkts = rs->delivered_pkts;
    rs->delivered_time_us = rs->now_us;
    rs->prior_delivered_pkts = cc_sub_sat(rs->delivered_pkts, magnitude(10));
    rs->sample_pkts = below(8) == 0 ? -1 : (int64_t)(rs->delivered_pkts - rs->prior_delivered_pkts);
    rs->interval_us = (int64_t)magnitude(is_plain ? 18 : 40) - 1;
    rs->rtt_us = below(8) == 0 ? -1 : (int64_t)magnitude(is_plain ? 18 : 32);
    rs->srtt_us = magnitude(18);
    rs->min_rtt_us = below(8) == 0 ? CC_RTT_UNKNOWN_US : magnitude(18);
    rs->lost_pkts = below(20) == 0 ? (uint32_t)magnitude(10) : 0;
    rs->total_lost_pkts += rs->lost_pkts;
    rs->in_flight_pkts = (uint32_t)magnitude(is_plain ? 10 : 31);
    rs->prior_in_flight_pkts = rs->in_flight_pkts + rs->acked_pkts;
    rs->next_pkts = rs->delivered_pkts + rs->in_flight_pkts;
    rs->is_app_limited = below(8) == 0;
    rs->is_ack_delayed = below(8) == 0;
    rs->is_cwnd_limited = below(4) != 0;
    rs->ca_state = (uint8_t)(e->kind == 1 ? CC_CA_LOSS : e->kind == 0 ? e->ca_state : rs->ca_state);
    e->lost = (struct cc_lost_packet){ .now_us = rs->now_us,
                                       .delivered_pkts = rs->delivered_pkts,
                                       .total_lost_pkts = ++rs->total_lost_pkts,
                                       .tx_in_flight_pkts = rs->in_flight_pkts,
                                       .size_pkts = 1 };
}

/* The smallest, the largest or another value of each tunable. */
static void draw_tunables(struct cc_params *params)
{
    uint32_t i;

    for (i = 0; i < bbrgym_plugin.tunable_count; i++) {
        const struct cc_plugin_tunable *row = &bbrgym_plugin.tunables[i];
        double share = (double[]){ 0, 1, (double)below(1000) / 1000 }[below(3)];
        double value = below(2) == 0 ? row->preset : row->low + share * (row->high - row->low);

        ((int64_t *)(void *)CC_PLUGIN_FIRST(params))[i] =
            (int64_t)(value * (strcmp(row->unit, "ratio") == 0 ? 65536 : 1));
    }
}

int main(int argc, char **argv)
{
    /* Apart on the heap, so that a sanitizer sees a write beyond the state. */
    struct cc_state *state = calloc(1, sizeof(*state)), *copy = calloc(1, sizeof(*copy));
    struct cc_plugin plugin = bbrgym_plugin;
    uint64_t seed, events, i, byte;
    struct cc_params params, kept;
    struct event e = { 0 };

    if (argc != 3 || !state || !copy)
        return 2;
    seed = strtoull(argv[1], NULL, 10);
    events = strtoull(argv[2], NULL, 10);
    rng = cc_rng_make(seed, "check");
    signal(SIGALRM, too_long);
    plugin.refuse = refuse;
    for (i = 0; i < events; i++) {
        if (i % EVENTS_OF_A_LIFE == 0) {
            struct cc_start start = { .now_us = e.sample.now_us,
                                      .rng_seed = i,
                                      .mss_bytes = 1 + (uint32_t)below(9000) };

            start.min_rtt_us = below(2) == 0 ? CC_RTT_UNKNOWN_US : 1 + magnitude(18);
            start.srtt_us = start.min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : start.min_rtt_us;
            start.initial_cwnd_pkts = 1 + (uint32_t)below(20);
            cc_params_init(&params, CC_VARIANT_BBR);
            params.algorithm = plugin.paces ? CC_ALGORITHM_PLUGIN_BBR : CC_ALGORITHM_PLUGIN;
            params.plugin = &plugin;
            draw_tunables(&params);
            e = (struct event){ .sample = { .now_us = e.sample.now_us } };
            event_name = "init";
            alarm(LONGEST_EVENT_S);
            cc_init(state, &params, &start);
        }
        draw(&e);
        *copy = *state;
        kept = params;
        alarm(LONGEST_EVENT_S);
        tell(state, &params, &e);
        alarm(0);
        if (memcmp(&kept, &params, sizeof(kept)) != 0)
            fail("params", 1, "what they were: a file only reads them");
        for (byte = plugin.state_bytes; byte < CC_OWN_BYTES; byte++)
            if (((unsigned char *)state->own)[byte] != 0)
                fail("a write beyond its state, at byte", byte, "less than CC_STATE's bytes");
        if (state->initial_cwnd_pkts != copy->initial_cwnd_pkts)
            fail("initial_cwnd_pkts", state->initial_cwnd_pkts, "what it was: a file only reads it");
        tell(copy, &params, &e);
        if (memcmp(state, copy, sizeof(*copy)) != 0)
            fail("states that differ after the same event", 1, "all that it remembers in its state");
    }
    printf("%llu events\n", (unsigned long long)events);
    free(state);
    free(copy);
    return 0;
}
