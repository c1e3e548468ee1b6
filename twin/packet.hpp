// SPDX-License-Identifier: GPL-2.0-only
//
// Packets in the network. All data segments are full and identified by their serial number.
#ifndef BBRGYM_TWIN_PACKET_HPP
#define BBRGYM_TWIN_PACKET_HPP

#include "ecn.hpp"
#include "packet_log.hpp"
#include "scenario.hpp"

#include <cstddef>
#include <cstdint>

namespace bbrgym
{

/** A packet's flow, serial number and ECN bits in 64 bits: small, because it is copied most. */
struct PacketName
{
    static constexpr int SERIAL_BITS = 44;
    static constexpr int FLOW_BITS = 16;

    uint64_t serial : SERIAL_BITS;
    uint64_t flow : FLOW_BITS;
    uint64_t is_ecn_capable : 1 = false; ///< ECT
    uint64_t is_marked : 1 = false;      ///< CE
    uint64_t has_reduced : 1 = false;    ///< CWR
    uint64_t is_data : 1 = false;

    bool IsData() const { return is_data; }
    EcnBits Ecn() const
    {
        return {.is_capable = is_ecn_capable != 0, .is_marked = is_marked != 0, .has_reduced = has_reduced != 0};
    }
};

/** Reserved serial numbers for the packets that carry no data. */
inline constexpr uint64_t SYN = (uint64_t{1} << PacketName::SERIAL_BITS) - 1;
inline constexpr uint64_t HANDSHAKE_ACK = SYN - 1;

/** In a pipe; `order` is that of its arrival's event. */
struct PacketInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    PacketName name;
};

/** At the bottleneck. */
struct QueuedPacket
{
    int64_t queued_ns;
    PacketName name;

    std::size_t Flow() const { return name.flow; }
    bool IsData() const { return name.IsData(); }
    bool IsEcnCapable() const { return name.is_ecn_capable; }
    bool Mark()
    {
        const bool is_new = !name.is_marked;
        name.is_marked = true;
        return is_new;
    }
    void Describe(PacketRecord& record, uint32_t full) const;
    uint32_t Bytes(uint32_t full) const
    {
        constexpr uint32_t SYN_OPTION_BYTES = 8; // window scale and SACK-permitted
        return name.IsData() ? full : name.serial == SYN ? HEADER_BYTES + SYN_OPTION_BYTES : HEADER_BYTES;
    }
};

/** The flags of a packet log's row. */
inline uint16_t
FlagsOf(const PacketName& name)
{
    return static_cast<uint16_t>((name.serial == SYN ? packet_flag::syn : 0) | (name.is_ecn_capable ? packet_flag::ect : 0) |
                                 (name.is_marked ? packet_flag::ce : 0) | (name.has_reduced ? packet_flag::cwr : 0));
}

inline void
QueuedPacket::Describe(PacketRecord& record, uint32_t full) const
{
    record.offset_bytes = name.IsData() ? uint64_t{name.serial} * (full - HEADER_BYTES) : 0;
    record.flags = FlagsOf(name);
}

/** On its way back to the sender; its SACK blocks wait in a pipe of their own. */
struct AckInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    uint64_t una : 59;
    uint64_t has_echo : 1;    ///< ECE
    uint64_t block_count : 4; ///< SYN_ACK_BLOCKS: a SYN-ACK

    static constexpr uint64_t SYN_ACK_BLOCKS = 15;
};

/** Held at the gate of the ACKs; its SACK blocks are in their flow's pipe already. */
struct HeldAck
{
    std::size_t flow;
    uint64_t una;
    std::size_t block_count;
    bool has_echo;
};

} // namespace bbrgym

#endif
