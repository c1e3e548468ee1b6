/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The whole state of a controller: one plain struct, copied by assignment.
 */
#ifndef BBRGYM_CC_STATE_H
#define BBRGYM_CC_STATE_H

#include "bbr_state.h"

struct cubic_state {
    uint64_t epoch_start_us; /* 0: no epoch yet */
    uint64_t last_ack_us;
    uint64_t k_ms;
    uint32_t w_max_pkts;
    uint32_t origin_pkts;
    uint32_t prior_cwnd_pkts; /* before the latest reduction */
    uint64_t w_est_micro_pkts;
    uint64_t credit_micro_pkts;
};

/* CUBIC's and Reno's windows before the latest reduction, restored if it was spurious. */
struct cc_before_reduction {
    uint32_t cwnd_pkts; /* 0: nothing to restore */
    uint32_t ssthresh_pkts;
    struct cubic_state cubic;
};

struct cc_state {
    /* read by the world */
    uint32_t cwnd_pkts;
    uint32_t ssthresh_pkts;
    uint64_t pacing_Bps;   /* payload bytes per second; UINT64_MAX: unpaced */
    bool mark_app_limited; /* after this ACK: what is in flight must not count as a bandwidth sample */

    uint32_t initial_cwnd_pkts;
    uint32_t ca_state; /* enum cc_ca_state, as last told */

    struct bbr_state bbr;

    /* CUBIC and Reno */
    struct cubic_state cubic;
    struct cc_before_reduction before;
    uint32_t reno_credit_pkts;
    uint64_t round_count;
    uint64_t next_round_delivered_pkts;
    uint64_t min_rtt_us;
};

#endif
