// SPDX-License-Identifier: GPL-2.0-only
#include "flow-sender.h"

#include "sender_state.hpp"

#include "ns3/simulator.h"

#include <stdexcept>

namespace ns3
{

LinuxSender::LinuxSender(const bbrgym::Flow& flow, const cc_params& params, const bbrgym::SocketFacts& facts,
                         uint64_t run_seed)
    : m_rng_seed(cc_stream_seed(run_seed, ("flow." + flow.name).c_str())),
      m_facts(facts),
      m_params(params)
{}

Ptr<TcpSocket>
LinuxSender::CreateSocket(Ptr<Node> node) const
{
    return TcpLinuxSocket::CreateOn(node);
}

void
LinuxSender::Watch(Ptr<TcpSocket> socket, RttCallback on_rtt)
{
    const auto linux_socket = DynamicCast<TcpLinuxSocket>(socket);
    if (!linux_socket)
    {
        throw std::invalid_argument("the socket is a " + socket->GetInstanceTypeId().GetName() +
                                    ", expected a ns3::TcpLinuxSocket");
    }
    m_socket = linux_socket;
    m_on_rtt = std::move(on_rtt);
    m_socket->SetAlgorithm(m_params, m_rng_seed);
    m_socket->SetFacts(m_facts);
    m_socket->SetAckObserver([this](const cc_sample& sample) { NoteAck(sample); });
    if (m_log)
    {
        m_socket->SetLossObserver([this](const std::vector<uint64_t>& seqnos, uint64_t timeouts) {
            m_log->MarkedLost(Simulator::Now().GetNanoSeconds(), m_flow, seqnos, m_mss_bytes, timeouts);
        });
    }
}

void
LinuxSender::SetParams(const cc_params& params)
{
    m_params = params;
    if (m_socket)
    {
        m_socket->SetParams(params);
    }
}

bbrgym::SenderState
LinuxSender::State() const
{
    const bool stands = m_socket && m_socket->HasStarted();
    return stands ? bbrgym::StateOf(m_socket->GetSender(), Simulator::Now().GetNanoSeconds()) : bbrgym::SenderState{};
}

void
LinuxSender::LogTo(bbrgym::PacketLog& log, std::size_t flow, uint32_t mss_bytes)
{
    m_log = &log;
    m_flow = flow;
    m_mss_bytes = mss_bytes;
}

void
LinuxSender::NoteAck(const cc_sample& sample)
{
    if (sample.rtt_us >= 0)
    {
        m_on_rtt(sample.rtt_us * 1000);
    }
    if (m_log || m_trace.size() < m_max_rows)
    {
        const bbrgym::TcpSender& sender = m_socket->GetSender();
        const auto undo_count = static_cast<int64_t>(sender.Totals().undo_count);
        const bbrgym::AckRecord record =
            bbrgym::MakeAckRecord(sample, sender.GetController().State(), sender.GetController().Params(), undo_count);
        if (m_log)
        {
            m_log->Decided(m_flow, record);
        }
        if (m_trace.size() < m_max_rows)
        {
            m_trace.push_back(record);
        }
    }
}

} // namespace ns3
