/* SPDX-License-Identifier: GPL-2.0-only */
/* Random events of lives of a flow, by the numbers of one stream. */
#ifndef BBRGYM_EVENTS_H
#define BBRGYM_EVENTS_H

#include "cc.h"

#ifndef SAMPLE_BITS
#define SAMPLE_BITS 10 /* of the packets of a sample: with any more a window may go beyond CC_PLUGIN_MAX_CWND_PKTS */
#endif

static struct cc_rng rng;

static uint64_t below(uint64_t n) { return cc_rng_below(&rng, n); }

/* Any size up to so many bits. */
static uint64_t magnitude(uint64_t bits) { return below(UINT64_C(1) << below(bits + 1)); }

enum kind { LOSS_STATE, RTO, RESTART, UNDO, PACKET_LOST, PROBE_REPAIR, IDLE, ACK };

/* One event; what a kind does not need is drawn as well. */
struct event {
    enum kind kind;
    struct cc_sample sample;
    struct cc_lost_packet lost;
    enum cc_ca_state ca_state;
    uint32_t in_flight_pkts;
    uint64_t idle_us, rto_us;
    bool flag;
};

static void draw_event(struct event *e)
{
    struct cc_sample *rs = &e->sample;
    bool is_plain = below(4) != 0; /* otherwise any numbers */
    uint64_t kind = below(100);

    e->kind = kind < ACK ? (enum kind)kind : kind < 10 ? PACKET_LOST : ACK;
    e->ca_state = (enum cc_ca_state)below(4);
    e->in_flight_pkts = (uint32_t)magnitude(24);
    e->idle_us = magnitude(34);
    e->rto_us = magnitude(30);
    e->flag = below(2) == 0;
    rs->now_us += magnitude(is_plain ? 14 : 34);
    rs->delivered_time_us = rs->now_us;
    rs->acked_pkts = is_plain ? 1 + (uint32_t)below(3) : (uint32_t)magnitude(24);
    rs->delivered_pkts += rs->acked_pkts;
    rs->prior_delivered_pkts = cc_sub_sat(rs->delivered_pkts, magnitude(is_plain ? 10 : SAMPLE_BITS));
    rs->sample_pkts = below(8) == 0 ? -1 : (int64_t)(rs->delivered_pkts - rs->prior_delivered_pkts);
    rs->interval_us = (int64_t)magnitude(is_plain ? 18 : 40) - 1;
    rs->rtt_us = below(8) == 0 ? -1 : (int64_t)magnitude(is_plain ? 18 : 32);
    rs->srtt_us = magnitude(is_plain ? 18 : 25);
    rs->min_rtt_us = below(8) == 0 ? CC_RTT_UNKNOWN_US : magnitude(18);
    rs->una_pkts += below(2) == 0 ? 0 : 1 + magnitude(20);
    rs->next_pkts = rs->una_pkts + magnitude(20);
    rs->lost_pkts = below(20) == 0 ? (uint32_t)magnitude(is_plain ? 10 : 20) : 0;
    rs->total_lost_pkts += rs->lost_pkts;
    rs->in_flight_pkts = (uint32_t)magnitude(is_plain ? 10 : 29);
    rs->prior_in_flight_pkts = rs->in_flight_pkts + rs->acked_pkts;
    rs->departure_wait_us = below(2) == 0 ? 0 : (uint32_t)magnitude(is_plain ? 14 : 32);
    rs->tx_in_flight_pkts = (uint32_t)magnitude(is_plain ? 10 : 32);
    rs->lost_since_pkts = below(4) == 0 ? (uint32_t)magnitude(is_plain ? 4 : 20) : 0;
    rs->delivered_ce_pkts = below(4) == 0 ? (uint32_t)magnitude(20) : 0;
    rs->total_ce_pkts += below(4) == 0 ? rs->acked_pkts : 0;
    rs->is_app_limited = below(8) == 0;
    rs->is_ack_delayed = below(8) == 0;
    rs->is_cwnd_limited = below(4) != 0;
    rs->is_reordering = below(4) == 0;
    rs->is_ece = below(4) == 0;
    rs->is_acking_tlp = below(50) == 0;
    rs->ca_state = (uint8_t)(e->kind == RTO ? CC_CA_LOSS : e->kind == LOSS_STATE ? e->ca_state : rs->ca_state);
    e->lost = (struct cc_lost_packet){ .now_us = rs->now_us,
                                       .delivered_pkts = rs->delivered_pkts,
                                       .total_lost_pkts = ++rs->total_lost_pkts,
                                       .lost_at_send_pkts = cc_sub_sat(rs->total_lost_pkts, 1 + magnitude(20)),
                                       .tx_in_flight_pkts = (uint32_t)magnitude(is_plain ? 10 : 32),
                                       .size_pkts = 1 + (uint32_t)below(4),
                                       .is_app_limited = below(4) == 0 };
}

static void tell(struct cc_state *state, const struct cc_params *params, const struct event *e)
{
    const struct cc_sample *rs = &e->sample;

    switch (e->kind) {
    case LOSS_STATE: cc_on_loss_state(state, params, e->ca_state, e->in_flight_pkts); break;
    case RTO:
        cc_on_rto(state, params, e->flag, rs->prior_in_flight_pkts, e->in_flight_pkts, rs->total_lost_pkts);
        break;
    case RESTART: cc_on_restart(state, params, rs->now_us, e->flag); break;
    case UNDO: cc_on_undo(state, params); break;
    case PACKET_LOST: cc_on_packet_lost(state, params, &e->lost); break;
    case PROBE_REPAIR: cc_on_probe_repair(state, params, rs->now_us, rs->delivered_pkts, e->flag); break;
    case IDLE: cc_on_idle(state, params, e->idle_us, e->rto_us); break;
    default: cc_on_ack(state, params, rs);
    }
}

/* Begins a life of a flow, at the time of the event before. */
static void begin(struct cc_state *state, const struct cc_params *params, struct event *e)
{
    struct cc_start start = { .now_us = e->sample.now_us,
                              .srtt_us = below(2) == 0 ? 0 : 1 + magnitude(24),
                              .rng_seed = cc_rng_next(&rng),
                              .mss_bytes = 1 + (uint32_t)below(below(2) == 0 ? 9000 : 65000),
                              .initial_cwnd_pkts = (uint32_t)below(below(2) == 0 ? 20 : 1000),
                              .ecn_ok = below(2) == 0 };

    start.min_rtt_us = start.srtt_us ? start.srtt_us : CC_RTT_UNKNOWN_US;
    *e = (struct event){ .sample = { .now_us = start.now_us } };
    cc_init(state, params, &start);
}

#endif
