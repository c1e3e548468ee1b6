/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The floor under a policy: a flow that does worse for long enough has its preset for the rest of its life. Each second
 * it is bad, good or, where it tells nothing, neither; bad time is added up until a good second. Only time in which the
 * network limits is bad: none while the application, its send buffer or the receiver's window holds back.
 *
 *   goodput   bad below a share of BBR's own estimate of the bandwidth
 *   RTT       bad if the mean is above so many times the minimum, and 15 ms above it; nothing is told without a sample
 */
#ifndef BBRGYM_LINUX_BPF_FLOOR_H
#define BBRGYM_LINUX_BPF_FLOOR_H

#include "flow.h"

#define FLOOR_SECOND_US 1000000
#define FLOOR_RISE_US                                                                                                  \
    15000 /* RFC 8033, 4.2: the standing queue that PIE allows; BBR needs it where the path is short */

/* Kept with the socket. */
struct floor_watch {
    uint64_t began_us; /* of this second */
    uint64_t began_delivered_pkts;
    uint64_t rtt_sum_us;
    uint64_t rtt_samples;
    uint64_t low_us;                 /* goodput was bad for so long */
    uint64_t high_us;                /* RTT was */
    uint32_t jiffies, began_jiffies; /* as of this ACK and when the second began */
    uint32_t limited, began_limited; /* by the network, in jiffies */
    bool is_app_limited;
};

/* Takes an ACK; sets flow->fallen if the floor is reached. */
__noinline int floor_take(struct floor_watch *watch, struct bpf_flow *flow, const struct bpf_flow_settings *settings,
                          const struct cc_sample *sample, uint32_t mss_bytes)
{
    const struct bpf_floor *floor;
    uint64_t us, limited_us, goodput_Bps, min_rtt_us;
    bool is_limited;

    if (!watch || !flow || !settings || !sample)
        return 0;
    floor = &settings->floor;
    if (sample->rtt_us >= 0) {
        watch->rtt_sum_us += (uint64_t)sample->rtt_us;
        watch->rtt_samples++;
    }
    if (sample->is_app_limited)
        watch->is_app_limited = true;
    us = sample->now_us - watch->began_us;
    if (us < FLOOR_SECOND_US)
        return 0;
    limited_us = us * (watch->limited - watch->began_limited) / cc_max_u32(watch->jiffies - watch->began_jiffies, 1);
    is_limited = !watch->is_app_limited && 2 * limited_us >= us;
    if (is_limited)
        us = cc_min_u64(us, limited_us);
    goodput_Bps = (sample->delivered_pkts - watch->began_delivered_pkts) * mss_bytes * 1000000 / us;
    min_rtt_us = cc_min_rtt_us(&flow->state, &settings->params);
    if (goodput_Bps << 16 >= cc_bw_Bps(&flow->state) * floor->goodput_q16)
        watch->low_us = 0;
    else if (is_limited)
        watch->low_us += us;
    if (watch->rtt_samples > 0 && min_rtt_us != CC_RTT_UNKNOWN_US) {
        uint64_t rtt_us = watch->rtt_sum_us / watch->rtt_samples;

        if (rtt_us << 16 <= min_rtt_us * floor->rtt_q16 || rtt_us < min_rtt_us + FLOOR_RISE_US)
            watch->high_us = 0;
        else if (is_limited)
            watch->high_us += us;
    }
    if (floor->goodput_us > 0 && watch->low_us >= floor->goodput_us)
        flow->fallen = BPF_FALLEN_GOODPUT;
    else if (floor->rtt_us > 0 && watch->high_us >= floor->rtt_us)
        flow->fallen = BPF_FALLEN_RTT;
    watch->began_us = sample->now_us;
    watch->began_jiffies = watch->jiffies;
    watch->began_limited = watch->limited;
    watch->began_delivered_pkts = sample->delivered_pkts;
    watch->rtt_sum_us = watch->rtt_samples = 0;
    watch->is_app_limited = false;
    return 0;
}

#endif
