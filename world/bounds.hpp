// SPDX-License-Identifier: GPL-2.0-only
//
// The table of a scenario's bounds (bounds.def) for C++: bounds::rate_mbps and the others, and all of them in a row.
#ifndef BBRGYM_WORLD_BOUNDS_HPP
#define BBRGYM_WORLD_BOUNDS_HPP

#include <array>
#include <string_view>

namespace bbrgym
{

struct Bound
{
    std::string_view name;
    double low;
    double high;
    std::string_view unit;
};

namespace bounds
{

#define BBRGYM_BOUND(name, low, high, unit) inline constexpr Bound name{#name, low, high, unit};
#include "bounds.def"
#undef BBRGYM_BOUND

#define BBRGYM_BOUND(name, low, high, unit) name,
inline constexpr std::array ALL = {
#include "bounds.def"
};
#undef BBRGYM_BOUND

} // namespace bounds

} // namespace bbrgym

#endif
