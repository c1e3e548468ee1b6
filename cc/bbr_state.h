/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBR v1's memory and constants (Linux net/ipv4/tcp_bbr.c).
 */
#ifndef BBRGYM_CC_BBR_STATE_H
#define BBRGYM_CC_BBR_STATE_H

#include "max_filter.h"
#include "params.h"
#include "rng.h"

#define BBR_HIGH_GAIN_Q16 (739 * 256) /* 2/ln 2, Linux's 739/256: doubles the rate each round of STARTUP */
#define BBR_DRAIN_GAIN_Q16 (88 * 256) /* its inverse, 88/256: empties in one round what STARTUP queued */
#define BBR_CYCLE_PHASES 8            /* one up, one down, six at the estimate */
#define BBR_BW_WINDOW_ROUNDS 10       /* the cycle and two more */
#define BBR_PROBE_RTT_TIME_US 200000  /* long enough to overlap with others' */
#define BBR_CWND_FLOOR_PKTS 4         /* lets a receiver that ACKs every other packet keep two ACKs going */
#define BBR_FULL_BW_GROWTH_Q16 81920  /* 1.25: less growth than that in a round is a plateau */
#define BBR_FULL_BW_ROUNDS 3          /* three: receive windows may grow in two */
#define BBR_DOWN_GAIN_MIN_Q16 19661   /* 0.3: an up gain of 2 must not stop the flow on the way down */
#define BBR_PACING_MARGIN_PERCENT 1   /* paces 1 % below the estimate to keep the queue short */
#define BBR_UNKNOWN_RTT_US 1000       /* nominal RTT before the first sample */
#define BBR_INIT_CWND_PKTS 10         /* Linux TCP_INIT_CWND, whatever window the connection started with */
#define BBR_HEADER_BYTES 40           /* IPv4 and TCP without options, where pacing counts them */
#define BBR_SLOWEST_PKT_S 64          /* paces a packet in 64 s at least: less than the longest timeout, 120 s */

enum bbr_mode { BBR_STARTUP = 0, BBR_DRAIN = 1, BBR_PROBE_BW = 2, BBR_PROBE_RTT = 3 };

/* Packets acknowledged beyond what the bandwidth explains (bbr_update_ack_aggregation). */
struct bbr_aggregation {
    uint64_t epoch_time_us;
    uint32_t epoch_acked_pkts;
    uint32_t extra_pkts[2]; /* maxima of this and the previous window of rounds */
    uint32_t slot;
    uint32_t age_rounds;
};

/* The long-term bandwidth estimator that finds policers (bbr_lt_bw_sampling). */
struct bbr_policer {
    bool is_sampling;
    bool in_use;
    bool holds_gain; /* stack.def: gains_by_event */
    uint32_t rounds;
    uint64_t bw_Bps;
    uint64_t last_time_ms;
    uint64_t last_delivered_pkts;
    uint64_t last_lost_pkts;
};

struct bbr_state {
    uint32_t mode; /* enum bbr_mode */
    uint32_t mss_bytes;
    uint64_t stack; /* a bit for each of enum cc_stack; constant for a flow */
    int64_t pacing_gain_q16;
    int64_t cwnd_gain_q16;

    /* path model */
    struct cc_max_filter bw_filter; /* time is the round count */
    uint64_t bw_window_rounds;
    uint64_t min_rtt_us; /* CC_RTT_UNKNOWN_US: none yet */
    uint64_t min_rtt_stamp_us;
    uint64_t srtt_us; /* the connection's, 0: none yet */

    /* rounds */
    uint64_t round_count;
    uint64_t next_round_delivered_pkts;

    /* STARTUP */
    bool full_bw_reached;
    uint32_t full_bw_count;
    uint64_t full_bw_Bps;

    /* PROBE_BW */
    uint32_t cycle_index;
    bool round_start;          /* of the rounds above */
    bool probe_rtt_round_done; /* of PROBE_RTT: here they fill a gap */
    uint64_t cycle_time_us;

    /* PROBE_RTT */
    uint64_t probe_rtt_done_us;     /* 0: not yet at the floor */
    uint64_t probe_rtt_interval_us; /* drawn, RANDOM_PROBE_RTT only; 0: to be drawn */

    /* recovery */
    uint32_t prior_cwnd_pkts;
    uint32_t prev_ca_state; /* enum cc_ca_state */
    bool packet_conservation;
    bool restore_cwnd; /* with the next ACK of data, stack.def: restore */
    bool idle_restart;
    bool has_seen_rtt;

    uint32_t tso_goal_pkts; /* of the last ACK's pacing rate, 0 before, stack.def: tso_goal */

    struct bbr_aggregation aggregation;
    struct bbr_policer policer;

    /* of the latest sample, for events between ACKs */
    uint64_t delivered_pkts;
    uint64_t delivered_time_us;

    /* mechanisms */
    uint64_t plus_srtt_q16_us;
    int64_t acd_last_rtt_us;
    uint32_t acd_same_count;
    bool acd_congested;
    bool acd_cut_done; /* once-an-episode halving has been applied */
    bool acd_capped;   /* a cut was made in acd_capped_mode, and the mode has not changed since */
    uint8_t acd_capped_mode;
    bool bbq_queue_seen;
    bool bbq_queue_latched;
    uint8_t path_rounds;    /* for which a new path is suspected, 0: it is not */
    uint32_t path_rtt_us;   /* the latest; the least since the suspicion */
    uint32_t path_pause_us; /* the longest between two ACKs since the suspicion */
    uint64_t bbq_data_min_rtt_us;

    /* One stream per purpose: switching a mechanism never shifts another's draws. */
    struct cc_rng phase_rng;
    struct cc_rng trand_rng;
};

static inline bool bbr_has(const struct bbr_state *bbr, enum cc_stack fact)
{
    return (bbr->stack & cc_stack_bit(fact)) != 0;
}

/* The RTT that the model takes from an ACK; below 0: none. */
static inline int64_t bbr_rtt_us(const struct bbr_state *bbr, const struct cc_sample *rs)
{
    if (!bbr_has(bbr, CC_STACK_model_rtt))
        return rs->rtt_us;
    return bbr->srtt_us == 0 ? -1 : (int64_t)bbr->srtt_us;
}

/* Packets in flight as the algorithm reads them; stack.def: in_flight_of. */
static inline uint32_t bbr_in_flight_pkts(const struct bbr_state *bbr, const struct cc_sample *rs)
{
    return bbr_has(bbr, CC_STACK_in_flight_of) ? rs->prior_in_flight_pkts : rs->in_flight_pkts;
}

static inline void bbr_set_mode(struct bbr_state *bbr, enum bbr_mode mode)
{
    bbr->mode = mode;
    bbr->policer.holds_gain = false;
}

/* Saves the window to restore after recovery or ProbeRTT (bbr_save_cwnd). */
static inline void bbr_save_cwnd(struct bbr_state *bbr, uint32_t cwnd_pkts)
{
    if (bbr->prev_ca_state < CC_CA_RECOVERY && bbr->mode != BBR_PROBE_RTT)
        bbr->prior_cwnd_pkts = cwnd_pkts;
    else
        bbr->prior_cwnd_pkts = cc_max_u32(bbr->prior_cwnd_pkts, cwnd_pkts);
}

static inline uint64_t bbr_max_bw_Bps(const struct bbr_state *bbr) { return cc_max_filter_get(&bbr->bw_filter); }

/* The bandwidth in use: the policer's if one was detected, else the bottleneck's. */
static inline uint64_t bbr_bw_Bps(const struct bbr_state *bbr)
{
    return bbr->policer.in_use ? bbr->policer.bw_Bps : bbr_max_bw_Bps(bbr);
}

/* Packets of a rate over a time, rounded down. */
static inline uint64_t bbr_pkts_in(const struct bbr_state *bbr, uint64_t bw_Bps, uint64_t time_us)
{
    return cc_mul_div(bw_Bps, time_us, UINT64_C(1000000) * bbr->mss_bytes);
}

/*
 * The pacing rate of a bandwidth and a gain: Linux paces 1 % below, and until 4.19 it counted headers. Rounded down
 * once, as in the kernel.
 */
static inline uint64_t bbr_paced_Bps(const struct bbr_state *bbr, uint64_t bw_Bps, int64_t gain_q16)
{
    uint64_t percent = bbr_has(bbr, CC_STACK_pacing_margin) ? 100 - BBR_PACING_MARGIN_PERCENT : 100;
    uint64_t bytes = bbr->mss_bytes;

    if (gain_q16 <= 0)
        return 0;
    if (!bbr_has(bbr, CC_STACK_pacing_unit)) {
        bytes += BBR_HEADER_BYTES;
        bw_Bps = cc_mul_div(bw_Bps, bytes, bbr->mss_bytes);
    }
    return cc_mul_div(bw_Bps, (uint64_t)gain_q16 * percent, 100 * CC_Q16_ONE);
}

/* Payload bytes per second of `pkts` delivered in `time_us` > 0. */
static inline uint64_t bbr_rate_Bps(const struct bbr_state *bbr, uint64_t pkts, uint64_t time_us)
{
    return cc_mul_div(pkts, UINT64_C(1000000) * bbr->mss_bytes, time_us);
}

#endif
