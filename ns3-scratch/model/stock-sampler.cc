// SPDX-License-Identifier: GPL-2.0-only
#include "stock-sampler.h"

#include "ns3-versions.h"

#include "ns3/simulator.h"

#include <algorithm>

namespace ns3
{

namespace
{

/** The 64-bit value nearest below or at `reference` whose low half is `low`. */
uint64_t
Unwrap(uint32_t low, uint64_t reference)
{
    const uint64_t candidate = (reference & ~uint64_t{0xffffffff}) | low;
    return candidate > reference ? candidate - (uint64_t{1} << 32) : candidate;
}

} // namespace

cc_sample
StockSampler::Sample(Ptr<const TcpSocketState> tcb,
                     const TcpRateOps::TcpRateConnection& connection,
                     const TcpRateOps::TcpRateSample& sample)
{
    const int64_t now_ns = Simulator::Now().GetNanoSeconds();
    const uint32_t mss = tcb->m_segmentSize;
    const uint32_t in_flight_bytes = tcb->m_bytesInFlight;

    // ns-3 keeps the ACK phase of the packet last chosen; the time that packet left does not change.
    const uint64_t prior_bytes = Unwrap(sample.m_priorDelivered, connection.m_delivered);
    if (prior_bytes != m_prior_delivered_bytes || m_prior_time_ns < 0)
    {
        m_prior_delivered_bytes = prior_bytes;
        m_prior_time_ns = now_ns - sample.m_ackElapsed.GetNanoSeconds();
    }
    if (sample.m_ackedSacked > 0)
    {
        m_delivered_time_us = static_cast<uint64_t>(now_ns / 1000);
    }

    cc_sample out{};
    out.now_us = static_cast<uint64_t>(now_ns / 1000);
    out.delivered_time_us = m_delivered_time_us;
    out.delivered_pkts = connection.m_delivered / mss;
    out.prior_delivered_pkts = prior_bytes / mss;
    out.rtt_us = FreshRttUs(tcb);
    out.srtt_us = bbrgym::SmoothedRttUs(*tcb);
    out.min_rtt_us = m_min_rtt_us;
    out.una_pkts = 1 + m_una_bytes / mss; // the first ACK counts for a packet
    out.acked_pkts = (sample.m_ackedSacked + mss - 1) / mss;
    out.lost_pkts = NewlyLostPkts(sample, in_flight_bytes, mss);
    m_total_lost_pkts += out.lost_pkts;
    out.total_lost_pkts = m_total_lost_pkts;
    out.prior_in_flight_pkts = sample.m_priorInFlight / mss;
    out.in_flight_pkts = in_flight_bytes / mss;
    out.ca_state = static_cast<uint8_t>(tcb->m_congState.Get());
    out.is_cwnd_limited = bbrgym::IsCwndLimited(*tcb);
    out.is_app_limited = sample.m_isAppLimited || (m_disregard_from_pkts <= out.prior_delivered_pkts &&
                                                   out.prior_delivered_pkts <= m_disregard_until_pkts);
    m_saw_app_limited = connection.m_appLimited != 0;

    const int64_t interval_us =
        std::max(sample.m_sendElapsed.GetNanoSeconds(), now_ns - m_prior_time_ns) / 1000;
    const bool too_short =
        m_min_rtt_us != CC_RTT_UNKNOWN_US && interval_us < static_cast<int64_t>(m_min_rtt_us);
    const bool measured = sample.m_ackedSacked > 0 && !too_short;
    out.sample_pkts =
        measured ? static_cast<int64_t>((connection.m_delivered - prior_bytes) / mss) : -1;
    out.interval_us = measured ? interval_us : -1;
    return out;
}

void
StockSampler::MarkAppLimited(const cc_sample& sample)
{
    if (m_disregard_until_pkts < sample.delivered_pkts)
    {
        m_disregard_from_pkts = sample.delivered_pkts;
    }
    m_disregard_until_pkts = std::max<uint64_t>(sample.delivered_pkts + sample.in_flight_pkts, 1);
}

/** Without the scoreboard: what was in flight, was not acknowledged and is in flight no more was lost. */
uint32_t
StockSampler::NewlyLostPkts(const TcpRateOps::TcpRateSample& sample, uint32_t in_flight_bytes, uint32_t mss)
{
    const int64_t gone = int64_t{sample.m_priorInFlight} - sample.m_ackedSacked - in_flight_bytes;
    return gone > 0 ? static_cast<uint32_t>((gone + mss - 1) / mss) : 0;
}

/** ns-3 leaves m_lastRtt as it was when an ACK measured nothing: fresh only if the ACK advanced. */
int64_t
StockSampler::FreshRttUs(Ptr<const TcpSocketState> tcb)
{
    const bool advanced = !m_has_last_acked || tcb->m_lastAckedSeq > m_last_acked;
    m_una_bytes += m_has_last_acked && advanced ? static_cast<uint64_t>(tcb->m_lastAckedSeq - m_last_acked) : 0;
    m_last_acked = tcb->m_lastAckedSeq;
    m_has_last_acked = true;
    const int64_t rtt_us = tcb->m_lastRtt.Get().GetMicroSeconds();
    if (!advanced || rtt_us <= 0)
    {
        return -1;
    }
    m_min_rtt_us = std::min(m_min_rtt_us, static_cast<uint64_t>(rtt_us));
    return rtt_us;
}

} // namespace ns3
