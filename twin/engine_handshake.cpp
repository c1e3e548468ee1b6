// SPDX-License-Identifier: GPL-2.0-only
//
// The handshake: SYN, SYN-ACK and the ACK that ends it.
#include "engine.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr int64_t SYN_TIMEOUT_NS = 1'000'000'000; // RFC 6298; doubles each time
constexpr uint32_t SYN_TRIES = 20;
constexpr uint64_t FIRST_WINDOW_BYTES = 65'535; // a SYN-ACK's window is not scaled (RFC 7323, 2.2)

} // namespace

void
Engine::SendSyn(FlowState& flow)
{
    if (flow.is_established || flow.syn_count >= SYN_TRIES)
    {
        return;
    }
    flow.syn_sent_ns = m_now_ns;
    ++flow.syn_count;
    Emit(flow, SYN);
    flow.syn_event_ns = m_now_ns + (SYN_TIMEOUT_NS << (flow.syn_count - 1));
    PutTimer(flow.index, SYN_TIMER, flow.syn_event_ns);
}

/**
 * A packet before the first data: a SYN is answered, the first one after what arrives with it, once for the SYNs among
 * that; another packet ends the handshake.
 */
void
Engine::OpenConnection(FlowState& flow, PacketName packet)
{
    if (packet.Seqno() != SYN)
    {
        flow.receiver.NoteEstablished(m_now_ns);
    }
    else if (flow.has_answered_syn)
    {
        SendSynAck(flow);
    }
    else if (!flow.has_syn_arrived)
    {
        flow.has_syn_arrived = true;
        m_receivers.AddSeldom({m_now_ns, Order(RECEIVERS, SourceOf(flow.index, ACCEPT))});
    }
}

void
Engine::SendSynAck(FlowState& flow)
{
    flow.has_answered_syn = true;
    flow.receiver.NoteSynAck(m_now_ns);
    if (Log().IsOn())
    {
        LogAck(PacketEvent::ack_sent, flow.index, 0, {}, FirstWindowPkts(flow), packet_flag::syn);
    }
    HeldAck ack{flow.index, HeldAck::IN_PIPES, AckName(0, false, AckName::SYN_ACK_BLOCKS)};
    if (flow.first_back != Hop::NONE)
    {
        ack.slot = PutInSlot({ack.name, {}});
    }
    SendBack(flow, ack);
}

void
Engine::Establish(FlowState& flow)
{
    const SocketFacts& facts = m_scenario->flows[flow.index].stack.socket;
    if (!flow.is_established || facts.repeated_syn_ack)
    {
        Emit(flow, HANDSHAKE_ACK);
    }
    if (flow.is_established)
    {
        return;
    }
    flow.is_established = true;
    flow.syn_event_ns = NEVER_NS;
    flow.window_pkts = FirstWindowPkts(flow);
    const bool is_clear = flow.syn_count == 1; // Karn
    flow.sender.Start(m_scenario->mss_bytes, is_clear ? m_now_ns - flow.syn_sent_ns : -1, facts, m_now_ns);
    ArmSend(flow, m_now_ns);
}

/** The window that a SYN-ACK announces. */
uint64_t
Engine::FirstWindowPkts(const FlowState& flow) const
{
    const uint64_t pkts = std::min(m_buffer_pkts, FIRST_WINDOW_BYTES / m_scenario->mss_bytes);
    const ReceiveWindow& window = flow.receiver.Window();
    return window.IsAmple() ? pkts : std::min(pkts, window.AnnouncedBytes(0) / m_scenario->mss_bytes);
}

} // namespace bbrgym
