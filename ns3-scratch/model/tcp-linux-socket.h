// SPDX-License-Identifier: GPL-2.0-only
//
// A TCP socket whose sender is Linux's (../tcp/sender.hpp) where ns-3 3.44's is not: losses counted once and
// exactly, lost retransmissions found without a timeout (RACK), the retransmission timer re-armed on every
// advancing ACK and never below srtt + 200 ms, packets in flight that drop what was retransmitted and SACKed,
// rate samples and RTTs of each ACK alone, the application-limited test before data is queued, and pacing of
// every packet after the first ten.
//
// Connection set-up and tear-down, options, headers and Nagle's rule stay ns-3's. The socket takes over as sender
// once the connection stands, its congestion control is a TcpBbrgym and SACK was agreed on; otherwise it is a plain
// TcpSocketBase.
//
// After SetReceiver the socket, and each that it accepts, is Linux's receiver as well (../tcp/receiver.hpp): it
// decides when to acknowledge, with which SACK blocks and which window. Its peer sends whole segments.
#ifndef BBRGYM_TCP_LINUX_SOCKET_H
#define BBRGYM_TCP_LINUX_SOCKET_H

#include "bbrgym-cc.h"
#include "receiver.hpp"
#include "sender.hpp"

#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"

#include <deque>
#include <functional>
#include <vector>

namespace ns3
{

/** A controller as a TcpSender drives it; what it decides shows in the socket's state, where ns-3 looks for it. */
class SocketController
{
  public:
    SocketController() = default;
    SocketController(Ptr<TcpBbrgym> controller, Ptr<TcpSocketState> tcb)
        : m_controller(controller),
          m_tcb(tcb)
    {
    }

    Ptr<TcpBbrgym> Get() const { return m_controller; }

    const cc_state& State() const { return m_controller->State(); }
    void Start(const cc_start& start)
    {
        m_controller->Start(start);
        m_controller->Publish(m_tcb);
    }
    void OnAck(const cc_sample& sample)
    {
        m_controller->OnAck(sample);
        m_controller->Publish(m_tcb);
    }
    void OnPacketLost(const cc_lost_packet& lost) { m_controller->OnPacketLost(lost); }
    void OnProbeRepair(uint64_t now_us, uint64_t delivered_pkts, bool is_app_limited)
    {
        m_controller->OnProbeRepair(now_us, delivered_pkts, is_app_limited);
    }
    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts)
    {
        m_controller->OnLossState(state, in_flight_pkts);
        m_tcb->m_congState = static_cast<TcpSocketState::TcpCongState_t>(state);
    }
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
    {
        m_controller->OnRto(is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
        m_controller->Publish(m_tcb);
        m_tcb->m_congState = TcpSocketState::CA_LOSS;
    }
    void OnIdle(uint64_t idle_us, uint64_t rto_us) { m_controller->OnIdle(idle_us, rto_us); }
    void OnCwndUnderused(uint32_t used_pkts) { m_controller->OnCwndUnderused(used_pkts); }
    void OnRestart(uint64_t now_us, bool app_limited) { m_controller->OnRestart(now_us, app_limited); }
    void OnUndo()
    {
        m_controller->OnUndo();
        m_controller->Publish(m_tcb);
    }
    bool IsLossBased() const { return m_controller->IsLossBased(); }
    bool MaySendSingles() const { return m_controller->MaySendSingles(); }
    bool WantsTxStates() const { return m_controller->WantsTxStates(); }

  private:
    Ptr<TcpBbrgym> m_controller;
    Ptr<TcpSocketState> m_tcb;
};

/** One ACK and what the controller made of it. */
struct AckEvent
{
    const cc_sample& sample;
    const cc_state& state;
    const cc_params& params;
};

class TcpLinuxSocket : public TcpSocketBase
{
  public:
    static TypeId GetTypeId();
    TypeId GetInstanceTypeId() const override;

    using Sender = bbrgym::TcpSender<SocketController>;

    TcpLinuxSocket() = default;
    TcpLinuxSocket(const TcpLinuxSocket& listener);
    ~TcpLinuxSocket() override;

    /** The algorithm at work; null while the socket is a plain TcpSocketBase. */
    Ptr<TcpBbrgym> GetController() const { return m_sender.GetController().Get(); }
    const Sender& GetSender() const { return m_sender; }
    void SetAckObserver(std::function<void(const AckEvent&)> observer);
    /** Shows the serial numbers of segments marked lost, and the timeouts so far, before what follows from them. */
    void SetLossObserver(std::function<void(const std::vector<uint64_t>& serials, uint64_t timeouts)> observer);
    /** Sets the facts of the stack before the connection stands. */
    void SetFacts(const bbrgym::SocketFacts& facts) { m_facts = facts; }
    /** Makes it a receiver as the facts say, before it listens; `mss_bytes`: of every segment that its peer sends. */
    void SetReceiver(const bbrgym::SocketFacts& facts, uint32_t mss_bytes);
    /** `observer` is called after each ACK and what was sent upon it: there may be room in the send buffer. */
    void SetSpaceObserver(std::function<void()> observer) { m_space_observer = std::move(observer); }
    /** Whether the application waits for room in the send buffer. */
    void SetWriterWaits(bool waits) { m_writer_waits = waits; }

    int Send(Ptr<Packet> packet, uint32_t flags) override;

  protected:
    Ptr<TcpSocketBase> Fork() override;
    void CompleteFork(Ptr<Packet> packet, const TcpHeader& header, const Address& from, const Address& to) override;
    void DoForwardUp(Ptr<Packet> packet, const Address& from, const Address& to) override;
    void SendEmptyPacket(uint8_t flags) override;
    void ReceivedAck(Ptr<Packet> packet, const TcpHeader& header) override;
    void ReceivedData(Ptr<Packet> packet, const TcpHeader& header) override;
    void ReTxTimeout() override;
    void EstimateRtt(const TcpHeader& header) override;
    void UpdateRttHistory(const SequenceNumber32& seq, uint32_t size, bool is_retransmission) override;
    uint32_t BytesInFlight() const override;
    uint32_t AvailableWindow() const override;
    uint16_t AdvertisedWindowSize(bool scale = true) const override;

  private:
    /** What one of the scoreboard's segments carries. */
    struct Payload
    {
        SequenceNumber32 begin;
        SequenceNumber32 end;
        Ptr<Packet> packet;
    };

    using SackBlocks = std::span<bbrgym::SerialRange, bbrgym::MAX_SACK_BLOCKS>;

    bool IsLinuxSender() const;
    void StartSender();

    void OnAckArrived(const TcpHeader& header, int64_t echo_ms);
    void LogLosses();
    uint64_t SerialOfAck(SequenceNumber32 ack) const;
    std::size_t ReadSack(const TcpHeader& header, SackBlocks blocks) const;
    void PublishRtt();
    void ReleaseBuffer(const TcpHeader& header);

    void TrySend();
    uint32_t NewDataBytes() const;
    uint64_t NewSegments(uint32_t next_bytes) const;
    void SendNewSegment(uint32_t bytes);
    void SendAgain(uint64_t serial);
    void SendProbe();
    void Emit(Ptr<Packet> payload, SequenceNumber32 seq, bool is_retransmission, bbrgym::EcnBits ecn = {});
    void Dispatch(Ptr<Packet> payload, TcpHeader& header, bool is_retransmission, bool is_ecn_capable = false);
    template <typename Self>
    static void TagSegment(Self* self, Ptr<Packet> payload);
    template <typename Self, typename... Segment>
    static void TraceRetransmission(Self* self, const Segment&... segment);

    void TakePacket(Ptr<Packet> packet, Ipv4Header ip, uint16_t port, Ptr<Ipv4Interface> interface);
    bbrgym::TcpReceiver::Arrival TakeData(SequenceNumber32 seq);
    uint64_t ReceiverSerial(SequenceNumber32 seq) const;
    void SendAck();
    void SendDelayedAck();

    void ArmTimers();
    void OnTimer();

    Sender m_sender;
    bbrgym::SocketFacts m_facts;
    std::deque<Payload> m_payloads; ///< of the scoreboard's segments
    SequenceNumber32 m_una{0};
    SequenceNumber32 m_next_seq{0};

    int64_t m_syn_sent_ns = -1; ///< -1: not sent, or sent more than once
    bool m_syn_sent_once = false;
    int64_t m_handshake_rtt_ns = -1; ///< -1: not measured

    EventId m_send_event;
    int64_t m_send_event_ns = 0;
    EventId m_reordering_event;
    int64_t m_reordering_event_ns = 0;
    int64_t m_retx_event_ns = 0; ///< of TcpSocketBase::m_retxEvent, which also repeats a FIN
    std::function<void(const AckEvent&)> m_ack_observer;
    std::function<void(const std::vector<uint64_t>& serials, uint64_t timeouts)> m_loss_observer;
    std::function<void()> m_space_observer;
    bool m_writer_waits = false;

    /** The receiver's half; mss 0: ns-3's own. */
    struct ReceiverEnd
    {
        bbrgym::TcpReceiver receiver;
        uint32_t mss_bytes = 0;
        bbrgym::EcnBits ecn; ///< of the packet that is being taken
        int64_t ack_event_ns = 0; ///< of m_delAckEvent
    };

    ReceiverEnd m_end;
};

/** Creates TcpLinuxSocket; aggregate it to a node with Install, then use Socket::CreateSocket. */
class TcpLinuxSocketFactory : public TcpSocketFactory
{
  public:
    static TypeId GetTypeId();
    static void Install(Ptr<Node> node);
    /** Returns the node's factory, and installs it first where there is none. */
    static Ptr<TcpLinuxSocketFactory> Of(Ptr<Node> node);
    Ptr<Socket> CreateSocket() override;

  protected:
    void DoDispose() override;

  private:
    Ptr<Node> m_node; ///< which holds this factory in turn, until disposal
    TypeId m_congestion_control;
};

} // namespace ns3

#endif
