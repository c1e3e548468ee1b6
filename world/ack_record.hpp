// SPDX-License-Identifier: GPL-2.0-only
//
// A row of an ACK trace (ack_record.def): the sample of one ACK and the controller's state after it. The same in every
// world.
#ifndef BBRGYM_WORLD_ACK_RECORD_HPP
#define BBRGYM_WORLD_ACK_RECORD_HPP

extern "C"
{
#include "cc.h"
}

#include "fields.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace bbrgym
{

struct AckRecord
{
#define ACK_FIELD(type, name, unit, value, meaning) type name;
#include "ack_record.def"
};

inline constexpr Field ACK_FIELDS[] = {
#define ACK_FIELD(type, name, unit, value, meaning) {#name, unit, "sender", meaning},
#include "ack_record.def"
};

static_assert(sizeof(AckRecord) == std::size(ACK_FIELDS) * sizeof(int64_t));

/** A BDP in packets, as BBR's windows provide for it; -1: the algorithm has none. */
inline int64_t
TargetPkts(const cc_state& state, const cc_params& params)
{
    if (!cc_is_bbr(&params))
    {
        return -1;
    }
    const uint64_t pkts = cc_is_bbr3(&params)
                              ? bbr3_inflight_pkts(&state, bbr3_max_bw_q24(&state.bbr3))
                              : bbr_inflight_pkts(&state.bbr, state.pacing_Bps, cc_bw_Bps(&state), CC_Q16_ONE);
    return static_cast<int64_t>(pkts);
}

inline AckRecord
MakeAckRecord(const cc_sample& sample, const cc_state& state, const cc_params& params, int64_t undo_count = -1)
{
    const auto signed_of = [](uint64_t value) { return static_cast<int64_t>(value); };
    const auto time_of = [signed_of](uint64_t time_us) {
        return time_us == CC_RTT_UNKNOWN_US ? -1 : signed_of(time_us);
    };
    const bool is_bbr = cc_is_bbr(&params);
    const bool has_bounds = cc_is_bbr3(&params);
    const bbr_state& bbr = state.bbr;
    const bbr3_state& bbr3 = state.bbr3;
    const auto bound = [has_bounds](uint32_t pkts) {
        return has_bounds && pkts != BBR3_UNSET_PKTS ? int64_t{pkts} : -1;
    };
    return {
#define ACK_FIELD(type, name, unit, value, meaning) .name = value,
#include "ack_record.def"
    };
}

} // namespace bbrgym

#endif
