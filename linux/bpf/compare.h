/* SPDX-License-Identifier: GPL-2.0-only */
/* What compare.bpf.c and user space share. */
#ifndef BBRGYM_LINUX_BPF_COMPARE_H
#define BBRGYM_LINUX_BPF_COMPARE_H

#include <stdint.h>

#define BPF_COMPARED_PORTS 16

/* What is compared; written by user space before the program is loaded. */
struct bpf_comparison {
    char names[2][16];   /* of the controls: A, B */
    uint64_t seed;       /* of the draws */
    uint32_t b_below;    /* draws of 32 bits below it are B's */
    uint32_t port_count; /* 0: connections of all ports */
    uint32_t ports[BPF_COMPARED_PORTS];
};

/* Connections since the program was attached; by control: A, B. */
struct bpf_comparison_counts {
    uint64_t given[2];
    uint64_t refused; /* the kernel did not give them the control: it is gone, or the route's is locked */
    uint64_t lost;    /* ended, but their rows found no room */
};

/* A connection that is given a control, and at its end its row. */
struct bpf_compared {
    uint64_t cookie;
    uint64_t start_us;  /* established; of the monotonic clock, as all times here */
    uint64_t finish_us; /* its last data was acknowledged */
    uint64_t end_us;
    uint64_t acked_bytes;
    uint64_t rtt_sum_us; /* of a sample each round trip */
    uint32_t rtt_samples;
    uint32_t min_rtt_us;
    uint32_t sent_pkts; /* with those sent again */
    uint32_t retransmitted_pkts;
    uint32_t arm;      /* 0: A, 1: B */
    uint32_t is_whole; /* all its data was acknowledged */
    uint32_t family;
    uint32_t port;       /* of the service */
    uint8_t remote[16];  /* in network order; of IPv4 the first 4 bytes */
    uint64_t given;      /* where the kernel has the control that it was given */
    uint32_t is_changed; /* it had another one since */
    uint32_t has_fin;    /* queued, as the last byte to acknowledge */
    char control[16];    /* that it has at its end */
};

#endif
