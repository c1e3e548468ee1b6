// SPDX-License-Identifier: GPL-2.0-only
//
// Simulated time, in nanoseconds.
#ifndef BBRGYM_WORLD_TIMES_HPP
#define BBRGYM_WORLD_TIMES_HPP

#include <cstdint>
#include <limits>

namespace bbrgym
{

/** No deadline: later than every time. */
inline constexpr int64_t NEVER_NS = std::numeric_limits<int64_t>::max();

/** The nanoseconds of an advance, at most those that are left. std::invalid_argument: the duration is not one. */
int64_t StepNs(double duration_s, int64_t left_ns);

} // namespace bbrgym

#endif
