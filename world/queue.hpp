// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck's queue under its discipline: drop-tail, RED, CoDel, fq_codel, PIE or CAKE. ECN-capable packets may be
// marked instead: by RED, CoDel, PIE and CAKE where they would drop, on arrival at a queue of some length, on departure
// after some wait.
#ifndef BBRGYM_WORLD_QUEUE_HPP
#define BBRGYM_WORLD_QUEUE_HPP

#include "cake.hpp"
#include "codel.hpp"
#include "fq_codel.hpp"
#include "packet_events.hpp"
#include "pie.hpp"
#include "red.hpp"
#include "ring.hpp"
#include "scenario.hpp"
#include "times.hpp"

#include <concepts>
#include <cstdint>
#include <limits>
#include <variant>

namespace bbrgym
{

template <class Packet> class PacketQueue
{
  public:
    /** Empties it and takes a link's settings; keeps its memory. */
    void Reset(const Link& link, std::size_t flows, uint32_t packet_bytes, uint64_t run_seed);

    /** Takes a packet, unless it is dropped; fq_codel and CAKE may drop others. */
    template <class Report> [[gnu::always_inline]] void Put(Packet packet, int64_t now_ns, Report&& report);

    /** Whether a packet's length alone decides whether it is taken, if it is not ECN-capable. */
    bool IsPlain() const { return std::holds_alternative<DropTail>(m_discipline); }
    /** Takes `pkts` full packets in a row, of those that fit, while IsPlain(); `at(i)` is one of them. */
    template <class At, class Report> [[gnu::always_inline]] void PutTrain(uint64_t pkts, At&& at, Report&& report);

    /** Moves the next packet to `packet`, false if there is none. */
    template <class Report> [[gnu::always_inline]] bool Dequeue(Packet& packet, int64_t now_ns, Report&& report);

    uint64_t Bytes() const { return m_bytes; }
    std::size_t Size() const
    {
        const FlowQueues<Packet>* queues = OfFlows();
        return queues != nullptr ? queues->Size() : m_packets.size();
    }
    /** The packets among which are those of a flow. */
    const Ring<Packet>& PacketsWith(std::size_t flow) const
    {
        const FlowQueues<Packet>* queues = OfFlows();
        return queues != nullptr ? queues->PacketsOf(flow) : m_packets;
    }

    // A source of CoDel's.
    [[gnu::always_inline]] bool PopFront(Packet& packet);

  private:
    using Fair = FairQueue<Packet>;
    using OfCake = CakeQueue<Packet>;

    /** Null: the packets are in m_packets. */
    const FlowQueues<Packet>* OfFlows() const
    {
        const FlowQueues<Packet>* fair = std::get_if<Fair>(&m_discipline);
        return fair != nullptr ? fair : std::get_if<OfCake>(&m_discipline);
    }

    // A discipline is a state in m_discipline and a set of these three: Begin, PutBy, DequeueBy.

    void Begin(const DropTail&, const Link&, std::size_t, uint64_t) { m_discipline = DropTail{}; }
    template <class Report> void PutBy(DropTail&, Packet& packet, int64_t, Report& report) { Append(packet, report); }
    template <class Report> bool DequeueBy(DropTail&, Packet& packet, int64_t, Report&) { return PopFront(packet); }

    void Begin(const Red& red, const Link& link, std::size_t, uint64_t run_seed)
    {
        m_discipline.template emplace<RedState>(red, MeanRateBps(link), m_full_packet_bytes, run_seed, link.name);
        if (link.queue.size_packets)
        {
            m_max_bytes = *link.queue.size_packets * m_full_packet_bytes; // RED counts in bytes
            m_max_packets = std::numeric_limits<uint64_t>::max();
        }
    }
    /** Early drops may become marks; above max RED always drops. */
    template <class Report> void PutBy(RedState& red, Packet& packet, int64_t now_ns, Report& report)
    {
        const RedState::Verdict verdict = red.Judge(packet.Bytes(m_full_packet_bytes), m_bytes, now_ns);
        const bool is_early = verdict == RedState::Verdict::EARLY;
        const bool passes = verdict == RedState::Verdict::PASS || (is_early && m_marks && MarkPacket(packet, report));
        passes ? Append(packet, report) : report.Dropped(packet);
    }
    template <class Report> bool DequeueBy(RedState& red, Packet& packet, int64_t now_ns, Report&)
    {
        const bool is_there = PopFront(packet);
        if (!is_there)
        {
            red.FoundEmpty(now_ns);
        }
        return is_there;
    }

    void Begin(const CoDel& codel, const Link&, std::size_t, uint64_t)
    {
        m_discipline.template emplace<CoDelState>(codel, m_full_packet_bytes);
    }
    template <class Report> void PutBy(CoDelState&, Packet& packet, int64_t, Report& report) { Append(packet, report); }
    template <class Report> bool DequeueBy(CoDelState& codel, Packet& packet, int64_t now_ns, Report& report)
    {
        return DequeueByCoDel(codel, *this, m_marks, packet, now_ns, report);
    }

    void Begin(const FqCoDel& settings, const Link&, std::size_t flows, uint64_t)
    {
        Kept<Fair>().Reset(settings, flows, m_full_packet_bytes);
    }
    void Begin(const Cake& cake, const Link& link, std::size_t flows, uint64_t run_seed)
    {
        Kept<OfCake>().Reset(cake, link, flows, m_full_packet_bytes, run_seed);
    }
    /** A state of that kind, in the memory of the one before. */
    template <class State> State& Kept()
    {
        auto* state = std::get_if<State>(&m_discipline);
        return state != nullptr ? *state : m_discipline.template emplace<State>();
    }
    template <class Report, std::derived_from<FlowQueues<Packet>> Queues>
    void PutBy(Queues& queues, Packet& packet, int64_t now_ns, Report& report)
    {
        if (queues.Bytes() >= m_mark_at_bytes || queues.Size() >= m_mark_at_packets)
        {
            MarkPacket(packet, report);
        }
        queues.Put(packet);
        const auto is_over = [&] { return queues.Bytes() > m_max_bytes || queues.Size() > m_max_packets; };
        queues.DropWhile(is_over, now_ns, report);
        m_bytes = queues.Bytes();
    }
    template <class Report, std::derived_from<FlowQueues<Packet>> Queues>
    bool DequeueBy(Queues& queues, Packet& packet, int64_t now_ns, Report& report)
    {
        const bool is_there = queues.Dequeue(packet, m_marks, now_ns, report);
        m_bytes = queues.Bytes();
        return is_there;
    }

    void Begin(const Pie& pie, const Link& link, std::size_t, uint64_t run_seed)
    {
        m_discipline.template emplace<PieState>(pie, 2 * m_full_packet_bytes, run_seed, link.name);
    }
    template <class Report> void PutBy(PieState& pie, Packet& packet, int64_t now_ns, Report& report)
    {
        pie.RunUntil(now_ns, m_bytes);
        const bool fits = Fits(packet.Bytes(m_full_packet_bytes));
        if (!fits || (pie.DropsEarly(m_bytes) && !(m_marks && pie.MayMark() && MarkPacket(packet, report))))
        {
            pie.NoteDrop();
            report.Dropped(packet);
            return;
        }
        Append(packet, report);
    }
    template <class Report> bool DequeueBy(PieState& pie, Packet& packet, int64_t now_ns, Report&)
    {
        pie.RunUntil(now_ns, m_bytes);
        const bool is_there = PopFront(packet);
        if (is_there)
        {
            pie.NoteDeparture(now_ns - packet.queued_ns, m_bytes, now_ns);
        }
        return is_there;
    }

    // Out of the way of drop-tail.
    template <class Report> [[gnu::noinline]] void PutByDiscipline(Packet& packet, int64_t now_ns, Report& report)
    {
        std::visit([&](auto& state) { PutBy(state, packet, now_ns, report); }, m_discipline);
    }
    template <class Report> [[gnu::noinline]] bool DequeueByDiscipline(Packet& packet, int64_t now_ns, Report& report)
    {
        return std::visit([&](auto& state) { return DequeueBy(state, packet, now_ns, report); }, m_discipline);
    }
    bool Fits(uint32_t ip_bytes) const { return m_bytes + ip_bytes <= m_max_bytes && m_packets.size() < m_max_packets; }
    /** Takes a packet that fits behind all others. */
    template <class Report> [[gnu::always_inline]] void Append(Packet& packet, Report& report);

    Ring<Packet> m_packets;
    uint32_t m_full_packet_bytes = 0;
    bool m_marks = false; ///< RED, CoDel, PIE and CAKE mark what they can
    uint64_t m_bytes = 0;
    uint64_t m_max_bytes = 0;
    uint64_t m_max_packets = 0;
    uint64_t m_mark_at_bytes = 0;
    uint64_t m_mark_at_packets = 0;
    int64_t m_mark_after_ns = 0;
    std::variant<DropTail, RedState, CoDelState, Fair, PieState, OfCake> m_discipline; ///< FlowQueues hold the packets
};

template <class Packet>
void
PacketQueue<Packet>::Reset(const Link& link, std::size_t flows, uint32_t packet_bytes, uint64_t run_seed)
{
    constexpr uint64_t ANY = std::numeric_limits<uint64_t>::max();
    const Queue& queue = link.queue;
    m_packets.clear();
    m_full_packet_bytes = packet_bytes;
    m_bytes = 0;
    m_max_bytes = queue.size_bytes.value_or(ANY);
    m_max_packets = queue.size_packets.value_or(ANY);
    m_marks = queue.ecn;
    m_mark_at_bytes = queue.ecn_threshold_bytes.value_or(ANY);
    m_mark_at_packets = queue.ecn_threshold_packets.value_or(ANY);
    m_mark_after_ns = queue.ecn_threshold_ns.value_or(NEVER_NS);
    std::visit([&](const auto& settings) { Begin(settings, link, flows, run_seed); }, queue.discipline);
}

template <class Packet>
template <class Report>
inline void
PacketQueue<Packet>::Put(Packet packet, int64_t now_ns, Report&& report)
{
    if (IsPlain()) [[likely]]
    {
        Append(packet, report);
        return;
    }
    PutByDiscipline(packet, now_ns, report);
}

template <class Packet>
template <class Report>
inline void
PacketQueue<Packet>::Append(Packet& packet, Report& report)
{
    const uint32_t ip_bytes = packet.Bytes(m_full_packet_bytes);
    if (!Fits(ip_bytes))
    {
        report.Dropped(packet);
        return;
    }
    if (m_bytes >= m_mark_at_bytes || m_packets.size() >= m_mark_at_packets)
    {
        MarkPacket(packet, report);
    }
    m_packets.push_back(packet);
    m_bytes += ip_bytes;
}

template <class Packet>
template <class At, class Report>
inline void
PacketQueue<Packet>::PutTrain(uint64_t pkts, At&& at, Report&& report)
{
    uint64_t i = 0;
    for (; i < pkts && m_bytes + m_full_packet_bytes <= m_max_bytes && m_packets.size() < m_max_packets; ++i)
    {
        m_packets.push_back(at(i));
        m_bytes += m_full_packet_bytes;
    }
    for (; i < pkts; ++i)
    {
        report.Dropped(at(i));
    }
}

template <class Packet>
inline bool
PacketQueue<Packet>::PopFront(Packet& packet)
{
    if (m_packets.empty())
    {
        return false;
    }
    packet = m_packets.front();
    m_packets.pop_front();
    m_bytes -= packet.Bytes(m_full_packet_bytes);
    return true;
}

template <class Packet>
template <class Report>
inline bool
PacketQueue<Packet>::Dequeue(Packet& packet, int64_t now_ns, Report&& report)
{
    const bool is_there = IsPlain() ? PopFront(packet) : DequeueByDiscipline(packet, now_ns, report);
    if (is_there && now_ns - packet.queued_ns > m_mark_after_ns)
    {
        MarkPacket(packet, report);
    }
    return is_there;
}

} // namespace bbrgym

#endif
