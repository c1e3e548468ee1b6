// SPDX-License-Identifier: GPL-2.0-only
//
// Fair queueing with CoDel as Linux's fq_codel does it (RFC 8290): a queue for each flow, deficit round robin between
// them, flows that begin first, CoDel for each flow's queue. If all of it is full, the flow with most bytes loses
// packets from its front: half of its bytes, at most 64 packets.
#ifndef BBRGYM_WORLD_FQ_CODEL_HPP
#define BBRGYM_WORLD_FQ_CODEL_HPP

#include "codel.hpp"
#include "flow_queues.hpp"
#include "ring.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

template <class Packet> class FairQueue : public FlowQueues<Packet>
{
  public:
    /** Empties it and takes settings; keeps its memory. */
    void Reset(const FqCoDel& settings, std::size_t flows, uint32_t packet_bytes)
    {
        this->ResetQueues(flows, packet_bytes);
        m_quantum_bytes = static_cast<int64_t>(settings.quantum_bytes);
        m_new.clear();
        m_old.clear();
        // The queue as a whole is asked, and more than one packet must be left, as in Linux.
        m_flows.assign(flows, {.codel = CoDelState(settings.codel, uint64_t{packet_bytes} + 1)});
    }

    [[gnu::noinline]] void Put(const Packet& packet)
    {
        this->Push(packet);
        Flow& flow = m_flows[packet.Flow()];
        if (!flow.is_listed)
        {
            flow.is_listed = true;
            flow.deficit_bytes = m_quantum_bytes;
            m_new.push_back(static_cast<uint32_t>(packet.Flow()));
        }
    }

    /** If it is too full the flow with most bytes loses some. */
    template <class IsOver, class Report>
    [[gnu::noinline]] void DropWhile(const IsOver& is_over, int64_t /*now_ns*/, Report& report)
    {
        constexpr uint32_t MAX_DROPS = 64; // Linux: drop_batch_size
        if (!is_over())
        {
            return;
        }
        const std::size_t fattest = this->Fattest();
        const uint64_t before_bytes = this->BytesOf(fattest);
        const uint64_t goal_bytes = before_bytes - before_bytes / 2;
        uint32_t drops = 0;
        Packet packet;
        do
        {
            this->Pop(fattest, packet);
            report.Dropped(packet);
        } while (++drops < MAX_DROPS && before_bytes - this->BytesOf(fattest) < goal_bytes);
        m_flows[fattest].codel.CountForcedDrops(drops);
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
            const std::size_t index = list.front();
            Flow& flow = m_flows[index];
            if (flow.deficit_bytes <= 0)
            {
                flow.deficit_bytes += m_quantum_bytes;
                MoveToOld(list);
                continue;
            }
            Front front{*this, index};
            if (DequeueByCoDel(flow.codel, front, marks, packet, now_ns, report))
            {
                flow.deficit_bytes -= this->BytesOf(packet);
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
    struct Flow
    {
        CoDelState codel;
        int64_t deficit_bytes = 0;
        bool is_listed = false;
    };

    /** One flow's queue as CoDel sees it: its own packets, the bytes of all. */
    struct Front
    {
        FairQueue& all;
        std::size_t flow;

        uint64_t Bytes() const { return all.Bytes(); }
        bool PopFront(Packet& packet) { return all.Pop(flow, packet); }
    };

    void MoveToOld(Ring<uint32_t>& list)
    {
        const uint32_t flow = list.front();
        list.pop_front();
        m_old.push_back(flow);
    }

    int64_t m_quantum_bytes = 0;
    std::vector<Flow> m_flows;
    Ring<uint32_t> m_new; ///< flows, the next one in front
    Ring<uint32_t> m_old;
};

} // namespace bbrgym

#endif
