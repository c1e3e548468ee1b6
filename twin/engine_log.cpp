// SPDX-License-Identifier: GPL-2.0-only
//
// The log of packets and of the controllers' decisions.
#include "engine.hpp"

#include <stdexcept>

namespace bbrgym
{

/** A packet on its way to the receiver. */
void
Engine::LogAt(PacketEvent event, const PacketName& packet)
{
    PacketRecord record{
        .time_ns = m_now_ns, .flow = static_cast<uint32_t>(packet.Flow()), .flags = FlagsOf(packet), .event = event};
    if (packet.IsData())
    {
        record.offset_bytes = packet.Seqno() * m_scenario->mss_bytes;
        record.payload_bytes = m_scenario->mss_bytes;
    }
    event == PacketEvent::sent ? Log().Sent(record) : Log().Add(record);
}

/** An ACK of everything below `una`. */
void
Engine::LogAck(PacketEvent event, std::size_t flow, uint64_t una, std::span<const SeqnoRange> blocks,
               uint64_t window_pkts, uint16_t flags)
{
    const uint64_t mss_bytes = m_scenario->mss_bytes;
    PacketRecord record{.time_ns = m_now_ns,
                        .acked_bytes = una * mss_bytes,
                        .window_bytes = window_pkts * mss_bytes,
                        .flow = static_cast<uint32_t>(flow),
                        .flags = flags,
                        .event = event,
                        .block_count = static_cast<uint8_t>(blocks.size())};
    for (std::size_t i = 0; i < blocks.size(); ++i)
    {
        record.blocks[i] = {blocks[i].begin * mss_bytes, blocks[i].end * mss_bytes};
    }
    Log().Add(record);
}

void
Engine::LogLosses(FlowState& flow)
{
    if (Log().IsOn())
    {
        auto& sender = flow.sender;
        Log().MarkedLost(m_now_ns, flow.index, sender.DrainLosses(), m_scenario->mss_bytes, sender.Totals().rto_count);
    }
}

void
Engine::LogDecision(FlowState& flow, AckName ack, std::span<const SeqnoRange> blocks, const cc_sample& sample)
{
    if (Log().IsOn())
    {
        LogAck(PacketEvent::ack_arrived, flow.index, ack.Una(), blocks, flow.window_pkts,
               ack.Ece() ? packet_flag::ece : 0);
    }
    LogLosses(flow);
    const CcController& controller = flow.sender.GetController();
    const auto undo_count = static_cast<int64_t>(flow.sender.Totals().undo_count);
    const AckRecord record = MakeAckRecord(sample, controller.State(), controller.Params(), undo_count);
    if (Log().IsOn())
    {
        Log().Decided(flow.index, record);
    }
    if (flow.trace.size() < flow.max_trace_rows)
    {
        flow.trace.push_back(record);
    }
}

void
Engine::TraceAcks(std::size_t flow, std::size_t max_rows)
{
    if (IsExternal(m_flows.at(flow)))
    {
        throw std::invalid_argument("the ACKs of a flow with quic cannot be traced");
    }
    m_flows[flow].max_trace_rows = max_rows;
    m_flows[flow].is_traced = true;
}

/** Without turns, so that the log is in the order of time. */
void
Engine::TracePackets()
{
    if (m_event_count > 0 || m_now_ns > 0)
    {
        throw std::invalid_argument("the packets are traced from a run's beginning on: ask before its first advance");
    }
    if (IsNetwork() || HasExternals())
    {
        throw std::invalid_argument("the packets of a scenario of several links or with quic cannot be traced");
    }
    m_takes_turns = false;
    m_turn_ns = 0;
    Log().Begin(m_flows.size());
    for (FlowState& state : m_flows)
    {
        state.is_traced = true;
        state.sender.LogLosses();
    }
}

} // namespace bbrgym
