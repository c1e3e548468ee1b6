/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Vegas as Linux has it (net/ipv4/tcp_vegas.c; Brakmo and Peterson, 1995).
 *
 *   once a round trip, in the loss state Open:   diff = cwnd (rtt - base_rtt) / base_rtt, packets in the queue
 *     slow start : diff > 1 ends it, cwnd = cwnd base_rtt / rtt + 1; otherwise cwnd += acked, on every ACK
 *     avoidance  : diff < 2 : cwnd += 1;   diff > 4 : cwnd -= 1
 *   with at most two RTTs in the round trip, and in any other loss state: Reno's growth
 *   loss, timeout: ssthresh = cwnd / 2
 *   a packet leaves while none is in flight (the first one, after idle time, after a timeout): base_rtt is forgotten
 *
 * rtt is the smallest of the round trip, base_rtt of all since it was forgotten, each 1 us more than measured. Vegas'
 * own steps ask not whether the window was used. Until Linux 5 an end of slow start sets ssthresh a packet lower, which
 * no window shows. What differs here: a spurious recovery is undone as Linux does from 4.15 on.
 */
#ifndef BBRGYM_CC_VEGAS_H
#define BBRGYM_CC_VEGAS_H

#include "reno.h"

#define VEGAS_ALPHA_PKTS 2
#define VEGAS_BETA_PKTS 4
#define VEGAS_GAMMA_PKTS 1
#define VEGAS_RTTS_MIN 2 /* more are needed in a round trip: two may both be of delayed ACKs */
#define VEGAS_RTT_UNKNOWN_US INT32_MAX

static inline void vegas_clear_round(struct vegas_state *vegas)
{
    vegas->rtt_count = 0;
    vegas->round_rtt_us = VEGAS_RTT_UNKNOWN_US;
}

/* Linux tcp_vegas_init. */
static inline void vegas_init(struct cc_state *state)
{
    struct vegas_state fresh = { 0 };

    fresh.is_on = true;
    fresh.base_rtt_us = VEGAS_RTT_UNKNOWN_US;
    vegas_clear_round(&fresh);
    fresh.next_pkts = state->vegas.next_pkts;
    fresh.round_end_pkts = fresh.next_pkts;
    state->vegas = fresh;
}

/* Linux tcp_vegas_pkts_acked. */
static inline void vegas_note_rtt(struct vegas_state *vegas, const struct cc_sample *rs)
{
    uint32_t rtt_us;

    if (rs->rtt_us < 0)
        return;
    rtt_us = (uint32_t)cc_min_u64((uint64_t)rs->rtt_us + 1, VEGAS_RTT_UNKNOWN_US);
    vegas->base_rtt_us = cc_min_u32(vegas->base_rtt_us, rtt_us);
    vegas->round_rtt_us = cc_min_u32(vegas->round_rtt_us, rtt_us);
    vegas->rtt_count = cc_clamp_to_u32((uint64_t)vegas->rtt_count + 1);
}

/* Packets in the queue; the product has 32 bits, as Linux's. */
static inline uint32_t vegas_queued_pkts(const struct vegas_state *vegas, uint32_t cwnd_pkts)
{
    uint64_t product = (uint64_t)cwnd_pkts * (vegas->round_rtt_us - vegas->base_rtt_us);

    return (uint32_t)(product & UINT32_MAX) / vegas->base_rtt_us;
}

static inline void vegas_adjust(struct cc_state *state, uint32_t acked_pkts)
{
    const struct vegas_state *vegas = &state->vegas;
    uint32_t queued_pkts = vegas_queued_pkts(vegas, state->cwnd_pkts);
    uint64_t cwnd_pkts = state->cwnd_pkts;

    if (cwnd_pkts < state->ssthresh_pkts) {
        if (queued_pkts > VEGAS_GAMMA_PKTS) {
            cwnd_pkts = cc_min_u64(cwnd_pkts, cwnd_pkts * vegas->base_rtt_us / vegas->round_rtt_us + 1);
            state->ssthresh_pkts = cc_min_u32(state->ssthresh_pkts, (uint32_t)cwnd_pkts);
        } else {
            reno_slow_start(state, acked_pkts);
            cwnd_pkts = state->cwnd_pkts;
        }
    } else if (queued_pkts > VEGAS_BETA_PKTS) {
        cwnd_pkts--;
        state->ssthresh_pkts = cc_min_u32(state->ssthresh_pkts, (uint32_t)cwnd_pkts);
    } else if (queued_pkts < VEGAS_ALPHA_PKTS) {
        cwnd_pkts++;
    }
    state->cwnd_pkts = cc_max_u32(cc_clamp_to_u32(cwnd_pkts), RENO_CWND_FLOOR_PKTS);
    state->ssthresh_pkts = cc_max_u32(state->ssthresh_pkts, state->cwnd_pkts / 2 + state->cwnd_pkts / 4);
}

/* Linux tcp_vegas_cong_avoid. */
static inline void vegas_avoid_congestion(struct cc_state *state, const struct cc_params *params,
                                          const struct cc_sample *rs)
{
    struct vegas_state *vegas = &state->vegas;

    if (!vegas->is_on) {
        reno_on_ack(state, params, rs);
    } else if (rs->una_pkts > vegas->round_end_pkts) {
        vegas->round_end_pkts = rs->next_pkts;
        if (vegas->rtt_count <= VEGAS_RTTS_MIN)
            reno_on_ack(state, params, rs);
        else
            vegas_adjust(state, reno_acked_pkts(state, params, rs));
        vegas_clear_round(vegas);
    } else if (state->cwnd_pkts < state->ssthresh_pkts) {
        reno_slow_start(state, reno_acked_pkts(state, params, rs));
    }
}

static inline void vegas_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct vegas_state *vegas = &state->vegas;

    vegas_note_rtt(vegas, rs);
    if (vegas->opens) /* with this ACK, whose RTT counts in base_rtt alone */
        vegas_clear_round(vegas);
    if (vegas->opens || vegas->awaits_end)
        vegas->round_end_pkts = rs->next_pkts;
    vegas->opens = vegas->awaits_end = false;
    vegas->next_pkts = rs->next_pkts;
    if (reno_may_grow(state, rs))
        vegas_avoid_congestion(state, params, rs);
}

/* Linux tcp_vegas_state; the round trip that begins with Open ends at what has left by the ACK that brought it. */
static inline void vegas_on_loss_state(struct cc_state *state, enum cc_ca_state new_state)
{
    state->vegas.is_on = new_state == CC_CA_OPEN;
    state->vegas.opens = state->vegas.is_on;
}

/*
 * A packet leaves while none is in flight (Linux tcp_vegas_cwnd_event). In Recovery and Loss more may have left since
 * the last ACK than it told; the next one tells.
 */
static inline void vegas_on_restart(struct cc_state *state)
{
    vegas_init(state);
    state->vegas.awaits_end = state->ca_state >= CC_CA_RECOVERY;
}

#endif
