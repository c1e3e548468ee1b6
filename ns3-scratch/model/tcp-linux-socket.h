// SPDX-License-Identifier: GPL-2.0-only
//
// A TCP socket whose sender behaves as Linux's where ns-3 3.44's does not: losses counted once and exactly,
// lost retransmissions found without a timeout (RACK), the retransmission timer re-armed on every advancing
// ACK and never below srtt + 200 ms, packets in flight that drop what was retransmitted and SACKed, rate
// samples and RTTs of each ACK alone, the application-limited test before data is queued, and pacing of
// every packet after the first ten.
//
// Connection set-up and tear-down, the receiver, options and headers stay ns-3's. The socket takes over as
// sender once the connection stands, its congestion control is a TcpBbrgym and SACK was agreed on; otherwise
// it is a plain TcpSocketBase.
//
// Not modelled: tail loss probes, undo of spurious recovery, F-RTO, ECN, TSO bursts.
#ifndef BBRGYM_TCP_LINUX_SOCKET_H
#define BBRGYM_TCP_LINUX_SOCKET_H

#include "bbrgym-cc.h"
#include "scoreboard.h"

#include "ns3/tcp-socket-base.h"
#include "ns3/tcp-socket-factory.h"

#include <deque>
#include <functional>

namespace ns3
{

/** Totals of a sender since its connection stood. */
struct SenderStats
{
    uint64_t sent_pkts = 0; ///< data segments, retransmissions included
    uint64_t retransmitted_pkts = 0;
    uint64_t marked_lost_pkts = 0;
    uint64_t delivered_pkts = 0;
    uint64_t rto_count = 0;
    bool app_limited = false;
    uint32_t in_flight_pkts = 0;
    int64_t srtt_us = -1;     ///< -1: no sample yet
    int64_t last_rtt_us = -1; ///< -1: no sample yet
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

    TcpLinuxSocket() = default;
    TcpLinuxSocket(const TcpLinuxSocket& listener);
    ~TcpLinuxSocket() override;

    /** The algorithm at work; null while the socket is a plain TcpSocketBase. */
    Ptr<TcpBbrgym> GetController() const { return m_controller; }
    SenderStats GetSenderStats() const;
    void SetAckObserver(std::function<void(const AckEvent&)> observer);

    int Send(Ptr<Packet> packet, uint32_t flags) override;

  protected:
    Ptr<TcpSocketBase> Fork() override;
    void ReceivedAck(Ptr<Packet> packet, const TcpHeader& header) override;
    void ReTxTimeout() override;
    void EstimateRtt(const TcpHeader& header) override;
    void UpdateRttHistory(const SequenceNumber32& seq, uint32_t size, bool is_retransmission) override;
    uint32_t BytesInFlight() const override;
    uint32_t AvailableWindow() const override;

  private:
    bool IsLinuxSender() const;
    void StartController();
    void NoteHandshakeRtt();

    // One ACK, in the kernel's order.
    void TakeAck(const TcpHeader& header);
    bbrgym::AckOutcome UpdateScoreboard(const TcpHeader& header);
    void UpdateRtt(const bbrgym::AckOutcome& outcome);
    void UpdateLossState(uint32_t newly_lost);
    void ChangeLossState(cc_ca_state state);
    void RunController(const bbrgym::AckOutcome& outcome, uint32_t lost_pkts, uint32_t prior_in_flight);
    void ReleaseBuffer(const TcpHeader& header);

    // Sending.
    void TrySend();
    bool MaySendNow();
    uint32_t NewDataBytes() const;
    void SendNewSegment(uint32_t bytes);
    void SendAgain(std::size_t index);
    void Emit(Ptr<Packet> payload, SequenceNumber32 seq, bool is_retransmission);
    void AfterSend(uint32_t bytes);

    // Timers.
    void ReorderingTimeout();
    void ArmReorderingTimer();
    void ArmRto();
    Time Rto() const;

    uint64_t Offset(SequenceNumber32 seq) const;

    Ptr<TcpBbrgym> m_controller;
    bbrgym::Scoreboard m_board;
    std::deque<Ptr<Packet>> m_payloads; ///< of the scoreboard's segments, to send them again
    SequenceNumber32 m_una{0};
    uint64_t m_una_offset = 0;
    uint64_t m_next_offset = 0;
    SequenceNumber32 m_next_seq{0};
    cc_ca_state m_ca_state = CC_CA_OPEN;
    uint64_t m_recovery_point = 0; ///< recovery ends when everything below it is acknowledged

    int64_t m_syn_sent_ns = -1; ///< -1: not sent, or sent more than once
    bool m_syn_sent_once = false;
    int64_t m_srtt_ns = -1;
    int64_t m_rttvar_ns = 0;
    int64_t m_last_rtt_ns = -1;
    uint32_t m_rto_backoff = 0;

    int64_t m_next_send_ns = 0;
    uint64_t m_cwnd_limited_until = 0; ///< the window held back what was sent below this offset
    SenderStats m_totals;
    int64_t m_rto_deadline_ns = bbrgym::Scoreboard::NEVER_NS;
    int64_t m_rto_event_ns = 0;
    EventId m_send_event;
    EventId m_reordering_event;
    std::function<void(const AckEvent&)> m_ack_observer;
};

/** Creates TcpLinuxSocket; aggregate it to a node with Install, then use Socket::CreateSocket. */
class TcpLinuxSocketFactory : public TcpSocketFactory
{
  public:
    static TypeId GetTypeId();
    static void Install(Ptr<Node> node);
    Ptr<Socket> CreateSocket() override;

  protected:
    void DoDispose() override;

  private:
    Ptr<Node> m_node; ///< which holds this factory in turn, until disposal
    TypeId m_congestion_control;
};

} // namespace ns3

#endif
