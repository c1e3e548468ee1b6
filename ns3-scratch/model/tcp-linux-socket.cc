// SPDX-License-Identifier: GPL-2.0-only
#include "tcp-linux-socket.h"

#include "ns3/ipv4-end-point.h"
#include "ns3/ipv6-end-point.h"
#include "ns3/log.h"
#include "ns3/node.h"
#include "ns3/object-factory.h"
#include "ns3/rtt-estimator.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/tcp-tx-buffer.h"
#include "ns3/type-id.h"

#include <algorithm>
#include <array>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("TcpLinuxSocket");
NS_OBJECT_ENSURE_REGISTERED(TcpLinuxSocket);
NS_OBJECT_ENSURE_REGISTERED(TcpLinuxSocketFactory);

namespace
{

constexpr uint32_t UNPACED_PKTS = 10;           // Linux: the first ten segments are not paced
constexpr int64_t RTO_MIN_NS = 200'000'000;     // Linux: TCP_RTO_MIN, a floor under the variation term
constexpr int64_t RTO_MAX_NS = 120'000'000'000; // Linux: TCP_RTO_MAX
constexpr uint32_t MAX_BACKOFF = 16;
constexpr std::size_t MAX_SACK_BLOCKS = 4;

int64_t
NowNs()
{
    return Simulator::Now().GetNanoSeconds();
}

uint64_t
Us(int64_t ns)
{
    return static_cast<uint64_t>(ns / 1000);
}

} // namespace

TypeId
TcpLinuxSocket::GetTypeId()
{
    static TypeId tid = TypeId("ns3::TcpLinuxSocket")
                            .SetParent<TcpSocketBase>()
                            .SetGroupName("Internet")
                            .AddConstructor<TcpLinuxSocket>();
    return tid;
}

TypeId
TcpLinuxSocket::GetInstanceTypeId() const
{
    return GetTypeId();
}

/** A connection accepted by a listener starts with an empty scoreboard of its own. */
TcpLinuxSocket::TcpLinuxSocket(const TcpLinuxSocket& listener)
    : TcpSocketBase(listener)
{
}

TcpLinuxSocket::~TcpLinuxSocket()
{
    m_send_event.Cancel();
    m_reordering_event.Cancel();
}

Ptr<TcpSocketBase>
TcpLinuxSocket::Fork()
{
    return CopyObject<TcpLinuxSocket>(this);
}

SenderStats
TcpLinuxSocket::GetSenderStats() const
{
    SenderStats stats = m_totals;
    stats.marked_lost_pkts = m_board.LostTotal();
    stats.delivered_pkts = m_board.Delivered();
    stats.app_limited = m_board.IsAppLimited();
    stats.in_flight_pkts = m_board.InFlight();
    stats.srtt_us = m_srtt_ns < 0 ? -1 : m_srtt_ns / 1000;
    stats.last_rtt_us = m_last_rtt_ns < 0 ? -1 : m_last_rtt_ns / 1000;
    return stats;
}

void
TcpLinuxSocket::SetAckObserver(std::function<void(const AckEvent&)> observer)
{
    m_ack_observer = std::move(observer);
}

/** Data from the application: judged application-limited before it is queued, as tcp_sendmsg does. */
int
TcpLinuxSocket::Send(Ptr<Packet> packet, uint32_t flags)
{
    if (IsLinuxSender())
    {
        StartController();
        const bool nothing_to_send = m_txBuffer->SizeFromSequence(m_next_seq) < m_tcb->m_segmentSize &&
                                     m_board.NothingToRetransmit();
        if (nothing_to_send && m_board.InFlight() < m_controller->GetState().cwnd_pkts)
        {
            m_board.MarkAppLimited();
        }
    }
    const int accepted = TcpSocketBase::Send(packet, flags);
    if (accepted >= 0 && IsLinuxSender() && !m_send_event.IsPending())
    {
        // In an event of its own, so that the application can fill the buffer first.
        m_send_event = Simulator::ScheduleNow(&TcpLinuxSocket::TrySend, this);
    }
    return accepted;
}

void
TcpLinuxSocket::ReceivedAck(Ptr<Packet> packet, const TcpHeader& header)
{
    if (!IsLinuxSender())
    {
        TcpSocketBase::ReceivedAck(packet, header);
        return;
    }
    StartController();
    TakeAck(header);
    if (packet->GetSize() > 0)
    {
        ReceivedData(packet, header);
    }
    TrySend();
}

bool
TcpLinuxSocket::IsLinuxSender() const
{
    return m_connected && m_sackEnabled && m_state != SYN_RCVD &&
           (m_controller || DynamicCast<TcpBbrgym>(m_congestionControl));
}

void
TcpLinuxSocket::StartController()
{
    if (m_controller)
    {
        return;
    }
    m_controller = DynamicCast<TcpBbrgym>(m_congestionControl);
    m_board = bbrgym::Scoreboard(m_tcb->m_segmentSize);
    m_una = m_txBuffer->HeadSequence();
    m_next_seq = m_una;
    NoteHandshakeRtt();

    cc_start start{};
    start.now_us = Us(NowNs());
    start.srtt_us = m_srtt_ns < 0 ? 0 : Us(m_srtt_ns);
    start.min_rtt_us = m_board.MinRttNs() < 0 ? CC_RTT_UNKNOWN_US : Us(m_board.MinRttNs());
    start.mss_bytes = m_tcb->m_segmentSize;
    start.initial_cwnd_pkts = std::max<uint32_t>(GetInitialCwnd(), 1);
    m_controller->Start(start);
    m_controller->Publish(m_tcb);
    m_dataRetrCount = m_dataRetries;
}

void
TcpLinuxSocket::NoteHandshakeRtt()
{
    if (m_last_rtt_ns >= 0)
    {
        m_srtt_ns = m_last_rtt_ns;
        m_rttvar_ns = m_last_rtt_ns / 2;
        m_board.NoteRtt(m_last_rtt_ns, NowNs());
    }
}

// ---- one ACK --------------------------------------------------------------------------------------------

void
TcpLinuxSocket::TakeAck(const TcpHeader& header)
{
    const uint32_t prior_in_flight = m_board.InFlight();
    const uint64_t prior_lost = m_board.LostTotal();

    const bbrgym::AckOutcome outcome = UpdateScoreboard(header);
    UpdateRtt(outcome);
    m_board.DetectLosses(m_ca_state < CC_CA_RECOVERY, std::max<int64_t>(m_srtt_ns, 0), NowNs());
    const auto newly_lost = static_cast<uint32_t>(m_board.LostTotal() - prior_lost);
    UpdateLossState(newly_lost);
    RunController(outcome, newly_lost, prior_in_flight);
    ArmReorderingTimer();
    if (outcome.una_advanced)
    {
        m_dataRetrCount = m_dataRetries;
        m_rto_backoff = 0;
        ArmRto();
    }
    ReleaseBuffer(header);
}

bbrgym::AckOutcome
TcpLinuxSocket::UpdateScoreboard(const TcpHeader& header)
{
    std::array<bbrgym::ByteRange, MAX_SACK_BLOCKS> blocks;
    std::size_t count = 0;
    if (header.HasOption(TcpOption::SACK))
    {
        const auto sack = DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK));
        for (const auto& [left, right] : sack->GetSackList())
        {
            if (count < blocks.size() && left >= m_una && right > left)
            {
                blocks[count++] = {Offset(left), Offset(right)};
            }
        }
    }
    const uint64_t una_offset = Offset(std::max(m_una, header.GetAckNumber()));
    const auto outcome = m_board.Acknowledge(una_offset, std::span(blocks.data(), count), NowNs());
    m_payloads.erase(m_payloads.begin(),
                     m_payloads.begin() + static_cast<std::ptrdiff_t>(outcome.removed_segments));
    m_una_offset = una_offset;
    m_una = std::max(m_una, header.GetAckNumber());
    return outcome;
}

/** RFC 6298, fed with the oldest segment's RTT as Linux does. */
void
TcpLinuxSocket::UpdateRtt(const bbrgym::AckOutcome& outcome)
{
    if (outcome.rtt_ns >= 0)
    {
        m_last_rtt_ns = outcome.rtt_ns;
        m_tcb->m_lastRtt = NanoSeconds(outcome.rtt_ns);
    }
    const int64_t rtt_ns = outcome.oldest_rtt_ns;
    if (rtt_ns < 0)
    {
        return;
    }
    if (m_srtt_ns < 0)
    {
        m_srtt_ns = rtt_ns;
        m_rttvar_ns = rtt_ns / 2;
    }
    else
    {
        const int64_t error_ns = rtt_ns - m_srtt_ns;
        m_rttvar_ns += (std::abs(error_ns) - m_rttvar_ns) / 4;
        m_srtt_ns += error_ns / 8;
    }
    m_tcb->m_srtt = NanoSeconds(m_srtt_ns);
    m_tcb->m_minRtt = NanoSeconds(std::max<int64_t>(m_board.MinRttNs(), 0));
}

/** Linux's tcp_fastretrans_alert, as far as SACK and RACK need it. */
void
TcpLinuxSocket::UpdateLossState(uint32_t newly_lost)
{
    if (m_ca_state >= CC_CA_RECOVERY && m_una_offset >= m_recovery_point)
    {
        ChangeLossState(CC_CA_OPEN);
    }
    if (m_ca_state >= CC_CA_RECOVERY)
    {
        return;
    }
    if (newly_lost > 0 || m_board.LostOut() > 0)
    {
        m_recovery_point = m_next_offset;
        ChangeLossState(CC_CA_RECOVERY);
    }
    else
    {
        ChangeLossState(m_board.SackedOut() > 0 ? CC_CA_DISORDER : CC_CA_OPEN);
    }
}

void
TcpLinuxSocket::ChangeLossState(cc_ca_state state)
{
    if (state == m_ca_state)
    {
        return;
    }
    m_ca_state = state;
    m_controller->OnLossState(state, m_board.InFlight());
    m_tcb->m_congState = static_cast<TcpSocketState::TcpCongState_t>(state);
}

void
TcpLinuxSocket::RunController(const bbrgym::AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight)
{
    const int64_t now_ns = NowNs();
    const bbrgym::RateSample rate = m_board.TakeRateSample(now_ns);

    cc_sample sample{};
    sample.now_us = Us(now_ns);
    sample.delivered_time_us = Us(m_board.DeliveredTimeNs());
    sample.delivered_pkts = m_board.Delivered();
    sample.prior_delivered_pkts = rate.prior_delivered_pkts;
    sample.sample_pkts = rate.sample_pkts;
    sample.interval_us = rate.interval_ns < 0 ? -1 : rate.interval_ns / 1000;
    sample.rtt_us = outcome.rtt_ns < 0 ? -1 : outcome.rtt_ns / 1000;
    sample.srtt_us = m_srtt_ns < 0 ? 0 : Us(m_srtt_ns);
    sample.min_rtt_us = m_board.MinRttNs() < 0 ? CC_RTT_UNKNOWN_US : Us(m_board.MinRttNs());
    sample.acked_pkts = outcome.acked_pkts;
    sample.lost_pkts = lost_pkts;
    sample.total_lost_pkts = m_board.LostTotal();
    sample.prior_in_flight_pkts = prior_in_flight;
    sample.in_flight_pkts = m_board.InFlight();
    sample.ca_state = static_cast<uint8_t>(m_ca_state);
    sample.is_app_limited = rate.is_app_limited;
    sample.is_ack_delayed = outcome.is_ack_delayed;
    sample.is_cwnd_limited = m_una_offset <= m_cwnd_limited_until;

    m_controller->OnAck(sample);
    if (m_controller->GetState().mark_app_limited)
    {
        m_board.MarkAppLimited();
    }
    m_controller->Publish(m_tcb);
    m_tcb->m_lastAckedSeq = m_una;
    if (m_ack_observer)
    {
        m_ack_observer({sample, m_controller->GetState(), m_controller->GetParams()});
    }
}

/** Frees what was acknowledged and tells the application that there is room. */
void
TcpLinuxSocket::ReleaseBuffer(const TcpHeader& header)
{
    const SequenceNumber32 ack = header.GetAckNumber();
    m_highRxAckMark = std::max(m_highRxAckMark.Get(), ack);
    m_txBuffer->DiscardUpTo(ack);
    if (ack > m_tcb->m_nextTxSequence)
    {
        m_tcb->m_nextTxSequence = ack; // of a FIN, which no segment stands for
    }
    if (GetTxAvailable() > 0)
    {
        NotifySend(GetTxAvailable());
    }
}

// ---- sending --------------------------------------------------------------------------------------------

void
TcpLinuxSocket::TrySend()
{
    if (!IsLinuxSender() || (m_endPoint == nullptr && m_endPoint6 == nullptr))
    {
        return;
    }
    StartController();
    while (MaySendNow())
    {
        if (const auto lost = m_board.NextLost())
        {
            SendAgain(*lost);
        }
        else if (const uint32_t bytes = NewDataBytes(); bytes > 0)
        {
            SendNewSegment(bytes);
        }
        else
        {
            break;
        }
    }
}

/** Whether window and pacing allow a packet; if only pacing forbids it, comes back when it allows. */
bool
TcpLinuxSocket::MaySendNow()
{
    if (m_board.InFlight() >= m_controller->GetState().cwnd_pkts)
    {
        m_cwnd_limited_until = m_next_offset;
        return false;
    }
    const int64_t wait_ns = m_next_send_ns - NowNs();
    if (wait_ns <= 0)
    {
        return true;
    }
    if (!m_send_event.IsPending())
    {
        m_send_event = Simulator::Schedule(NanoSeconds(wait_ns), &TcpLinuxSocket::TrySend, this);
    }
    return false;
}

/** Bytes of the next new segment that may leave: window of the receiver, Nagle; 0: none. */
uint32_t
TcpLinuxSocket::NewDataBytes() const
{
    const uint32_t unsent = m_txBuffer->SizeFromSequence(m_next_seq);
    const uint64_t unacked = m_next_offset - m_una_offset;
    const uint64_t room = m_rWnd.Get() > unacked ? m_rWnd.Get() - unacked : 0;
    const auto bytes =
        static_cast<uint32_t>(std::min<uint64_t>({unsent, room, uint64_t{m_tcb->m_segmentSize}}));
    const bool runt = bytes < m_tcb->m_segmentSize;
    const bool nagle = runt && !m_noDelay && !m_closeOnEmpty && !m_board.Empty();
    const bool silly_window = runt && room < unsent;
    return nagle || silly_window ? 0 : bytes;
}

void
TcpLinuxSocket::SendNewSegment(uint32_t bytes)
{
    const int64_t now_ns = NowNs();
    if (m_board.InFlight() == 0)
    {
        m_controller->OnRestart(Us(now_ns), m_board.IsAppLimited());
    }
    m_board.Sent({m_next_offset, m_next_offset + bytes}, now_ns);
    const SequenceNumber32 seq = m_next_seq;
    m_payloads.push_back(m_txBuffer->CopyFromSequence(bytes, seq)->GetPacketCopy());
    m_next_offset += bytes;
    m_next_seq += bytes;
    m_tcb->m_nextTxSequence = m_next_seq;
    Emit(m_payloads.back()->Copy(), seq, false);
    m_tcb->m_highTxMark = std::max(m_next_seq, m_tcb->m_highTxMark.Get());
    Simulator::ScheduleNow(&TcpLinuxSocket::NotifyDataSent, this, bytes);
    AfterSend(bytes);
}

void
TcpLinuxSocket::SendAgain(std::size_t index)
{
    if (m_board.InFlight() == 0)
    {
        m_controller->OnRestart(Us(NowNs()), m_board.IsAppLimited());
    }
    m_board.Retransmitted(index, NowNs());
    ++m_totals.retransmitted_pkts;
    const Ptr<Packet> payload = m_payloads[index];
    const auto below_una = static_cast<uint32_t>(m_board.At(index).bytes.begin - m_una_offset);
    Emit(payload->Copy(), m_una + SequenceNumber32(below_una), true);
    AfterSend(payload->GetSize());
    if (index == 0)
    {
        ArmRto(); // the timer is the head's (tcp_xmit_retransmit_queue)
    }
}

/** Puts the TCP header on and hands the segment to IP. */
void
TcpLinuxSocket::Emit(Ptr<Packet> payload, SequenceNumber32 seq, bool is_retransmission)
{
    uint8_t flags = TcpHeader::ACK;
    const bool is_last = m_txBuffer->SizeFromSequence(seq + SequenceNumber32(payload->GetSize())) == 0;
    if (m_closeOnEmpty && is_last)
    {
        flags |= TcpHeader::FIN;
        if (m_state == ESTABLISHED)
        {
            m_state = FIN_WAIT_1;
        }
        else if (m_state == CLOSE_WAIT)
        {
            m_state = LAST_ACK;
        }
    }
    AddSocketTags(payload, false);

    TcpHeader header;
    header.SetFlags(flags);
    header.SetSequenceNumber(seq);
    header.SetAckNumber(m_tcb->m_rxBuffer->NextRxSequence());
    header.SetWindowSize(AdvertisedWindowSize());
    header.SetSourcePort(m_endPoint ? m_endPoint->GetLocalPort() : m_endPoint6->GetLocalPort());
    header.SetDestinationPort(m_endPoint ? m_endPoint->GetPeerPort() : m_endPoint6->GetPeerPort());
    AddOptions(header);
    m_delAckEvent.Cancel(); // this segment acknowledges too
    m_delAckCount = 0;

    const auto send = [&](auto local, auto peer) {
        m_txTrace(payload, header, this);
        if (is_retransmission)
        {
            m_retransmissionTrace(payload, header, local, peer, this);
        }
        m_tcp->SendPacket(payload, header, local, peer, m_boundnetdevice);
    };
    if (m_endPoint)
    {
        send(m_endPoint->GetLocalAddress(), m_endPoint->GetPeerAddress());
    }
    else
    {
        send(m_endPoint6->GetLocalAddress(), m_endPoint6->GetPeerAddress());
    }
}

/** Accounts for a packet that left: pacing by payload bytes (sk_pacing_rate), the timer if none runs. */
void
TcpLinuxSocket::AfterSend(uint32_t bytes)
{
    ++m_totals.sent_pkts;
    const uint64_t pacing_Bps = m_controller->GetState().pacing_Bps;
    if (pacing_Bps != UINT64_MAX && m_totals.sent_pkts > UNPACED_PKTS)
    {
        const auto gap_ns = static_cast<int64_t>(uint64_t{bytes} * 1'000'000'000 / pacing_Bps);
        m_next_send_ns = std::max(m_next_send_ns, NowNs()) + gap_ns;
    }
    if (m_rto_deadline_ns == bbrgym::Scoreboard::NEVER_NS)
    {
        ArmRto();
    }
    m_tcb->m_bytesInFlight = BytesInFlight();
}

// ---- timers ---------------------------------------------------------------------------------------------

void
TcpLinuxSocket::ReTxTimeout()
{
    if (!m_controller || m_txBuffer->Size() == 0 || m_state == CLOSED || m_state == TIME_WAIT)
    {
        TcpSocketBase::ReTxTimeout(); // of a SYN or a FIN
        return;
    }
    if (m_rto_deadline_ns == bbrgym::Scoreboard::NEVER_NS || m_board.Empty())
    {
        return;
    }
    const int64_t now_ns = NowNs();
    if (now_ns < m_rto_deadline_ns)
    {
        // ACKs have moved the deadline since the event was scheduled.
        m_rto_event_ns = m_rto_deadline_ns;
        m_retxEvent =
            Simulator::Schedule(NanoSeconds(m_rto_deadline_ns - now_ns), &TcpLinuxSocket::ReTxTimeout, this);
        return;
    }
    if (m_dataRetrCount == 0)
    {
        NotifyErrorClose();
        DeallocateEndPoint();
        return;
    }
    --m_dataRetrCount;
    ++m_totals.rto_count;

    const uint32_t prior_in_flight = m_board.InFlight();
    m_board.MarkAllLost();
    m_recovery_point = m_next_offset;
    m_ca_state = CC_CA_LOSS;
    m_controller->OnRto(prior_in_flight, m_board.InFlight(), m_board.LostTotal());
    m_controller->Publish(m_tcb);
    m_tcb->m_congState = TcpSocketState::CA_LOSS;
    m_rto_backoff = std::min(m_rto_backoff + 1, MAX_BACKOFF);
    m_next_send_ns = now_ns; // the head leaves at once, whatever the pacing was
    ArmRto();
    TrySend();
}

void
TcpLinuxSocket::ReorderingTimeout()
{
    m_board.DetectLosses(m_ca_state < CC_CA_RECOVERY, std::max<int64_t>(m_srtt_ns, 0), NowNs());
    UpdateLossState(0);
    ArmReorderingTimer();
    TrySend();
}

void
TcpLinuxSocket::ArmReorderingTimer()
{
    m_reordering_event.Cancel();
    const int64_t deadline_ns = m_board.ReorderingDeadlineNs();
    if (deadline_ns != bbrgym::Scoreboard::NEVER_NS)
    {
        m_reordering_event = Simulator::Schedule(NanoSeconds(deadline_ns - NowNs()),
                                                 &TcpLinuxSocket::ReorderingTimeout,
                                                 this);
    }
}

/** Sets the deadline; the event behind it is moved only when it would come too late. */
void
TcpLinuxSocket::ArmRto()
{
    if (m_board.Empty())
    {
        m_rto_deadline_ns = bbrgym::Scoreboard::NEVER_NS;
        return;
    }
    m_rto = Rto();
    m_rto_deadline_ns = NowNs() + m_rto.Get().GetNanoSeconds();
    if (m_retxEvent.IsPending() && m_rto_event_ns <= m_rto_deadline_ns)
    {
        return;
    }
    m_retxEvent.Cancel();
    m_rto_event_ns = m_rto_deadline_ns;
    m_retxEvent = Simulator::Schedule(m_rto.Get(), &TcpLinuxSocket::ReTxTimeout, this);
}

/** srtt + max(4 rttvar, 200 ms), doubled for each timeout in a row (tcp_set_rto, tcp_bound_rto). */
Time
TcpLinuxSocket::Rto() const
{
    const int64_t base_ns = m_srtt_ns < 0 ? 1'000'000'000 // RFC 6298, 2.1
                                          : m_srtt_ns + std::max(4 * m_rttvar_ns, RTO_MIN_NS);
    return NanoSeconds(std::min(base_ns << m_rto_backoff, RTO_MAX_NS));
}

// ---- what ns-3's half of the socket asks ----------------------------------------------------------------

/** Data ACKs are measured by the scoreboard; here only the handshake's RTT is taken (Karn applies). */
void
TcpLinuxSocket::EstimateRtt(const TcpHeader& header)
{
    if (!(header.GetFlags() & TcpHeader::SYN) && m_state != SYN_RCVD)
    {
        return;
    }
    if (m_syn_sent_ns >= 0 && m_last_rtt_ns < 0)
    {
        m_last_rtt_ns = NowNs() - m_syn_sent_ns;
        m_tcb->m_lastRtt = NanoSeconds(m_last_rtt_ns);
        m_tcb->m_srtt = NanoSeconds(m_last_rtt_ns);
        m_rtt->Measurement(NanoSeconds(m_last_rtt_ns));
    }
    if (m_state == SYN_SENT && !m_send_event.IsPending())
    {
        m_send_event = Simulator::ScheduleNow(&TcpLinuxSocket::TrySend, this);
    }
}

void
TcpLinuxSocket::UpdateRttHistory(const SequenceNumber32&, uint32_t size, bool is_retransmission)
{
    if (size == 0) // a SYN
    {
        m_syn_sent_ns = m_syn_sent_once || is_retransmission ? -1 : NowNs();
        m_syn_sent_once = true;
    }
}

uint32_t
TcpLinuxSocket::BytesInFlight() const
{
    if (!m_controller)
    {
        return TcpSocketBase::BytesInFlight();
    }
    return m_board.InFlight() * m_tcb->m_segmentSize;
}

/** ns-3's own sending loop finds its window closed; TrySend does the sending. */
uint32_t
TcpLinuxSocket::AvailableWindow() const
{
    return IsLinuxSender() ? 0 : TcpSocketBase::AvailableWindow();
}

uint64_t
TcpLinuxSocket::Offset(SequenceNumber32 seq) const
{
    return m_una_offset + static_cast<uint64_t>(static_cast<int64_t>(seq - m_una));
}

// ---- factory --------------------------------------------------------------------------------------------

TypeId
TcpLinuxSocketFactory::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::TcpLinuxSocketFactory")
            .SetParent<TcpSocketFactory>()
            .SetGroupName("Internet")
            .AddConstructor<TcpLinuxSocketFactory>()
            .AddAttribute("CongestionControl",
                          "TypeId of the congestion control of new sockets; of ns3::TcpBbrgym's family.",
                          TypeIdValue(TcpBbrgym::VariantTypeId("bbr")),
                          MakeTypeIdAccessor(&TcpLinuxSocketFactory::m_congestion_control),
                          MakeTypeIdChecker());
    return tid;
}

void
TcpLinuxSocketFactory::Install(Ptr<Node> node)
{
    auto factory = CreateObject<TcpLinuxSocketFactory>();
    factory->m_node = node;
    node->AggregateObject(factory);
}

void
TcpLinuxSocketFactory::DoDispose()
{
    m_node = nullptr;
    TcpSocketFactory::DoDispose();
}

Ptr<Socket>
TcpLinuxSocketFactory::CreateSocket()
{
    const auto tcp = m_node->GetObject<TcpL4Protocol>();
    NS_ABORT_MSG_UNLESS(tcp, "TcpLinuxSocketFactory: the node has no TCP; install the internet stack first");
    ObjectFactory controller;
    controller.SetTypeId(m_congestion_control);

    auto socket = CreateObject<TcpLinuxSocket>();
    socket->SetNode(m_node);
    socket->SetTcp(tcp);
    socket->SetRtt(CreateObject<RttMeanDeviation>());
    socket->SetCongestionControlAlgorithm(controller.Create<TcpCongestionOps>());
    socket->SetRecoveryAlgorithm(CreateObject<TcpPrrRecovery>());
    tcp->AddSocket(socket);
    return socket;
}

} // namespace ns3
