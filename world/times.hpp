// SPDX-License-Identifier: GPL-2.0-only
//
// Simulated time, in nanoseconds.
#ifndef BBRGYM_WORLD_TIMES_HPP
#define BBRGYM_WORLD_TIMES_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace bbrgym
{

/** No deadline: later than every time. */
inline constexpr int64_t NEVER_NS = std::numeric_limits<int64_t>::max();

/** The nanoseconds of an advance, at most those that are left. std::invalid_argument: the duration is not one. */
inline int64_t
StepNs(double duration_s, int64_t left_ns)
{
    if (!(duration_s >= 0))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) + ", expected >= 0 s");
    }
    return std::min<int64_t>(std::llround(std::min(duration_s * 1e9, 9e18)), left_ns);
}

} // namespace bbrgym

#endif
