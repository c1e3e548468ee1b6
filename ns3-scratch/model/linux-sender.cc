// SPDX-License-Identifier: GPL-2.0-only
#include "flow-sender.h"

#include "params.hpp"

#include "ns3/pointer.h"
#include "ns3/type-id.h"

namespace ns3
{

LinuxSender::LinuxSender(const bbrgym::Flow& flow, int variant, const cc_params& params, uint64_t run_seed)
    : m_variant(variant),
      m_rng_seed(cc_stream_seed(run_seed, ("flow." + flow.name).c_str())),
      m_params(params)
{
}

Ptr<TcpSocket>
LinuxSender::CreateSocket(Ptr<Node> node, RttCallback on_rtt)
{
    m_on_rtt = std::move(on_rtt);
    TcpLinuxSocketFactory::Install(node);
    const auto factory = node->GetObject<TcpLinuxSocketFactory>();
    const std::string name(bbrgym::VariantName(m_variant));
    factory->SetAttribute("CongestionControl", TypeIdValue(TcpBbrgym::VariantTypeId(name)));
    m_socket = DynamicCast<TcpLinuxSocket>(factory->CreateSocket());
    m_socket->SetAckObserver([this](const AckEvent& event) { NoteAck(event); });

    PointerValue controller;
    m_socket->GetAttribute("CongestionOps", controller);
    m_controller = controller.Get<TcpBbrgym>();
    m_controller->SetParams(m_params);
    m_controller->SetRngSeed(m_rng_seed);
    return m_socket;
}

void
LinuxSender::SetParams(const cc_params& params)
{
    m_params = params;
    if (m_controller)
    {
        m_controller->SetParams(params);
    }
}

bbrgym::SenderState
LinuxSender::State() const
{
    bbrgym::SenderState state;
    if (!m_controller || !m_controller->Started())
    {
        return state;
    }
    const cc_state& cc = m_controller->GetState();
    const TcpLinuxSocket::Sender& sender = m_socket->GetSender();
    const bbrgym::Scoreboard& board = sender.Board();
    const uint64_t min_rtt_us = cc_min_rtt_us(&cc, &m_params);
    state.bw_Bps = static_cast<double>(cc_bw_Bps(&cc));
    state.pacing_Bps = cc.pacing_Bps == UINT64_MAX ? 0 : static_cast<double>(cc.pacing_Bps);
    state.cwnd_pkts = cc.cwnd_pkts;
    state.in_flight_pkts = board.InFlight();
    state.srtt_us = sender.SrttNs() < 0 ? 0 : static_cast<double>(sender.SrttNs() / 1000);
    state.min_rtt_us = min_rtt_us == CC_RTT_UNKNOWN_US ? 0 : static_cast<double>(min_rtt_us);
    state.phase = cc_phase(&cc, &m_params);
    state.app_limited = board.IsAppLimited();
    state.marked_lost_pkts = board.LostTotal();
    state.delivered_pkts = board.Delivered();
    state.rto_count = sender.Totals().rto_count;
    return state;
}

void
LinuxSender::TraceAcks(std::size_t max_rows)
{
    m_max_rows = max_rows;
}

void
LinuxSender::NoteAck(const AckEvent& event)
{
    const cc_sample& sample = event.sample;
    if (sample.rtt_us >= 0)
    {
        m_on_rtt(sample.rtt_us * 1000);
    }
    if (m_trace.size() < m_max_rows)
    {
        m_trace.push_back(bbrgym::MakeAckRecord(sample, event.state, m_params));
    }
}

} // namespace ns3
