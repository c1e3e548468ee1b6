// SPDX-License-Identifier: GPL-2.0-only
//
// Packets in the network. All data segments are full and identified by their serial number.
#ifndef BBRGYM_TWIN_PACKET_HPP
#define BBRGYM_TWIN_PACKET_HPP

#include <cstdint>

namespace bbrgym
{

/** A packet's flow and serial number in 64 bits: small, because it is copied most. */
struct PacketName
{
    static constexpr int SERIAL_BITS = 44;

    uint64_t serial : SERIAL_BITS;
    uint64_t flow : 64 - SERIAL_BITS;

    bool IsData() const;
};

/** Reserved serial numbers for the packets that carry no data. */
inline constexpr uint64_t SYN = (uint64_t{1} << PacketName::SERIAL_BITS) - 1;
inline constexpr uint64_t HANDSHAKE_ACK = SYN - 1;

inline bool
PacketName::IsData() const
{
    return serial < HANDSHAKE_ACK;
}

/** In a pipe; `order` is that of its arrival's event. */
struct PacketInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    PacketName name;
};

/** In the bottleneck's queue. */
struct QueuedPacket
{
    int64_t queued_ns;
    PacketName name;
};

/** On its way back to the sender; its SACK blocks wait in a pipe of their own. */
struct AckInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    uint64_t una : 60;
    uint64_t block_count : 4; ///< SYN_ACK_BLOCKS: a SYN-ACK

    static constexpr uint64_t SYN_ACK_BLOCKS = 15;
};

} // namespace bbrgym

#endif
