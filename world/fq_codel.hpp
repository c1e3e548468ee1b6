// SPDX-License-Identifier: GPL-2.0-only
//
// Fair queueing with CoDel as Linux's fq_codel does it (RFC 8290): a queue for each flow, deficit round robin between
// them, flows that begin first, CoDel for each flow's queue. If all of it is full, the flow with most bytes loses
// packets from its front: half of its bytes, at most 64 packets. Flows are told apart without hashing, so none shares a
// queue.
#ifndef BBRGYM_WORLD_FQ_CODEL_HPP
#define BBRGYM_WORLD_FQ_CODEL_HPP

#include "codel.hpp"
#include "ring.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

template <class Packet> class FairQueue
{
  public:
    /** Empties it and takes settings; keeps its memory. */
    void Reset(const FqCoDel& settings, std::size_t flows, uint32_t packet_bytes)
    {
        m_quantum_bytes = static_cast<int64_t>(settings.quantum_bytes);
        m_packet_bytes = packet_bytes;
        m_bytes = m_size = 0;
        m_new.clear();
        m_old.clear();
        m_flows.resize(flows);
        for (FlowQueue& flow : m_flows)
        {
            flow.packets.clear();
            // The queue as a whole is asked, and more than one packet must be left, as in Linux.
            flow.codel = CoDelState(settings.codel, uint64_t{packet_bytes} + 1);
            flow.bytes = 0;
            flow.deficit_bytes = 0;
            flow.is_listed = false;
        }
    }

    uint64_t Bytes() const { return m_bytes; }
    std::size_t Size() const { return m_size; }
    const Ring<Packet>& PacketsOf(std::size_t flow) const { return m_flows[flow].packets; }

    [[gnu::noinline]] void Put(const Packet& packet)
    {
        FlowQueue& flow = m_flows[packet.Flow()];
        flow.packets.push_back(packet);
        Count(flow, packet, 1);
        if (!flow.is_listed)
        {
            flow.is_listed = true;
            flow.deficit_bytes = m_quantum_bytes;
            m_new.push_back(static_cast<uint32_t>(packet.Flow()));
        }
    }

    /** The queue is full: the flow with most bytes loses some. */
    template <class Report> [[gnu::noinline]] void DropFromFattest(Report& report)
    {
        constexpr uint32_t MAX_DROPS = 64; // Linux: drop_batch_size
        FlowQueue* fattest = &m_flows[0];
        for (FlowQueue& flow : m_flows)
        {
            fattest = flow.bytes > fattest->bytes ? &flow : fattest;
        }
        const uint64_t goal_bytes = fattest->bytes - fattest->bytes / 2;
        const uint64_t before_bytes = fattest->bytes;
        uint32_t drops = 0;
        Packet packet;
        do
        {
            Front{*this, *fattest}.PopFront(packet);
            report.Dropped(packet);
        } while (++drops < MAX_DROPS && before_bytes - fattest->bytes < goal_bytes);
        fattest->codel.CountForcedDrops(drops);
    }

    template <class Report> [[gnu::noinline]] bool Dequeue(Packet& packet, bool marks, int64_t now_ns, Report& report)
    {
        for (;;)
        {
            Ring<uint32_t>& list = m_new.empty() ? m_old : m_new;
            if (list.empty())
            {
                return false;
            }
            FlowQueue& flow = m_flows[list.front()];
            if (flow.deficit_bytes <= 0)
            {
                flow.deficit_bytes += m_quantum_bytes;
                MoveToOld(list);
                continue;
            }
            Front front{*this, flow};
            if (DequeueByCoDel(flow.codel, front, marks, packet, now_ns, report))
            {
                flow.deficit_bytes -= packet.Bytes(m_packet_bytes);
                return true;
            }
            if (&list == &m_new && !m_old.empty())
            {
                MoveToOld(list); // so that a flow of lone packets cannot stay new for ever
            }
            else
            {
                flow.is_listed = false;
                list.pop_front();
            }
        }
    }

  private:
    struct FlowQueue
    {
        Ring<Packet> packets;
        CoDelState codel;
        uint64_t bytes = 0;
        int64_t deficit_bytes = 0;
        bool is_listed = false;
    };

    /** One flow's queue as CoDel sees it: its own packets, the bytes of all. */
    struct Front
    {
        FairQueue& all;
        FlowQueue& flow;

        uint64_t Bytes() const { return all.m_bytes; }
        bool PopFront(Packet& packet)
        {
            if (flow.packets.empty())
            {
                return false;
            }
            packet = flow.packets.front();
            flow.packets.pop_front();
            all.Count(flow, packet, -1);
            return true;
        }
    };

    void Count(FlowQueue& flow, const Packet& packet, int sign)
    {
        const uint64_t bytes = packet.Bytes(m_packet_bytes);
        flow.bytes += sign > 0 ? bytes : -bytes;
        m_bytes += sign > 0 ? bytes : -bytes;
        m_size += sign > 0 ? 1 : -1;
    }

    void MoveToOld(Ring<uint32_t>& list)
    {
        const uint32_t flow = list.front();
        list.pop_front();
        m_old.push_back(flow);
    }

    int64_t m_quantum_bytes = 0;
    uint32_t m_packet_bytes = 0;
    uint64_t m_bytes = 0;
    std::size_t m_size = 0;
    std::vector<FlowQueue> m_flows;
    Ring<uint32_t> m_new; ///< flows, the next one in front
    Ring<uint32_t> m_old;
};

} // namespace bbrgym

#endif
