/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What BBRv3 asks of each packet and a mainline kernel does not tell a congestion control: how much was in flight when
 * the packet left, and how much had been marked lost by then. Only in a program that is compiled with -DBBRGYM_BBR3.
 *
 * Nothing calls the program when a packet leaves. But packets leave between two ACKs, and the kernel keeps the count of
 * delivered packets with each (rate_sample.prior_delivered). So the socket is remembered after each ACK, by that count:
 * all that left until the next ACK had that many marked lost, and in flight were as many more as there is sequence
 * between.
 *
 *   in flight when the sampled packet left   exact for a new one; a retransmission counts as the first after the ACK
 *   marked lost since it left                exact, but for marks of a timer that the loss state does not show
 *   which packets were marked lost           only how many (tcp_sock.lost): the newest packet acknowledged before
 *                                            stands for them, which left at most a reordering window after them
 *   a tail loss probe repaired a loss        the kernel's state becomes CWR and leaves it in one ACK
 *   a tail loss probe's segment was the      as the newest packet that was acknowledged before
 *   application's last
 *   each packet's mark is echoed             never, ECN is RFC 3168's here: marks change nothing, as in google/bbr
 */
#ifndef BBRGYM_LINUX_BPF_FLIGHTS_H
#define BBRGYM_LINUX_BPF_FLIGHTS_H

#include "kernel.h"

#define FLIGHTS 2048 /* a power of two; a packet with more delivered after it has no sample of its flight */

/* The socket after an ACK. */
struct bpf_flight {
    uint32_t delivered_pkts; /* 0: none is remembered here */
    uint32_t next_sequence;
    uint32_t in_flight_pkts;
    uint32_t lost_pkts; /* ever marked lost */
};

/* Kept with the socket. */
struct bpf_flights {
    struct bpf_flight after[FLIGHTS]; /* by the packets delivered, modulo FLIGHTS */
    struct {                          /* when the newest packet that was acknowledged had left */
        uint32_t in_flight_pkts;
        uint32_t lost_pkts;
        bool is_app_limited;
    } newest;
    uint32_t told_lost_pkts; /* ever marked lost, as cc/ knows */
    bool is_reducing;        /* the window's reduction began with the ACK being processed */
};

/* Remembers the socket before the next packets leave. */
static __always_inline void keep_flight(struct bpf_flights *flights, const struct tcp_sock *tp)
{
    struct bpf_flight *flight = &flights->after[tp->delivered % FLIGHTS];

    flight->delivered_pkts = tp->delivered;
    flight->next_sequence = tp->snd_nxt;
    flight->in_flight_pkts = in_flight_pkts(tp);
    flight->lost_pkts = tp->lost;
}

/* In flight just after the sampled packet left, one of those that left after `flight`. */
static __always_inline uint32_t tx_in_flight_pkts(const struct bpf_flight *flight, uint32_t mss_bytes,
                                                  const struct rate_sample *rs)
{
    int32_t beyond_bytes = (int32_t)(rs->last_end_seq - flight->next_sequence);
    uint32_t mss = cc_max_u32(mss_bytes, 1);

    if (rs->is_retrans)
        return flight->in_flight_pkts + 1;
    if (beyond_bytes >= 0)
        return flight->in_flight_pkts + ((uint32_t)beyond_bytes + mss - 1) / mss;
    return cc_max_u32((uint32_t)cc_sub_sat(flight->in_flight_pkts, (uint32_t)-beyond_bytes / mss), 1);
}

static __always_inline void fill_flight(struct cc_sample *sample, struct bpf_flights *flights,
                                        const struct tcp_sock *tp, uint32_t ack, int flag, const struct rate_sample *rs)
{
    const struct bpf_flight *flight = &flights->after[rs->prior_delivered % FLIGHTS];

    sample->is_ece = (flag & FLAG_ECE) != 0;
    sample->is_acking_tlp = tp->tlp_high_seq != 0 && READ_BITS(tp, tlp_retrans) && ack == tp->tlp_high_seq;
    sample->total_ce_pkts = tp->delivered_ce;
    if (rs->prior_delivered == 0 || flight->delivered_pkts != rs->prior_delivered)
        return;
    sample->tx_in_flight_pkts = tx_in_flight_pkts(flight, tp->mss_cache, rs);
    sample->lost_since_pkts = tp->lost - flight->lost_pkts;
    sample->delivered_ce_pkts = rs->delivered_ce > 0 ? (uint32_t)rs->delivered_ce : 0;
    flights->newest.in_flight_pkts = sample->tx_in_flight_pkts;
    flights->newest.lost_pkts = flight->lost_pkts;
    flights->newest.is_app_limited = rs->is_app_limited;
}

/* The packets marked lost that cc/ does not know of yet. Returns how many. */
static __always_inline uint32_t fill_lost(struct bpf_event *event, struct bpf_flights *flights,
                                          const struct tcp_sock *tp)
{
    struct cc_lost_packet *last = &event->lost.last;

    event->kind = BPF_EVENT_LOST;
    event->lost.count = tp->lost - flights->told_lost_pkts;
    flights->told_lost_pkts = tp->lost;
    last->now_us = tp->tcp_mstamp;
    last->delivered_pkts = tp->delivered;
    last->total_lost_pkts = tp->lost;
    last->lost_at_send_pkts = flights->newest.lost_pkts;
    last->tx_in_flight_pkts = flights->newest.in_flight_pkts;
    last->size_pkts = 1;
    last->is_app_limited = flights->newest.is_app_limited;
    return event->lost.count;
}

#endif
