// SPDX-License-Identifier: GPL-2.0-only
//
// The bottleneck's queue under its discipline: drop-tail, RED (Floyd and Jacobson 1993, the classic law with a
// hard drop above max) or CoDel (RFC 8289). RED and CoDel count as ns-3's do.
#ifndef BBRGYM_TWIN_QUEUE_HPP
#define BBRGYM_TWIN_QUEUE_HPP

#include "packet.hpp"
#include "ring.hpp"
#include "scoreboard.hpp"

#include "random.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <optional>
#include <variant>

namespace bbrgym
{

/** State of RED. The average is in bytes; while the queue is empty it decays as if small packets arrived. */
class RedState
{
  public:
    RedState(const Red& red, double rate_bps, uint32_t packet_bytes, uint64_t run_seed);

    /** Whether an arriving packet is dropped early. */
    bool Drops(uint32_t ip_bytes, uint64_t queued_bytes, int64_t now_ns);
    void FoundEmpty(int64_t now_ns);

  private:
    void Average(uint64_t queued_bytes, int64_t now_ns);
    bool DropsByChance(uint32_t ip_bytes);

    Red m_red;
    double m_packets_per_s;
    double m_packet_bytes;
    Random m_random;
    double m_average_bytes = 0;
    uint64_t m_bytes_since_drop = 0;
    bool m_was_below = true; ///< the average was below min when last seen
    std::optional<int64_t> m_idle_since_ns = 0;
};

/** State of CoDel. Time is in units of 1,024 ns, modulo 2^32, as in Linux. */
class CoDelState
{
  public:
    CoDelState(const CoDel& codel, uint32_t packet_bytes);

    /** Whether a packet that waited `waited_ns` may be dropped now, with `queued_bytes` behind it. */
    bool MayDrop(int64_t waited_ns, uint64_t queued_bytes, int64_t now_ns);
    /** The queue was empty at a dequeue. */
    void FoundEmpty() { m_is_dropping = false; }
    void NothingBehind() { m_first_above = 0; }

    bool IsDropping() const { return m_is_dropping; }
    void StopDropping() { m_is_dropping = false; }
    bool DropIsDue(int64_t now_ns) const;
    void CountDrop();
    void ScheduleNextDrop();
    void StartDropping(int64_t now_ns);

  private:
    static uint32_t Ticks(int64_t ns) { return static_cast<uint32_t>(static_cast<uint64_t>(ns) >> 10); }
    uint32_t After(uint32_t ticks) const;

    uint32_t m_target;
    uint32_t m_interval;
    uint32_t m_packet_bytes;
    uint32_t m_first_above = 0; ///< when the delay will have been above target for an interval; 0: it is below
    uint32_t m_drop_next = 0;
    uint32_t m_count = 0;
    uint32_t m_last_count = 0;
    uint16_t m_inverse_sqrt = UINT16_MAX; ///< 1 / sqrt(count), 0.16 bits
    bool m_is_dropping = false;
};

class PacketQueue
{
  public:
    /** Empties it and takes a link's settings; keeps its memory. */
    void Reset(const Link& link, uint32_t packet_bytes, uint64_t run_seed);

    /** False if the packet is dropped. */
    bool Put(const QueuedPacket& packet, int64_t now_ns);

    /** Moves the next packet to `packet`, false if there is none; those that CoDel drops are handed to `dropped`. */
    template <class OnDrop>
    bool Take(QueuedPacket& packet, int64_t now_ns, OnDrop&& dropped);

    /** IP bytes of a packet on the link. */
    uint32_t BytesOf(PacketName name) const;

    uint64_t Bytes() const { return m_bytes; }
    bool Empty() const { return m_packets.empty(); }
    const Ring<QueuedPacket>& Packets() const { return m_packets; }

  private:
    bool TakeFront(QueuedPacket& packet);
    template <class OnDrop>
    bool TakeByCoDel(CoDelState& codel, QueuedPacket& packet, int64_t now_ns, OnDrop& dropped);
    bool MayDrop(CoDelState& codel, const QueuedPacket& packet, bool is_there, int64_t now_ns) const;

    Ring<QueuedPacket> m_packets;
    uint32_t m_full_packet_bytes = 0;
    uint64_t m_bytes = 0;
    uint64_t m_max_bytes = 0;
    uint64_t m_max_packets = 0;
    std::variant<DropTail, RedState, CoDelState> m_discipline;
};

inline uint32_t
PacketQueue::BytesOf(PacketName name) const
{
    constexpr uint32_t SYN_OPTION_BYTES = 8; // window scale and SACK-permitted
    return name.IsData() ? m_full_packet_bytes : name.serial == SYN ? HEADER_BYTES + SYN_OPTION_BYTES : HEADER_BYTES;
}

inline bool
PacketQueue::TakeFront(QueuedPacket& packet)
{
    if (m_packets.empty())
    {
        return false;
    }
    packet = m_packets.front();
    m_packets.pop_front();
    m_bytes -= BytesOf(packet.name);
    return true;
}

template <class OnDrop>
bool
PacketQueue::Take(QueuedPacket& packet, int64_t now_ns, OnDrop&& dropped)
{
    if (auto* codel = std::get_if<CoDelState>(&m_discipline))
    {
        return TakeByCoDel(*codel, packet, now_ns, dropped);
    }
    const bool is_there = TakeFront(packet);
    if (auto* red = std::get_if<RedState>(&m_discipline); red != nullptr && !is_there)
    {
        red->FoundEmpty(now_ns);
    }
    return is_there;
}

/** RFC 8289, 5.5, in the arrangement of ns-3 and Linux. */
template <class OnDrop>
bool
PacketQueue::TakeByCoDel(CoDelState& codel, QueuedPacket& packet, int64_t now_ns, OnDrop& dropped)
{
    bool is_there = TakeFront(packet);
    if (!is_there)
    {
        codel.FoundEmpty();
        return false;
    }
    const bool may_drop = MayDrop(codel, packet, is_there, now_ns);
    if (codel.IsDropping())
    {
        if (!may_drop)
        {
            codel.StopDropping();
        }
        while (codel.IsDropping() && codel.DropIsDue(now_ns))
        {
            codel.CountDrop();
            dropped(packet);
            is_there = TakeFront(packet);
            if (MayDrop(codel, packet, is_there, now_ns))
            {
                codel.ScheduleNextDrop();
            }
            else
            {
                codel.StopDropping();
            }
        }
    }
    else if (may_drop)
    {
        dropped(packet);
        is_there = TakeFront(packet);
        MayDrop(codel, packet, is_there, now_ns);
        codel.StartDropping(now_ns);
    }
    return is_there;
}

} // namespace bbrgym

#endif
