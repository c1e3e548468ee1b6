// SPDX-License-Identifier: GPL-2.0-only
#include "socket-world.h"

#include "flow-application.h"

#include "measurement.hpp"
#include "path_rows.hpp"

#include "ns3/inet-socket-address.h"
#include "ns3/ipv4-queue-disc-item.h"
#include "ns3/simulator.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-socket-base.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

namespace bbrgym
{

using namespace ns3;

namespace
{

constexpr uint8_t TCP_PROTOCOL = 6;

uint32_t
PortOf(const Address& address)
{
    return InetSocketAddress::ConvertFrom(address).GetPort();
}

uint32_t
HostOf(const Address& address)
{
    return InetSocketAddress::ConvertFrom(address).GetIpv4().Get();
}

/** A TCP packet in a queue. */
struct QueuedSegment
{
    std::array<uint32_t, 4> endpoints;
    bool has_payload;
};

std::optional<QueuedSegment>
SegmentOf(Ptr<const QueueDiscItem> item)
{
    const auto ip = DynamicCast<const Ipv4QueueDiscItem>(item);
    if (!ip || ip->GetHeader().GetProtocol() != TCP_PROTOCOL)
    {
        return std::nullopt;
    }
    const Ipv4Header& header = ip->GetHeader();
    TcpHeader tcp;
    const uint32_t tcp_bytes = ip->GetPacket()->PeekHeader(tcp); // the IP header is put on after the queue
    return QueuedSegment{
        {header.GetSource().Get(), tcp.GetSourcePort(), header.GetDestination().Get(), tcp.GetDestinationPort()},
        ip->GetPacket()->GetSize() > tcp_bytes};
}

} // namespace

// ---- one bottleneck -------------------------------------------------------------------------------------

/** A queue, the link behind it, and the measurement of the flows that cross it. */
class MeasuredQueue : public MeasuredWorld
{
  public:
    using FlowOf = std::function<std::optional<std::size_t>(const SocketWorld::Endpoints&)>;

    MeasuredQueue(const Scenario& scenario, const FlowSenders& senders, FlowOf flow_of, Ptr<QueueDisc> queue,
                  DataRate rate)
        : m_senders(senders),
          m_flow_of(std::move(flow_of)),
          m_queue(queue),
          m_rate_bps(static_cast<double>(rate.GetBitRate())),
          m_measurement(scenario)
    {
        m_queue->TraceConnectWithoutContext("BytesInQueue", MakeCallback(&MeasuredQueue::NoteLength, this));
        m_queue->TraceConnectWithoutContext("Dequeue", MakeCallback(&MeasuredQueue::NoteDequeue, this));
        m_queue->TraceConnectWithoutContext("Drop", MakeCallback(&MeasuredQueue::NoteDrop, this));
    }

    Measurement& Get() { return m_measurement; }
    const Measurement& Get() const { return m_measurement; }

    // MeasuredWorld
    int64_t NowNs() const override { return Simulator::Now().GetNanoSeconds(); }
    double CapacityBytes() const override { return m_rate_bps * static_cast<double>(NowNs()) / 8e9; }
    /** What the queue gave the device and it has not sent yet. */
    PartlySent InTransmission() const override
    {
        return {std::nullopt, -m_rate_bps * std::max(m_sends_until_ns - static_cast<double>(NowNs()), 0.0) / 8e9};
    }
    double QueueByteNs() const override
    {
        return m_queue_byte_ns + static_cast<double>(m_queued_bytes) * static_cast<double>(NowNs() - m_queued_since_ns);
    }
    SenderState Sender(std::size_t flow) const override { return m_senders.Of(flow).State(); }

  private:
    void NoteLength(uint32_t, uint32_t bytes)
    {
        m_queue_byte_ns = QueueByteNs();
        m_queued_since_ns = NowNs();
        m_queued_bytes = bytes;
    }

    void NoteDequeue(Ptr<const QueueDiscItem> item)
    {
        m_sends_until_ns =
            std::max(m_sends_until_ns, static_cast<double>(NowNs())) + item->GetSize() * 8e9 / m_rate_bps;
        if (const auto flow = FlowOfItem(item))
        {
            m_measurement.TransmissionBegan(*flow, NowNs() - item->GetTimeStamp().GetNanoSeconds());
            m_measurement.Departed(*flow, item->GetSize());
        }
    }

    void NoteDrop(Ptr<const QueueDiscItem> item)
    {
        if (const auto flow = FlowOfItem(item))
        {
            m_measurement.QueueDropped(*flow, SegmentOf(item)->has_payload);
        }
    }

    std::optional<std::size_t> FlowOfItem(Ptr<const QueueDiscItem> item) const
    {
        const auto segment = SegmentOf(item);
        return segment ? m_flow_of(segment->endpoints) : std::nullopt;
    }

    const FlowSenders& m_senders;
    FlowOf m_flow_of;
    Ptr<QueueDisc> m_queue;
    double m_rate_bps;
    Measurement m_measurement;
    uint32_t m_queued_bytes = 0;
    int64_t m_queued_since_ns = 0;
    double m_queue_byte_ns = 0;  ///< until m_queued_since_ns
    double m_sends_until_ns = 0; ///< the device
};

// ---- the network ----------------------------------------------------------------------------------------

SocketWorld::SocketWorld(const std::shared_ptr<const Scenario>& scenario, uint64_t seed)
    : OwnTables(scenario->flows.size()),
      World(scenario, seed, OwnTables::Get(), false),
      m_flows(m_scenario->flows.size())
{
    ScheduleMoments();
    m_senders.WriteTunables(m_tables.tunables);
}

SocketWorld::~SocketWorld()
{
    m_simulator.End();
}

SocketWorld::Bottleneck
SocketWorld::AddBottleneck(Ptr<QueueDisc> queue, DataRate rate)
{
    const auto flow_of = [this](const Endpoints& endpoints) { return FlowBetween(endpoints); };
    m_bottlenecks.push_back(std::make_unique<MeasuredQueue>(*m_scenario, m_senders, flow_of, queue, rate));
    return m_bottlenecks.size() - 1;
}

Ptr<TcpSocket>
SocketWorld::CreateSender(std::size_t flow, Ptr<Node> node, std::vector<Bottleneck> path)
{
    const auto socket = m_senders.Of(flow).CreateSocket(node);
    const bool ecn = m_scenario->flows[flow].stack.socket.ecn;
    const uint32_t buffer_bytes = BufferBytes(*m_scenario);
    SocketSettings{m_scenario->mss_bytes, buffer_bytes, buffer_bytes, UsefulWindowBytes(*m_scenario), ecn}.ApplyTo(
        socket);
    AdoptSender(flow, socket, std::move(path));
    return socket;
}

void
SocketWorld::AdoptSender(std::size_t flow, Ptr<TcpSocket> socket, std::vector<Bottleneck> path)
{
    const std::string name = "flow '" + m_scenario->flows.at(flow).name + "': ";
    if (m_flows[flow].socket)
    {
        throw std::invalid_argument(name + "has a sender already");
    }
    if (path.empty() || std::ranges::max(path) >= m_bottlenecks.size())
    {
        throw std::invalid_argument(name + "its path must list at least one bottleneck, each from 0 to " +
                                    std::to_string(m_bottlenecks.size()) + " - 1");
    }
    m_senders.Of(flow).Watch(socket, [this, flow](int64_t rtt_ns) {
        OnPath(flow, [&](MeasuredQueue& queue) { queue.Get().RttSample(flow, rtt_ns); });
    });
    socket->TraceConnectWithoutContext(
        "Tx", Callback<void, Ptr<const Packet>, const TcpHeader&, Ptr<const TcpSocketBase>>(
                  [this, flow](Ptr<const Packet> payload, const TcpHeader& header, Ptr<const TcpSocketBase>) {
                      NoteSegment(flow, payload, header);
                  }));
    m_flows[flow].socket = socket;
    m_flows[flow].path = std::move(path);
}

void
SocketWorld::Received(std::size_t flow, uint32_t bytes)
{
    OnPath(flow, [&](MeasuredQueue& queue) {
        if (queue.Get().Readable(flow, bytes, bbrgym::NowNs()))
        {
            queue.Get().FlowCompleted(flow, queue);
        }
    });
}

template <typename Event>
void
SocketWorld::OnPath(std::size_t flow, Event&& event)
{
    for (const Bottleneck bottleneck : m_flows.at(flow).path)
    {
        event(*m_bottlenecks[bottleneck]);
    }
}

/** Starts, stops and the warm-up's end are the scenario's. */
void
SocketWorld::ScheduleMoments()
{
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        Simulator::Schedule(NanoSeconds(m_scenario->flows[flow].start_ns), [this, flow] {
            OnPath(flow, [&](MeasuredQueue& queue) { queue.Get().FlowStarted(flow, queue); });
        });
        Simulator::Schedule(NanoSeconds(m_scenario->flows[flow].stop_ns), [this, flow] {
            OnPath(flow, [&](MeasuredQueue& queue) { queue.Get().FlowStopped(flow, queue); });
        });
    }
    Simulator::Schedule(NanoSeconds(m_scenario->warmup_ns), [this] {
        for (const auto& queue : m_bottlenecks)
        {
            queue->Get().WarmedUp(*queue);
        }
    });
}

void
SocketWorld::NoteSegment(std::size_t flow, Ptr<const Packet> payload, const TcpHeader& header)
{
    if (payload->GetSize() == 0)
    {
        return;
    }
    FlowEnd& end = m_flows[flow];
    const SequenceNumber32 until = header.GetSequenceNumber() + payload->GetSize();
    const bool is_retransmission = end.has_sent && until <= end.sent_until;
    if (!is_retransmission)
    {
        end.sent_until = until;
        end.has_sent = true;
    }
    OnPath(flow, [&](MeasuredQueue& queue) { queue.Get().Sent(flow, is_retransmission); });
}

/** The flow between two ends, which it has from its connecting on; nothing for other packets. */
std::optional<std::size_t>
SocketWorld::FlowBetween(const Endpoints& endpoints)
{
    const auto known = m_flow_between.find(endpoints);
    if (known != m_flow_between.end())
    {
        return known->second;
    }
    std::optional<std::size_t> found;
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        Address from;
        Address to;
        if (m_flows[flow].socket && m_flows[flow].socket->GetSockName(from) == 0 &&
            m_flows[flow].socket->GetPeerName(to) == 0 && InetSocketAddress::IsMatchingType(to) &&
            Endpoints{HostOf(from), PortOf(from), HostOf(to), PortOf(to)} == endpoints)
        {
            found = flow;
        }
    }
    return m_flow_between[endpoints] = found;
}

// ---- running --------------------------------------------------------------------------------------------

void
SocketWorld::Advance(double duration_s)
{
    RefuseUnlessComplete();
    RunSimulator(duration_s);
    TakeInterval();
}

void
SocketWorld::RefuseUnlessComplete() const
{
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        if (!m_flows[flow].socket)
        {
            throw std::logic_error("flow '" + m_scenario->flows[flow].name +
                                   "' has no sender: CreateSender() or AdoptSender()");
        }
    }
}

void
SocketWorld::TakeInterval()
{
    std::vector<std::vector<double>> tables;
    std::vector<double> link(m_tables.link_stats.size());
    for (std::size_t i = 0; i < m_bottlenecks.size(); ++i)
    {
        tables.emplace_back(m_tables.flow_stats.size());
        m_bottlenecks[i]->Get().TakeInterval(*m_bottlenecks[i], tables[i], i == 0 ? m_tables.link_stats : link);
    }
    WriteRowsOnPaths<FlowStats>(
        tables, m_flows.size(), [this](std::size_t flow) -> const auto& { return m_flows[flow].path; },
        m_tables.flow_stats);
}

void
SocketWorld::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    std::vector<std::vector<double>> tables;
    std::vector<double> link(link_row.size());
    for (std::size_t i = 0; i < m_bottlenecks.size(); ++i)
    {
        tables.emplace_back(flow_table.size());
        m_bottlenecks[i]->Get().Summarise(*m_bottlenecks[i], tables[i], i == 0 ? link_row : std::span(link));
    }
    WriteSummariesOnPaths(
        tables, m_flows.size(), [this](std::size_t flow) -> const auto& { return m_flows[flow].path; }, flow_table,
        link_row);
}

} // namespace bbrgym
