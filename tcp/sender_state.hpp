// SPDX-License-Identifier: GPL-2.0-only
//
// A sender on Linux's TCP as the measurement sees it, in every world that runs one.
#ifndef BBRGYM_TCP_SENDER_STATE_HPP
#define BBRGYM_TCP_SENDER_STATE_HPP

#include "measurement.hpp"
#include "sender.hpp"

namespace bbrgym
{

/** The state of a sender whose connection stands; `params` are those of its controller. */
template <class Controller>
SenderState
StateOf(const TcpSender<Controller>& sender, const cc_params& params)
{
    const cc_state& cc = sender.GetController().State();
    const Scoreboard& board = sender.Board();
    const uint64_t min_rtt_us = cc_min_rtt_us(&cc, &params);
    return {.bw_Bps = static_cast<double>(cc_bw_Bps(&cc)),
            .pacing_Bps = cc.pacing_Bps == UINT64_MAX ? 0 : static_cast<double>(cc.pacing_Bps),
            .cwnd_pkts = static_cast<double>(cc.cwnd_pkts),
            .in_flight_pkts = static_cast<double>(board.InFlight()),
            .srtt_us = sender.SrttNs() < 0 ? 0 : static_cast<double>(sender.SrttNs() / 1000),
            .min_rtt_us = min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : static_cast<double>(min_rtt_us),
            .phase = static_cast<double>(cc_phase(&cc, &params)),
            .app_limited = board.IsAppLimited(),
            .marked_lost_pkts = board.LostTotal(),
            .delivered_pkts = board.Delivered(),
            .rto_count = sender.Totals().rto_count};
}

} // namespace bbrgym

#endif
