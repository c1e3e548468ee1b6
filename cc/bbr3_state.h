/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's memory and constants (google/bbr, branch v3: net/ipv4/tcp_bbr.c; draft-ietf-ccwg-bbr). Rounds, gains,
 * min_rtt, the window to restore and aggregation are v1's (bbr_state.h); its filter, policer detector and packet
 * conservation are not used. BBRv2 (tcp_bbr2.c) is the same but for a few rules, each marked v2, and for the presets of
 * some tunables.
 *
 * Bandwidths are packets per microsecond in Q24, the kernel's unit, because its rounding decides windows.
 */
#ifndef BBRGYM_CC_BBR3_STATE_H
#define BBRGYM_CC_BBR3_STATE_H

#include "bbr_state.h"

#define BBR3_UNSET_PKTS UINT32_MAX
#define BBR3_UNSET_Q24 UINT64_MAX
#define BBR3_Q24_SHIFT 24
#define BBR3_Q24_ONE (UINT64_C(1) << BBR3_Q24_SHIFT)
#define BBR3_INIT_CWND_MAX_PKTS 127 /* the kernel keeps seven bits of it */
#define BBR3_LOSS_EVENTS_MAX 15     /* four bits */
#define BBR3_ROUNDS_MAX 255         /* eight bits of rounds since the last probe */
#define BBR3_UP_ROUNDS_MAX 30       /* the slope doubles each round of UP, to 2^30 */
#define BBR3_UP_ROOM_PKTS 2         /* lets UP exceed a small BDP */
#define BBR3_TSO_MIN_PKTS 2         /* sysctl_tcp_min_tso_segs */
#define BBR3_TSO_BYTES 65536        /* a burst's share for a short path: halved for each 2^9 us of min_rtt */
#define BBR3_TSO_RTT_SHIFT 9
#define BBR3_AGGREGATION_STARTUP_ROUNDS 1 /* of a slot before the pipe was full */
#define BBR3_PROBE_ROUNDS 2               /* the rounds counted since a probe begin at 0 or 1, at random */
#define BBR3_QUEUE_GAIN_Q16 114688        /* 1.75 BDP: below STARTUP's window of 2, well above its growth by 1.25 */
#define BBR3_QUEUE_ROOM_PKTS 2            /* and at least so many above the BDP */
#define BBR3_DRAIN_ROUNDS 3               /* stack.def: bbr3_drain_rounds */
#define BBR3_V2_QUEUE_GAIN_Q16 81920      /* v2's UP lasts until 1.25 BDP are in flight */
#define BBR3_ECN_ONE 256                  /* ECN's ratios are 256ths, rounded down at each step */
#define BBR3_ECN_MAX_RTT_US 5000          /* marks count on paths at most so long */
#define BBR3_ECN_FULL_ROUNDS 2            /* so many rounds of many marks end STARTUP */
#define BBR3_ECN_REPROBE_SHIFT 1          /* after marks without loss UP begins with a slope of half of inflight_hi */

/* cycle_index of PROBE_BW; the first two are v1's. */
enum bbr3_phase { BBR3_UP = 0, BBR3_DOWN = 1, BBR3_CRUISE = 2, BBR3_REFILL = 3 };

/* What the ACKs that arrive now tell: a probe's packets are acknowledged a round after they left. */
enum bbr3_ack_phase {
    BBR3_ACKS_INIT = 0,
    BBR3_ACKS_REFILLING = 1,
    BBR3_ACKS_PROBE_STARTING = 2,
    BBR3_ACKS_PROBE_FEEDBACK = 3,
    BBR3_ACKS_PROBE_STOPPING = 4
};

/* Of Careful Resume (bbr3_resume.h). */
enum bbr3_resume_phase {
    BBR3_RESUME_RECONNAISSANCE = 0,
    BBR3_RESUME_UNVALIDATED = 1,
    BBR3_RESUME_VALIDATING = 2,
    BBR3_RESUME_RETREAT = 3,
    BBR3_RESUME_OVER = 4
};

struct bbr3_state {
    bool is_v2; /* the algorithm is BBRv2 */

    /* after STARTUP: stack.def: bbr3_after_startup */
    bool is_first_down;

    /* Careful Resume; for BPF clang clears 1024 bytes of a state at most, so no field is wider than it needs to be */
    uint8_t resume;           /* enum bbr3_resume_phase */
    uint32_t pipe_pkts;       /* the RFC's PipeSize */
    uint64_t resume_end_pkts; /* delivered when the phase ends */

    /* bounds of the model */
    uint64_t bw_hi_q24[2];     /* largest sample of the cycle before and of this one */
    uint64_t bw_lo_q24;        /* what losses since the last probe leave; BBR3_UNSET_Q24: no bound */
    uint32_t inflight_hi_pkts; /* BBR3_UNSET_PKTS: no bound */
    uint32_t inflight_lo_pkts; /* the same */

    /* signals of this round */
    uint64_t sample_q24;    /* of the ACK being processed; 0: none */
    uint64_t bw_latest_q24; /* largest of the round, and the one before until its first sample */
    uint32_t inflight_latest_pkts;
    uint64_t loss_round_delivered_pkts; /* a round of loss ends when this is exceeded */
    uint32_t loss_events;               /* ACKs of the round that marked losses */
    bool loss_round_start;
    bool loss_in_round;
    bool ecn_in_round;
    bool loss_in_cycle;
    bool ecn_in_cycle;

    /* plateau */
    bool full_bw_now;              /* since the last start of UP */
    uint8_t queue_rounds;          /* of STARTUP, in which a queue lasted */
    uint32_t least_in_flight_pkts; /* of the round, in STARTUP */
    uint64_t full_bw_q24;

    /* PROBE_BW */
    uint32_t ack_phase; /* enum bbr3_ack_phase */
    bool bw_probe_samples;
    bool prev_probe_too_high;
    bool stopped_risky_probe;
    uint32_t up_rounds;
    uint32_t up_cnt;  /* packets acknowledged for each that inflight_hi grows by */
    uint32_t up_acks; /* counted so far */
    uint32_t rounds_since_probe;
    uint64_t probe_wait_us;
    uint64_t drain_start_round;

    /* PROBE_RTT */
    uint64_t probe_rtt_min_us; /* CC_RTT_UNKNOWN_US: none yet */
    uint64_t probe_rtt_min_stamp_us;

    /* before the last reduction, for an undo; 0: nothing to restore */
    uint64_t undo_bw_lo_q24;
    uint32_t undo_inflight_lo_pkts;
    uint32_t undo_inflight_hi_pkts;
    bool undo_startup; /* the episode ended STARTUP; stack.def: bbr3_undo */
    bool undo_up;      /* the same of UP */

    /* ECN */
    bool ecn_ok;       /* both ends agreed on marks of shallow queues, echoed one by one */
    bool ecn_eligible; /* and the path is short */
    uint32_t ecn_alpha_256th;
    uint64_t alpha_delivered_pkts; /* counters at the last update of alpha */
    uint64_t alpha_ce_pkts;
    uint32_t startup_ecn_rounds;

    uint32_t probe_rtt_cwnd_pkts; /* before min_rtt expired; stack.def: bbr3_probe_rtt_window */
    uint32_t init_cwnd_pkts;
    uint32_t min_cwnd_pkts; /* the tunable bbr3_min_cwnd at the last ACK */
    uint64_t now_us;        /* of the event being processed */
};

static inline uint64_t bbr3_max_bw_q24(const struct bbr3_state *bbr3)
{
    return cc_max_u64(bbr3->bw_hi_q24[0], bbr3->bw_hi_q24[1]);
}

/* The bandwidth in use. */
static inline uint64_t bbr3_bw_q24(const struct bbr3_state *bbr3)
{
    return cc_min_u64(bbr3_max_bw_q24(bbr3), bbr3->bw_lo_q24);
}

/* Payload bytes per second of a bandwidth times a gain, less a margin; rounded down at each step, as in the kernel. */
static inline uint64_t bbr3_rate_Bps(const struct bbr_state *bbr, uint64_t bw_q24, int64_t gain_q16, uint64_t percent)
{
    uint64_t scaled = cc_scale(cc_mul_sat(bw_q24, bbr->mss_bytes), gain_q16);

    return cc_mul_div(scaled, UINT64_C(10000) * percent, BBR3_Q24_ONE);
}

/* A bandwidth in payload bytes per second, to the nearest; UINT64_MAX: no bound. */
static inline uint64_t bbr3_bound_Bps(const struct bbr_state *bbr, uint64_t bw_q24)
{
    uint64_t bytes_q24 = cc_mul_sat(cc_mul_sat(bw_q24, bbr->mss_bytes), 1000000);

    return bw_q24 == BBR3_UNSET_Q24 ? UINT64_MAX : cc_add_sat(bytes_q24, BBR3_Q24_ONE / 2) >> BBR3_Q24_SHIFT;
}

/* Packets of a bandwidth over a time, rounded down. */
static inline uint64_t bbr3_pkts_in(uint64_t bw_q24, uint64_t time_us)
{
    return cc_mul_sat(bw_q24, time_us) >> BBR3_Q24_SHIFT;
}

static inline bool bbr3_is_in(const struct bbr_state *bbr, enum bbr3_phase phase)
{
    return bbr->mode == BBR_PROBE_BW && bbr->cycle_index == (uint32_t)phase;
}

/* Whether more is sent on purpose than what is known to fit: no lower bound is set by what that costs. */
static inline bool bbr3_is_probing(const struct bbr_state *bbr)
{
    return bbr->mode == BBR_STARTUP || bbr3_is_in(bbr, BBR3_REFILL) || bbr3_is_in(bbr, BBR3_UP);
}

#endif
