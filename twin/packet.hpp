// SPDX-License-Identifier: GPL-2.0-only
//
// Packets on their way. Data segments are all full ones and known by their serial number.
#ifndef BBRGYM_TWIN_PACKET_HPP
#define BBRGYM_TWIN_PACKET_HPP

#include "scoreboard.hpp"

#include <cstdint>
#include <limits>

namespace bbrgym
{

/** Serial "numbers" of the packets that carry no data. */
inline constexpr uint64_t SYN = std::numeric_limits<uint64_t>::max();
inline constexpr uint64_t HANDSHAKE_ACK = SYN - 1;

inline constexpr bool
IsData(uint64_t serial)
{
    return serial < HANDSHAKE_ACK;
}

/** In a pipe; `order` is that of its arrival's event. */
struct PacketInPipe
{
    int64_t arrives_ns;
    uint64_t order;
    uint64_t serial;
    uint32_t flow;
};

/** In the bottleneck's queue. */
struct QueuedPacket
{
    int64_t queued_ns;
    uint64_t serial;
    uint32_t flow;
    uint32_t ip_bytes;
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
