// SPDX-License-Identifier: GPL-2.0-only
//
// CAKE (Common Applications Kept Enhanced) as Linux's sch_cake does it for one class of traffic, isolated by flows:
//
//   a queue for each flow -> deficit round robin, sparse flows first -> COBALT -> shaper: the link at its rate
//
// COBALT is CoDel, whose count falls as slowly as it rose, and beside it BLUE, a probability of drops that grows where
// the queue overflows and falls where it is empty: for flows that do not respond. Times and quantum follow from the
// rate: the shaper's clock (a packet leaves when its forerunner's bytes are due) is a link's that is never idle while
// packets wait. If all of it is full, the flow with most bytes loses packets from its front, one by one.
//
// Unlike sch_cake: bytes are those of IP, of the limit too; the flow with most bytes is always found (its heap may miss
// it); an interval above 4.29 s does not wrap.
#ifndef BBRGYM_WORLD_CAKE_HPP
#define BBRGYM_WORLD_CAKE_HPP

#include "flow_queues.hpp"
#include "packet_events.hpp"
#include "random.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bbrgym
{

/** What COBALT and the round robin derive from a rate and tc's `rtt`. */
struct CakeTimes
{
    CakeTimes(const Cake& cake, double rate_bps, uint32_t packet_bytes)
        : packet_ns(static_cast<int64_t>(packet_bytes * 8e9 / rate_bps)),
          quantum_bytes(std::clamp<int64_t>(static_cast<int64_t>(rate_bps / 8) >> 12, 300, 1514))
    {
        const int64_t shortest_ns = std::max<int64_t>(cake.rtt_ns / 20'000, 1) * 1000; // tc: in microseconds
        target_ns = std::max(packet_ns * 3 / 2, shortest_ns);
        interval_ns = std::max(cake.rtt_ns + target_ns - shortest_ns, 2 * target_ns);
    }

    int64_t packet_ns; ///< a full packet's transmission
    int64_t target_ns;
    int64_t interval_ns;
    int64_t quantum_bytes;
};

class Cobalt
{
  public:
    /** The queue overflowed and its first packet was dropped. */
    void NoteOverflow(const CakeTimes& times, int64_t now_ns)
    {
        if (now_ns - m_blue_ns > times.target_ns)
        {
            m_blue = std::min(m_blue + BLUE_UP, MOST);
            m_blue_ns = now_ns;
        }
        m_is_dropping = true;
        m_next_ns = now_ns;
        m_count = std::max(m_count, 1U);
    }
    /** The queue had its turn and was empty. */
    void NoteEmpty(const CakeTimes& times, int64_t now_ns)
    {
        if (m_blue > 0 && now_ns - m_blue_ns > times.target_ns)
        {
            m_blue -= std::min(m_blue, BLUE_DOWN);
            m_blue_ns = now_ns;
        }
        m_is_dropping = false;
        if (m_count > 0 && now_ns >= m_next_ns)
        {
            CountDown(times);
        }
    }
    /** Whether it remembers congestion. */
    bool IsActive(int64_t now_ns) const { return m_blue > 0 || m_count > 0 || now_ns < m_next_ns; }

    /** Whether a packet that waited so long is dropped; `mark` says whether it could be marked instead. */
    template <class Mark>
    bool Drops(const CakeTimes& times, int64_t waited_ns, int64_t now_ns, Random& random, const Mark& mark)
    {
        const bool is_due = m_count > 0 && now_ns >= m_next_ns;
        bool is_late = now_ns > m_next_ns;
        bool drops = false;
        if (waited_ns > times.target_ns && waited_ns > 4 * times.packet_ns)
        {
            if (!m_is_dropping)
            {
                m_is_dropping = true;
                m_next_ns = now_ns + StepNs(times);
            }
            m_count = std::max(m_count, 1U);
        }
        else
        {
            m_is_dropping = false;
        }
        if (is_due && m_is_dropping)
        {
            drops = !mark();
            m_count += m_count < UINT32_MAX ? 1 : 0;
            Step(times);
            is_late = now_ns > m_next_ns;
        }
        else if (is_due)
        {
            do
            {
                CountDown(times);
            } while (m_count > 0 && now_ns >= m_next_ns);
            is_late = now_ns > m_next_ns;
        }
        drops = drops || (m_blue > 0 && random.Chance(BlueProbability())); // ECN does not save from BLUE
        if (m_count == 0)
        {
            m_next_ns = now_ns + times.interval_ns; // until then it is active
        }
        else if (is_late && !drops)
        {
            m_next_ns = now_ns;
        }
        return drops;
    }

    uint32_t Count() const { return m_count; }
    double BlueProbability() const { return static_cast<double>(m_blue) * 0x1p-32; }

  private:
    static constexpr uint64_t MOST = UINT32_MAX; // a probability in units of 2^-32
    static constexpr uint64_t BLUE_UP = 1U << 24;
    static constexpr uint64_t BLUE_DOWN = 1U << 20;
    static constexpr int64_t LONG_AGO_NS = -(int64_t{1} << 62);
    /** 1 / sqrt(count) in units of 2^-32, as sch_cake's Newton steps end. */
    static constexpr std::array<uint32_t, 16> INVERSE_SQRT = {
        UINT32_MAX, UINT32_MAX, 3037000500, 2479700525, 2147483647, 1920767767, 1753413056, 1623345051,
        1518500250, 1431655765, 1358187914, 1294981364, 1239850263, 1191209601, 1147878294, 1108955788};

    void CountDown(const CakeTimes& times)
    {
        --m_count;
        Step(times);
    }
    /** The count changed: so far from one drop to the next is it now. */
    void Step(const CakeTimes& times)
    {
        if (m_count < INVERSE_SQRT.size())
        {
            m_inverse_sqrt = INVERSE_SQRT[m_count];
        }
        else
        {
            const uint64_t square = (m_inverse_sqrt * m_inverse_sqrt) >> 32;
            m_inverse_sqrt = ((((uint64_t{3} << 32) - m_count * square) >> 2) * m_inverse_sqrt) >> 31; // Newton's
        }
        m_next_ns += StepNs(times);
    }
    int64_t StepNs(const CakeTimes& times) const
    {
        const auto ns = static_cast<uint64_t>(times.interval_ns);
        return static_cast<int64_t>((ns >> 32) * m_inverse_sqrt + (((ns & MOST) * m_inverse_sqrt) >> 32));
    }

    uint32_t m_count = 0;
    uint64_t m_inverse_sqrt = 0; ///< of the count when it changed last; as in Linux 0 before
    int64_t m_next_ns = LONG_AGO_NS;
    uint64_t m_blue = 0;
    int64_t m_blue_ns = LONG_AGO_NS; ///< when BLUE's probability changed
    bool m_is_dropping = false;
};

template <class Packet> class CakeQueue : public FlowQueues<Packet>
{
  public:
    /** Empties it and takes settings; keeps its memory. */
    void Reset(const Cake& cake, const Link& link, std::size_t flows, uint32_t packet_bytes, uint64_t run_seed)
    {
        this->ResetQueues(flows, packet_bytes);
        m_times.emplace(cake, MeanRateBps(link), packet_bytes);
        m_random.emplace(run_seed, link.name + ".queue");
        m_flows.assign(flows, {});
        m_nodes.resize(LISTS + flows);
        for (uint32_t node = 0; node < m_nodes.size(); ++node)
        {
            m_nodes[node] = {node, node};
        }
    }

    [[gnu::noinline]] void Put(const Packet& packet)
    {
        this->Push(packet);
        Flow& flow = m_flows[packet.Flow()];
        if (!flow.is_active)
        {
            flow.is_active = true;
            flow.deficit_bytes = Credit(0);
            Append(NEW, packet.Flow());
        }
    }

    template <class IsOver, class Report>
    [[gnu::noinline]] void DropWhile(const IsOver& is_over, int64_t now_ns, Report& report)
    {
        Packet packet;
        while (is_over())
        {
            const std::size_t fattest = this->Fattest();
            this->Pop(fattest, packet);
            m_flows[fattest].cobalt.NoteOverflow(*m_times, now_ns);
            report.Dropped(packet);
        }
    }

    template <class Report> [[gnu::noinline]] bool Dequeue(Packet& packet, bool marks, int64_t now_ns, Report& report)
    {
        for (bool is_first = true; this->Size() > 0; is_first = false)
        {
            // A flow that decays has no packets: each dequeue looks at one of them at most.
            const uint32_t list = is_first && !IsEmpty(DECAYING) ? DECAYING : IsEmpty(NEW) ? OLD : NEW;
            const std::size_t index = m_nodes[list].next - LISTS;
            Flow& flow = m_flows[index];
            if (flow.deficit_bytes <= 0)
            {
                flow.deficit_bytes += Credit(static_cast<int64_t>(m_random->Uniform() * 65536));
                Append(OLD, index);
                continue;
            }
            if (DequeueFrom(index, packet, marks, now_ns, report))
            {
                flow.deficit_bytes -= this->BytesOf(packet);
                return true;
            }
            flow.cobalt.NoteEmpty(*m_times, now_ns);
            flow.is_active = false;
            flow.cobalt.IsActive(now_ns) ? Append(DECAYING, index) : Remove(index);
        }
        return false;
    }

  private:
    struct Flow
    {
        Cobalt cobalt;
        int64_t deficit_bytes = 0;
        bool is_active = false; ///< in the rotation, and not only until COBALT has forgotten
    };

    // Lists of flows as rings: a node for each list, then one for each flow, which is in one list at most.

    enum List : uint32_t
    {
        NEW,
        OLD,
        DECAYING,
        LISTS
    };
    struct Node
    {
        uint32_t next; ///< of a list: its first flow
        uint32_t previous;
    };
    bool IsEmpty(List list) const { return m_nodes[list].next == list; }
    void Remove(std::size_t flow)
    {
        const auto node = static_cast<uint32_t>(LISTS + flow);
        m_nodes[m_nodes[node].previous].next = m_nodes[node].next;
        m_nodes[m_nodes[node].next].previous = m_nodes[node].previous;
        m_nodes[node] = {node, node};
    }
    /** Moves it to the end of a list. */
    void Append(List list, std::size_t flow)
    {
        Remove(flow);
        const auto node = static_cast<uint32_t>(LISTS + flow);
        m_nodes[node] = {list, m_nodes[list].previous};
        m_nodes[m_nodes[node].previous].next = node;
        m_nodes[list].previous = node;
    }

    /** The quantum, or a byte less: 65,535 of 65,536 parts, and a dither for what is left. */
    int64_t Credit(int64_t dither) const { return (m_times->quantum_bytes * 65535 + dither) >> 16; }

    /** What COBALT lets through of a flow; the last packet always. */
    template <class Report>
    bool DequeueFrom(std::size_t index, Packet& packet, bool marks, int64_t now_ns, Report& report)
    {
        const auto mark = [&] { return marks && MarkPacket(packet, report); };
        while (this->Pop(index, packet))
        {
            const int64_t waited_ns = now_ns - packet.queued_ns;
            if (!m_flows[index].cobalt.Drops(*m_times, waited_ns, now_ns, *m_random, mark) || this->BytesOf(index) == 0)
            {
                return true;
            }
            report.Dropped(packet);
        }
        return false;
    }

    std::optional<CakeTimes> m_times; ///< always there after Reset, as m_random
    std::optional<Random> m_random;
    std::vector<Flow> m_flows;
    std::vector<Node> m_nodes;
};

} // namespace bbrgym

#endif
