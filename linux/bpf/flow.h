/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the BPF program and user space share: a flow's settings and state, which the kernel keeps with its socket, and
 * the record of an event.
 */
#ifndef BBRGYM_LINUX_BPF_FLOW_H
#define BBRGYM_LINUX_BPF_FLOW_H

/*
 * A program has one generation: BBR v1 or, compiled with -DBBRGYM_BBR3, v2 and v3; and with -DBBRGYM_PLUGIN=FILE a file
 * of the user's (cc/plugin.h).
 */
#if defined(__bpf__) && defined(BBRGYM_BBR3)
#define CC_WITHOUT_BBR1
#elif defined(__bpf__)
#define CC_WITHOUT_BBR3
#endif
#ifdef BBRGYM_PLUGIN
#define CC_HAS_PLUGIN
#include BBRGYM_PLUGIN
#endif
#include "cc.h"

/* When a policy's flow falls back to its preset, see floor.h; a time of 0: never. */
struct bpf_floor {
    uint32_t goodput_q16; /* share of BBR's estimate of the bandwidth */
    uint32_t rtt_q16;     /* times the minimum RTT */
    uint64_t goodput_us;
    uint64_t rtt_us;
};

enum bpf_fallen { BPF_FALLEN_NOT, BPF_FALLEN_GOODPUT, BPF_FALLEN_RTT };

/* Written by user space, whole, at any time; read on each event. */
struct bpf_flow_settings {
    struct cc_params params;
    struct bpf_floor floor;
    uint64_t rng_seed; /* of the flow's own named stream; read when the flow starts */
    uint32_t flow;     /* its number, in records */
    bool is_paced;     /* as from Linux 4.13; otherwise the pacing rate only sizes bursts. Read when the flow starts */
    bool is_recorded;
    bool has_policy;     /* the program's policy, if it has one, sets the tunables. Read when the flow starts */
    uint32_t generation; /* of the parameters and the floor: a socket whose differs from the defaults' takes theirs */
};

/* Written by the program. */
struct bpf_flow {
    uint64_t changes; /* odd: an event is being processed */
    struct cc_state state;
    uint64_t start_us;
    uint64_t events;
    uint64_t acks;
    uint64_t total_lost_pkts; /* ever marked lost, as of the latest ACK or timeout */
    uint32_t fallen;          /* enum bpf_fallen: why its policy acts no more */
    bool asked_ssthresh;      /* since the latest change of the loss state */
};

enum bpf_event_kind {
    BPF_EVENT_START,
    BPF_EVENT_ACK,
    BPF_EVENT_LOSS_STATE,
    BPF_EVENT_TIMEOUT,
    BPF_EVENT_RESTART,
    BPF_EVENT_UNDO,
    BPF_EVENT_LOST,
    BPF_EVENT_PROBE_REPAIR
};

/* One event: what the kernel reported. */
struct bpf_event {
    uint32_t kind;      /* enum bpf_event_kind */
    uint32_t cwnd_pkts; /* ACK: the kernel's window before it */
    union {
        struct cc_start start;
        struct cc_sample sample;
        struct {
            uint32_t new_state; /* enum cc_ca_state */
            uint32_t in_flight_pkts;
        } loss_state;
        struct {
            uint64_t total_lost_pkts;
            uint32_t in_flight_pkts;
            bool asked_ssthresh;
        } timeout;
        struct {
            uint64_t now_us;
            bool is_app_limited;
        } restart;
        struct {
            struct cc_lost_packet last;
            uint32_t count;
        } lost;
        struct {
            uint64_t now_us;
            uint64_t delivered_pkts;
            bool is_app_limited;
        } probe_repair;
    };
};

/* An event, the parameters that held and the state after it. */
struct bpf_record {
    uint64_t number; /* of the flow's events, from 0; a gap: records were lost */
    uint32_t flow;
    struct bpf_event event;
    struct cc_params params;
    struct cc_state after;
};

/* What the kernel knows of a connection. */
struct bpf_connection {
    char control[16]; /* that it has now */
    uint64_t cookie;  /* the socket's, unique since the machine was started */
    uint64_t now_us;
    uint64_t acked_bytes;
    uint8_t local[16]; /* in network order; of IPv4 the first 4 */
    uint8_t remote[16];
    uint32_t family;
    uint32_t local_port;
    uint32_t remote_port;
    uint32_t mss_bytes;
    uint32_t cwnd_pkts;
    uint32_t in_flight_pkts;
    uint32_t retransmitted_pkts;
    uint32_t lost_pkts;
    uint32_t delivered_pkts;
    uint32_t srtt_us;
    uint32_t is_app_limited;
    uint32_t sacked_pkts;
};

/* A connection as the iterator over connections writes it. */
struct bpf_flow_row {
    struct bpf_connection connection;
    struct bpf_flow flow;
    struct bpf_flow_settings settings;
};

/* Which sockets are given another congestion control, when the iterator over sockets is read. */
struct bpf_move {
    char from[16];
    char to[16];
};

/* One event into cc/; in line, so that a program has only what its kind of event needs. */
static inline __attribute__((always_inline)) void
bpf_event_apply(struct cc_state *state, const struct cc_params *params, const struct bpf_event *event)
{
    switch (event->kind) {
    case BPF_EVENT_START: cc_init(state, params, &event->start); break;
    case BPF_EVENT_ACK:
        state->cwnd_pkts = event->cwnd_pkts;
        cc_on_ack(state, params, &event->sample);
        break;
    case BPF_EVENT_LOSS_STATE:
        cc_on_loss_state(state, params, (enum cc_ca_state)event->loss_state.new_state,
                         event->loss_state.in_flight_pkts);
        break;
    case BPF_EVENT_TIMEOUT:
        cc_on_rto(state, params, event->timeout.asked_ssthresh, event->timeout.in_flight_pkts,
                  event->timeout.in_flight_pkts, event->timeout.total_lost_pkts);
        break;
    case BPF_EVENT_RESTART: cc_on_restart(state, params, event->restart.now_us, event->restart.is_app_limited); break;
    case BPF_EVENT_LOST: cc_on_packets_lost(state, params, &event->lost.last, event->lost.count); break;
    case BPF_EVENT_PROBE_REPAIR:
        cc_on_probe_repair(state, params, event->probe_repair.now_us, event->probe_repair.delivered_pkts,
                           event->probe_repair.is_app_limited);
        break;
    default: cc_on_undo(state, params); break;
    }
}

#endif
