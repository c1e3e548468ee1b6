// SPDX-License-Identifier: GPL-2.0-only
#include "packet-tap.h"

#include "params.hpp"
#include "receive_window.hpp"

#include "ns3/ipv4-header.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-option-winscale.h"

#include <algorithm>

namespace ns3
{

using bbrgym::PacketEvent;
using bbrgym::PacketRecord;

namespace
{

constexpr uint32_t MAX_UNSCALED_BYTES = 65'535; // the window of a SYN-ACK is not scaled

struct Headers
{
    explicit Headers(Ptr<const Packet> packet)
    {
        const Ptr<Packet> copy = packet->Copy();
        copy->RemoveHeader(ip);
        copy->RemoveHeader(tcp);
        payload_bytes = copy->GetSize();
    }

    bool Has(uint8_t flag) const { return (tcp.GetFlags() & flag) != 0; }

    Ipv4Header ip;
    TcpHeader tcp;
    uint32_t payload_bytes;
};

/** Handshake packets carry no marks, and what they say about ECN is not of the data. */
uint16_t
FlagsOf(const Headers& headers)
{
    const Ipv4Header::EcnType ecn = headers.ip.GetEcn();
    if (headers.Has(TcpHeader::SYN))
    {
        return bbrgym::packet_flag::syn;
    }
    return static_cast<uint16_t>((ecn != Ipv4Header::ECN_NotECT ? bbrgym::packet_flag::ect : 0) |
                                 (ecn == Ipv4Header::ECN_CE ? bbrgym::packet_flag::ce : 0) |
                                 (headers.Has(TcpHeader::CWR) ? bbrgym::packet_flag::cwr : 0) |
                                 (headers.Has(TcpHeader::ECE) ? bbrgym::packet_flag::ece : 0));
}

} // namespace

PacketTap::PacketTap(const bbrgym::Scenario& scenario, uint16_t first_port, bbrgym::PacketLog& log)
    : m_buffer_pkts(bbrgym::BufferBytes(scenario) / scenario.mss_bytes),
      m_mss_bytes(scenario.mss_bytes),
      m_first_port(first_port),
      m_log(log)
{
    for (const bbrgym::Flow& flow : scenario.flows)
    {
        bbrgym::ReceiveWindow window;
        window.Reset(flow.stack.socket, scenario.mss_bytes);
        m_flows.push_back({.is_ample = window.IsAmple() && bbrgym::FindVariant(flow.cc)});
    }
}

void
PacketTap::AtSender(LinkDevice::Way way, Ptr<const Packet> packet)
{
    way == LinkDevice::Way::OUT ? LogData(PacketEvent::sent, packet) : LogAck(PacketEvent::ack_arrived, packet);
}

void
PacketTap::AtReceiver(LinkDevice::Way way, Ptr<const Packet> packet)
{
    way == LinkDevice::Way::OUT ? LogAck(PacketEvent::ack_sent, packet) : LogData(PacketEvent::arrived, packet);
}

PacketRecord
PacketTap::DataRecord(Ptr<const Packet> packet, std::size_t flow, const bbrgym::PacketLog& log)
{
    const Headers headers(packet);
    PacketRecord record{.time_ns = Simulator::Now().GetNanoSeconds(),
                        .flow = static_cast<uint32_t>(flow),
                        .payload_bytes = headers.payload_bytes,
                        .flags = FlagsOf(headers)};
    if (headers.payload_bytes > 0)
    {
        record.offset_bytes = log.Widened(flow, headers.tcp.GetSequenceNumber().GetValue() - 1);
    }
    return record;
}

void
PacketTap::LogData(PacketEvent event, Ptr<const Packet> packet)
{
    const auto flow = static_cast<std::size_t>(Headers(packet).tcp.GetDestinationPort() - m_first_port);
    PacketRecord record = DataRecord(packet, flow, m_log);
    record.event = event;
    event == PacketEvent::sent ? m_log.Sent(record) : m_log.Add(record);
}

void
PacketTap::LogAck(PacketEvent event, Ptr<const Packet> packet)
{
    const Headers headers(packet);
    const auto flow = static_cast<std::size_t>(headers.tcp.GetSourcePort() - m_first_port);
    if (headers.Has(TcpHeader::SYN) && headers.tcp.HasOption(TcpOption::WINSCALE))
    {
        m_flows[flow].window_scale =
            DynamicCast<const TcpOptionWinScale>(headers.tcp.GetOption(TcpOption::WINSCALE))->GetScale();
    }
    PacketRecord record{.time_ns = Simulator::Now().GetNanoSeconds(),
                        .acked_bytes = m_log.Widened(flow, headers.tcp.GetAckNumber().GetValue() - 1),
                        .flow = static_cast<uint32_t>(flow),
                        .flags = FlagsOf(headers),
                        .event = event};
    record.window_bytes = WindowBytes(record, headers.tcp.GetWindowSize());
    if (headers.tcp.HasOption(TcpOption::SACK))
    {
        for (const auto& [left, right] :
             DynamicCast<const TcpOptionSack>(headers.tcp.GetOption(TcpOption::SACK))->GetSackList())
        {
            record.blocks[record.block_count++] = {m_log.Widened(flow, left.GetValue() - 1),
                                                   m_log.Widened(flow, right.GetValue() - 1)};
        }
    }
    m_log.Add(record);
}

/** In whole segments. */
uint64_t
PacketTap::WindowBytes(const PacketRecord& record, uint16_t announced) const
{
    const FlowPart& flow = m_flows[record.flow];
    const bool is_syn = (record.flags & bbrgym::packet_flag::syn) != 0;
    if (flow.is_ample)
    {
        return (is_syn ? std::min<uint64_t>(m_buffer_pkts, MAX_UNSCALED_BYTES / m_mss_bytes) : m_buffer_pkts) *
               m_mss_bytes;
    }
    const uint64_t end_bytes = record.acked_bytes + (uint64_t{announced} << (is_syn ? 0 : flow.window_scale));
    return end_bytes / m_mss_bytes * m_mss_bytes - std::min(record.acked_bytes, end_bytes / m_mss_bytes * m_mss_bytes);
}

} // namespace ns3
