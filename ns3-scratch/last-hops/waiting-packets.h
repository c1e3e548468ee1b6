// SPDX-License-Identifier: GPL-2.0-only
//
// Packets of one direction that wait until the station is connected.
#ifndef BBRGYM_WAITING_PACKETS_H
#define BBRGYM_WAITING_PACKETS_H

#include "ns3/packet.h"

#include <cstddef>
#include <deque>
#include <utility>

namespace bbrgym
{

class WaitingPackets
{
  public:
    explicit WaitingPackets(std::size_t capacity)
        : m_capacity(capacity)
    {
    }

    /** Drops the packet if there is no room. */
    void Hold(ns3::Ptr<ns3::Packet> packet)
    {
        if (m_packets.size() < m_capacity)
        {
            m_packets.push_back(std::move(packet));
        }
    }

    template <typename Send>
    void Release(Send&& send)
    {
        for (; !m_packets.empty(); m_packets.pop_front())
        {
            send(m_packets.front());
        }
    }

  private:
    std::size_t m_capacity;
    std::deque<ns3::Ptr<ns3::Packet>> m_packets;
};

} // namespace bbrgym

#endif
