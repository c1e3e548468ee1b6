// SPDX-License-Identifier: GPL-2.0-only
//
// The memory that Linux's sockets count: the limits of buffers, and the truesize of segments (include/linux/skbuff.h on
// a 64-bit machine with cache lines of 64 bytes).
#ifndef BBRGYM_TCP_MEMORY_HPP
#define BBRGYM_TCP_MEMORY_HPP

#include "stack.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace bbrgym
{

inline constexpr uint64_t WMEM_DEFAULT_BYTES = 16'384; ///< tcp_wmem[1]
inline constexpr uint64_t WMEM_MAX_BYTES = 4'194'304;  ///< tcp_wmem[2]
inline constexpr uint64_t RMEM_MAX_BYTES = 6'291'456;  ///< tcp_rmem[2]
inline constexpr uint64_t MIN_BUFFER_BYTES = 4'608;    ///< SOCK_MIN_SNDBUF

inline constexpr uint64_t CACHE_LINE_BYTES = 64;
inline constexpr uint64_t SK_BUFF_BYTES = 256;        ///< struct sk_buff, in whole cache lines
inline constexpr uint64_t SHARED_INFO_BYTES = 320;    ///< struct skb_shared_info
inline constexpr uint64_t MAX_TCP_HEADER_BYTES = 320; ///< room for all headers
inline constexpr uint64_t IP_TCP_HEADER_BYTES = 52;   ///< with timestamps
inline constexpr uint64_t PAD_BYTES = 64;             ///< NET_SKB_PAD, ahead of a received packet

/** setsockopt doubles its argument, for the overhead of the memory. */
constexpr uint64_t
SetSockOptBytes(int64_t size)
{
    return std::max(2 * static_cast<uint64_t>(size), MIN_BUFFER_BYTES);
}

/**
 * Memory of a received segment: packet and skb_shared_info in one piece of a power of two, as kmalloc or half a page
 * has it, and the sk_buff. 2304 bytes for an MSS of 1448, on a network card or a TUN device.
 */
constexpr uint64_t
ReceivedTruesize(uint32_t mss_bytes)
{
    const uint64_t packet_bytes = mss_bytes + IP_TCP_HEADER_BYTES + PAD_BYTES;
    const uint64_t aligned_bytes = (packet_bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
    return std::bit_ceil(aligned_bytes + SHARED_INFO_BYTES) + SK_BUFF_BYTES;
}

/** Memory of a segment as the autotuning of the send buffer reckons it (tcp_sndbuf_expand). */
constexpr uint64_t
SendTruesize(uint32_t mss_bytes)
{
    return std::bit_ceil(mss_bytes + MAX_TCP_HEADER_BYTES + SHARED_INFO_BYTES) + SK_BUFF_BYTES;
}

/** Memory of a buffer at its largest. */
constexpr uint64_t
MaxBufferBytes(int64_t size, uint64_t automatic_bytes)
{
    constexpr uint64_t AMPLE_BYTES = uint64_t{1} << 40; // more than any window
    return size == SIZE_ample ? AMPLE_BYTES : size == SIZE_auto ? automatic_bytes : SetSockOptBytes(size);
}

/** Payload that the send buffer holds at its largest, with an sk_buff for each segment, as in recovery. */
constexpr uint64_t
SendPayloadBytes(const SocketFacts& facts, uint32_t mss_bytes)
{
    const uint64_t segment_bytes = mss_bytes + static_cast<uint64_t>(facts.send_head_bytes);
    return MaxBufferBytes(facts.send_buffer_bytes, WMEM_MAX_BYTES) * mss_bytes / segment_bytes;
}

/** Window that the receive buffer announces at its largest. */
constexpr uint64_t
ReceivePayloadBytes(const SocketFacts& facts, uint32_t mss_bytes)
{
    const bool by_ratio = facts.window_share == window_share_choice::scaling_ratio;
    const uint64_t memory_bytes = MaxBufferBytes(facts.receive_buffer_bytes, RMEM_MAX_BYTES);
    return by_ratio ? memory_bytes * mss_bytes / ReceivedTruesize(mss_bytes) : memory_bytes / 2;
}

} // namespace bbrgym

#endif
