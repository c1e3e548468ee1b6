// SPDX-License-Identifier: GPL-2.0-only
#include "flow-sender.h"

#include "ns3/data-rate.h"
#include "ns3/pointer.h"
#include "ns3/tcp-congestion-ops.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-socket-base.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ns3
{

namespace
{

const std::vector<std::pair<std::string, std::string>> STOCK = {
    {"ns3-bbr", "ns3::TcpBbr"},     {"ns3-bic", "ns3::TcpBic"},
    {"ns3-cubic", "ns3::TcpCubic"}, {"ns3-linux-reno", "ns3::TcpLinuxReno"},
    {"ns3-vegas", "ns3::TcpVegas"}, {"ns3-westwood", "ns3::TcpWestwoodPlus"},
};

/** Calls `take(new value)` on every change of a traced value. */
template <typename Value, typename Function>
void
OnChange(Ptr<Object> object, const std::string& source, Function take)
{
    const auto sink = Callback<void, Value, Value>([take](Value, Value now) mutable { take(now); });
    if (!object->TraceConnectWithoutContext(source, sink))
    {
        throw std::logic_error("ns-3's socket has no trace source " + source);
    }
}

/** The TypeId of a socket's congestion control. */
TypeId
CongestionControlOf(Ptr<TcpSocket> socket)
{
    PointerValue controller;
    socket->GetAttribute("CongestionOps", controller);
    return controller.Get<TcpCongestionOps>()->GetInstanceTypeId();
}

} // namespace

std::vector<std::string>
StockCongestionControls()
{
    std::vector<std::string> names;
    for (const auto& [name, type] : STOCK)
    {
        names.push_back(name);
    }
    return names;
}

TypeId
StockCongestionControl(const std::string& name)
{
    for (const auto& [known, type] : STOCK)
    {
        if (known == name)
        {
            return TypeId::LookupByName(type);
        }
    }
    throw std::invalid_argument("no congestion control of ns-3 is named '" + name + "' here");
}

StockSender::StockSender(const std::string& name, uint32_t mss_bytes)
    : m_congestion_control(StockCongestionControl(name)),
      m_mss_bytes(mss_bytes)
{}

Ptr<TcpSocket>
StockSender::CreateSocket(Ptr<Node> node) const
{
    return DynamicCast<TcpSocket>(node->GetObject<TcpL4Protocol>()->CreateSocket(m_congestion_control));
}

void
StockSender::Watch(Ptr<TcpSocket> socket, RttCallback on_rtt)
{
    if (CongestionControlOf(socket) != m_congestion_control)
    {
        throw std::invalid_argument("the socket runs " + CongestionControlOf(socket).GetName() + ", expected " +
                                    m_congestion_control.GetName());
    }
    m_socket = socket;
    m_on_rtt = std::move(on_rtt);
    OnChange<Time>(m_socket, "LastRTT", [this](Time rtt) {
        m_last_rtt = rtt;
        m_min_rtt = std::min(m_min_rtt, rtt);
    });
    // LastRTT is silent when two samples are equal; every advancing ACK brings one.
    OnChange<SequenceNumber32>(m_socket, "HighestRxAck",
                               [this, first = true, last = SequenceNumber32(0)](SequenceNumber32 ack) mutable {
                                   m_acked_bytes += first ? 0 : static_cast<uint32_t>(ack - last);
                                   first = false;
                                   last = ack;
                                   if (m_last_rtt.IsStrictlyPositive())
                                   {
                                       m_on_rtt(m_last_rtt.GetNanoSeconds());
                                   }
                               });
    OnChange<Time>(m_socket, "RTT", [this](Time srtt) { m_srtt = srtt; });
    OnChange<uint32_t>(m_socket, "CongestionWindow", [this](uint32_t bytes) { m_cwnd_bytes = bytes; });
    OnChange<uint32_t>(m_socket, "SlowStartThreshold", [this](uint32_t bytes) { m_ssthresh_bytes = bytes; });
    OnChange<uint32_t>(m_socket, "BytesInFlight", [this](uint32_t bytes) { m_in_flight_bytes = bytes; });
    OnChange<TcpSocketState::TcpCongState_t>(m_socket, "CongState", [this](TcpSocketState::TcpCongState_t state) {
        m_rto_count += state == TcpSocketState::CA_LOSS;
    });
    m_socket->TraceConnectWithoutContext(
        "Retransmission",
        Callback<void, Ptr<const Packet>, const TcpHeader&, const Address&, const Address&, Ptr<const TcpSocketBase>>(
            [this](auto&&...) { ++m_retransmitted_pkts; }));
    if (m_congestion_control.GetName() == "ns3::TcpBbr")
    {
        OnChange<DataRate>(m_socket, "PacingRate",
                           [this](DataRate rate) { m_pacing_Bps = static_cast<double>(rate.GetBitRate()) / 8; });
    }
}

/** Of what ns-3 shows: no bandwidth estimate, and a packet counts as marked lost when it is sent again. */
bbrgym::SenderState
StockSender::State() const
{
    bbrgym::SenderState state;
    if (!m_socket)
    {
        return state;
    }
    const double mss_bytes = m_mss_bytes;
    constexpr double SLOW_START = 16;
    constexpr double CONGESTION_AVOIDANCE = 17;
    state.pacing_Bps = m_pacing_Bps;
    state.cwnd_pkts = m_cwnd_bytes / mss_bytes;
    state.in_flight_pkts = m_in_flight_bytes / mss_bytes;
    state.srtt_us = static_cast<double>(m_srtt.GetNanoSeconds()) / 1e3;
    state.min_rtt_us = m_min_rtt == Time::Max() ? 0 : static_cast<double>(m_min_rtt.GetNanoSeconds()) / 1e3;
    state.phase = m_cwnd_bytes < m_ssthresh_bytes ? SLOW_START : CONGESTION_AVOIDANCE;
    state.marked_lost_pkts = m_retransmitted_pkts;
    state.delivered_pkts = m_acked_bytes / m_mss_bytes;
    state.rto_count = m_rto_count;
    return state;
}

} // namespace ns3
