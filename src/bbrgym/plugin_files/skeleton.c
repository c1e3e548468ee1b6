/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A congestion control of your own: AIMD. Change it, then: bbrgym cc check FILE
 *
 * A world calls on_ack for each ACK, with what Linux would know: `sample`'s fields are in types.h of the headers whose
 * folder `bbrgym cc headers` prints. Times are in us, rates in bytes/s, windows in packets. The state is zeroed at the
 * start of a flow; all that you remember is in it.
 *
 * Here the stack recovers from losses, as for Reno and CUBIC: on_ack grows state->cwnd_pkts, and `reduce` sets
 * state->ssthresh_pkts, to which the stack lowers the window once in a round trip with loss. A control that paces sets
 * .paces = true instead of `reduce`, and state->cwnd_pkts and state->pacing_Bps on each ACK, in recovery too; it may
 * call the functions of bbr.h, which is BBR v1 (state->bbr). plugin.h lists the other events.
 */
#include "plugin.h"

struct aimd {
    uint64_t credit_q16; /* packets to grow by, not yet whole */
};
CC_STATE(struct aimd)

/* T(name, unit, default, low, high, scale, "meaning") */
#define TUNABLES(T)                                                                                                    \
    T(aimd_add, ratio, 1.0, 0.1, 8.0, log, "packets that the window grows by in a round trip")                         \
    T(aimd_keep, ratio, 0.5, 0.3, 0.95, linear, "share of the window that a loss leaves")
CC_TUNABLES(TUNABLES)

static void on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *sample)
{
    struct aimd *aimd = own(state);
    uint32_t acked_pkts = reno_growth_pkts(state, params, sample); /* none in recovery, or if the window is not used */

    acked_pkts = reno_slow_start(state, acked_pkts); /* up to ssthresh_pkts */
    aimd->credit_q16 += (uint64_t)acked_pkts * (uint64_t)tunable(params, aimd_add) / state->cwnd_pkts;
    state->cwnd_pkts += (uint32_t)(aimd->credit_q16 >> 16);
    aimd->credit_q16 &= 65535;
}

static void reduce(struct cc_state *state, const struct cc_params *params, uint32_t in_flight_pkts)
{
    (void)in_flight_pkts;
    state->ssthresh_pkts = (uint32_t)(state->cwnd_pkts * (uint64_t)tunable(params, aimd_keep) >> 16);
    state->ssthresh_pkts = cc_max_u32(state->ssthresh_pkts, 2);
}

CC_PLUGIN(.on_ack = on_ack, .reduce = reduce)
