// SPDX-License-Identifier: GPL-2.0-only
//
// The sending socket of a flow: created with the flow's congestion control, then watched. One kind runs our
// algorithms on TcpLinuxSocket, the other ns-3's own on its TcpSocketBase, uncured.
#ifndef BBRGYM_FLOW_SENDER_H
#define BBRGYM_FLOW_SENDER_H

#include "tcp-linux-socket.h"

#include "ack_record.hpp"
#include "measurement.hpp"
#include "packet_log.hpp"
#include "scenario.hpp"

#include "ns3/node.h"
#include "ns3/socket.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ns3
{

class FlowSender
{
  public:
    using RttCallback = std::function<void(int64_t rtt_ns)>;

    virtual ~FlowSender() = default;

    /** Creates a socket with the flow's congestion control. */
    virtual Ptr<TcpSocket> CreateSocket(Ptr<Node> node) const = 0;
    /**
     * Takes a socket for the flow's own, once; `on_rtt` gets each of its RTT samples. Throws std::invalid_argument
     * unless it runs, or can be given, the flow's congestion control.
     */
    virtual void Watch(Ptr<TcpSocket> socket, RttCallback on_rtt) = 0;
    /** All zero before there is a socket. */
    virtual bbrgym::SenderState State() const = 0;
};

/** One of our algorithms on TcpLinuxSocket. */
class LinuxSender : public FlowSender
{
  public:
    LinuxSender(const bbrgym::Flow& flow, const cc_params& params, const bbrgym::SocketFacts& facts, uint64_t run_seed);

    Ptr<TcpSocket> CreateSocket(Ptr<Node> node) const override;
    void Watch(Ptr<TcpSocket> socket, RttCallback on_rtt) override;
    bbrgym::SenderState State() const override;

    void SetParams(const cc_params& params);

    void TraceAcks(std::size_t max_rows) { m_max_rows = max_rows; }
    /** Logs its losses and decisions as those of a flow; before it watches a socket. */
    void LogTo(bbrgym::PacketLog& log, std::size_t flow, uint32_t mss_bytes);
    const std::vector<bbrgym::AckRecord>& AckTrace() const { return m_trace; }

  private:
    void NoteAck(const cc_sample& sample);

    uint64_t m_rng_seed;
    bbrgym::SocketFacts m_facts;
    cc_params m_params;
    Ptr<TcpLinuxSocket> m_socket;
    RttCallback m_on_rtt;
    bbrgym::PacketLog* m_log = nullptr; ///< null: none
    std::size_t m_flow = 0;             ///< in the log
    uint32_t m_mss_bytes = 0;
    std::size_t m_max_rows = 0;
    std::vector<bbrgym::AckRecord> m_trace;
};

/** The names ("ns3-bbr", ...) under which ns-3's own congestion controls run. */
std::vector<std::string> StockCongestionControls();

/** The TypeId behind such a name; std::invalid_argument if there is none. */
TypeId StockCongestionControl(const std::string& name);

/** ns-3's own congestion control on ns-3's own socket, seen through its trace sources. */
class StockSender : public FlowSender
{
  public:
    StockSender(const std::string& name, uint32_t mss_bytes);

    Ptr<TcpSocket> CreateSocket(Ptr<Node> node) const override;
    void Watch(Ptr<TcpSocket> socket, RttCallback on_rtt) override;
    bbrgym::SenderState State() const override;

  private:
    TypeId m_congestion_control;
    uint32_t m_mss_bytes;
    Ptr<TcpSocket> m_socket;
    RttCallback m_on_rtt;
    Time m_last_rtt;
    Time m_srtt;
    Time m_min_rtt = Time::Max();
    uint64_t m_acked_bytes = 0;
    uint64_t m_retransmitted_pkts = 0;
    uint64_t m_rto_count = 0;
    uint32_t m_cwnd_bytes = 0;
    uint32_t m_ssthresh_bytes = UINT32_MAX;
    uint32_t m_in_flight_bytes = 0;
    double m_pacing_Bps = 0;
};

} // namespace ns3

#endif
