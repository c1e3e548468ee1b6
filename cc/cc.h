/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Congestion control for every world: one event in, a window and a pacing rate out (state->cwnd_pkts,
 * state->pacing_Bps). Freestanding C11, integers only; state and parameters are plain structs, copied by
 * assignment. A world calls, in the order of Linux's ACK processing: cc_on_loss_state for each change of
 * ca_state, then cc_on_ack, and between ACKs cc_on_rto, cc_on_idle, cc_on_cwnd_underused and cc_on_restart. Before
 * these, and once total_lost is raised, cc_on_packet_lost for each packet that was marked lost, those of a timeout
 * included (cc_on_packets_lost where it sees only how many), and cc_on_probe_repair.
 */
#ifndef BBRGYM_CC_H
#define BBRGYM_CC_H

#include "bbr.h"
#include "bbr3.h"
#include "bic.h"
#include "cubic.h"
#include "direct.h"
#include "plugin.h"
#include "reno.h"
#include "scaled.h"
#include "vegas.h"
#include "westwood.h"

/*
 * The families that there are. A program of the kernel has one generation of BBR, so that its verifier goes through no
 * more than what runs: it defines CC_WITHOUT_BBR1 or CC_WITHOUT_BBR3.
 */
#ifdef CC_WITHOUT_BBR1
#define CC_HAS_BBR1 0U
#else
#define CC_HAS_BBR1 1U
#endif
#ifdef CC_WITHOUT_BBR3
#define CC_HAS_BBR3 0U
#else
#define CC_HAS_BBR3 1U
#endif
#define CC_HAS_LOSS 1U

/* Does what the algorithm's row says of one event, by the names of algorithms.h. */
#define CC_DISPATCH(event)                                                                                             \
    switch (params->algorithm) {                                                                                       \
        CC_ALGORITHMS(CC_CASE_##event)                                                                                 \
    default: break;                                                                                                    \
    }
#define CC_CASE(id, family, call)                                                                                      \
    case CC_ALGORITHM_##id:                                                                                            \
        if (CC_HAS_##family)                                                                                           \
            call;                                                                                                      \
        break;
/* clang-format off */
#define CC_CASE_init(id, name, family, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_ack(id, name, family, i, call, ...) CC_CASE(id, family, call)
#define CC_CASE_reduce(id, name, family, i, a, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_loss_state(id, name, family, i, a, d, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_rto(id, name, family, i, a, d, l, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_restart(id, name, family, i, a, d, l, t, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_undo(id, name, family, i, a, d, l, t, r, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_packet_lost(id, name, family, i, a, d, l, t, r, u, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_packets_lost(id, name, family, i, a, d, l, t, r, u, p, call, ...) CC_CASE(id, family, call)
#define CC_CASE_on_probe_repair(id, name, family, i, a, d, l, t, r, u, p, m, call) CC_CASE(id, family, call)
/* clang-format on */

/*
 * Tells a plugin an event. A program of the kernel has one plugin, which it includes before this header and defines
 * CC_HAS_PLUGIN, or none.
 */
#if defined(__bpf__) && defined(CC_HAS_PLUGIN)
#define CC_PLUGIN_OF(params) (&bbrgym_plugin)
#elif !defined(__bpf__)
#define CC_PLUGIN_OF(params) ((params)->plugin)
#endif
#ifdef CC_PLUGIN_OF
#define CC_TELL(event, ...)                                                                                            \
    do {                                                                                                               \
        if (CC_PLUGIN_OF(params)->event) {                                                                             \
            CC_PLUGIN_OF(params)->event(state, params __VA_OPT__(, ) __VA_ARGS__);                                     \
            cc_check_plugin(state, params);                                                                            \
        }                                                                                                              \
    } while (0)
#else
#define CC_TELL(event, ...) CC_NONE
#endif

/* The algorithms of a family, a bit each. */
#define CC_FAMILY_LOSS(is_bbr1, is_bbr3) 0
#define CC_FAMILY_BBR1(is_bbr1, is_bbr3) is_bbr1
#define CC_FAMILY_BBR3(is_bbr1, is_bbr3) is_bbr3
#define CC_BBR1_BIT(id, name, family, ...) | CC_FAMILY_##family(CC_HAS_BBR1, 0U) << CC_ALGORITHM_##id
#define CC_BBR3_BIT(id, name, family, ...) | CC_FAMILY_##family(0U, CC_HAS_BBR3) << CC_ALGORITHM_##id

static inline bool cc_is_of(const struct cc_params *params, uint32_t algorithms)
{
    return (algorithms >> (params->algorithm & 31) & 1) != 0;
}

/* Whether the algorithm is of BBR v1's headers. */
static inline bool cc_is_bbr1(const struct cc_params *params)
{
    return cc_is_of(params, 0U CC_ALGORITHMS(CC_BBR1_BIT));
}

/* Whether the algorithm is of v3's headers. */
static inline bool cc_is_bbr3(const struct cc_params *params)
{
    return cc_is_of(params, 0U CC_ALGORITHMS(CC_BBR3_BIT));
}

/* Whether the algorithm is a BBR, which paces, and whose window the stack does not reduce. */
static inline bool cc_is_bbr(const struct cc_params *params) { return cc_is_bbr1(params) || cc_is_bbr3(params); }

/*
 * Whether a slow sender's packets leave one by one, below BBR_MIN_TSO_RATE_Bps: in v1 and v2 (bbr_min_tso_segs). v3's
 * bursts have tcp_min_tso_segs packets at any rate (bbr_tso_segs_generic).
 */
static inline bool cc_may_send_singles(const struct cc_params *params)
{
    return cc_is_bbr(params) && params->algorithm != CC_ALGORITHM_BBR3;
}

/* Whether the algorithm has to be told of each packet lost (cc_on_packet_lost), and of what was in flight (cc_sample).
 */
static inline bool cc_wants_tx_states(const struct cc_params *params)
{
#ifdef __bpf__
    return cc_is_bbr3(params);
#else
    return cc_is_bbr3(params) || cc_has(params, CC_SWITCH) ||
           (params->algorithm >= CC_ALGORITHM_PLUGIN && params->plugin->on_packet_lost);
#endif
}

/*
 * What a plugin decided must be a window and a rate at which packets leave. Elsewhere the host refuses the run; the
 * kernel takes the nearest.
 */
static inline void cc_check_plugin(struct cc_state *state, const struct cc_params *params)
{
#ifdef __bpf__
    (void)params;
#else
    if ((state->cwnd_pkts - 1 >= CC_PLUGIN_MAX_CWND_PKTS || state->pacing_Bps == 0) && params->plugin->refuse)
        params->plugin->refuse(params, state);
#endif
    state->cwnd_pkts = cc_max_u32(cc_min_u32(state->cwnd_pkts, CC_PLUGIN_MAX_CWND_PKTS), 1);
    state->pacing_Bps = cc_max_u64(state->pacing_Bps, 1);
}

static inline void cc_init_plugin_bbr(struct cc_state *state, const struct cc_params *params,
                                      const struct cc_start *start)
{
    bbr_init(state, params, start);
    CC_TELL(init, start);
}

/* Initialises the state when the connection is established (or the algorithm is attached). */
static inline void cc_init(struct cc_state *state, const struct cc_params *params, const struct cc_start *start)
{
    struct cc_state fresh = { 0 };

    *state = fresh;
    state->cwnd_pkts = cc_max_u32(start->initial_cwnd_pkts, 1);
    state->initial_cwnd_pkts = state->cwnd_pkts;
    state->ssthresh_pkts = RENO_SSTHRESH_UNSET;
    state->pacing_Bps = UINT64_MAX;
    state->min_rtt_us = start->min_rtt_us;
    CC_DISPATCH(init)
}

/*
 * The algorithm becomes that of `params` on an open connection (Linux tcp_reinit_congestion_control). The window
 * (start->initial_cwnd_pkts), ssthresh and the loss state stay; all that the former one remembered is gone, and what it
 * reduced cannot be undone (prior_ssthresh = 0). The new one begins as with a connection: BBR forgets ssthresh, and its
 * first round ends with what leaves from now on.
 */
CC_APART void cc_switch(struct cc_state *state, const struct cc_params *params, const struct cc_start *start,
                        uint64_t una_pkts, uint64_t delivered_pkts)
{
    uint32_t initial_cwnd_pkts = state->initial_cwnd_pkts, ssthresh_pkts = state->ssthresh_pkts;
    uint32_t ca_state = state->ca_state;

    cc_init(state, params, start);
    state->initial_cwnd_pkts = initial_cwnd_pkts;
    state->ca_state = ca_state;
    state->una_pkts = una_pkts;
    state->next_round_delivered_pkts = delivered_pkts;
    state->bbr.next_round_delivered_pkts = delivered_pkts;
    if (!cc_is_bbr(params))
        state->ssthresh_pkts = ssthresh_pkts;
    else if (cc_is_bbr3(params))
        state->bbr3.loss_round_delivered_pkts = delivered_pkts + 1;
}

static inline void cc_count_round(struct cc_state *state, const struct cc_sample *sample)
{
    if (sample->sample_pkts >= 0 && sample->prior_delivered_pkts >= state->next_round_delivered_pkts) {
        state->next_round_delivered_pkts = sample->delivered_pkts;
        state->round_count++;
    }
    state->min_rtt_us = cc_min_u64(state->min_rtt_us, sample->min_rtt_us);
}

static inline void cc_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *sample)
{
    state->mark_app_limited = false;
    CC_DISPATCH(on_ack)
    if (cc_is_bbr(params))
        return;
    state->una_pkts = sample->una_pkts;
    cc_count_round(state, sample);
}

static inline void cc_reduce(struct cc_state *state, const struct cc_params *params, uint32_t in_flight_pkts)
{
    state->before.cwnd_pkts = state->cwnd_pkts;
    state->before.ssthresh_pkts = state->ssthresh_pkts;
    CC_DISPATCH(reduce)
}

/* The loss state changed, except to Loss (see cc_on_rto). */
static inline void cc_on_loss_state(struct cc_state *state, const struct cc_params *params, enum cc_ca_state new_state,
                                    uint32_t in_flight_pkts)
{
    enum cc_ca_state old_state = (enum cc_ca_state)state->ca_state;
    bool is_reduced = old_state == CC_CA_CWR; /* for a mark; a loss in the same window changes nothing */

    state->ca_state = new_state;
    CC_DISPATCH(on_loss_state)
    if (!cc_is_bbr(params) && (new_state == CC_CA_CWR || new_state == CC_CA_RECOVERY) && !is_reduced) {
        cc_reduce(state, params, in_flight_pkts);
        state->cwnd_pkts = state->ssthresh_pkts;
    }
}

/* A packet was marked lost; for those that cc_wants_tx_states. */
static inline void cc_on_packet_lost(struct cc_state *state, const struct cc_params *params,
                                     const struct cc_lost_packet *lost)
{
    CC_DISPATCH(on_packet_lost)
}

/* Packets that left with the same in flight were marked lost; for a world that cannot tell of each
 * (bbr3_on_packets_lost). */
static inline void cc_on_packets_lost(struct cc_state *state, const struct cc_params *params,
                                      const struct cc_lost_packet *last, uint32_t count)
{
    CC_DISPATCH(on_packets_lost)
}

/* A tail loss probe repaired a loss that nothing else showed; `is_app_limited`: when the probed packet first left. */
static inline void cc_on_probe_repair(struct cc_state *state, const struct cc_params *params, uint64_t now_us,
                                      uint64_t delivered_pkts, bool is_app_limited){ CC_DISPATCH(on_probe_repair) }

/*
 * The retransmission timer fired and everything unacknowledged was marked lost: one packet may leave.
 * `is_new_episode`: not in Recovery, and in Loss only after progress since the last timeout (Linux tcp_enter_loss).
 * `prior_in_flight_pkts` was in flight before, `in_flight_pkts` is now.
 */
CC_IN_LINE void cc_on_rto(struct cc_state *state, const struct cc_params *params, bool is_new_episode,
                          uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
{
    bool by_episode = cc_stack_has(params, CC_STACK_timeout_saves);
    bool reduces = by_episode ? is_new_episode : state->ca_state < CC_CA_CWR;
    bool saves = is_new_episode || !by_episode;
    uint32_t cwnd_pkts = cc_clamp_to_u32((uint64_t)in_flight_pkts + 1);

    if (!cc_is_bbr(params) && reduces)
        cc_reduce(state, params, prior_in_flight_pkts);
    CC_DISPATCH(on_rto)
    state->ca_state = CC_CA_LOSS;
    state->cwnd_pkts = cwnd_pkts;
}

/*
 * There is data to send after a pause of more than a timeout with nothing out: a loss-based window falls by a half
 * for each timeout passed, to the initial one at least, and slow start comes back to three quarters of what it was
 * (Linux tcp_cwnd_restart).
 */
static inline void cc_on_idle(struct cc_state *state, const struct cc_params *params, uint64_t idle_us, uint64_t rto_us)
{
    bool is_reduced = state->ca_state == CC_CA_CWR || state->ca_state == CC_CA_RECOVERY;
    uint32_t least_pkts = cc_min_u32(state->cwnd_pkts, state->initial_cwnd_pkts);
    uint64_t halvings = rto_us > 0 && idle_us > 0 ? (idle_us - 1) / rto_us : 0;

    if (cc_is_bbr(params))
        return;
    if (!is_reduced)
        state->ssthresh_pkts = cc_max_u32(state->ssthresh_pkts, state->cwnd_pkts / 2 + state->cwnd_pkts / 4);
    state->cwnd_pkts = cc_max_u32(state->cwnd_pkts >> cc_min_u64(halvings, 31), least_pkts);
}

/*
 * At most `used_pkts` of a loss-based window, or the initial one, were in flight for a timeout: it falls halfway to
 * that, and slow start comes back to three quarters of what it was (Linux tcp_cwnd_application_limited).
 */
static inline void cc_on_cwnd_underused(struct cc_state *state, const struct cc_params *params, uint32_t used_pkts)
{
    uint32_t least_pkts = cc_max_u32(used_pkts, state->initial_cwnd_pkts);

    if (cc_is_bbr(params) || least_pkts >= state->cwnd_pkts)
        return;
    state->ssthresh_pkts = cc_max_u32(state->ssthresh_pkts, state->cwnd_pkts / 2 + state->cwnd_pkts / 4);
    state->cwnd_pkts = (uint32_t)(((uint64_t)state->cwnd_pkts + least_pkts) / 2);
}

/* The first packet after an idle period; `app_limited`: the application had nothing to send. */
static inline void cc_on_restart(struct cc_state *state, const struct cc_params *params, uint64_t now_us,
                                 bool app_limited)
{
    CC_DISPATCH(on_restart)
}

/* Undoes a loss-based algorithm's reduction (RFC 9438, 4.9; Linux undo_cwnd). */
static inline void cc_undo(struct cc_state *state)
{
    if (state->before.cwnd_pkts == 0)
        return;
    state->cwnd_pkts = cc_max_u32(state->cwnd_pkts, state->before.cwnd_pkts);
    state->ssthresh_pkts = cc_max_u32(state->ssthresh_pkts, state->before.ssthresh_pkts);
    state->before.cwnd_pkts = 0;
}

/* The last recovery was spurious. */
static inline void cc_on_undo(struct cc_state *state, const struct cc_params *params) { CC_DISPATCH(on_undo) }

/* ---- read-only queries ---- */

/* Bottleneck bandwidth estimate in payload bytes per second; 0: the algorithm has none. */
static inline uint64_t cc_bw_Bps(const struct cc_state *state)
{
    uint64_t bw_q24 = bbr3_max_bw_q24(&state->bbr3);

    return bw_q24 != 0 ? bbr3_bound_Bps(&state->bbr, bw_q24) : bbr_max_bw_Bps(&state->bbr);
}

static inline uint64_t cc_min_rtt_us(const struct cc_state *state, const struct cc_params *params)
{
    return cc_is_bbr(params) ? state->bbr.min_rtt_us : state->min_rtt_us;
}

static inline uint64_t cc_round_count(const struct cc_state *state, const struct cc_params *params)
{
    return cc_is_bbr(params) ? state->bbr.round_count : state->round_count;
}

/*
 * 0 STARTUP, 1 DRAIN, 2 PROBE_RTT, 8 + i phase i of PROBE_BW (v3: UP, DOWN, CRUISE, REFILL), 16 slow start, 17
 * congestion avoidance.
 */
static inline uint32_t cc_phase(const struct cc_state *state, const struct cc_params *params)
{
    if (!cc_is_bbr(params))
        return state->cwnd_pkts < state->ssthresh_pkts ? 16 : 17;
    switch (state->bbr.mode) {
    case BBR_STARTUP: return 0;
    case BBR_DRAIN: return 1;
    case BBR_PROBE_RTT: return 2;
    default: return 8 + state->bbr.cycle_index;
    }
}

#endif
