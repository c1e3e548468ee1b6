// SPDX-License-Identifier: GPL-2.0-only
#include "bottleneck-device.h"

#include "ns3/log.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("BbrgymBottleneckDevice");
NS_OBJECT_ENSURE_REGISTERED(BottleneckDevice);

/** A packet in the queue, with what of it is counted. It already carries its IP header. */
class BottleneckDevice::Item : public QueueDiscItem
{
  public:
    Item(Ptr<Packet> packet, uint16_t protocol, std::size_t flow, uint32_t payload_bytes)
        : QueueDiscItem(packet, Address(), protocol),
          flow(flow),
          payload_bytes(payload_bytes)
    {
    }

    void AddHeader() override {}
    bool Mark() override { return false; } // no ECN

    const std::size_t flow;
    const uint32_t payload_bytes;
};

TypeId
BottleneckDevice::GetTypeId()
{
    static TypeId tid = TypeId("ns3::BbrgymBottleneckDevice").SetParent<LinkDevice>().SetGroupName("Network");
    return tid;
}

BottleneckDevice::BottleneckDevice(const bbrgym::Link& link,
                                   uint64_t run_seed,
                                   Ptr<QueueDisc> queue,
                                   uint16_t first_port)
    : m_queue(queue),
      m_first_port(first_port),
      m_path{nullptr, NanoSeconds(link.delay_ns), Time(0)},
      m_loss(link.loss, run_seed),
      m_rate_bps(link.rate_bps)
{
    if (link.trace)
    {
        m_trace.emplace(link.trace->times_ns, link.trace->period_ns, link.trace->opportunity_bytes);
    }
    m_queue->TraceConnectWithoutContext("Drop", MakeCallback(&BottleneckDevice::NoteDrop, this));
}

void
BottleneckDevice::SetRate(double rate_bps)
{
    m_capacity_bytes = CapacityBytes();
    m_rate_since = Simulator::Now();
    m_rate_bps = rate_bps;
}

double
BottleneckDevice::CapacityBytes() const
{
    const Time now = Simulator::Now();
    if (m_trace)
    {
        return static_cast<double>(m_trace->BytesUntil(now.GetNanoSeconds()));
    }
    return m_capacity_bytes + m_rate_bps * static_cast<double>((now - m_rate_since).GetNanoSeconds()) / 8e9;
}

double
BottleneckDevice::QueueByteNs() const
{
    const Time since = Simulator::Now() - m_queue_since;
    return m_queue_byte_ns + static_cast<double>(m_queue->GetNBytes()) * static_cast<double>(since.GetNanoSeconds());
}

/** Closes the stretch of time in which the queue had its present length; to be called before it changes. */
void
BottleneckDevice::NoteQueueLength()
{
    m_queue_byte_ns = QueueByteNs();
    m_queue_since = Simulator::Now();
}

bool
BottleneckDevice::Send(Ptr<Packet> packet, const Address&, uint16_t protocol)
{
    const SegmentView segment = SegmentView::Of(packet);
    const std::size_t flow = segment.destination_port - m_first_port;
    NoteQueueLength();
    const bool accepted = m_queue->Enqueue(Create<Item>(packet, protocol, flow, segment.payload_bytes));
    if (!m_is_waiting)
    {
        m_trace ? AwaitOpportunity() : StartAtRate();
    }
    return accepted;
}

/** Moves the queue's next packet into service; false if there is none. */
bool
BottleneckDevice::TakeNext()
{
    NoteQueueLength();
    m_in_service = DynamicCast<Item>(m_queue->Dequeue());
    if (!m_in_service)
    {
        return false;
    }
    m_bytes_left = m_in_service->GetSize();
    m_observer->Started(m_in_service->flow, Simulator::Now() - m_in_service->GetTimeStamp());
    return true;
}

void
BottleneckDevice::StartAtRate()
{
    if (TakeNext())
    {
        // Rounded up, so that the link never carries more than its capacity.
        const double service_ns = std::ceil(m_bytes_left * 8e9 / m_rate_bps);
        m_is_waiting = true;
        Simulator::Schedule(NanoSeconds(static_cast<int64_t>(service_ns)), &BottleneckDevice::FinishAtRate, this);
    }
}

void
BottleneckDevice::FinishAtRate()
{
    m_is_waiting = false;
    Depart();
    StartAtRate();
}

void
BottleneckDevice::AwaitOpportunity()
{
    if (m_in_service || m_queue->GetNPackets() > 0)
    {
        const Time now = Simulator::Now();
        const auto next = m_trace->After(now.GetNanoSeconds());
        m_is_waiting = true;
        Simulator::Schedule(NanoSeconds(next.time_ns) - now, &BottleneckDevice::UseOpportunity, this, next.bytes);
    }
}

void
BottleneckDevice::UseOpportunity(uint64_t bytes)
{
    m_is_waiting = false;
    while (bytes > 0 && (m_in_service || TakeNext()))
    {
        const auto sent = static_cast<uint32_t>(std::min<uint64_t>(bytes, m_bytes_left));
        bytes -= sent;
        m_bytes_left -= sent;
        if (m_bytes_left == 0)
        {
            Depart();
        }
    }
    AwaitOpportunity();
}

/** The packet in service has left: it is counted, then perhaps lost, then on its way. */
void
BottleneckDevice::Depart()
{
    const Ptr<Item> item = m_in_service;
    m_in_service = nullptr;
    m_observer->Departed(item->flow, item->GetSize());
    if (m_loss.IsLost())
    {
        m_observer->RandomLost(item->flow, item->payload_bytes);
        return;
    }
    m_path.Deliver(item->GetPacket());
}

void
BottleneckDevice::NoteDrop(Ptr<const QueueDiscItem> item)
{
    const auto dropped = DynamicCast<const Item>(item);
    m_observer->QueueDropped(dropped->flow, dropped->payload_bytes);
}

void
BottleneckDevice::DoDispose()
{
    m_observer = nullptr;
    m_in_service = nullptr;
    m_path.to = nullptr;
    m_queue->Dispose();
    m_queue = nullptr;
    LinkDevice::DoDispose();
}

} // namespace ns3
