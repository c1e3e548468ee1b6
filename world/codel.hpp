// SPDX-License-Identifier: GPL-2.0-only
//
// Controlled delay (RFC 8289, 5.5), in the arrangement of ns-3 and Linux.
#ifndef BBRGYM_WORLD_CODEL_HPP
#define BBRGYM_WORLD_CODEL_HPP

#include "packet_events.hpp"
#include "scenario.hpp"

#include <cstdint>

namespace bbrgym
{

/** State of CoDel. Time is in units of 1,024 ns, modulo 2^32, as in Linux. */
class CoDelState
{
  public:
    CoDelState() = default;
    /** With fewer than `min_bytes` behind it no packet is dropped. */
    CoDelState(const CoDel& codel, uint64_t min_bytes);

    /** Whether a packet that waited `waited_ns` may be dropped now, with `queued_bytes` behind it. */
    bool MayDrop(int64_t waited_ns, uint64_t queued_bytes, int64_t now_ns);
    /** The queue was empty at a dequeue. */
    void FoundEmpty() { m_is_dropping = false; }
    void NothingBehind() { m_first_above = 0; }

    bool IsDropping() const { return m_is_dropping; }
    void StopDropping() { m_is_dropping = false; }
    bool DropIsDue(int64_t now_ns) const;
    void CountDrop();
    /** Counts drops that a full queue made, so that the next ones come sooner. */
    void CountForcedDrops(uint32_t drops) { m_count += drops; }
    void ScheduleNextDrop() { m_drop_next = After(m_drop_next); }
    void StartDropping(int64_t now_ns);

  private:
    static uint32_t Ticks(int64_t ns) { return static_cast<uint32_t>(static_cast<uint64_t>(ns) >> 10); }
    uint32_t After(uint32_t ticks) const;

    uint32_t m_target = 0;
    uint32_t m_interval = 0;
    uint64_t m_min_bytes = 0;
    uint32_t m_first_above = 0; ///< when the delay will have been above target for an interval; 0: it is below
    uint32_t m_drop_next = 0;
    uint32_t m_count = 0;
    uint32_t m_last_count = 0;
    uint16_t m_inverse_sqrt = UINT16_MAX; ///< 1 / sqrt(count), 0.16 bits
    bool m_is_dropping = false;
};

/**
 * Moves the next packet that CoDel lets through from `source` to `packet`, false if there is none. A source has
 * PopFront(packet) and Bytes(). `marks`: an ECN-capable packet is marked where another is dropped.
 */
template <class Packet, class Source, class Report>
bool
DequeueByCoDel(CoDelState& codel, Source& source, bool marks, Packet& packet, int64_t now_ns, Report& report)
{
    const auto may_drop = [&](bool is_there) {
        if (!is_there)
        {
            codel.NothingBehind();
            return false;
        }
        return codel.MayDrop(now_ns - packet.queued_ns, source.Bytes(), now_ns);
    };
    bool is_there = source.PopFront(packet);
    if (!is_there)
    {
        codel.FoundEmpty();
        return false;
    }
    const bool is_too_late = may_drop(is_there);
    if (codel.IsDropping())
    {
        if (!is_too_late)
        {
            codel.StopDropping();
        }
        while (codel.IsDropping() && codel.DropIsDue(now_ns))
        {
            codel.CountDrop();
            if (marks && MarkPacket(packet, report))
            {
                codel.ScheduleNextDrop();
                break;
            }
            report.Dropped(packet);
            is_there = source.PopFront(packet);
            if (may_drop(is_there))
            {
                codel.ScheduleNextDrop();
            }
            else
            {
                codel.StopDropping();
            }
        }
    }
    else if (is_too_late)
    {
        if (!marks || !MarkPacket(packet, report))
        {
            report.Dropped(packet);
            is_there = source.PopFront(packet);
            may_drop(is_there);
        }
        codel.StartDropping(now_ns);
    }
    return is_there;
}

} // namespace bbrgym

#endif
