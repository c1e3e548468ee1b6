// SPDX-License-Identifier: GPL-2.0-only
#include "bottleneck-device.h"

#include "packet-tap.h"
#include "run-control.h"

#include "ns3/flow-id-tag.h"
#include "ns3/ipv4-header.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/simulator.h"

namespace ns3
{

/** In the IP header too, on a copy: the sender's trace sources still show the packet as it was sent. */
bool
BottleneckPacket::Mark()
{
    if (is_marked)
    {
        return false;
    }
    is_marked = true;
    packet = packet->Copy();
    Ipv4Header header;
    packet->RemoveHeader(header);
    header.SetEcn(Ipv4Header::ECN_CE);
    packet->AddHeader(header);
    return true;
}

BottleneckDevice::BottleneckDevice(const bbrgym::Scenario& scenario, std::size_t link, uint64_t run_seed,
                                   uint16_t first_port, bbrgym::Measurement& measurement)
    : m_measurement(measurement),
      m_first_port(first_port),
      m_far_ends(scenario.flows.size()),
      m_loses_skbs(scenario.LinkAt(link).loses_skbs)
{
    m_bottleneck.Reset(scenario.LinkAt(link), scenario.flows.size(), scenario.mss_bytes + bbrgym::HEADER_BYTES,
                       run_seed);
    for (const bbrgym::Flow& flow : scenario.flows)
    {
        m_have_timestamps.push_back(flow.stack.socket.timestamps);
    }
    SetReceiver([this](Ptr<Packet> packet) { Send(packet, Address(), Ipv4L3Protocol::PROT_NUMBER); });
}

void
BottleneckDevice::Change(const bbrgym::LinkChange& change)
{
    if (m_bottleneck.Change(change, bbrgym::NowNs(), m_measurement))
    {
        m_service.Cancel();
        ScheduleService();
    }
}

/** The timestamps of an ACK are in a tag, not in its header. */
BottleneckPacket
BottleneckDevice::Seen(Ptr<Packet> packet) const
{
    const SegmentView segment = SegmentView::Of(packet);
    const auto offset = static_cast<uint16_t>(segment.destination_port - m_first_port);
    const bool is_ack = offset >= m_far_ends.size();
    const std::size_t flow = is_ack ? static_cast<uint16_t>(segment.source_port - m_first_port) : offset;
    const bool has_timestamps = is_ack && !segment.is_syn && m_have_timestamps[flow];
    FlowIdTag skb;
    const bool has_skb = m_loses_skbs && packet->PeekPacketTag(skb);
    return {bbrgym::NowNs(),
            packet,
            flow,
            packet->GetSize() + (has_timestamps ? bbrgym::TIMESTAMP_BYTES : 0),
            segment.payload_bytes > 0,
            segment.is_ecn_capable,
            segment.is_marked,
            has_skb ? skb.GetFlowId() % bbrgym::SKB_NUMBERS : bbrgym::SKB_NUMBERS};
}

/** Always true: a packet that is dropped was sent. */
bool
BottleneckDevice::Send(Ptr<Packet> packet, const Address&, uint16_t)
{
    BottleneckPacket arriving = Seen(packet);
    if (m_measurement.Log().IsOn())
    {
        const bbrgym::PacketRecord record = PacketTap::DataRecord(packet, arriving.flow, m_measurement.Log());
        arriving.offset_bytes = record.offset_bytes;
        arriving.flags = record.flags;
    }
    if (m_bottleneck.Arrive(arriving, bbrgym::NowNs(), m_measurement))
    {
        ScheduleService();
    }
    return true;
}

void
BottleneckDevice::ScheduleService()
{
    const int64_t next_ns = m_bottleneck.NextServiceNs();
    if (next_ns != bbrgym::NEVER_NS)
    {
        m_service = Simulator::Schedule(NanoSeconds(next_ns - bbrgym::NowNs()), &BottleneckDevice::Serve, this);
    }
}

void
BottleneckDevice::Serve()
{
    const int64_t now_ns = bbrgym::NowNs();
    const auto deliver = [this, now_ns](const BottleneckPacket& packet, bbrgym::LinkDelay::Arrival arrival) {
        FarEnd& end = m_far_ends[packet.flow];
        const Time delay = NanoSeconds(arrival.at_ns - now_ns);
        if (end.is_receiver)
        {
            end.path.to->ReceiveIn(delay, packet.packet);
            return;
        }
        Simulator::ScheduleWithContext(end.path.to->GetNode()->GetId(), delay, &Path::Deliver, &end.path,
                                       packet.packet);
    };
    m_bottleneck.Serve(now_ns, m_measurement, deliver);
    ScheduleService();
}

void
BottleneckDevice::DoDispose()
{
    m_service.Cancel();
    m_bottleneck = {};
    m_far_ends.clear();
    LinkDevice::DoDispose();
}

} // namespace ns3
