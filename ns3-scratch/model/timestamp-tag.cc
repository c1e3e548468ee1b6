// SPDX-License-Identifier: GPL-2.0-only
#include "timestamp-tag.h"

#include "timestamp.hpp"

namespace ns3
{

TypeId
TimestampTag::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::BbrgymTimestampTag").SetParent<Tag>().SetGroupName("Internet").AddConstructor<TimestampTag>();
    return tid;
}

void
TimestampTag::Put(Ptr<Packet> packet, int64_t ms)
{
    TimestampTag tag;
    tag.m_ms = static_cast<uint32_t>(ms);
    packet->ReplacePacketTag(tag);
}

int64_t
TimestampTag::Of(Ptr<const Packet> packet)
{
    TimestampTag tag;
    const bool has_tag = packet->PeekPacketTag(tag);
    return has_tag ? int64_t{tag.m_ms} : bbrgym::NO_TIMESTAMP;
}

TypeId
TimestampTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint32_t
TimestampTag::GetSerializedSize() const
{
    return sizeof(m_ms);
}

void
TimestampTag::Serialize(TagBuffer buffer) const
{
    buffer.WriteU32(m_ms);
}

void
TimestampTag::Deserialize(TagBuffer buffer)
{
    m_ms = buffer.ReadU32();
}

void
TimestampTag::Print(std::ostream& out) const
{
    out << "timestamp=" << m_ms;
}

} // namespace ns3
