// SPDX-License-Identifier: GPL-2.0-only
#include "times.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace bbrgym
{

int64_t
StepNs(double duration_s, int64_t left_ns)
{
    if (!(duration_s >= 0))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) + ", expected >= 0 s");
    }
    return std::min<int64_t>(std::llround(std::min(duration_s * 1e9, 9e18)), left_ns);
}

} // namespace bbrgym
