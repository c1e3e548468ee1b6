// SPDX-License-Identifier: GPL-2.0-only
#include "fixed-routing.h"

#include "ns3/ipv4.h"
#include "ns3/log.h"
#include "ns3/net-device.h"
#include "ns3/output-stream-wrapper.h"

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("BbrgymFixedRouting");
NS_OBJECT_ENSURE_REGISTERED(FixedRouting);

TypeId
FixedRouting::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::BbrgymFixedRouting").SetParent<Ipv4RoutingProtocol>().SetGroupName("Internet");
    return tid;
}

FixedRouting::FixedRouting(Ipv4Address own, Ptr<NetDevice> device)
    : m_own(own),
      m_device(device)
{
}

void
FixedRouting::SetIpv4(Ptr<Ipv4> ipv4)
{
    m_ipv4 = ipv4;
    m_route = Create<Ipv4Route>();
    m_route->SetSource(m_own);
    m_route->SetGateway(Ipv4Address::GetAny()); // the far end of the link needs no address
    m_route->SetOutputDevice(m_device);
}

Ptr<Ipv4Route>
FixedRouting::RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error)
{
    error = Socket::ERROR_NOTERROR;
    m_route->SetDestination(header.GetDestination());
    return m_route;
}

bool
FixedRouting::RouteInput(Ptr<const Packet> packet,
                         const Ipv4Header& header,
                         Ptr<const NetDevice> input,
                         Passed<3> forward,
                         Passed<4>,
                         Passed<5> deliver,
                         Passed<6>)
{
    if (header.GetDestination() == m_own)
    {
        deliver(packet, header, static_cast<uint32_t>(m_ipv4->GetInterfaceForDevice(input)));
    }
    else
    {
        m_route->SetDestination(header.GetDestination());
        forward(m_route, packet, header);
    }
    return true;
}

void
FixedRouting::PrintRoutingTable(Ptr<OutputStreamWrapper> stream, Time::Unit) const
{
    *stream->GetStream() << "own address " << m_own << ", all else by device " << m_device->GetIfIndex() << "\n";
}

void
FixedRouting::DoDispose()
{
    m_device = nullptr;
    m_ipv4 = nullptr;
    m_route = nullptr;
    Ipv4RoutingProtocol::DoDispose();
}

} // namespace ns3
