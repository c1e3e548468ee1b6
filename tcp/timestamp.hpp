// SPDX-License-Identifier: GPL-2.0-only
//
// TCP's timestamps (RFC 7323): a segment carries the time at which it left, an ACK that of the segment it answers.
// Linux counts them in milliseconds, of which its 32 bits hold 49 days: more than a run lasts.
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

} // namespace bbrgym

#endif
