// SPDX-License-Identifier: GPL-2.0-only
//
// A row of an ACK trace: the sample of one ACK and the controller's state after it. The same in every world.
#ifndef BBRGYM_WORLD_ACK_RECORD_HPP
#define BBRGYM_WORLD_ACK_RECORD_HPP

extern "C" {
#include "cc.h"
}

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

/** -1: not measured, or no bound. */
struct AckRecord
{
    int64_t time_us;
    int64_t rtt_us;
    int64_t srtt_us;
    int64_t cwnd_pkts;
    uint64_t pacing_Bps; ///< all ones: unpaced
    uint64_t bw_Bps;
    int64_t in_flight_pkts;
    int64_t delivered_pkts;
    int64_t lost_pkts;
    int64_t sample_pkts;
    int64_t interval_us;
    int64_t phase;
    int64_t ca_state;
    int64_t round_count;
    uint64_t bw_lo_Bps;       ///< BBRv3's bounds; all ones: none
    int64_t inflight_hi_pkts;
    int64_t inflight_lo_pkts;
    uint64_t undo_bw_lo_Bps; ///< the same as they were before the latest reduction; 0, all ones: none
    int64_t undo_inflight_hi_pkts;
    int64_t undo_inflight_lo_pkts;
    int64_t min_rtt_us;
    int64_t probe_rtt_min_us; ///< smallest since the last PROBE_RTT, and when it was measured; BBRv3's
    int64_t probe_rtt_min_stamp_us;
    int64_t target_pkts; ///< a BDP as BBR counts it, with the bursts that its windows provide for
    int64_t extra_acked_pkts;
    int64_t full_bw_count; ///< rounds of a plateau
    int64_t full_bw_now;
    int64_t full_bw_reached;
    int64_t is_app_limited; ///< the sample
    int64_t is_cwnd_limited;
    int64_t prior_in_flight_pkts;
    int64_t departure_wait_us;
    int64_t tx_in_flight_pkts; ///< of the sample; BBRv3's, as what follows
    int64_t lost_since_pkts;
    int64_t probe_wait_us; ///< from UP's end to the next probe at the latest
    int64_t undo_count;    ///< recoveries that were undone as spurious; -1: the socket does not tell
};

/** A BDP in packets, as BBR's windows provide for it; -1: the algorithm has none. */
inline int64_t
TargetPkts(const cc_state& state, const cc_params& params)
{
    if (!cc_is_bbr(&params))
    {
        return -1;
    }
    const uint64_t pkts = cc_is_bbr3(&params) ? bbr3_inflight_pkts(&state, bbr3_max_bw_q24(&state.bbr3))
                                              : bbr_inflight_pkts(&state.bbr, state.pacing_Bps, cc_bw_Bps(&state), CC_Q16_ONE);
    return static_cast<int64_t>(pkts);
}

inline AckRecord
MakeAckRecord(const cc_sample& sample, const cc_state& state, const cc_params& params, int64_t undo_count = -1)
{
    const auto signed_of = [](uint64_t value) { return static_cast<int64_t>(value); };
    const auto time_of = [signed_of](uint64_t value) { return value == CC_RTT_UNKNOWN_US ? -1 : signed_of(value); };
    const bool is_bbr = cc_is_bbr(&params);
    const bool has_bounds = cc_is_bbr3(&params);
    const bbr_state& bbr = state.bbr;
    const bbr3_state& bbr3 = state.bbr3;
    const auto bound = [has_bounds](uint32_t pkts) { return has_bounds && pkts != BBR3_UNSET_PKTS ? int64_t{pkts} : -1; };
    return {signed_of(sample.now_us),
            sample.rtt_us,
            sample.srtt_us == 0 ? -1 : signed_of(sample.srtt_us),
            state.cwnd_pkts,
            state.pacing_Bps,
            cc_bw_Bps(&state),
            sample.in_flight_pkts,
            signed_of(sample.delivered_pkts),
            sample.lost_pkts,
            sample.sample_pkts,
            sample.interval_us,
            cc_phase(&state, &params),
            sample.ca_state,
            signed_of(cc_round_count(&state, &params)),
            has_bounds ? bbr3_bound_Bps(&bbr, bbr3.bw_lo_q24) : UINT64_MAX,
            bound(bbr3.inflight_hi_pkts),
            bound(bbr3.inflight_lo_pkts),
            has_bounds ? bbr3_bound_Bps(&bbr, bbr3.undo_bw_lo_q24) : UINT64_MAX,
            bound(bbr3.undo_inflight_hi_pkts),
            bound(bbr3.undo_inflight_lo_pkts),
            time_of(cc_min_rtt_us(&state, &params)),
            has_bounds ? time_of(bbr3.probe_rtt_min_us) : -1,
            has_bounds ? signed_of(bbr3.probe_rtt_min_stamp_us) : -1,
            TargetPkts(state, params),
            is_bbr ? int64_t{std::max(bbr.aggregation.extra_pkts[0], bbr.aggregation.extra_pkts[1])} : -1,
            is_bbr ? int64_t{bbr.full_bw_count} : -1,
            has_bounds ? bbr3.full_bw_now : -1,
            is_bbr ? bbr.full_bw_reached : -1,
            sample.is_app_limited,
            sample.is_cwnd_limited,
            sample.prior_in_flight_pkts,
            is_bbr ? int64_t{sample.departure_wait_us} : -1,
            has_bounds ? int64_t{sample.tx_in_flight_pkts} : -1,
            has_bounds ? int64_t{sample.lost_since_pkts} : -1,
            has_bounds ? signed_of(bbr3.probe_wait_us) : -1,
            undo_count};
}

} // namespace bbrgym

#endif
