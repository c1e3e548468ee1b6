/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Holds a plugin (cc/plugin.h) to the laws of every controller, under random events of lives of a flow: it ends each
 * event, decides a window and a rate at which packets leave, writes only its state, and remembers nothing elsewhere.
 * Prints a sentence on the first law broken, and ends with 1. usage: check SEED EVENTS
 */
#include "events.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONGEST_EVENT_S 5 /* of wall time, under sanitizers on a busy machine; an event takes less than 1 us */
#define EVENTS_OF_A_LIFE 400

extern const struct cc_plugin bbrgym_plugin;

static const char *event_name = "init";
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

static const char *const NAMES[] = { "on_loss_state or reduce", "on_rto or reduce",  "on_restart", "on_undo",
                                     "on_packet_lost",          "a tail loss probe", "a pause",    "on_ack" };

static void refuse(const struct cc_params *params, const struct cc_state *state)
{
    (void)params;
    if (state->cwnd_pkts - 1 >= CC_PLUGIN_MAX_CWND_PKTS)
        fail("cwnd_pkts", state->cwnd_pkts, "1 to 2^30");
    fail("pacing_Bps", state->pacing_Bps, "more, or UINT64_MAX for none");
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
            cc_params_init(&params, CC_VARIANT_BBR);
            params.algorithm = plugin.paces ? CC_ALGORITHM_PLUGIN_BBR : CC_ALGORITHM_PLUGIN;
            params.plugin = &plugin;
            draw_tunables(&params);
            event_name = "init";
            alarm(LONGEST_EVENT_S);
            begin(state, &params, &e);
        }
        draw_event(&e);
        event_name = NAMES[e.kind];
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
