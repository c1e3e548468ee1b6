/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cost of cc_on_ack: nanoseconds a call for each variant, over a steady life of ACKs on a 100 Mbit/s, 40 ms path.
 *
 *   gcc -std=c11 -O2 -Icc benchmarks/cc_on_ack.c -o build/cc_on_ack && build/cc_on_ack
 */
#define _POSIX_C_SOURCE 199309L
#include "cc.h"

#include <stdio.h>
#include <time.h>

#define ACKS 20000000u

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void steady_ack(struct cc_sample *rs, unsigned i)
{
    rs->now_us += 232;
    rs->delivered_time_us = rs->now_us;
    rs->prior_delivered_pkts = rs->delivered_pkts > 345 ? rs->delivered_pkts - 345 : 0;
    rs->delivered_pkts += 2;
    rs->sample_pkts = 345;
    rs->interval_us = 40000 + (int64_t)(i % 7);
    rs->rtt_us = 40000 + (int64_t)(i % 1000);
    rs->srtt_us = 40500;
}

static double cost_ns(enum cc_variant variant)
{
    struct cc_params params;
    struct cc_state state;
    struct cc_start start = {0, 40000, 40000, 1, 1448, 10};
    struct cc_sample rs = {0};
    double begin;
    unsigned i;

    cc_params_init(&params, variant);
    cc_init(&state, &params, &start);
    rs.acked_pkts = 2;
    rs.min_rtt_us = 40000;
    rs.in_flight_pkts = rs.prior_in_flight_pkts = 345;
    rs.is_cwnd_limited = true;
    begin = now_ns();
    for (i = 0; i < ACKS; i++) {
        steady_ack(&rs, i);
        cc_on_ack(&state, &params, &rs);
    }
    return (now_ns() - begin) / ACKS;
}

int main(void)
{
#define CC_VARIANT(id, name, algorithm, mechanisms, exponent, source)                                                  \
    printf("%-12s %6.1f ns per cc_on_ack\n", name, cost_ns(CC_VARIANT_##id));
#include "variants.def"
    return 0;
}
