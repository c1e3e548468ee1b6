/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The types that a world and an algorithm exchange.
 *
 * A world (ns-3, the twin, a kernel) hands over one `cc_sample` per ACK and reads `cwnd_pkts` and
 * `pacing_Bps` back from the state. Volumes are packets of `mss_bytes` payload, times microseconds,
 * rates payload bytes per second, ratios Q16 (65536 = 1) unless a name says otherwise.
 */
#ifndef BBRGYM_CC_TYPES_H
#define BBRGYM_CC_TYPES_H

#include "algorithms.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Marks for BPF; elsewhere these functions are as any other. CC_VERIFIED_ALONE: of numbers only; the verifier checks it
 * once and not again on each path that calls it. CC_IN_LINE: has more than the five arguments that a call can pass.
 */
#ifdef __bpf__
#define CC_VERIFIED_ALONE __attribute__((noinline))
#define CC_IN_LINE static inline __attribute__((always_inline))
#else
#define CC_VERIFIED_ALONE static inline
#define CC_IN_LINE static inline
#endif

/*
 * What the data path runs often, whoever else calls it; and what it runs seldom, which costs it nothing then, except in
 * BPF, whose calls may not go deep.
 */
#define CC_HOT static inline __attribute__((always_inline))
#ifdef __bpf__
#define CC_APART static inline
#else
#define CC_APART __attribute__((noinline, unused)) static
#endif

#define CC_RTT_UNKNOWN_US UINT64_MAX

#define CC_OWN_BYTES 120 /* of a plugin's own state: the whole state has 1 KiB, the most that BPF clears at once */

#define CC_GSO_MAX_BYTES 65215 /* Linux: sk_gso_max_size less the headers' room */

enum cc_algorithm {
#define CC_NUMBER(id, ...) CC_ALGORITHM_##id,
    CC_ALGORITHMS(CC_NUMBER)
#undef CC_NUMBER
};

/* Linux's order: everything from CC_CA_RECOVERY on is "at least recovery" (tcp_ca_state). */
enum cc_ca_state { CC_CA_OPEN = 0, CC_CA_DISORDER = 1, CC_CA_CWR = 2, CC_CA_RECOVERY = 3, CC_CA_LOSS = 4 };

/* State of the connection when the algorithm starts (after the handshake). */
struct cc_start {
    uint64_t now_us;
    uint64_t srtt_us;    /* 0: no sample yet */
    uint64_t min_rtt_us; /* CC_RTT_UNKNOWN_US: no sample yet */
    uint64_t rng_seed;   /* of the flow's own named stream */
    uint32_t mss_bytes;
    uint32_t initial_cwnd_pkts;
    bool ecn_ok; /* both ends use ECN, and each packet's mark is echoed */
};

/* One ACK: Linux's `struct rate_sample` and the `tcp_sock` fields BBR reads. */
struct cc_sample {
    uint64_t now_us;
    uint64_t delivered_time_us;    /* time `delivered_pkts` last grew */
    uint64_t delivered_pkts;       /* C(now), this ACK included */
    uint64_t prior_delivered_pkts; /* C when the newest acknowledged packet left */
    uint64_t total_lost_pkts;      /* ever marked lost, timeouts included */
    int64_t sample_pkts;           /* RS.delivered; -1: no valid sample */
    int64_t interval_us;           /* RS.interval; <= 0: no valid sample */
    int64_t rtt_us;                /* RS.rtt; -1: this ACK measured none */
    uint64_t srtt_us;              /* smoothed RTT, weight 1/8; 0: none yet */
    uint64_t min_rtt_us;           /* connection minimum RTT; CC_RTT_UNKNOWN_US: none yet */
    uint64_t una_pkts;             /* cumulatively acknowledged since the start, this ACK included (snd_una) */
    uint64_t next_pkts;            /* new ones that have left since then (snd_nxt) */
    uint32_t acked_pkts;           /* newly cumulatively or selectively acknowledged */
    uint32_t lost_pkts;            /* newly marked lost; a lost retransmission counts again */
    uint32_t prior_in_flight_pkts; /* before this ACK was processed */
    uint32_t in_flight_pkts;       /* after it */
    uint32_t departure_wait_us;    /* from now until pacing lets the next packet leave; 0: it may leave */
    uint32_t
        tx_in_flight_pkts; /* in flight just after the newest acknowledged packet left, itself included; 0: no sample */
    uint32_t lost_since_pkts;   /* marked lost since it left (RS.lost) */
    uint32_t delivered_ce_pkts; /* delivered with a mark since it left; 0 without ECN */
    uint64_t total_ce_pkts;     /* ever delivered with a mark */
    uint8_t ca_state;           /* enum cc_ca_state, after loss detection on this ACK */
    bool is_app_limited;
    bool is_ack_delayed;
    bool has_sack;        /* it came with SACK blocks */
    bool is_reordering;   /* the path has reordered by more than three packets (Linux tcp_sock.reordering) */
    bool is_cwnd_limited; /* the window, not pacing or the application, limited the last flight */
    bool is_ece;          /* it echoes a mark */
    bool is_acking_tlp;   /* it acknowledges a tail loss probe */
};

/* A packet that was marked lost. */
struct cc_lost_packet {
    uint64_t now_us;
    uint64_t delivered_pkts;    /* as in cc_sample */
    uint64_t total_lost_pkts;   /* this one included */
    uint64_t lost_at_send_pkts; /* the same when it left */
    uint32_t tx_in_flight_pkts; /* in flight just after it left, itself included */
    uint32_t size_pkts;
    bool is_app_limited; /* when it left */
};

#endif
