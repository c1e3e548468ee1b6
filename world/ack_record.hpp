// SPDX-License-Identifier: GPL-2.0-only
//
// A row of an ACK trace: the sample of one ACK and the controller's state after it. The same in every world.
#ifndef BBRGYM_WORLD_ACK_RECORD_HPP
#define BBRGYM_WORLD_ACK_RECORD_HPP

extern "C" {
#include "cc.h"
}

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
    int64_t min_rtt_us; ///< of the model
};

inline AckRecord
MakeAckRecord(const cc_sample& sample, const cc_state& state, const cc_params& params)
{
    const auto signed_of = [](uint64_t value) { return static_cast<int64_t>(value); };
    const bool has_bounds = cc_is_bbr3(&params);
    const uint64_t min_rtt_us = cc_min_rtt_us(&state, &params);
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
            has_bounds ? bbr3_bound_Bps(&state.bbr, state.bbr3.bw_lo_q24) : UINT64_MAX,
            bound(state.bbr3.inflight_hi_pkts),
            bound(state.bbr3.inflight_lo_pkts),
            min_rtt_us == CC_RTT_UNKNOWN_US ? -1 : signed_of(min_rtt_us)};
}

} // namespace bbrgym

#endif
