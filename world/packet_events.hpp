// SPDX-License-Identifier: GPL-2.0-only
//
// What the bottleneck knows of a packet and what it reports of one. Each world has a packet of its own, with
//
//   int64_t queued_ns;                        when it reached the queue
//   std::size_t Flow() const;                 index of its flow
//   uint32_t Bytes(uint32_t full) const;      IP bytes; `full`: of a full data packet
//   bool IsData() const;                      it has payload
//   uint32_t Skb() const;                     number of its sk_buff, modulo SKB_NUMBERS; that itself: it is alone
//   bool IsEcnCapable() const;                ECT or CE in its IP header (RFC 3168)
//   bool Mark();                              sets CE; false if it was set
//   void Describe(PacketRecord&, full) const; its offset and flags, for the packet log
//
// and a report has Dropped(packet) and Marked(packet).
#ifndef BBRGYM_WORLD_PACKET_EVENTS_HPP
#define BBRGYM_WORLD_PACKET_EVENTS_HPP

#include <cstdint>

namespace bbrgym
{

/** Neighbours in a queue have the same number by chance only where just so many sk_buffs of the flow were dropped. */
inline constexpr uint32_t SKB_NUMBERS = 16;

/** Marks a packet as congested; false if it is not ECN-capable. */
template <class Packet, class Report>
bool
MarkPacket(Packet& packet, Report& report)
{
    if (!packet.IsEcnCapable())
    {
        return false;
    }
    if (packet.Mark())
    {
        report.Marked(packet);
    }
    return true;
}

} // namespace bbrgym

#endif
