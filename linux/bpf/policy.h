/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy in integer arithmetic (`bbrgym export format=c`) in the kernel: measures a flow and, every interval, sets
 * its tunables, on the first ACK at or after the interval's end. Only in a program that is compiled with
 *
 *   -DBBRGYM_POLICY='"FILE.h"'
 *
 * The measurements are those of world/fields.def, as this socket knows them. RTTs are those of the ACKs' rate samples;
 * their 95th percentile is exact to 1.6 %.
 */
#ifndef BBRGYM_LINUX_BPF_POLICY_H
#define BBRGYM_LINUX_BPF_POLICY_H

#include "floor.h"

#include BBRGYM_POLICY

#if POLICY_FLOWS > 1
#error "the policy acts for all tuned flows, of which a socket knows one: train with env=multi, or with one tuned flow"
#endif

#define RTT_STEPS_LOG2 5
#define RTT_STEPS (1u << RTT_STEPS_LOG2) /* buckets of each power of two */
#define MAX_RTT_US ((1u << 24) - 1)
#define RTT_BUCKETS ((24 - RTT_STEPS_LOG2 + 1) * RTT_STEPS)

/* What the socket has counted so far. */
struct policy_totals {
    uint64_t now_us;
    uint64_t delivered_pkts;
    uint64_t sent_pkts;
    uint64_t retransmitted_pkts;
    uint64_t lost_pkts;
};

/* What a policy may observe of an interval, by the names that its header has; unsigned, in whole units. */
struct policy_measured {
    uint64_t active;
    uint64_t delivery_rate_Bps;
    uint64_t bw_Bps;
    uint64_t pacing_Bps;
    uint64_t cwnd_pkts;
    uint64_t in_flight_pkts;
    uint64_t rtt_mean_us;
    uint64_t rtt_p95_us;
    uint64_t rtt_min_us;
    uint64_t rtt_samples;
    uint64_t srtt_us;
    uint64_t min_rtt_us;
    uint64_t sent_pkts;
    uint64_t retransmitted_pkts;
    uint64_t lost_pkts;
    uint64_t delivered_pkts;
    uint64_t rto_count;
    uint64_t phase;
    uint64_t app_limited;
};

/* Kept with the socket. User space reads the first three. */
struct bpf_policy {
    uint64_t decisions;
    uint64_t decision_ns; /* that all of them took */
    struct policy_state state;

    struct floor_watch floor;
    struct policy_measured measured;
    struct policy_totals totals;
    struct policy_totals before; /* at the last decision */
    uint64_t next_us;            /* when the next decision is due */
    uint64_t rto_count;          /* in this interval, as below */
    uint64_t rtt_sum_us;
    uint64_t rtt_samples;
    uint32_t rtt_min_us;
    uint32_t last_rtt_us;
    uint32_t rtt_counts[RTT_BUCKETS];
};

/* So that user space knows whose tunables it sets. */
struct bpf_policy_about {
    char variant[24];
};

__noinline int policy_take_rtt(struct bpf_policy *policy, uint32_t rtt_us)
{
    uint32_t shift = 0, bucket;

    if (!policy)
        return 0;
    rtt_us = cc_min_u32(rtt_us, MAX_RTT_US);
    policy->last_rtt_us = rtt_us;
    policy->rtt_min_us = policy->rtt_samples > 0 ? cc_min_u32(policy->rtt_min_us, rtt_us) : rtt_us;
    policy->rtt_sum_us += rtt_us;
    policy->rtt_samples++;
    if (rtt_us >= RTT_STEPS)
        shift = 63 - cc_leading_zeros(rtt_us) - RTT_STEPS_LOG2;
    bucket = shift * RTT_STEPS + (rtt_us >> (shift & 31));
    if (bucket < RTT_BUCKETS)
        policy->rtt_counts[bucket]++;
    return 0;
}

/* The RTTs of the interval, or the last one before it; empties the counts. */
__noinline int policy_close_rtts(struct bpf_policy *policy)
{
    uint64_t rank, seen = 0, middle = 0;
    uint32_t bucket, shift;

    if (!policy)
        return 0;
    rank = (policy->rtt_samples * 95 + 99) / 100;
    for (bucket = 0; bucket < RTT_BUCKETS; bucket++) {
        uint32_t count = policy->rtt_counts[bucket];

        if (count == 0)
            continue;
        policy->rtt_counts[bucket] = 0;
        if (seen < rank) {
            shift = bucket < RTT_STEPS ? 0 : bucket / RTT_STEPS - 1;
            middle = ((uint64_t)(bucket - shift * RTT_STEPS) << shift) + (((UINT64_C(1) << shift) - 1) >> 1);
        }
        seen += count;
    }
    policy->measured.rtt_samples = policy->rtt_samples;
    policy->measured.rtt_p95_us = middle;
    policy->measured.rtt_min_us = policy->rtt_min_us;
    policy->measured.rtt_mean_us = policy->last_rtt_us;
    if (policy->rtt_samples > 0) {
        policy->measured.rtt_mean_us = policy->rtt_sum_us / policy->rtt_samples;
    } else {
        policy->measured.rtt_p95_us = policy->last_rtt_us;
        policy->measured.rtt_min_us = policy->last_rtt_us;
    }
    policy->rtt_sum_us = 0;
    policy->rtt_samples = 0;
    return 0;
}

/* What changed since the last decision. */
__noinline int policy_measure(struct bpf_policy *policy, const struct bpf_flow *flow,
                              const struct bpf_flow_settings *settings, uint32_t mss_bytes)
{
    struct policy_measured *is;
    uint64_t us, min_rtt_us;

    if (!policy || !flow || !settings)
        return 0;
    is = &policy->measured;
    us = cc_max_u64(policy->totals.now_us - policy->before.now_us, 1);
    min_rtt_us = cc_min_rtt_us(&flow->state, &settings->params);
    is->active = 1;
    is->delivered_pkts = policy->totals.delivered_pkts - policy->before.delivered_pkts;
    is->delivery_rate_Bps = is->delivered_pkts * mss_bytes * 1000000 / us;
    is->sent_pkts = policy->totals.sent_pkts - policy->before.sent_pkts;
    is->retransmitted_pkts = policy->totals.retransmitted_pkts - policy->before.retransmitted_pkts;
    is->lost_pkts = policy->totals.lost_pkts - policy->before.lost_pkts;
    is->rto_count = policy->rto_count;
    is->bw_Bps = cc_bw_Bps(&flow->state);
    is->pacing_Bps = settings->is_paced && flow->state.pacing_Bps != UINT64_MAX ? flow->state.pacing_Bps : 0;
    is->min_rtt_us = min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : min_rtt_us;
    is->phase = cc_phase(&flow->state, &settings->params);
    policy_close_rtts(policy);
    policy->before = policy->totals;
    policy->rto_count = 0;
    return 0;
}

#define POLICY_TELL_ratio(name) settings->params.name##_q16
#define POLICY_TELL_us(name) settings->params.name
#define POLICY_TELL_count(name) settings->params.name
#define POLICY_TELL_mode(name) settings->params.name
#define POLICY_TELL_switch(name) ((settings->params.mechanisms & (uint32_t)CC_MECHANISM_OF_##name) != 0)
#define POLICY_TELL(name, kind, per_unit) policy->state.tunables[POLICY_TUNABLE_##name] = POLICY_TELL_##kind(name);

/* Begins with the flow's tunables. */
__noinline int policy_start(struct bpf_policy *policy, const struct bpf_flow_settings *settings)
{
    if (!policy || !settings)
        return 0;
    POLICY_TUNABLES(POLICY_TELL)
    policy_begin(&policy->state);
    return 0;
}

#define POLICY_ASK_ratio(name, value) settings->params.name##_q16 = value;
#define POLICY_ASK_us(name, value) settings->params.name = value;
#define POLICY_ASK_count(name, value) settings->params.name = value;
#define POLICY_ASK_mode(name, value) settings->params.name = value;
#define POLICY_ASK_switch(name, value)                                                                                 \
    settings->params.mechanisms = (settings->params.mechanisms & ~(uint32_t)CC_MECHANISM_OF_##name) |                  \
                                  ((value) > 0 ? (uint32_t)CC_MECHANISM_OF_##name : 0);
#define POLICY_ASK(name, kind, per_unit) POLICY_ASK_##kind(name, policy->state.tunables[POLICY_TUNABLE_##name])
#define POLICY_SHOW(name, source, per_unit)                                                                            \
    policy->state.fields[0][POLICY_FIELD_##name] = (int64_t)policy->measured.name;

/* Decides from what was measured, and sets the flow's tunables. */
__noinline int policy_step(struct bpf_policy *policy, struct bpf_flow_settings *settings)
{
    uint64_t began_ns;

    if (!policy || !settings)
        return 0;
    began_ns = bpf_ktime_get_ns();
    POLICY_FIELDS(POLICY_SHOW)
    policy->state.flows = 1;
    policy_decide(&policy->state);
    POLICY_TUNABLES(POLICY_ASK)
    policy->decisions++;
    policy->decision_ns += bpf_ktime_get_ns() - began_ns;
    policy->next_us += POLICY_INTERVAL_US;
    if (policy->next_us <= policy->totals.now_us)
        policy->next_us = policy->totals.now_us + POLICY_INTERVAL_US;
    return 0;
}

#endif
