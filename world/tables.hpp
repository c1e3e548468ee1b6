// SPDX-License-Identifier: GPL-2.0-only
//
// The caller's arrays, row-major: what a world reads before an interval and writes after it.
#ifndef BBRGYM_WORLD_TABLES_HPP
#define BBRGYM_WORLD_TABLES_HPP

#include "fields.hpp"
#include "params.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

namespace bbrgym
{

/** The arrays of one world; they must outlive its use of them. */
struct WorldTables
{
    std::span<double> tunables;   ///< [flows, tunables], read before each interval; NaN: the flow does not have it
    std::span<double> flow_stats; ///< [flows, FLOW_STAT], the last interval's
    std::span<double> link_stats; ///< [LINK_STAT], the last interval's
};

/** The arrays of many worlds, with rows for `flow_capacity` flows each; those that a scenario does not use are NaN. */
struct VectorTables
{
    std::size_t flow_capacity = 0;
    std::span<double> tunables;   ///< [worlds, flow_capacity, tunables]
    std::span<double> flow_stats; ///< [worlds, flow_capacity, FLOW_STAT]
    std::span<double> link_stats; ///< [worlds, LINK_STAT]
    std::span<double> now_s;      ///< [worlds]
    std::span<bool> done;         ///< [worlds]

    /** The rows of one world's first `flows` flows. */
    WorldTables Of(std::size_t world, std::size_t flows) const
    {
        const std::size_t width = Tunables().size();
        constexpr std::size_t fields = std::size(FLOW_STAT_FIELDS);
        constexpr std::size_t link_fields = std::size(LINK_STAT_FIELDS);
        return {tunables.subspan(world * flow_capacity * width, flows * width),
                flow_stats.subspan(world * flow_capacity * fields, flows * fields),
                link_stats.subspan(world * link_fields, link_fields)};
    }

    /** Clears the rows of a world and returns those of its flows. std::invalid_argument: there are too many. */
    WorldTables Begin(std::size_t world, std::size_t flows, const std::string& what) const
    {
        if (flows > flow_capacity)
        {
            throw std::invalid_argument(what + " has " + std::to_string(flows) + " flows, expected at most " +
                                        std::to_string(flow_capacity));
        }
        const WorldTables all = Of(world, flow_capacity);
        std::ranges::fill(all.tunables, std::numeric_limits<double>::quiet_NaN());
        std::ranges::fill(all.flow_stats, std::numeric_limits<double>::quiet_NaN());
        return Of(world, flows);
    }

    void WriteTime(std::size_t world, double world_now_s, bool world_done) const
    {
        now_s[world] = world_now_s;
        done[world] = world_done;
    }
};

} // namespace bbrgym

#endif
