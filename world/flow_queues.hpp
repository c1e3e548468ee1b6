// SPDX-License-Identifier: GPL-2.0-only
//
// A queue for each flow, as fq_codel and cake have them. Flows are told apart without hashing, so none shares a queue.
#ifndef BBRGYM_WORLD_FLOW_QUEUES_HPP
#define BBRGYM_WORLD_FLOW_QUEUES_HPP

#include "ring.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

template <class Packet> class FlowQueues
{
  public:
    uint64_t Bytes() const { return m_bytes; }
    std::size_t Size() const { return m_size; }
    const Ring<Packet>& PacketsOf(std::size_t flow) const { return m_queues[flow].packets; }

  protected:
    /** Empties them; keeps their memory. */
    void ResetQueues(std::size_t flows, uint32_t packet_bytes)
    {
        m_packet_bytes = packet_bytes;
        m_bytes = m_size = 0;
        m_queues.resize(flows);
        for (FlowQueue& queue : m_queues)
        {
            queue.packets.clear();
            queue.bytes = 0;
        }
    }
    uint32_t BytesOf(const Packet& packet) const { return packet.Bytes(m_packet_bytes); }
    uint64_t BytesOf(std::size_t flow) const { return m_queues[flow].bytes; }
    /** The flow with most bytes, of several the first. */
    std::size_t Fattest() const
    {
        return static_cast<std::size_t>(std::ranges::max_element(m_queues, {}, &FlowQueue::bytes) - m_queues.begin());
    }

    void Push(const Packet& packet)
    {
        FlowQueue& queue = m_queues[packet.Flow()];
        queue.packets.push_back(packet);
        queue.bytes += BytesOf(packet);
        m_bytes += BytesOf(packet);
        ++m_size;
    }
    bool Pop(std::size_t flow, Packet& packet)
    {
        FlowQueue& queue = m_queues[flow];
        if (queue.packets.empty())
        {
            return false;
        }
        packet = queue.packets.front();
        queue.packets.pop_front();
        queue.bytes -= BytesOf(packet);
        m_bytes -= BytesOf(packet);
        --m_size;
        return true;
    }

  private:
    struct FlowQueue
    {
        Ring<Packet> packets;
        uint64_t bytes = 0;
    };

    uint32_t m_packet_bytes = 0;
    uint64_t m_bytes = 0;
    std::size_t m_size = 0;
    std::vector<FlowQueue> m_queues;
};

} // namespace bbrgym

#endif
