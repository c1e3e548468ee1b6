// SPDX-License-Identifier: GPL-2.0-only
//
// TCP's timestamps (RFC 7323): a segment carries the time at which it left, an ACK that of the segment it answers. Linux
// counts them in milliseconds. In packets they are 16 bits, from which the time is told while they are younger than 65 s.
#ifndef BBRGYM_TCP_TIMESTAMP_HPP
#define BBRGYM_TCP_TIMESTAMP_HPP

#include <cstdint>

namespace bbrgym
{

inline constexpr int64_t NO_TIMESTAMP = -1; ///< the stack has none, or none was seen yet

inline int64_t
TimestampMs(int64_t now_ns)
{
    return now_ns / 1'000'000;
}

/** A packet's field for the time `ms`. */
inline uint16_t
PackTimestamp(int64_t ms)
{
    return static_cast<uint16_t>(ms);
}

/** The time in a packet's field, which was not later than `now_ns`. */
inline int64_t
UnpackTimestampMs(uint16_t field, int64_t now_ns)
{
    const int64_t now_ms = TimestampMs(now_ns);
    return now_ms - static_cast<uint16_t>(now_ms - field);
}

} // namespace bbrgym

#endif
