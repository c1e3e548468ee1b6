// SPDX-License-Identifier: GPL-2.0-only
#include "tcp-linux-socket.h"

#include "ns3-versions.h"
#include "run-control.h"
#include "timestamp-tag.h"

#include "ns3/flow-id-tag.h"
#include "ns3/ipv4-end-point.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv6-end-point.h"
#include "ns3/node.h"
#include "ns3/rtt-estimator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/tcp-linux-reno.h"
#include "ns3/tcp-option-sack.h"
#include "ns3/tcp-prr-recovery.h"
#include "ns3/tcp-tx-buffer.h"
#include "ns3/type-id.h"

#include <algorithm>
#include <array>
#include <limits>

namespace ns3
{

NS_OBJECT_ENSURE_REGISTERED(TcpLinuxSocket);

namespace
{

/** ECE beside them agrees on ECN. */
bool
IsSynAck(uint8_t flags)
{
    constexpr uint8_t SYN_ACK = TcpHeader::SYN | TcpHeader::ACK;
    return (flags & SYN_ACK) == SYN_ACK;
}

/** Of a TCP header what is asked of every packet, from its fixed offsets: ns-3's class would read the options too. */
struct Head
{
    explicit Head(Ptr<const Packet> packet)
    {
        std::array<uint8_t, 14> bytes{};
        packet->CopyData(bytes.data(), bytes.size());
        seq =
            SequenceNumber32(uint32_t{bytes[4]} << 24 | uint32_t{bytes[5]} << 16 | uint32_t{bytes[6]} << 8 | bytes[7]);
        payload_bytes = packet->GetSize() - uint32_t{bytes[12]} / 16 * 4;
        flags = bytes[13];
    }

    SequenceNumber32 seq;
    uint32_t payload_bytes;
    uint8_t flags;
};

/** Puts the event at `deadline_ns`, but leaves one that comes sooner: it will find out and be put again. */
template <class Call>
void
Arm(EventId& event, int64_t& event_ns, int64_t deadline_ns, Call&& call)
{
    if (deadline_ns == bbrgym::NEVER_NS || (bbrgym::IsPending(event) && event_ns <= deadline_ns))
    {
        return;
    }
    event.Cancel();
    event_ns = deadline_ns;
    event = Simulator::Schedule(NanoSeconds(deadline_ns - bbrgym::NowNs()), std::forward<Call>(call));
}

} // namespace

// ---- the socket -----------------------------------------------------------------------------------------

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

/** What ns-3 takes for its congestion control is never asked: with an algorithm the sender is ours, without one idle.
 */
Ptr<TcpLinuxSocket>
TcpLinuxSocket::CreateOn(Ptr<Node> node)
{
    const auto tcp = node->GetObject<TcpL4Protocol>();
    NS_ABORT_MSG_UNLESS(tcp, "TcpLinuxSocket: the node has no TCP; install the internet stack first");
    auto socket = CreateObject<TcpLinuxSocket>();
    socket->SetNode(node);
    socket->SetTcp(tcp);
    socket->SetRtt(CreateObject<RttMeanDeviation>());
    socket->SetCongestionControlAlgorithm(CreateObject<TcpLinuxReno>());
    socket->SetRecoveryAlgorithm(CreateObject<TcpPrrRecovery>());
    tcp->AddSocket(socket);
    return socket;
}

/** A connection accepted by a listener starts with an empty scoreboard of its own, and with the listener's receiver. */
TcpLinuxSocket::TcpLinuxSocket(const TcpLinuxSocket& listener) : TcpSocketBase(listener), m_end(listener.m_end)
{}

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

void
TcpLinuxSocket::SetAlgorithm(const cc_params& params, uint64_t rng_seed)
{
    m_sender.GetController().Init(params, rng_seed);
    m_has_algorithm = true;
}

void
TcpLinuxSocket::SetLossObserver(std::function<void(const std::vector<uint64_t>& seqnos, uint64_t timeouts)> observer)
{
    m_loss_observer = std::move(observer);
    m_sender.LogLosses();
}

void
TcpLinuxSocket::LogLosses()
{
    if (m_loss_observer)
    {
        m_loss_observer(m_sender.DrainLosses(), m_sender.Totals().rto_count);
    }
}

/** Data from the application: judged application-limited before it is queued, as tcp_sendmsg does. */
int
TcpLinuxSocket::Send(Ptr<Packet> packet, uint32_t flags)
{
    if (IsLinuxSender())
    {
        StartSender();
        m_sender.BeforeWrite(m_txBuffer->SizeFromSequence(m_next_seq) >= m_tcb->m_segmentSize);
    }
    const int accepted = TcpSocketBase::Send(packet, flags);
    if (accepted >= 0 && IsLinuxSender() && !bbrgym::IsPending(m_send_event))
    {
        // In an event of its own, so that the application can fill the buffer first.
        m_send_event = Simulator::ScheduleNow(&TcpLinuxSocket::TrySend, this);
        m_send_event_ns = bbrgym::NowNs();
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
    StartSender();
    OnAckArrived(header, TimestampTag::Of(packet));
    if (packet->GetSize() > 0)
    {
        ReceivedData(packet, header);
    }
    TrySend();
    if (m_space_observer)
    {
        m_space_observer();
    }
}

bool
TcpLinuxSocket::IsLinuxSender() const
{
    return m_has_algorithm && m_connected && m_state != SYN_RCVD;
}

void
TcpLinuxSocket::StartSender()
{
    if (m_has_started)
    {
        return;
    }
    NS_ABORT_MSG_UNLESS(m_sackEnabled, "TcpLinuxSocket: the receiver does not agree on SACK");
    m_has_started = true;
    m_una = m_txBuffer->HeadSequence();
    m_next_seq = m_una;
    m_dataRetrCount = m_dataRetries;
    m_sender.Start(m_tcb->m_segmentSize, m_handshake_rtt_ns, m_facts, bbrgym::NowNs());
    Publish();
}

// ---- one ACK --------------------------------------------------------------------------------------------

void
TcpLinuxSocket::OnAckArrived(const TcpHeader& header, int64_t echo_ms)
{
    const SequenceNumber32 ack = std::max(m_una, header.GetAckNumber());
    const uint64_t una = SeqnoOfAck(ack);
    const uint64_t removed = una - m_sender.Board().Una();
    std::array<bbrgym::SeqnoRange, bbrgym::MAX_SACK_BLOCKS> blocks;
    const std::size_t count = ReadSack(header, blocks);
    const bool ece = (header.GetFlags() & TcpHeader::ECE) != 0;
    if (m_facts.timestamps)
    {
        m_sender.OnTimestampEcho(echo_ms);
    }
    const cc_sample& sample = m_sender.OnAck(una, std::span(blocks.data(), count), bbrgym::NowNs(), ece);

    m_payloads.erase(m_payloads.begin(), m_payloads.begin() + static_cast<std::ptrdiff_t>(removed));
    m_una = ack;
    m_tcb->m_lastAckedSeq = ack;
    Publish();
    LogLosses();
    if (m_ack_observer)
    {
        m_ack_observer(sample);
    }
    if (removed > 0)
    {
        m_dataRetrCount = m_dataRetries;
    }
    ReleaseBuffer(header);
}

/** The first segment that is not acknowledged whole. */
uint64_t
TcpLinuxSocket::SeqnoOfAck(SequenceNumber32 ack) const
{
    const auto acked = std::ranges::find_if(m_payloads, [ack](const Payload& payload) { return payload.end > ack; });
    return m_sender.Board().Una() + static_cast<uint64_t>(acked - m_payloads.begin());
}

/** The SACK blocks as the segments they cover whole; returns how many blocks. */
std::size_t
TcpLinuxSocket::ReadSack(const TcpHeader& header, SackBlocks blocks) const
{
    if (!header.HasOption(TcpOption::SACK))
    {
        return 0;
    }
    const auto seqno = [this](SequenceNumber32 seq, SequenceNumber32 Payload::* edge) {
        const auto at = std::ranges::lower_bound(m_payloads, seq, {}, edge);
        return m_sender.Board().Una() + static_cast<uint64_t>(at - m_payloads.begin());
    };
    std::size_t count = 0;
    for (const auto& [left, right] : DynamicCast<const TcpOptionSack>(header.GetOption(TcpOption::SACK))->GetSackList())
    {
        if (count == blocks.size() || right <= left)
        {
            continue;
        }
        if (left >= m_una)
        {
            blocks[count++] = {seqno(left, &Payload::begin), seqno(right + 1, &Payload::end)};
        }
        else if (right <= m_una) // a duplicate of a whole segment that is not on the scoreboard any more
        {
            const uint64_t back = static_cast<uint32_t>(m_una - left) / m_tcb->m_segmentSize;
            blocks[count++] = {m_sender.Board().Una() - back, m_sender.Board().Una() - back + 1};
        }
    }
    return count;
}

/** Shows what the sender has measured and decided in the socket's state, where ns-3 looks for it. */
void
TcpLinuxSocket::Publish()
{
    const cc_state& state = m_sender.GetController().State();
    const auto bytes = [this](uint32_t pkts) {
        const uint64_t total = uint64_t{pkts} * m_tcb->m_segmentSize;
        return static_cast<uint32_t>(std::min<uint64_t>(total, std::numeric_limits<uint32_t>::max()));
    };
    m_tcb->m_cWnd = bytes(state.cwnd_pkts);
    m_tcb->m_cWndInfl = m_tcb->m_cWnd;
    m_tcb->m_ssThresh = bytes(state.ssthresh_pkts);
    m_tcb->m_congState = static_cast<TcpSocketState::TcpCongState_t>(m_sender.LossState());
    if (state.pacing_Bps != UINT64_MAX)
    {
        m_tcb->m_pacingRate = DataRate(state.pacing_Bps * 8);
    }
    if (m_sender.SrttNs() >= 0)
    {
        m_tcb->m_lastRtt = NanoSeconds(m_sender.LastRttNs());
        bbrgym::TellSmoothedRtt(*m_tcb, NanoSeconds(m_sender.SrttNs()));
        m_tcb->m_minRtt = NanoSeconds(m_sender.Board().MinRttNs());
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
    StartSender();
    const uint64_t sent_before = m_sender.Totals().sent_pkts;
    for (;;)
    {
        const uint32_t new_bytes = NewDataBytes();
        const bbrgym::ToSend next = m_sender.Next(NewSegments(new_bytes), bbrgym::NowNs());
        if (next.kind == bbrgym::ToSend::Kind::NOTHING)
        {
            break;
        }
        if (next.kind == bbrgym::ToSend::Kind::NEW)
        {
            SendNewSegment(new_bytes);
        }
        else
        {
            SendAgain(next.seqno);
        }
        m_tcb->m_bytesInFlight = BytesInFlight();
    }
    const bool has_unsent = m_una <= m_next_seq && m_txBuffer->SizeFromSequence(m_next_seq) > 0; // not after a FIN
    m_sender.ValidateCwnd(has_unsent, m_sender.Totals().sent_pkts > sent_before, m_writer_waits, bbrgym::NowNs());
    // The time is earlier than before only after a timeout, which restarts pacing.
    Arm(m_send_event, m_send_event_ns, m_sender.PacingDeadlineNs(), [this] { TrySend(); });
    ArmTimers();
}

/** Bytes of the next new segment that may leave: window of the receiver, Nagle; 0: none. */
uint32_t
TcpLinuxSocket::NewDataBytes() const
{
    const uint32_t unsent = m_txBuffer->SizeFromSequence(m_next_seq);
    const auto unacked = static_cast<uint32_t>(m_next_seq - m_una); // a FIN's ACK lies beyond: no room
    const uint32_t room = m_rWnd.Get() > unacked ? m_rWnd.Get() - unacked : 0;
    const uint32_t bytes = std::min({unsent, room, m_tcb->m_segmentSize});
    const bool runt = bytes < m_tcb->m_segmentSize;
    const bool nagle = runt && !m_noDelay && !m_closeOnEmpty && !m_payloads.empty();
    const bool silly_window = runt && room < unsent;
    return nagle || silly_window ? 0 : bytes;
}

/** Segments that may leave if the next one of them has `next_bytes`. */
uint64_t
TcpLinuxSocket::NewSegments(uint32_t next_bytes) const
{
    if (next_bytes < m_tcb->m_segmentSize)
    {
        return next_bytes > 0;
    }
    const auto unacked = static_cast<uint32_t>(m_next_seq - m_una);
    return std::min(m_txBuffer->SizeFromSequence(m_next_seq), m_rWnd.Get() - unacked) / m_tcb->m_segmentSize;
}

void
TcpLinuxSocket::SendNewSegment(uint32_t bytes)
{
    const SequenceNumber32 seq = m_next_seq;
    m_next_seq += bytes;
    m_payloads.push_back({seq, m_next_seq, m_txBuffer->CopyFromSequence(bytes, seq)->GetPacketCopy()});
    m_tcb->m_nextTxSequence = m_next_seq;
    SendSegment(m_payloads.back().packet->Copy(), seq, false, m_sender.EcnBitsToSend());
    m_tcb->m_highTxMark = std::max(m_next_seq, m_tcb->m_highTxMark.Get());
    Simulator::ScheduleNow(&TcpLinuxSocket::NotifyDataSent, this, bytes);
    m_sender.OnNewSent(bytes, bytes < m_tcb->m_segmentSize, bbrgym::NowNs());
}

void
TcpLinuxSocket::SendAgain(uint64_t seqno)
{
    const Payload& payload = m_payloads[seqno - m_sender.Board().Una()];
    SendSegment(payload.packet->Copy(), payload.begin, true);
    m_sender.OnRetransmitted(seqno, payload.packet->GetSize(), bbrgym::NowNs());
}

/** The tail loss probe: new data, or the last segment retransmitted. */
void
TcpLinuxSocket::SendProbe()
{
    const uint32_t new_bytes = NewDataBytes();
    if (new_bytes > 0)
    {
        SendNewSegment(new_bytes);
    }
    else
    {
        SendSegment(m_payloads.back().packet->Copy(), m_payloads.back().begin, true);
    }
    m_sender.OnProbeSent(new_bytes == 0, m_payloads.back().packet->GetSize(), bbrgym::NowNs());
}

// Two things that ns-3's releases differ in (see ns3-versions.h), and that only a socket itself may touch.

template <typename Self>
void
TcpLinuxSocket::TagSegment(Self* self, Ptr<Packet> payload)
{
    if constexpr (requires { self->AddSocketTags(payload, false); })
    {
        self->AddSocketTags(payload, false); // not ECN-capable
    }
    else
    {
        self->AddSocketTags(payload);
    }
}

template <typename Self, typename... Segment>
void
TcpLinuxSocket::TraceRetransmission(Self* self, const Segment&... segment)
{
    if constexpr (requires { self->m_retransmissionTrace(segment..., self); })
    {
        self->m_retransmissionTrace(segment..., self);
    }
}

/** Puts the flags and the sequence number of a data segment into its header. */
void
TcpLinuxSocket::SendSegment(Ptr<Packet> payload, SequenceNumber32 seq, bool is_retransmission, bbrgym::EcnBits ecn)
{
    uint8_t flags = TcpHeader::ACK | (ecn.cwr ? TcpHeader::CWR : 0);
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
    TcpHeader header;
    header.SetFlags(flags);
    header.SetSequenceNumber(seq);
    AddOptions(header);
    if (m_facts.timestamps)
    {
        TimestampTag::Put(payload, bbrgym::TimestampMs(bbrgym::NowNs()));
    }
    FlowIdTag skb(m_sender.SkbNumber()); // the sk_buff in which Linux would send it
    payload->ReplacePacketTag(skb);
    Dispatch(payload, header, is_retransmission, ecn.ect);
}

/** Completes the TCP header and hands the segment to IP. */
void
TcpLinuxSocket::Dispatch(Ptr<Packet> payload, TcpHeader& header, bool is_retransmission, bool is_ecn_capable)
{
    TagSegment(this, payload);
    if (is_ecn_capable)
    {
        SocketIpTosTag tos;
        tos.SetTos(Ipv4Header::ECN_ECT0);
        payload->ReplacePacketTag(tos);
    }
    header.SetAckNumber(m_tcb->m_rxBuffer->NextRxSequence());
    header.SetWindowSize(AdvertisedWindowSize());
    header.SetSourcePort(m_endPoint ? m_endPoint->GetLocalPort() : m_endPoint6->GetLocalPort());
    header.SetDestinationPort(m_endPoint ? m_endPoint->GetPeerPort() : m_endPoint6->GetPeerPort());
    m_delAckEvent.Cancel(); // this segment acknowledges too
    m_delAckCount = 0;

    const auto send = [&](auto local, auto peer) {
        m_txTrace(payload, header, this);
        if (is_retransmission)
        {
            TraceRetransmission(this, payload, header, local, peer);
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

// ---- the receiver ---------------------------------------------------------------------------------------

void
TcpLinuxSocket::SetReceiver(const bbrgym::SocketFacts& facts, uint32_t mss_bytes, double read_bps)
{
    m_end.receiver.Reset(facts, mss_bytes, read_bps);
    m_end.mss_bytes = mss_bytes;
}

/** ns-3 does not answer the SYN-ACK of a second SYN. */
void
TcpLinuxSocket::DoForwardUp(Ptr<Packet> packet, const Address& from, const Address& to)
{
    const bool is_up = m_connected && m_state == ESTABLISHED;
    if (is_up && m_facts.repeated_syn_ack && IsSynAck(Head(packet).flags))
    {
        SendEmptyPacket(TcpHeader::ACK);
        return;
    }
    TcpSocketBase::DoForwardUp(packet, from, to);
}

/** The connection of a listener: from now on its packets come to OnPacketReceived first. */
void
TcpLinuxSocket::CompleteFork(Ptr<Packet> packet, const TcpHeader& header, const Address& from, const Address& to)
{
    TcpSocketBase::CompleteFork(packet, header, from, to);
    if (m_end.mss_bytes > 0 && m_endPoint)
    {
        m_endPoint->SetRxCallback(MakeCallback(&TcpLinuxSocket::OnPacketReceived, Ptr<TcpLinuxSocket>(this)));
    }
}

/** A SYN-ACK is not repeated by a timer: the return path loses nothing, and data completes the handshake as well. */
void
TcpLinuxSocket::SendEmptyPacket(uint8_t flags)
{
    TcpSocketBase::SendEmptyPacket(flags);
    if (m_end.mss_bytes > 0 && IsSynAck(flags))
    {
        m_end.receiver.NoteSynAck(bbrgym::NowNs());
        m_retxEvent.Cancel();
    }
}

/** Old data ns-3 would acknowledge as out of its range; Linux reports it as a duplicate. */
void
TcpLinuxSocket::OnPacketReceived(Ptr<Packet> packet, Ipv4Header ip, uint16_t port, Ptr<Ipv4Interface> interface)
{
    const Head head(packet);
    if (m_state == SYN_RCVD && (head.flags & TcpHeader::SYN) == 0)
    {
        m_end.receiver.NoteEstablished(bbrgym::NowNs());
        if (const bbrgym::ReceiveWindow& window = m_end.receiver.Window(); !window.IsAmple())
        {
            m_tcb->m_rxBuffer->SetMaxBufferSize(
                window.MaxBufferBytes()); // until then it was what decides the window scale
        }
    }
    m_end.ecn = {.ect = ip.GetEcn() != Ipv4Header::ECN_NotECT,
                 .ce = ip.GetEcn() == Ipv4Header::ECN_CE,
                 .cwr = (head.flags & TcpHeader::CWR) != 0};
    const int64_t sent_ms = TimestampTag::Of(packet);
    if (sent_ms != bbrgym::NO_TIMESTAMP && head.payload_bytes > 0 &&
        m_end.receiver.RefusesOld(ReceiverSeqno(head.seq), sent_ms, bbrgym::NowNs()))
    {
        SendAck();
        return;
    }
    if (m_connected && m_state == ESTABLISHED && head.payload_bytes > 0 &&
        head.seq + head.payload_bytes <= m_tcb->m_rxBuffer->NextRxSequence())
    {
        OnDataReceived(head.seq);
        SendAck();
        return;
    }
    ForwardUp(packet, ip, port, interface);
}

void
TcpLinuxSocket::ReceivedData(Ptr<Packet> packet, const TcpHeader& header)
{
    if (m_end.mss_bytes == 0)
    {
        TcpSocketBase::ReceivedData(packet, header);
        return;
    }
    const auto arrival = OnDataReceived(header.GetSequenceNumber());
    m_tcb->m_rxBuffer->Add(packet, header);
    if (arrival.readable_pkts > 0)
    {
        NotifyDataRecv();
        if (m_tcb->m_rxBuffer->Finished() && (header.GetFlags() & TcpHeader::FIN) == 0)
        {
            DoPeerClose();
            return;
        }
    }
    if (arrival.answer_at_once)
    {
        SendAck();
    }
    else
    {
        AwaitDelayedAck();
    }
}

void
TcpLinuxSocket::AwaitDelayedAck()
{
    Arm(m_delAckEvent, m_end.ack_event_ns, m_end.receiver.DelayedAckDeadlineNs(), [this] { SendDelayedAck(); });
}

/** A segment arrives; call before the buffer takes it. */
bbrgym::TcpReceiver::Arrival
TcpLinuxSocket::OnDataReceived(SequenceNumber32 seq)
{
    if (m_end.receiver.AnswersBefore(m_end.ecn))
    {
        SendAck();
    }
    return m_end.receiver.OnSegment(ReceiverSeqno(seq), bbrgym::NowNs(), m_end.ecn);
}

/** The sequence number of a segment that arrives. */
uint64_t
TcpLinuxSocket::ReceiverSeqno(SequenceNumber32 seq) const
{
    const int32_t ahead_bytes = seq - m_tcb->m_rxBuffer->NextRxSequence();
    const int64_t ahead = ahead_bytes / static_cast<int32_t>(m_end.mss_bytes);
    return m_end.receiver.Next() + static_cast<uint64_t>(ahead);
}

void
TcpLinuxSocket::SendDelayedAck()
{
    if (m_end.receiver.DelayedAckDeadlineNs() > bbrgym::NowNs()) // more has arrived that is not read
    {
        AwaitDelayedAck();
        return;
    }
    m_end.receiver.OnTimer(bbrgym::NowNs());
    SendAck();
}

/** Acknowledges what has arrived, with the receiver's SACK blocks and window. */
void
TcpLinuxSocket::SendAck()
{
    if (m_endPoint == nullptr && m_endPoint6 == nullptr)
    {
        return;
    }
    TcpHeader header;
    header.SetFlags(TcpHeader::ACK | (m_end.receiver.Echo() ? TcpHeader::ECE : 0));
    header.SetSequenceNumber(m_tcb->m_nextTxSequence);
    std::array<bbrgym::SeqnoRange, bbrgym::MAX_SACK_BLOCKS> blocks;
    const std::size_t count = m_end.receiver.Acknowledge(blocks);
    if (count > 0)
    {
        const auto seq = [this](uint64_t seqno) {
            const auto ahead = static_cast<int64_t>(seqno) - static_cast<int64_t>(m_end.receiver.Next());
            return m_tcb->m_rxBuffer->NextRxSequence() + static_cast<int32_t>(ahead * m_end.mss_bytes);
        };
        auto sack = CreateObject<TcpOptionSack>();
        for (std::size_t i = 0; i < count; ++i)
        {
            sack->AddSackBlock({seq(blocks[i].begin), seq(blocks[i].end)});
        }
        header.AppendOption(sack);
    }
    if (!m_end.receiver.Window().IsAmple())
    {
        m_end.receiver.Announce(bbrgym::NowNs());
    }
    auto ack = Create<Packet>();
    if (m_end.receiver.RecentMs() != bbrgym::NO_TIMESTAMP)
    {
        TimestampTag::Put(ack, m_end.receiver.RecentMs());
    }
    Dispatch(ack, header, false);
    if (m_end.receiver.ReadsSlowly())
    {
        AwaitDelayedAck();
    }
}

uint16_t
TcpLinuxSocket::AdvertisedWindowSize(bool scale) const
{
    if (m_end.mss_bytes == 0 || m_end.receiver.Window().IsAmple())
    {
        return TcpSocketBase::AdvertisedWindowSize(scale);
    }
    const uint64_t bytes =
        m_end.receiver.Window().AnnouncedBytes(m_end.receiver.Next()) >> (scale ? m_rcvWindShift : 0);
    return static_cast<uint16_t>(std::min<uint64_t>(bytes, m_maxWinSize));
}

// ---- timers ---------------------------------------------------------------------------------------------

/** TcpSocketBase's own event for the retransmission timer: a FIN that is lost relies on what is left of it. */
void
TcpLinuxSocket::ArmTimers()
{
    const int64_t rto_at_ns = m_sender.RtoDeadlineNs();
    if (rto_at_ns != bbrgym::NEVER_NS)
    {
        m_rto = NanoSeconds(m_sender.RtoNs());
    }
    Arm(m_retxEvent, m_retx_event_ns, rto_at_ns, [this] { ReTxTimeout(); });
    // A probe's deadline lies before that of the retransmission timer, or is the same.
    const int64_t deadline_ns = m_sender.TimerDeadlineNs();
    Arm(m_reordering_event, m_reordering_event_ns, deadline_ns < rto_at_ns ? deadline_ns : bbrgym::NEVER_NS,
        [this] { OnTimer(); });
}

void
TcpLinuxSocket::ReTxTimeout()
{
    if (!m_has_started || m_txBuffer->Size() == 0 || m_state == CLOSED || m_state == TIME_WAIT)
    {
        TcpSocketBase::ReTxTimeout(); // of a SYN or a FIN
        return;
    }
    OnTimer();
}

void
TcpLinuxSocket::OnTimer()
{
    const int64_t now_ns = bbrgym::NowNs();
    if (now_ns < m_sender.TimerDeadlineNs())
    {
        ArmTimers(); // ACKs have moved the deadline since the event was scheduled
        return;
    }
    const bool is_timeout = now_ns >= m_sender.RtoDeadlineNs() && !m_sender.IsProbeDue(now_ns);
    if (is_timeout && m_dataRetrCount == 0)
    {
        m_reordering_event.Cancel();
        NotifyErrorClose();
        DeallocateEndPoint();
        return;
    }
    m_dataRetrCount -= is_timeout;
    const bool is_probe_due = m_sender.OnTimer(now_ns);
    Publish();
    LogLosses();
    if (is_probe_due)
    {
        SendProbe();
    }
    TrySend();
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
    if (m_syn_sent_ns >= 0 && m_handshake_rtt_ns < 0)
    {
        m_handshake_rtt_ns = bbrgym::NowNs() - m_syn_sent_ns;
        m_tcb->m_lastRtt = NanoSeconds(m_handshake_rtt_ns);
        bbrgym::TellSmoothedRtt(*m_tcb, NanoSeconds(m_handshake_rtt_ns));
        m_rtt->Measurement(NanoSeconds(m_handshake_rtt_ns));
    }
    if (m_state == SYN_SENT && !bbrgym::IsPending(m_send_event))
    {
        m_send_event = Simulator::ScheduleNow(&TcpLinuxSocket::TrySend, this);
        m_send_event_ns = bbrgym::NowNs();
    }
}

void
TcpLinuxSocket::UpdateRttHistory(const SequenceNumber32&, uint32_t size, bool is_retransmission)
{
    if (size == 0) // a SYN
    {
        m_syn_sent_ns = m_syn_sent_once || is_retransmission ? -1 : bbrgym::NowNs();
        m_syn_sent_once = true;
    }
}

uint32_t
TcpLinuxSocket::BytesInFlight() const
{
    if (!m_has_started)
    {
        return TcpSocketBase::BytesInFlight();
    }
    return m_sender.Board().InFlight() * m_tcb->m_segmentSize;
}

/** ns-3's own sending loop finds its window closed; TrySend does the sending. */
uint32_t
TcpLinuxSocket::AvailableWindow() const
{
    return IsLinuxSender() ? 0 : TcpSocketBase::AvailableWindow();
}

} // namespace ns3
