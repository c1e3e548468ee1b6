// SPDX-License-Identifier: GPL-2.0-only
//
// A Linux rate sample out of what ns-3 3.44's TcpSocketBase hands to CongControl.
//
// ns-3 keeps one rate sample for the whole connection and reuses the ACK phase of an earlier ACK, reports
// the change of lost_out (in either direction) as losses, never tells the sampler of ProbeRTT, leaves the
// last RTT standing on ACKs that measured none, and counts in 32 bits. Each is undone here as far as it can
// be from outside; TcpLinuxSocket has no need of it.
#ifndef BBRGYM_STOCK_SAMPLER_H
#define BBRGYM_STOCK_SAMPLER_H

extern "C" {
#include "types.h"
}

#include "ns3/tcp-rate-ops.h"
#include "ns3/tcp-socket-state.h"

namespace ns3
{

class StockSampler
{
  public:
    cc_sample Sample(Ptr<const TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample);
    void MarkAppLimited(const cc_sample& sample);
    bool SawAppLimited() const { return m_saw_app_limited; }
    uint64_t TotalLostPkts() const { return m_total_lost_pkts; }

  private:
    uint32_t NewlyLostPkts(const TcpRateOps::TcpRateSample& sample, uint32_t in_flight_bytes, uint32_t mss);
    int64_t FreshRttUs(Ptr<const TcpSocketState> tcb);

    uint64_t m_prior_delivered_bytes = 0; ///< 64-bit view of ns-3's 32-bit counter
    int64_t m_prior_time_ns = -1;
    uint64_t m_delivered_time_us = 0;
    SequenceNumber32 m_last_acked{0};
    bool m_has_last_acked = false;
    uint64_t m_una_bytes = 0; ///< cumulatively acknowledged since the first ACK
    uint64_t m_min_rtt_us = CC_RTT_UNKNOWN_US;
    // Packets whose prior_delivered lies in here left while the controller wanted them disregarded (ProbeRTT).
    uint64_t m_disregard_from_pkts = 1;
    uint64_t m_disregard_until_pkts = 0;
    bool m_saw_app_limited = false;
    uint64_t m_total_lost_pkts = 0;
};

} // namespace ns3

#endif
