// SPDX-License-Identifier: GPL-2.0-only
#include "timestamp-tag.h"

#include "timestamp.hpp"

#include "ns3/simulator.h"

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
    tag.m_field = bbrgym::PackTimestamp(ms);
    packet->ReplacePacketTag(tag);
}

int64_t
TimestampTag::Of(Ptr<const Packet> packet)
{
    TimestampTag tag;
    const bool has_tag = packet->PeekPacketTag(tag);
    return has_tag ? bbrgym::UnpackTimestampMs(tag.m_field, Simulator::Now().GetNanoSeconds()) : bbrgym::NO_TIMESTAMP;
}

TypeId
TimestampTag::GetInstanceTypeId() const
{
    return GetTypeId();
}

uint32_t
TimestampTag::GetSerializedSize() const
{
    return sizeof(m_field);
}

void
TimestampTag::Serialize(TagBuffer buffer) const
{
    buffer.WriteU16(m_field);
}

void
TimestampTag::Deserialize(TagBuffer buffer)
{
    m_field = buffer.ReadU16();
}

void
TimestampTag::Print(std::ostream& out) const
{
    out << "timestamp=" << m_field;
}

} // namespace ns3
