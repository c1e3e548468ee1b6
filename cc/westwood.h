/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Westwood+ as Linux has it (net/ipv4/tcp_westwood.c, at 1000 ticks a second; Grieco and Mascolo, 2004).
 *
 *   growth    : Reno's
 *   bandwidth : what is acknowledged in an RTT, 50 ms at least, through two low-pass filters of 7/8 in a row
 *   loss      : cwnd / 2 for the recovery; at its end cwnd = ssthresh = bandwidth * min_rtt, two packets at least
 *   timeout   : ssthresh = bandwidth * min_rtt; min_rtt begins again with the RTT last measured
 *
 * A duplicate ACK counts as a packet, which the cumulative ACK that follows does not count again
 * (westwood_acked_count). Linux does so on its slow path alone: for ACKs that do not advance, have SACK blocks or
 * announce another window. The last are here those that follow an ACK with SACK blocks: what was behind the hole then
 * fills the receive buffer. What else differs: Linux counts bytes, here a segment is a packet; a recovery undone before
 * its end ends as any other; and what would overflow saturates.
 */
#ifndef BBRGYM_CC_WESTWOOD_H
#define BBRGYM_CC_WESTWOOD_H

#include "reno.h"

#define WESTWOOD_TICK_US 1000       /* Linux: 1 / CONFIG_HZ; 1000 Hz is the finest it offers */
#define WESTWOOD_SPAN_MIN_MS 50     /* TCP_WESTWOOD_RTT_MIN: a shorter span gives no good sample */
#define WESTWOOD_FIRST_RTT_MS 20000 /* TCP_WESTWOOD_INIT_RTT: above any */

/* Linux tcp_westwood_init. */
static inline void westwood_init(struct cc_state *state, const struct cc_start *start)
{
    struct westwood_state *westwood = &state->westwood;

    westwood->mss_bytes = cc_max_u32(start->mss_bytes, 1);
    westwood->rtt_ms = WESTWOOD_FIRST_RTT_MS;
    westwood->min_rtt_ms = WESTWOOD_FIRST_RTT_MS;
    westwood->span_start_ms = start->now_us / WESTWOOD_TICK_US;
    westwood->awaits_ack = true;
    westwood->renews_min_rtt = true;
}

static inline uint64_t westwood_smooth(uint64_t old_Bpms, uint64_t new_Bpms)
{
    return cc_add_sat(cc_mul_sat(old_Bpms, 7), new_Bpms) >> 3;
}

/* Takes a sample of the bandwidth if the span is over (Linux westwood_update_window, westwood_filter). */
static inline void westwood_update_bandwidth(struct westwood_state *westwood, uint64_t now_ms)
{
    uint64_t span_ms = cc_sub_sat(now_ms, westwood->span_start_ms);
    uint64_t sample_Bpms;

    if (westwood->rtt_ms == 0 || span_ms <= cc_max_u64(westwood->rtt_ms, WESTWOOD_SPAN_MIN_MS))
        return;
    sample_Bpms = cc_mul_sat(westwood->span_pkts, westwood->mss_bytes) / span_ms;
    if (westwood->first_bw_Bpms == 0 && westwood->bw_Bpms == 0) {
        westwood->first_bw_Bpms = sample_Bpms;
        westwood->bw_Bpms = sample_Bpms;
    } else {
        westwood->first_bw_Bpms = westwood_smooth(westwood->first_bw_Bpms, sample_Bpms);
        westwood->bw_Bpms = westwood_smooth(westwood->bw_Bpms, westwood->first_bw_Bpms);
    }
    westwood->span_pkts = 0;
    westwood->span_start_ms = now_ms;
}

/* Packets that an ACK delivered, each once (Linux westwood_acked_count). */
static inline uint64_t westwood_delivered_pkts(struct westwood_state *westwood, uint64_t advance_pkts)
{
    uint64_t counted_pkts = westwood->counted_pkts;

    if (advance_pkts == 0) {
        westwood->counted_pkts = cc_add_sat(counted_pkts, 1);
        return 1;
    }
    if (advance_pkts == 1)
        return 1;
    if (counted_pkts >= advance_pkts) {
        westwood->counted_pkts = counted_pkts - advance_pkts;
        return 1;
    }
    westwood->counted_pkts = 0;
    return advance_pkts - counted_pkts;
}

/* Linux tcp_westwood_ack: `una_pkts` is that before, and the RTT in use is the last ACK's. */
static inline void westwood_note_ack(struct westwood_state *westwood, const struct cc_sample *rs, uint64_t una_pkts)
{
    uint64_t advance_pkts = westwood->awaits_ack ? 0 : cc_sub_sat(rs->una_pkts, una_pkts);
    bool is_plain = advance_pkts > 0 && !rs->has_sack && !westwood->had_sack;

    westwood->awaits_ack = false; /* the first one only tells where counting begins */
    westwood->had_sack = rs->has_sack;
    westwood_update_bandwidth(westwood, rs->now_us / WESTWOOD_TICK_US);
    westwood->span_pkts =
        cc_add_sat(westwood->span_pkts, is_plain ? advance_pkts : westwood_delivered_pkts(westwood, advance_pkts));
    if (westwood->renews_min_rtt || westwood->rtt_ms < westwood->min_rtt_ms)
        westwood->min_rtt_ms = westwood->rtt_ms;
    westwood->renews_min_rtt = false;
}

/* Bandwidth times min_rtt (Linux tcp_westwood_bw_rttmin). */
static inline uint32_t westwood_bdp_pkts(const struct westwood_state *westwood)
{
    uint64_t bdp_bytes = cc_mul_sat(westwood->bw_Bpms, westwood->min_rtt_ms);

    return cc_max_u32(cc_clamp_to_u32(bdp_bytes / westwood->mss_bytes), RENO_CWND_FLOOR_PKTS);
}

static inline void westwood_on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *rs)
{
    struct westwood_state *westwood = &state->westwood;

    westwood_note_ack(westwood, rs, state->una_pkts);
    if (westwood->ends_reduction) {
        westwood->ends_reduction = false;
        state->ssthresh_pkts = westwood_bdp_pkts(westwood);
        state->cwnd_pkts = state->ssthresh_pkts;
    }
    if (rs->rtt_us > 0)
        westwood->rtt_ms = ((uint64_t)rs->rtt_us + WESTWOOD_TICK_US - 1) / WESTWOOD_TICK_US;
    reno_on_ack(state, params, rs);
}

/* CWR or Recovery ends with the ACK being processed, whose data the bandwidth then has (Linux CA_EVENT_COMPLETE_CWR).
 */
static inline void westwood_on_loss_state(struct cc_state *state, enum cc_ca_state old_state,
                                          enum cc_ca_state new_state)
{
    bool was_reducing = old_state == CC_CA_CWR || old_state == CC_CA_RECOVERY;

    state->westwood.ends_reduction = was_reducing && new_state < CC_CA_CWR;
}

/* A timeout; `begins`: an episode (Linux CA_EVENT_LOSS). */
static inline void westwood_on_rto(struct cc_state *state, bool begins)
{
    if (!begins)
        return;
    state->ssthresh_pkts = westwood_bdp_pkts(&state->westwood);
    state->westwood.renews_min_rtt = true;
}

#endif
