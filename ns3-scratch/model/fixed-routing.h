// SPDX-License-Identifier: GPL-2.0-only
//
// Routing for a host with a single device: its own address is delivered, all else leaves by that device.
// Every packet passes here, so the route is made once instead of per packet as ns-3's protocols do.
#ifndef BBRGYM_FIXED_ROUTING_H
#define BBRGYM_FIXED_ROUTING_H

#include "ns3-versions.h"

#include "ns3/ipv4-route.h"
#include "ns3/ipv4-routing-protocol.h"

namespace ns3
{

class FixedRouting : public Ipv4RoutingProtocol
{
  public:
    /** A callback that RouteInput takes, as this ns-3 passes it. */
    template <std::size_t index>
    using Passed = bbrgym::ParameterOf<&Ipv4RoutingProtocol::RouteInput, index>;

    static TypeId GetTypeId();

    FixedRouting(Ipv4Address own, Ptr<NetDevice> device);

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet> packet,
                               const Ipv4Header& header,
                               Ptr<NetDevice> output,
                               Socket::SocketErrno& error) override;
    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> input,
                    Passed<3> forward,
                    Passed<4> forward_multicast,
                    Passed<5> deliver,
                    Passed<6> fail) override;
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void SetIpv4(Ptr<Ipv4> ipv4) override;
    void PrintRoutingTable(Ptr<OutputStreamWrapper> stream, Time::Unit unit) const override;

  protected:
    void DoDispose() override;

  private:
    Ipv4Address m_own;
    Ptr<NetDevice> m_device;
    Ptr<Ipv4> m_ipv4;
    Ptr<Ipv4Route> m_route;
};

} // namespace ns3

#endif
