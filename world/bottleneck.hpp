// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck of every C++ world:
//
//   Arrive -> policer -> queue -> [ server ] -> departure counted -> lost at random? -> delay -> far end
//
// The server drains the queue at the link's rate or at the opportunities of a trace. The packet in transmission is not
// in the queue. When the rate changes, the rest of the packet in transmission takes the new rate; at rate 0, an outage,
// nothing moves. In a trace each opportunity carries its number of bytes from the queue, across packet boundaries; one
// that finds the queue empty is lost.
//
// Events are in whole nanoseconds, transmissions are not: one that ends within a nanosecond departs at its end, and the
// next one has begun before by what was left of it.
//
// The host keeps the clock: it calls Serve at NextServiceNs, and carries what is delivered to the far end.
#ifndef BBRGYM_WORLD_BOTTLENECK_HPP
#define BBRGYM_WORLD_BOTTLENECK_HPP

#include "link_delay.hpp"
#include "loss.hpp"
#include "measurement.hpp"
#include "opportunities.hpp"
#include "policer.hpp"
#include "queue.hpp"
#include "times.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

namespace bbrgym
{

/** `Packet`: see packet_events.hpp. */
template <class Packet> class Bottleneck
{
  public:
    /** Empties it and takes a link's settings; keeps its memory. */
    void Reset(const Link& link, std::size_t flows, uint32_t packet_bytes, uint64_t run_seed);

    /** A packet reaches the queue. True: the server was idle and has work now, see NextServiceNs. */
    [[gnu::always_inline]] bool Arrive(const Packet& packet, int64_t now_ns, Measurement& measurement);

    /** Whether packets that are not ECN-capable may reach the queue as a train: they only wait there. */
    bool TakesTrains() const
    {
        return (m_next_service_ns != NEVER_NS || m_is_serving) && m_queue.IsPlain() && !m_policer;
    }
    /** `pkts` full packets reach the queue together, while TakesTrains(); not where packets are logged. */
    template <class At>
    [[gnu::always_inline]] void ArriveTogether(uint64_t pkts, At&& at, int64_t now_ns, Measurement& measurement)
    {
        NoteQueueLength(now_ns);
        m_queue.PutTrain(pkts, at, Report{measurement, *this});
    }

    /** The time of the server's next work; NEVER_NS: none until a packet arrives. */
    int64_t NextServiceNs() const { return m_next_service_ns; }

    /**
     * Call at NextServiceNs. Hands each packet that gets through, and its LinkDelay::Arrival, to `deliver`, in order,
     * before the transmission of the next one begins.
     */
    template <class Deliver> void Serve(int64_t now_ns, Measurement& measurement, Deliver&& deliver);

    /** Applies a change of the link. True: NextServiceNs is another now. */
    [[gnu::noinline, gnu::cold]] bool Change(const LinkChange& change, int64_t now_ns, Measurement& measurement);

    /** Bytes the link could have carried until now. */
    double CapacityBytes(int64_t now_ns) const;
    /** The part of the packet in transmission that has left until now. */
    PartlySent InTransmission(int64_t now_ns) const;
    /** Integral over time of the queued bytes until now, in byte nanoseconds. */
    double QueueByteNs(int64_t now_ns) const;

    /** Keeps dropped packets that have a slot until they are taken. */
    void KeepDropped() { m_keeps_dropped = true; }
    const std::vector<Packet>& Dropped() const { return m_dropped; }
    template <class Take> void TakeDropped(Take&& take)
    {
        std::ranges::for_each(m_dropped, take);
        m_dropped.clear();
    }

    const PacketQueue<Packet>& Queue() const { return m_queue; }
    /** The packet in transmission; null: none. */
    const Packet* InService() const { return m_is_serving ? &m_in_service : nullptr; }

  private:
    struct SkbFate
    {
        uint32_t number = SKB_NUMBERS;
        bool is_lost = false;
    };

    /** Tells the measurement what the queue does. */
    struct Report
    {
        Measurement& measurement;
        Bottleneck& bottleneck;

        void Dropped(const Packet& packet)
        {
            measurement.QueueDropped(packet.Flow(), packet.IsData());
            bottleneck.Keep(packet);
        }
        void Marked(const Packet& packet) { measurement.Marked(packet.Flow()); }
    };

    /** Logs it, too. */
    struct LoggedReport : Report
    {
        int64_t now_ns;

        void Dropped(const Packet& packet)
        {
            Report::Dropped(packet);
            Report::bottleneck.Log(PacketEvent::queue_dropped, packet, now_ns, Report::measurement);
        }
        void Marked(const Packet& packet)
        {
            Report::Marked(packet);
            Report::bottleneck.Log(PacketEvent::marked, packet, now_ns, Report::measurement);
        }
    };

    void Keep(const Packet& packet)
    {
        if constexpr (requires { packet.HasSlot(); })
        {
            if (m_keeps_dropped && packet.HasSlot()) [[unlikely]]
            {
                KeepSlot(packet);
            }
        }
    }
    // Out of the way of drops, which are many.
    [[gnu::noinline, gnu::cold]] void KeepSlot(const Packet& packet) { m_dropped.push_back(packet); }

    // Durations of transmissions are counted in 2^-20 ns: 65 KB at 1 kbit/s fit, and the link of 400 Gbit/s errs by
    // 10^-6.
    static constexpr int UNIT_BITS = 20;
    static constexpr int64_t UNITS_OF_NS = int64_t{1} << UNIT_BITS;

    /** Rounded up, so that the link never carries more than its capacity. */
    [[gnu::noinline]] static int64_t UnitsOf(double bits, double rate_bps)
    {
        return static_cast<int64_t>(std::ceil(bits * 1e9 * static_cast<double>(UNITS_OF_NS) / rate_bps));
    }

    // With the log of packets.
    [[gnu::noinline, gnu::cold]] void Log(PacketEvent event, const Packet& packet, int64_t now_ns,
                                          Measurement& measurement) const;
    [[gnu::noinline, gnu::cold]] void PutLogged(const Packet& packet, int64_t now_ns, Measurement& measurement);
    [[gnu::noinline, gnu::cold]] bool DequeueLogged(int64_t now_ns, Measurement& measurement);

    // Every packet passes through these, so they stand in line where it does.
    [[gnu::always_inline]] void NoteQueueLength(int64_t now_ns);
    [[gnu::always_inline]] bool DequeueNext(int64_t now_ns, Measurement& measurement);
    [[gnu::always_inline]] void StartAtRate(int64_t now_ns, Measurement& measurement);
    [[gnu::noinline]] void StartIdle(int64_t now_ns, Measurement& measurement);
    [[gnu::always_inline]] void DepartAfter(int64_t units, int64_t now_ns);
    [[gnu::noinline, gnu::cold]] bool SetRate(double rate_bps, int64_t now_ns, Measurement& measurement);
    double BitsLeft(int64_t now_ns) const;
    template <class Deliver>
    [[gnu::always_inline]] void Depart(int64_t now_ns, Measurement& measurement, Deliver& deliver);
    void AwaitOpportunity(int64_t now_ns);
    [[gnu::noinline]] bool IsLostWithSkb(const Packet& packet, int64_t now_ns);

    PacketQueue<Packet> m_queue;
    std::optional<TokenBucket> m_policer;
    std::optional<LossModel> m_loss;  ///< always there after Reset
    std::vector<SkbFate> m_skb_fates; ///< of each flow's latest sk_buff; empty: each packet has its own
    LinkDelay m_delay;
    double m_rate_bps = 0;        ///< 0: an outage, or a trace
    int64_t m_full_units = 0;     ///< duration of a full packet's transmission; 0: as m_rate_bps
    int64_t m_ahead_units = 0;    ///< by which the transmission ends before NextServiceNs, below a nanosecond
    double m_held_bits = 0;       ///< left of the packet in transmission when the rate changed
    int64_t m_held_until_ns = -1; ///< NextServiceNs of that packet
    uint32_t m_packet_bytes = 0;
    std::optional<Opportunities> m_trace;
    std::vector<Packet> m_dropped;
    bool m_keeps_dropped = false;
    Packet m_in_service{};
    bool m_is_serving = false;
    uint32_t m_bytes_left = 0;        ///< of the packet in service; used with a trace
    uint64_t m_opportunity_bytes = 0; ///< of the next opportunity
    int64_t m_next_service_ns = NEVER_NS;

    double m_capacity_bytes = 0; ///< until m_rate_since_ns
    int64_t m_rate_since_ns = 0;
    double m_queue_byte_ns = 0; ///< until m_queue_since_ns
    int64_t m_queue_since_ns = 0;
};

template <class Packet>
void
Bottleneck<Packet>::Reset(const Link& link, std::size_t flows, uint32_t packet_bytes, uint64_t run_seed)
{
    PacketQueue<Packet> queue = std::move(m_queue);
    std::vector<Packet> dropped = std::move(m_dropped);
    std::vector<SkbFate> skb_fates = std::move(m_skb_fates);
    *this = Bottleneck();
    m_queue = std::move(queue);
    m_dropped = std::move(dropped);
    m_dropped.clear();
    m_skb_fates = std::move(skb_fates);
    m_skb_fates.assign(link.loses_skbs ? flows : 0, {});
    m_queue.Reset(link, flows, packet_bytes, run_seed);
    if (link.policer)
    {
        m_policer.emplace(*link.policer);
    }
    m_loss.emplace(link.loss, packet_bytes * 8e9 / MeanRateBps(link), run_seed, link.name);
    m_delay = LinkDelay(link, run_seed);
    m_packet_bytes = packet_bytes;
    if (link.trace)
    {
        m_trace.emplace(link.trace->times_ns, link.trace->period_ns, link.trace->opportunity_bytes, link.trace->counts);
    }
    else
    {
        m_rate_bps = link.rate_bps;
        m_full_units = UnitsOf(packet_bytes * 8.0, link.rate_bps);
    }
}

template <class Packet>
inline bool
Bottleneck<Packet>::Arrive(const Packet& packet, int64_t now_ns, Measurement& measurement)
{
    if (m_policer && !m_policer->Passes(packet.Bytes(m_packet_bytes), now_ns)) [[unlikely]]
    {
        measurement.Policed(packet.Flow(), packet.IsData());
        Keep(packet);
        Log(PacketEvent::policed, packet, now_ns, measurement);
        return false;
    }
    NoteQueueLength(now_ns);
    if (measurement.Log().IsOn()) [[unlikely]]
    {
        PutLogged(packet, now_ns, measurement);
    }
    else
    {
        m_queue.Put(packet, now_ns, Report{measurement, *this});
    }
    if (m_next_service_ns != NEVER_NS || m_is_serving)
    {
        return false;
    }
    m_trace ? AwaitOpportunity(now_ns) : StartIdle(now_ns, measurement);
    return m_next_service_ns != NEVER_NS;
}

template <class Packet>
template <class Deliver>
void
Bottleneck<Packet>::Serve(int64_t now_ns, Measurement& measurement, Deliver&& deliver)
{
    m_next_service_ns = NEVER_NS;
    if (!m_trace)
    {
        Depart(now_ns, measurement, deliver);
        StartAtRate(now_ns, measurement);
        return;
    }
    uint64_t bytes = m_opportunity_bytes;
    while (bytes > 0 && (m_is_serving || DequeueNext(now_ns, measurement)))
    {
        const auto sent = static_cast<uint32_t>(std::min<uint64_t>(bytes, m_bytes_left));
        bytes -= sent;
        m_bytes_left -= sent;
        if (m_bytes_left == 0)
        {
            Depart(now_ns, measurement, deliver);
        }
    }
    AwaitOpportunity(now_ns);
}

template <class Packet>
bool
Bottleneck<Packet>::Change(const LinkChange& change, int64_t now_ns, Measurement& measurement)
{
    if (change.delay_ns)
    {
        m_delay.Set(*change.delay_ns);
    }
    if (change.loss_rate)
    {
        m_loss->SetRate(*change.loss_rate);
        std::ranges::fill(m_skb_fates, SkbFate{});
    }
    return change.rate_bps && *change.rate_bps != m_rate_bps && SetRate(*change.rate_bps, now_ns, measurement);
}

/** The rest of the packet in transmission takes the new rate. */
template <class Packet>
bool
Bottleneck<Packet>::SetRate(double rate_bps, int64_t now_ns, Measurement& measurement)
{
    const double bits_left = BitsLeft(now_ns);
    m_capacity_bytes = CapacityBytes(now_ns);
    m_rate_since_ns = now_ns;
    m_rate_bps = rate_bps;
    m_full_units = rate_bps > 0 ? UnitsOf(m_packet_bytes * 8.0, rate_bps) : 0;
    m_ahead_units = 0;
    if (m_next_service_ns == now_ns)
    {
        return false; // it is over
    }
    const int64_t before_ns = std::exchange(m_next_service_ns, NEVER_NS);
    if (!m_is_serving)
    {
        StartIdle(now_ns, measurement);
        return m_next_service_ns != before_ns;
    }
    if (rate_bps > 0)
    {
        DepartAfter(UnitsOf(bits_left, rate_bps), now_ns);
    }
    m_held_bits = bits_left;
    m_held_until_ns = m_next_service_ns;
    return m_next_service_ns != before_ns;
}

/** Of the packet in transmission at a rate; below 0 the next one has begun already. */
template <class Packet>
double
Bottleneck<Packet>::BitsLeft(int64_t now_ns) const
{
    if (m_next_service_ns == NEVER_NS)
    {
        return m_held_bits;
    }
    const int64_t units = (m_next_service_ns - now_ns) * UNITS_OF_NS - m_ahead_units;
    return static_cast<double>(units) / static_cast<double>(UNITS_OF_NS) * m_rate_bps / 1e9;
}

template <class Packet>
PartlySent
Bottleneck<Packet>::InTransmission(int64_t now_ns) const
{
    if (!m_is_serving)
    {
        return {};
    }
    const uint32_t bytes = m_in_service.Bytes(m_packet_bytes);
    if (m_trace)
    {
        return {m_in_service.Flow(), static_cast<double>(bytes - m_bytes_left)};
    }
    // The time of a transmission is rounded up, but no more is left than when it began, or its rate.
    const double most_bits = m_next_service_ns == m_held_until_ns ? m_held_bits : bytes * 8.0;
    const double bits_left = std::min(BitsLeft(now_ns), most_bits);
    return {m_in_service.Flow(), bytes - (m_queue.Size() > 0 ? bits_left : std::max(bits_left, 0.0)) / 8};
}

template <class Packet>
double
Bottleneck<Packet>::CapacityBytes(int64_t now_ns) const
{
    if (m_trace)
    {
        const uint64_t due_bytes = m_next_service_ns <= now_ns ? m_opportunity_bytes : 0; // which is carried hereafter
        return static_cast<double>(m_trace->BytesUntil(now_ns) - due_bytes);
    }
    return m_capacity_bytes + m_rate_bps * static_cast<double>(now_ns - m_rate_since_ns) / 8e9;
}

template <class Packet>
double
Bottleneck<Packet>::QueueByteNs(int64_t now_ns) const
{
    const auto queued_bytes = static_cast<int64_t>(m_queue.Bytes()); // which a machine converts faster
    return m_queue_byte_ns + static_cast<double>(queued_bytes) * static_cast<double>(now_ns - m_queue_since_ns);
}

/** Accounts for the time in which the queue had its present length; call before the length changes. */
template <class Packet>
inline void
Bottleneck<Packet>::NoteQueueLength(int64_t now_ns)
{
    m_queue_byte_ns = QueueByteNs(now_ns);
    m_queue_since_ns = now_ns;
}

template <class Packet>
void
Bottleneck<Packet>::Log(PacketEvent event, const Packet& packet, int64_t now_ns, Measurement& measurement) const
{
    if (measurement.Log().IsOn())
    {
        PacketRecord record{.time_ns = now_ns,
                            .flow = static_cast<uint32_t>(packet.Flow()),
                            .payload_bytes = packet.IsData() ? packet.Bytes(m_packet_bytes) - HEADER_BYTES : 0,
                            .queue_bytes = static_cast<uint32_t>(m_queue.Bytes()),
                            .event = event};
        packet.Describe(record, m_packet_bytes);
        measurement.Log().Add(record);
    }
}

/** The latest rows say whether the queue has dropped the packet. */
template <class Packet>
void
Bottleneck<Packet>::PutLogged(const Packet& packet, int64_t now_ns, Measurement& measurement)
{
    m_queue.Put(packet, now_ns, LoggedReport{{measurement, *this}, now_ns});
    PacketRecord own{.flow = static_cast<uint32_t>(packet.Flow())};
    packet.Describe(own, m_packet_bytes);
    for (const PacketRecord& row : measurement.Log().Packets() | std::views::reverse)
    {
        if (row.time_ns < now_ns || (row.event != PacketEvent::queue_dropped && row.event != PacketEvent::marked))
        {
            break;
        }
        if (row.event == PacketEvent::queue_dropped && row.flow == own.flow && row.offset_bytes == own.offset_bytes)
        {
            return;
        }
    }
    Log(PacketEvent::queued, packet, now_ns, measurement);
}

template <class Packet>
bool
Bottleneck<Packet>::DequeueLogged(int64_t now_ns, Measurement& measurement)
{
    const bool is_there = m_queue.Dequeue(m_in_service, now_ns, LoggedReport{{measurement, *this}, now_ns});
    if (is_there)
    {
        Log(PacketEvent::dequeued, m_in_service, now_ns, measurement);
    }
    return is_there;
}

/** Moves the queue's next packet into service; false if there is none. */
template <class Packet>
inline bool
Bottleneck<Packet>::DequeueNext(int64_t now_ns, Measurement& measurement)
{
    NoteQueueLength(now_ns);
    m_is_serving = measurement.Log().IsOn() ? DequeueLogged(now_ns, measurement)
                                            : m_queue.Dequeue(m_in_service, now_ns, Report{measurement, *this});
    if (m_is_serving)
    {
        m_bytes_left = m_in_service.Bytes(m_packet_bytes);
        measurement.TransmissionBegan(m_in_service.Flow(), now_ns - m_in_service.queued_ns);
    }
    return m_is_serving;
}

template <class Packet>
inline void
Bottleneck<Packet>::StartAtRate(int64_t now_ns, Measurement& measurement)
{
    if (m_full_units > 0 && DequeueNext(now_ns, measurement))
    {
        const uint32_t bytes = m_in_service.Bytes(m_packet_bytes);
        DepartAfter((bytes == m_packet_bytes ? m_full_units : UnitsOf(bytes * 8.0, m_rate_bps)) - m_ahead_units,
                    now_ns);
    }
}

/** Of a server that was idle. */
template <class Packet>
void
Bottleneck<Packet>::StartIdle(int64_t now_ns, Measurement& measurement)
{
    m_ahead_units = 0;
    StartAtRate(now_ns, measurement);
}

template <class Packet>
inline void
Bottleneck<Packet>::DepartAfter(int64_t units, int64_t now_ns)
{
    const int64_t whole_ns = (units + UNITS_OF_NS - 1) >> UNIT_BITS;
    m_ahead_units = whole_ns * UNITS_OF_NS - units;
    m_next_service_ns = now_ns + whole_ns;
}

template <class Packet>
void
Bottleneck<Packet>::AwaitOpportunity(int64_t now_ns)
{
    if (m_is_serving || m_queue.Size() > 0)
    {
        const Opportunities::Next next = m_trace->After(now_ns);
        m_opportunity_bytes = next.bytes;
        m_next_service_ns = next.time_ns;
    }
}

template <class Packet>
bool
Bottleneck<Packet>::IsLostWithSkb(const Packet& packet, int64_t now_ns)
{
    const uint32_t skb = packet.Skb();
    if (skb == SKB_NUMBERS)
    {
        return m_loss->IsLost(now_ns);
    }
    SkbFate& fate = m_skb_fates[packet.Flow()];
    if (fate.number != skb)
    {
        fate = {skb, m_loss->IsLost(now_ns)};
    }
    return fate.is_lost;
}

/** The packet in service leaves; unless it is lost at random it is delivered. */
template <class Packet>
template <class Deliver>
inline void
Bottleneck<Packet>::Depart(int64_t now_ns, Measurement& measurement, Deliver& deliver)
{
    m_is_serving = false;
    measurement.Departed(m_in_service.Flow(), m_in_service.Bytes(m_packet_bytes));
    if (m_loss->MayLose() && (m_skb_fates.empty() ? m_loss->IsLost(now_ns) : IsLostWithSkb(m_in_service, now_ns)))
    {
        measurement.RandomLost(m_in_service.Flow(), m_in_service.IsData());
        Keep(m_in_service);
        Log(PacketEvent::random_lost, m_in_service, now_ns, measurement);
        return;
    }
    deliver(m_in_service, m_delay.Send(now_ns));
}

} // namespace bbrgym

#endif
