/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole state of a controller: one plain struct, copied by assignment.
 */
#ifndef BBRGYM_CC_STATE_H
#define BBRGYM_CC_STATE_H

#include "bbr3_state.h"

/* Slow start's end by HyStart, in rounds of one window each. */
struct cubic_hystart {
    bool found;         /* the end was found */
    uint32_t rtt_count; /* of this round, up to CUBIC_HYSTART_RTTS */
    uint64_t round_start_us;
    uint64_t round_end_pkts; /* the round is over when more than this is delivered; 0: at the next RTT */
    uint64_t train_us;       /* the latest ACK that came close to the one before */
    uint64_t round_rtt_us;   /* smallest of this round */
};

/* Linux's CUBIC. */
struct cubic_state {
    uint64_t epoch_start_ms;    /* 0: no epoch yet */
    uint64_t k;                 /* from the epoch's start to the origin, in 1/1024 s */
    uint64_t min_delay_us;      /* smallest RTT since the start or the latest timeout; 0: none yet */
    uint64_t updated_ms;        /* acks_per_pkt was computed */
    uint32_t updated_cwnd_pkts; /* for this window */
    uint32_t acks_per_pkt;      /* the window grows by one for this many */
    uint32_t w_max_pkts;        /* before the latest reduction, or less by fast convergence; 0: none */
    uint32_t origin_pkts;       /* of the cubic curve */
    uint32_t prior_cwnd_pkts;   /* before the latest reduction */
    uint32_t mss_bytes;
    uint64_t reno_cwnd_pkts;  /* of the Reno-friendly rule */
    uint64_t reno_acked_pkts; /* not yet counted in it */
    uint64_t last_sent_us;    /* when the newest packet acknowledged had left */
    struct cubic_hystart hystart;
};

/* Linux's BIC. */
struct bic_state {
    uint64_t updated_ms;        /* acks_per_pkt was computed */
    uint32_t updated_cwnd_pkts; /* for this window */
    uint32_t acks_per_pkt;      /* the window grows by one for this many */
    uint32_t w_max_pkts;        /* before the latest reduction, or less by fast convergence; 0: none */
    uint32_t ack_ratio;         /* packets that an ACK acknowledges, times 16 */
    uint32_t prior_ca_state;    /* at the last ACK */
};

/* Linux's Vegas. */
struct vegas_state {
    uint64_t round_end_pkts; /* the round trip is over when more than this is acknowledged */
    uint64_t next_pkts;      /* new packets that had left at the last ACK */
    uint32_t base_rtt_us;    /* smallest RTT since it was forgotten */
    uint32_t round_rtt_us;   /* smallest of this round trip */
    uint32_t rtt_count;      /* of this round trip */
    bool is_on;              /* otherwise the window grows as Reno's */
    bool opens;              /* the loss state became Open with the ACK being processed */
    bool awaits_end;         /* the next ACK tells round_end_pkts */
};

/* Linux's Westwood+; a tick is a millisecond. */
struct westwood_state {
    uint64_t bw_Bpms;       /* bytes per millisecond, filtered twice */
    uint64_t first_bw_Bpms; /* filtered once */
    uint64_t span_start_ms; /* of the next sample of the bandwidth */
    uint64_t span_pkts;     /* acknowledged since then */
    uint64_t counted_pkts;  /* duplicate ACKs that a cumulative one has yet to cover */
    uint64_t rtt_ms;        /* last measured, rounded up */
    uint64_t min_rtt_ms;
    uint32_t mss_bytes;
    bool awaits_ack;     /* the first one */
    bool had_sack;       /* the last ACK came with SACK blocks */
    bool renews_min_rtt; /* with the next ACK */
    bool ends_reduction; /* CWR or Recovery ends with the ACK being processed */
};

/* The windows before the latest reduction of a loss-based algorithm, restored if it was spurious. */
struct cc_before_reduction {
    uint32_t cwnd_pkts; /* 0: nothing to restore */
    uint32_t ssthresh_pkts;
};

/* What CUBIC or BBR decided itself (scaled.h), and the windows that were made of it. */
struct scaled_state {
    int64_t factor_q16;  /* 0: no event yet */
    uint64_t pacing_Bps; /* 0: no event yet */
    uint32_t cwnd_pkts, shown_cwnd_pkts;
    uint32_t ssthresh_pkts, shown_ssthresh_pkts;
};

struct cc_state {
    /* read by the world */
    uint32_t cwnd_pkts;
    uint32_t ssthresh_pkts;
    uint64_t pacing_Bps; /* payload bytes per second, and pacing_overhead_bytes a packet; UINT64_MAX: unpaced */
    uint32_t pacing_overhead_bytes; /* that pacing counts beside each packet's payload */
    bool mark_app_limited;          /* after this ACK: what is in flight must not count as a bandwidth sample */

    uint32_t initial_cwnd_pkts;
    uint32_t ca_state; /* enum cc_ca_state, as last told */

    struct bbr_state bbr; /* v1's and what v3 shares */
    struct bbr3_state bbr3;

    /* CUBIC, Reno, BIC, Vegas and Westwood */
    struct cubic_state cubic;
    struct cc_before_reduction before;
    union {                             /* of which a flow has one */
        struct westwood_state westwood; /* first, as the largest: initialising clears all of it */
        struct bic_state bic;
        struct vegas_state vegas;
    };
    uint32_t reno_credit_pkts;
    uint64_t una_pkts; /* cumulatively acknowledged at the last ACK */
    uint64_t round_count;
    uint64_t next_round_delivered_pkts;
    uint64_t min_rtt_us;

    union {
        uint64_t own[CC_OWN_BYTES / 8]; /* of a plugin (plugin.h) */
        struct scaled_state scaled;
    };
};

#endif
