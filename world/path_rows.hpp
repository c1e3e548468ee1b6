// SPDX-License-Identifier: GPL-2.0-only
//
// The rows of flows that cross several links, of which each has its own Measurement: that of the link where the flow's
// fair share is the smallest, with the waits and drops of the others added; the throughput is the last link's.
#ifndef BBRGYM_WORLD_PATH_ROWS_HPP
#define BBRGYM_WORLD_PATH_ROWS_HPP

#include "fields.hpp"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace bbrgym
{

/** Row of a flow in the `tables` of the links on its path, in order. */
template <class Row, class Path>
Row
RowOnPath(const std::vector<std::vector<double>>& tables, const Path& path, std::size_t flow)
{
    auto row = ReadRow<Row>(tables[path.front()], flow);
    if (path.size() == 1)
    {
        return row;
    }
    double queue_delay_ms = row.queue_delay_mean_ms;
    double dropped_pkts = row.dropped_pkts;
    double ecn_marked_pkts = row.ecn_marked_pkts;
    for (std::size_t i = 1; i < path.size(); ++i)
    {
        const auto other = ReadRow<Row>(tables[path[i]], flow);
        queue_delay_ms += other.queue_delay_mean_ms;
        dropped_pkts += other.dropped_pkts;
        ecn_marked_pkts += other.ecn_marked_pkts;
        row = other.fair_share_mbps < row.fair_share_mbps ? other : row;
    }
    row.throughput_mbps = ReadRow<Row>(tables[path.back()], flow).throughput_mbps;
    row.queue_delay_mean_ms = queue_delay_ms;
    row.dropped_pkts = dropped_pkts;
    row.ecn_marked_pkts = ecn_marked_pkts;
    if constexpr (requires { row.loss_rate; })
    {
        row.loss_rate = row.sent_pkts > 0 ? dropped_pkts / row.sent_pkts : std::numeric_limits<double>::quiet_NaN();
    }
    return row;
}

/** Writes the rows of all flows; `path_of(flow)` lists its links. */
template <class Row, class PathOf>
void
WriteRowsOnPaths(const std::vector<std::vector<double>>& tables, std::size_t flows, PathOf&& path_of,
                 std::span<double> to)
{
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        WriteRow(RowOnPath<Row>(tables, path_of(flow), flow), to, flow);
    }
}

} // namespace bbrgym

#endif
