// SPDX-License-Identifier: GPL-2.0-only
#include "packet-tap.h"

#include "params.hpp"
#include "receive_window.hpp"

#include "ns3/simulator.h"

#include <algorithm>
#include <array>
#include <span>

namespace ns3
{

using bbrgym::PacketEvent;
using bbrgym::PacketRecord;

namespace
{

constexpr uint32_t IP_BYTES = 20;
constexpr uint32_t MAX_UNSCALED_BYTES = 65'535; // the window of a SYN-ACK is not scaled

constexpr uint8_t FLAG_SYN = 0x02;
constexpr uint8_t FLAG_ECE = 0x40;
constexpr uint8_t FLAG_CWR = 0x80;

/** The headers of a TCP packet over IPv4 without IP options. */
class Headers
{
  public:
    explicit Headers(Ptr<const Packet> packet)
        : m_size(packet->CopyData(m_bytes.data(), m_bytes.size())),
          m_payload_bytes(packet->GetSize() - IP_BYTES - TcpBytes())
    {
    }

    uint8_t Ecn() const { return m_bytes[1] & 3; }
    uint16_t SourcePort() const { return Half(IP_BYTES); }
    uint16_t DestinationPort() const { return Half(IP_BYTES + 2); }
    uint32_t Seq() const { return Word(IP_BYTES + 4); }
    uint32_t Ack() const { return Word(IP_BYTES + 8); }
    bool Has(uint8_t flag) const { return (m_bytes[IP_BYTES + 13] & flag) != 0; }
    uint16_t Window() const { return Half(IP_BYTES + 14); }
    uint32_t PayloadBytes() const { return m_payload_bytes; }

    /** The content of an option; empty: it is not there. */
    std::span<const uint8_t> Option(uint8_t kind) const
    {
        constexpr uint8_t END = 0;
        constexpr uint8_t NO_OPERATION = 1;
        const std::size_t end = std::min<std::size_t>(IP_BYTES + TcpBytes(), m_size);
        std::size_t at = IP_BYTES + 20;
        while (at < end && m_bytes[at] != END)
        {
            if (m_bytes[at] == NO_OPERATION)
            {
                ++at;
                continue;
            }
            const std::size_t length = at + 1 < end ? m_bytes[at + 1] : 0;
            if (length < 2 || at + length > end)
            {
                break;
            }
            if (m_bytes[at] == kind)
            {
                return {m_bytes.data() + at + 2, length - 2};
            }
            at += length;
        }
        return {};
    }

  private:
    uint32_t TcpBytes() const { return uint32_t{m_bytes[IP_BYTES + 12]} / 16 * 4; }
    uint16_t Half(std::size_t at) const { return static_cast<uint16_t>(m_bytes[at] << 8 | m_bytes[at + 1]); }
    uint32_t Word(std::size_t at) const { return uint32_t{Half(at)} << 16 | Half(at + 2); }

    std::array<uint8_t, IP_BYTES + 60> m_bytes{};
    std::size_t m_size;
    uint32_t m_payload_bytes;
};

uint32_t
WordOf(std::span<const uint8_t> bytes)
{
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/** Handshake packets carry no marks, and what they say about ECN is not of the data. */
uint16_t
FlagsOf(const Headers& headers)
{
    constexpr uint8_t CE = 3;
    if (headers.Has(FLAG_SYN))
    {
        return bbrgym::packet_flag::syn;
    }
    return static_cast<uint16_t>((headers.Ecn() != 0 ? bbrgym::packet_flag::ect : 0) |
                                 (headers.Ecn() == CE ? bbrgym::packet_flag::ce : 0) |
                                 (headers.Has(FLAG_CWR) ? bbrgym::packet_flag::cwr : 0) |
                                 (headers.Has(FLAG_ECE) ? bbrgym::packet_flag::ece : 0));
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
                        .payload_bytes = headers.PayloadBytes(),
                        .flags = FlagsOf(headers)};
    if (headers.PayloadBytes() > 0)
    {
        record.offset_bytes = log.Widened(flow, headers.Seq() - 1);
    }
    return record;
}

void
PacketTap::LogData(PacketEvent event, Ptr<const Packet> packet)
{
    const auto flow = static_cast<std::size_t>(Headers(packet).DestinationPort() - m_first_port);
    PacketRecord record = DataRecord(packet, flow, m_log);
    record.event = event;
    event == PacketEvent::sent ? m_log.Sent(record) : m_log.Add(record);
}

void
PacketTap::LogAck(PacketEvent event, Ptr<const Packet> packet)
{
    constexpr uint8_t WINDOW_SCALE = 3;
    constexpr uint8_t SACK = 5;
    constexpr std::size_t BLOCK_BYTES = 8;
    const Headers headers(packet);
    const auto flow = static_cast<std::size_t>(headers.SourcePort() - m_first_port);
    if (const auto scale = headers.Option(WINDOW_SCALE); headers.Has(FLAG_SYN) && !scale.empty())
    {
        m_flows[flow].window_scale = scale[0];
    }
    PacketRecord record{.time_ns = Simulator::Now().GetNanoSeconds(),
                        .acked_bytes = m_log.Widened(flow, headers.Ack() - 1),
                        .flow = static_cast<uint32_t>(flow),
                        .flags = FlagsOf(headers),
                        .event = event};
    record.window_bytes = WindowBytes(record, headers.Window());
    for (auto blocks = headers.Option(SACK); blocks.size() >= BLOCK_BYTES && record.block_count < PacketRecord::MAX_BLOCKS;
         blocks = blocks.subspan(BLOCK_BYTES))
    {
        record.blocks[record.block_count++] = {m_log.Widened(flow, WordOf(blocks) - 1), m_log.Widened(flow, WordOf(blocks.subspan(4)) - 1)};
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
        return (is_syn ? std::min<uint64_t>(m_buffer_pkts, MAX_UNSCALED_BYTES / m_mss_bytes) : m_buffer_pkts) * m_mss_bytes;
    }
    const uint64_t end_bytes = record.acked_bytes + (uint64_t{announced} << (is_syn ? 0 : flow.window_scale));
    return end_bytes / m_mss_bytes * m_mss_bytes - std::min(record.acked_bytes, end_bytes / m_mss_bytes * m_mss_bytes);
}

} // namespace ns3
