// SPDX-License-Identifier: GPL-2.0-only
//
// What the kinds of last hop share: devices at rest, and packets that wait until the station is connected.
#ifndef BBRGYM_STATION_HOP_H
#define BBRGYM_STATION_HOP_H

#include "last-hop.h"

#include "ns3/constant-position-mobility-model.h"
#include "ns3/net-device.h"
#include "ns3/node.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace bbrgym
{

class StationHop : public RadioHop
{
  public:
    void Down(ns3::Ptr<ns3::Packet> packet) final { m_is_connected ? SendDown(packet) : Hold(m_waiting_down, packet); }

    void Up(ns3::Ptr<ns3::Packet> packet) final { m_is_connected ? SendUp(packet) : Hold(m_waiting_up, packet); }

  protected:
    static constexpr int64_t FIRST_STREAM = 1'000; ///< the queue disciplines have those from 0 on

    /** In each direction at most so many packets wait; further ones are dropped. */
    explicit StationHop(std::size_t waiting_packets) : m_capacity(waiting_packets) {}

    static ns3::Ptr<ns3::Node> MakeNodeAt(double x_m)
    {
        auto node = ns3::CreateObject<ns3::Node>();
        auto place = ns3::CreateObject<ns3::ConstantPositionMobilityModel>();
        place->SetPosition({x_m, 0, 0});
        node->AggregateObject(place);
        return node;
    }

    /** Hands what a device receives to `sink`. */
    static void Deliver(ns3::Ptr<ns3::NetDevice> device, Sink sink)
    {
        device->SetReceiveCallback(ns3::NetDevice::ReceiveCallback(
            [sink = std::move(sink)](auto, ns3::Ptr<const ns3::Packet> packet, auto, const ns3::Address&) {
                sink(packet->Copy());
                return true;
            }));
    }

    /** To be called when the station is connected: sends what has waited. */
    void Connect()
    {
        m_is_connected = true;
        for (; !m_waiting_down.empty(); m_waiting_down.pop_front())
        {
            SendDown(m_waiting_down.front());
        }
        for (; !m_waiting_up.empty(); m_waiting_up.pop_front())
        {
            SendUp(m_waiting_up.front());
        }
    }

  private:
    virtual void SendDown(ns3::Ptr<ns3::Packet> packet) = 0;
    virtual void SendUp(ns3::Ptr<ns3::Packet> packet) = 0;

    void Hold(std::deque<ns3::Ptr<ns3::Packet>>& waiting, ns3::Ptr<ns3::Packet> packet) const
    {
        if (waiting.size() < m_capacity)
        {
            waiting.push_back(std::move(packet));
        }
    }

    std::size_t m_capacity;
    std::deque<ns3::Ptr<ns3::Packet>> m_waiting_down;
    std::deque<ns3::Ptr<ns3::Packet>> m_waiting_up;
    bool m_is_connected = false;
};

} // namespace bbrgym

#endif
