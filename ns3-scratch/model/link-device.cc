// SPDX-License-Identifier: GPL-2.0-only
#include "link-device.h"

#include "ns3/event-impl.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <array>

namespace ns3
{

// ---- segments -------------------------------------------------------------------------------------------

/** Fixed offsets instead of ns-3's header classes, which would cost more than all the rest of a device. */
SegmentView
SegmentView::Of(Ptr<const Packet> packet)
{
    constexpr uint32_t IP_BYTES = 20; // no IP options anywhere here
    constexpr uint8_t ECN_BITS = 3;
    constexpr uint8_t SYN = 2;
    std::array<uint8_t, IP_BYTES + 20> head{};
    packet->CopyData(head.data(), head.size());
    const auto big_endian = [&head](std::size_t at, std::size_t bytes) {
        uint32_t value = 0;
        for (std::size_t i = at; i < at + bytes; ++i)
        {
            value = value << 8 | head[i];
        }
        return value;
    };
    const uint32_t tcp_bytes = uint32_t{head[IP_BYTES + 12]} / 16 * 4;
    return {Ipv4Address(big_endian(16, 4)),
            static_cast<uint16_t>(big_endian(IP_BYTES, 2)),
            static_cast<uint16_t>(big_endian(IP_BYTES + 2, 2)),
            big_endian(IP_BYTES + 4, 4),
            packet->GetSize() - IP_BYTES - tcp_bytes,
            (head[1] & ECN_BITS) != 0,
            (head[1] & ECN_BITS) == ECN_BITS,
            (head[IP_BYTES + 13] & SYN) != 0};
}

// ---- LinkDevice -----------------------------------------------------------------------------------------

/** An event of its own kind: Simulator::Schedule would bind the arguments in two more allocations. */
class LinkDevice::Arrival : public EventImpl
{
  public:
    Arrival(Ptr<LinkDevice> device, Ptr<Packet> packet) : m_device(std::move(device)), m_packet(std::move(packet)) {}

  private:
    void Notify() override
    {
        m_device->CopyToTap(Way::IN, m_packet);
        if (m_device->m_receiver)
        {
            m_device->m_receiver(std::move(m_packet));
        }
    }

    Ptr<LinkDevice> m_device;
    Ptr<Packet> m_packet;
};

void
LinkDevice::ReceiveIn(Time delay, Ptr<Packet> packet)
{
    Simulator::ScheduleWithContext(m_node->GetId(), delay, new Arrival(this, std::move(packet)));
}

void
LinkDevice::DoDispose()
{
    m_node = nullptr;
    m_tap = nullptr;
    m_receiver = nullptr;
    NetDevice::DoDispose();
}

void
LinkDevice::Path::Deliver(Ptr<Packet> packet)
{
    if (is_queue)
    {
        to->Send(packet, Address(), Ipv4L3Protocol::PROT_NUMBER);
        return;
    }
    const Time now = Simulator::Now();
    last_arrival = std::max(last_arrival, now + delay);
    to->ReceiveIn(last_arrival - now, packet);
}

// ---- DelayDevice ----------------------------------------------------------------------------------------

void
DelayDevice::AddPath(Ipv4Address destination, Ptr<LinkDevice> to, Time delay)
{
    m_paths[destination.Get()] = Path{to, delay, Time(0)};
}

void
DelayDevice::AddQueue(Ipv4Address destination, Ptr<LinkDevice> bottleneck)
{
    m_paths[destination.Get()] = Path{bottleneck, Time(0), Time(0), true};
}

bool
DelayDevice::Send(Ptr<Packet> packet, const Address&, uint16_t)
{
    const SegmentView segment = SegmentView::Of(packet);
    const auto path = m_paths.find(segment.destination.Get());
    if (path == m_paths.end())
    {
        return false;
    }
    CopyToTap(Way::OUT, packet);
    if (m_observer)
    {
        m_observer(segment);
    }
    if (m_gate.IsOpen())
    {
        path->second.Deliver(packet);
    }
    else if (m_gate.Put({packet, &path->second}, Simulator::Now().GetNanoSeconds()))
    {
        OpenGate();
    }
    else if (m_gate.HasOne())
    {
        const Time wait = NanoSeconds(m_gate.DeadlineNs()) - Simulator::Now();
        m_gate_event = Simulator::Schedule(wait, &DelayDevice::OpenGate, this);
    }
    return true;
}

void
DelayDevice::OpenGate()
{
    m_gate_event.Cancel();
    m_gate.Release([](const Outgoing& out) { out.path->Deliver(out.packet); });
}

void
DelayDevice::DoDispose()
{
    m_gate_event.Cancel();
    m_gate = {};
    m_paths.clear();
    m_observer = nullptr;
    LinkDevice::DoDispose();
}

// ---- StationDevice --------------------------------------------------------------------------------------

void
StationDevice::ReceiveFromRadio(Ptr<Packet> packet)
{
    ReceiveIn(Time(0), packet);
}

bool
StationDevice::Send(Ptr<Packet> packet, const Address&, uint16_t)
{
    CopyToTap(Way::OUT, packet);
    m_uplink(packet);
    return true;
}

void
StationDevice::DoDispose()
{
    m_uplink = nullptr;
    LinkDevice::DoDispose();
}

} // namespace ns3
