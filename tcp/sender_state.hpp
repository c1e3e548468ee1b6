// SPDX-License-Identifier: GPL-2.0-only
//
// A sender on Linux's TCP as the measurement sees it, in every world that runs one.
#ifndef BBRGYM_TCP_SENDER_STATE_HPP
#define BBRGYM_TCP_SENDER_STATE_HPP

#include "measurement.hpp"
#include "sender.hpp"

namespace bbrgym
{

/** Returns the state, at `now_ns`, of a sender whose connection stands. */
inline SenderState
StateOf(const TcpSender& sender, int64_t now_ns)
{
    const cc_state& cc = sender.GetController().State();
    const Scoreboard& board = sender.Board();
    const Chronograph& chrono = sender.Chrono();
    const int64_t rwnd_limited_ns = chrono.TotalNs(SendState::RWND_LIMITED, now_ns);
    const int64_t sndbuf_limited_ns = chrono.TotalNs(SendState::SNDBUF_LIMITED, now_ns);
    const uint64_t min_rtt_us = cc_min_rtt_us(&cc, &sender.GetController().Params());
    return {.bw_Bps = static_cast<double>(cc_bw_Bps(&cc)),
            .pacing_Bps = cc.pacing_Bps == UINT64_MAX || !sender.IsPaced() ? 0 : static_cast<double>(cc.pacing_Bps),
            .cwnd_pkts = static_cast<double>(sender.WindowPkts()),
            .in_flight_pkts = static_cast<double>(board.InFlight()),
            .srtt_us = sender.SrttNs() < 0 ? 0 : static_cast<double>(sender.SrttNs() / 1000),
            .min_rtt_us = min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : static_cast<double>(min_rtt_us),
            .phase = static_cast<double>(cc_phase(&cc, &sender.GetController().Params())),
            .app_limited = board.Rate().IsAppLimited(),
            .marked_lost_pkts = board.LostTotal(),
            .delivered_pkts = board.Rate().DeliveredOnce(),
            .rto_count = sender.Totals().rto_count,
            .busy_ns = chrono.TotalNs(SendState::BUSY, now_ns) + rwnd_limited_ns + sndbuf_limited_ns,
            .rwnd_limited_ns = rwnd_limited_ns,
            .sndbuf_limited_ns = sndbuf_limited_ns};
}

} // namespace bbrgym

#endif
