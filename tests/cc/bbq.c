/* SPDX-License-Identifier: GPL-2.0-only */
/* BBQ: BBR v1, whose probes end early while there is a queue (Ma et al., arXiv 1706.09115). */
#include "plugin.h"

struct bbq {
    uint64_t min_rtt_us; /* of data; 0: none yet */
    bool queue_seen;
};
CC_STATE(struct bbq)

#define TUNABLES(T)                                                                                                    \
    T(cap_alpha_us, us, 3000, 500, 50000, log, "longest probe with a queue")                                           \
    T(cap_beta, ratio, 0.01, 0.001, 0.25, log, "a queue: so much above the minimum RTT")
CC_TUNABLES(TUNABLES)

static bool expires(const struct bbr_state *bbr, const struct cc_params *params, const struct cc_sample *rs)
{
    uint64_t end_us = cc_add_sat(bbr->min_rtt_stamp_us, (uint64_t)params->bbr_probe_rtt_interval_us);
    bool may_count = !rs->is_ack_delayed || !bbr_has(bbr, CC_STACK_delayed_ack_guard);

    return rs->now_us > end_us && may_count;
}

static void watch_queue(struct bbq *bbq, const struct cc_params *params, int64_t rtt_us, bool replace)
{
    if (rtt_us < 0)
        return;
    if (bbq->min_rtt_us == 0 || (uint64_t)rtt_us <= bbq->min_rtt_us || replace)
        bbq->min_rtt_us = cc_max_u64((uint64_t)rtt_us, 1);
    bbq->queue_seen = (uint64_t)rtt_us >= cc_scale(bbq->min_rtt_us, CC_Q16_ONE + tunable(params, cap_beta));
}

static void update_cycle(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    bool stops = bbr->policer.in_use && bbr_has(bbr, CC_STACK_policer_stops_cycle);
    uint64_t most_us = cc_min_u64(bbr->min_rtt_us, (uint64_t)tunable(params, cap_alpha_us));

    if (stops || bbr->mode != BBR_PROBE_BW || bbr->pacing_gain_q16 <= CC_Q16_ONE || !own(state)->queue_seen)
        bbr_update_cycle(bbr, params, rs, state->pacing_Bps);
    else if (cc_sub_sat(rs->delivered_time_us, bbr->cycle_time_us) > most_us)
        bbr_advance_cycle(bbr, rs->delivered_time_us);
}

/* bbr_on_ack, with the two above. */
static void on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct bbr_state *bbr = &state->bbr;
    bool replace;

    bbr_note_sample(bbr, params, rs);
    bbr_update_bandwidth(bbr, params, rs);
    if (bbr_has(bbr, CC_STACK_aggregation_bonus))
        bbr_update_aggregation(bbr, rs, state->cwnd_pkts);
    update_cycle(state, params, rs);
    bbr_check_full_pipe(bbr, rs);
    bbr_check_drain(state, rs);
    replace = expires(bbr, params, rs);
    bbr_update_min_rtt(state, params, rs);
    watch_queue(own(state), params, bbr_rtt_us(bbr, rs), replace);
    bbr_decide(state, params, rs);
}

CC_PLUGIN(.paces = true, .on_ack = on_ack, .on_loss_state = bbr_on_loss_state, .on_rto = bbr_on_rto,
          .on_restart = bbr_on_restart, .on_undo = bbr_on_undo)
