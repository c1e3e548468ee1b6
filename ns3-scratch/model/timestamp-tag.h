// SPDX-License-Identifier: GPL-2.0-only
//
// The timestamp of a packet (RFC 7323), beside it: the packet keeps its size.
#ifndef BBRGYM_TIMESTAMP_TAG_H
#define BBRGYM_TIMESTAMP_TAG_H

#include "ns3/packet.h"
#include "ns3/tag.h"

#include <cstdint>

namespace ns3
{

class TimestampTag : public Tag
{
  public:
    static TypeId GetTypeId();

    /** Gives a packet the timestamp `ms`. */
    static void Put(Ptr<Packet> packet, int64_t ms);
    /** Returns a packet's timestamp in ms; bbrgym::NO_TIMESTAMP: it has none. */
    static int64_t Of(Ptr<const Packet> packet);

    TypeId GetInstanceTypeId() const override;
    uint32_t GetSerializedSize() const override;
    void Serialize(TagBuffer buffer) const override;
    void Deserialize(TagBuffer buffer) override;
    void Print(std::ostream& out) const override;

  private:
    uint32_t m_ms = 0;
};

} // namespace ns3

#endif
