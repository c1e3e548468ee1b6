// SPDX-License-Identifier: GPL-2.0-only
//
// A TCP socket whose sender is Linux's (../tcp/sender.hpp) where ns-3 3.44's is not: losses counted once and
// exactly, lost retransmissions found without a timeout (RACK), the retransmission timer re-armed on every
// advancing ACK and never below srtt + 200 ms, packets in flight that drop what was retransmitted and SACKed,
// rate samples and RTTs of each ACK alone, the application-limited test before data is queued, and pacing of
// every packet after the first ten.
//
// Connection set-up and tear-down, options, headers and Nagle's rule stay ns-3's. After SetAlgorithm the socket takes
// over as sender once the connection stands; SACK must be agreed on then. Otherwise it is a plain TcpSocketBase.
//
// After SetReceiver the socket, and each that it accepts, is Linux's receiver as well (../tcp/receiver.hpp): it
// decides when to acknowledge, with which SACK blocks and which window. Its peer sends whole segments.
#ifndef BBRGYM_TCP_LINUX_SOCKET_H
#define BBRGYM_TCP_LINUX_SOCKET_H

#include "cc_controller.hpp"
#include "receiver.hpp"
#include "sender.hpp"

#include "ns3/node.h"
#include "ns3/simulator.h"
#include "ns3/tcp-socket-base.h"

#include <deque>
#include <functional>
#include <vector>

namespace ns3
{

class TcpLinuxSocket : public TcpSocketBase
{
  public:
    static TypeId GetTypeId();
    TypeId GetInstanceTypeId() const override;

    /** Creates a socket on a node that has TCP. */
    static Ptr<TcpLinuxSocket> CreateOn(Ptr<Node> node);

    TcpLinuxSocket() = default;
    TcpLinuxSocket(const TcpLinuxSocket& listener);
    ~TcpLinuxSocket() override;

    /** Makes it a sender with an algorithm of cc/, before it connects. */
    void SetAlgorithm(const cc_params& params, uint64_t rng_seed);
    void SetParams(const cc_params& params) { m_sender.SetParams(params, Simulator::Now().GetNanoSeconds()); }
    /** Whether the algorithm is at work: until then the socket is a plain TcpSocketBase. */
    bool HasStarted() const { return m_has_started; }
    const bbrgym::TcpSender& GetSender() const { return m_sender; }
    /** `observer` is called with each ACK, once the algorithm has taken it. */
    void SetAckObserver(std::function<void(const cc_sample&)> observer) { m_ack_observer = std::move(observer); }
    /** Shows the sequence numbers of segments marked lost, and the timeouts so far, before what follows from them. */
    void SetLossObserver(std::function<void(const std::vector<uint64_t>& seqnos, uint64_t timeouts)> observer);
    /** Sets the facts of the stack before the connection stands. */
    void SetFacts(const bbrgym::SocketFacts& facts) { m_facts = facts; }
    /** Makes it a receiver as the facts say, before it listens; `mss_bytes`: of every segment that its peer sends;
     * `read_bps`: of its application, 0: it reads at once. */
    void SetReceiver(const bbrgym::SocketFacts& facts, uint32_t mss_bytes, double read_bps = 0);
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

    using SackBlocks = std::span<bbrgym::SeqnoRange, bbrgym::MAX_SACK_BLOCKS>;

    bool IsLinuxSender() const;
    void StartSender();

    void OnAckArrived(const TcpHeader& header, int64_t echo_ms);
    void LogLosses();
    uint64_t SeqnoOfAck(SequenceNumber32 ack) const;
    std::size_t ReadSack(const TcpHeader& header, SackBlocks blocks) const;
    void Publish();
    void ReleaseBuffer(const TcpHeader& header);

    void TrySend();
    uint32_t NewDataBytes() const;
    uint64_t NewSegments(uint32_t next_bytes) const;
    void SendNewSegment(uint32_t bytes);
    void SendAgain(uint64_t seqno);
    void SendProbe();
    void SendSegment(Ptr<Packet> payload, SequenceNumber32 seq, bool is_retransmission, bbrgym::EcnBits ecn = {});
    void Dispatch(Ptr<Packet> payload, TcpHeader& header, bool is_retransmission, bool is_ecn_capable = false);
    template <typename Self> static void TagSegment(Self* self, Ptr<Packet> payload);
    template <typename Self, typename... Segment>
    static void TraceRetransmission(Self* self, const Segment&... segment);

    void OnPacketReceived(Ptr<Packet> packet, Ipv4Header ip, uint16_t port, Ptr<Ipv4Interface> interface);
    bbrgym::TcpReceiver::Arrival OnDataReceived(SequenceNumber32 seq);
    uint64_t ReceiverSeqno(SequenceNumber32 seq) const;
    void SendAck();
    void AwaitDelayedAck();
    void SendDelayedAck();

    void ArmTimers();
    void OnTimer();

    bbrgym::TcpSender m_sender;
    bool m_has_algorithm = false;
    bool m_has_started = false;
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
    std::function<void(const cc_sample&)> m_ack_observer;
    std::function<void(const std::vector<uint64_t>& seqnos, uint64_t timeouts)> m_loss_observer;
    std::function<void()> m_space_observer;
    bool m_writer_waits = false;

    /** The receiver's half; mss 0: ns-3's own. */
    struct ReceiverEnd
    {
        bbrgym::TcpReceiver receiver;
        uint32_t mss_bytes = 0;
        bbrgym::EcnBits ecn;      ///< of the packet that is being taken
        int64_t ack_event_ns = 0; ///< of m_delAckEvent
    };

    ReceiverEnd m_end;
};

} // namespace ns3

#endif
