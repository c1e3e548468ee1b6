// SPDX-License-Identifier: GPL-2.0-only
//
// The rows of flows that cross several links, of which each has its own Measurement: that of the link where the flow's
// fair share is the smallest, with the waits and drops of the others added; the throughput is the last link's, the
// share the smallest.
#ifndef BBRGYM_WORLD_PATH_ROWS_HPP
#define BBRGYM_WORLD_PATH_ROWS_HPP

#include "fair_shares.hpp"
#include "fields.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
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
    [[maybe_unused]] double share = std::numeric_limits<double>::quiet_NaN();
    if constexpr (requires { row.share; })
    {
        share = row.share;
    }
    for (std::size_t i = 1; i < path.size(); ++i)
    {
        const auto other = ReadRow<Row>(tables[path[i]], flow);
        queue_delay_ms += other.queue_delay_mean_ms;
        dropped_pkts += other.dropped_pkts;
        ecn_marked_pkts += other.ecn_marked_pkts;
        if constexpr (requires { row.share; })
        {
            share = std::fmin(share, other.share);
        }
        row = other.fair_share_mbps < row.fair_share_mbps ? other : row;
    }
    row.throughput_mbps = ReadRow<Row>(tables[path.back()], flow).throughput_mbps;
    row.queue_delay_mean_ms = queue_delay_ms;
    row.dropped_pkts = dropped_pkts;
    row.ecn_marked_pkts = ecn_marked_pkts;
    if constexpr (requires { row.loss_rate; })
    {
        row.share = share;
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

/** Writes the summaries of all flows, and Jain's index of those with a measured window, on any link, to each link's. */
template <class PathOf>
void
WriteSummariesOnPaths(const std::vector<std::vector<double>>& tables, std::size_t flows, PathOf&& path_of,
                      std::span<double> flow_table, std::span<double> link_rows)
{
    WriteRowsOnPaths<FlowSummary>(tables, flows, path_of, flow_table);
    double sum = 0;
    double sum_of_squares = 0;
    double count = 0;
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        const double goodput_mbps = ReadRow<FlowSummary>(flow_table, flow).goodput_mbps;
        if (!std::isnan(goodput_mbps))
        {
            sum += goodput_mbps;
            sum_of_squares += goodput_mbps * goodput_mbps;
            ++count;
        }
    }
    for (std::size_t link = 0; link < link_rows.size() / std::size(LINK_SUMMARY_FIELDS); ++link)
    {
        auto row = ReadRow<LinkSummary>(link_rows, link);
        row.jain = sum_of_squares > 0 ? sum * sum / (count * sum_of_squares) : std::numeric_limits<double>::quiet_NaN();
        WriteRow(row, link_rows, link);
    }
}

/** The rows of all links of a scenario, and of its flows from these. */
class NetworkRows
{
  public:
    void Reset(const Scenario& scenario)
    {
        m_flows.resize(scenario.Links());
        for (std::vector<double>& rows : m_flows)
        {
            rows.resize(scenario.flows.size() * std::size(FLOW_STAT_FIELDS));
        }
        m_links.resize(scenario.Links() * std::size(LINK_STAT_FIELDS));
    }

    /** Rows of the flows at a link in the last interval, [flows, FLOW_STAT]. */
    const std::vector<double>& FlowsAt(std::size_t link) const { return m_flows[link]; }
    /** Rows of the last interval, [links, LINK_STAT]. */
    const std::vector<double>& Links() const { return m_links; }

    /** Takes the interval; `take(link, flow_rows, link_row)` does so at a link. */
    template <class Take>
    void TakeInterval(const Scenario& scenario, FairShares& fair_shares, Take&& take, std::span<double> flow_stats,
                      std::span<double> link_stats)
    {
        constexpr std::size_t width = std::size(LINK_STAT_FIELDS);
        for (std::size_t link = 0; link < m_flows.size(); ++link)
        {
            take(link, m_flows[link], std::span(m_links).subspan(link * width, width));
        }
        std::ranges::copy_n(m_links.begin(), width, link_stats.begin());
        WriteRowsOnPaths<FlowStats>(
            m_flows, scenario.flows.size(), [&](std::size_t flow) -> const auto& { return scenario.flows[flow].there; },
            flow_stats);
        if (!fair_shares.IsOn())
        {
            return;
        }
        const std::vector<double>& shares_mbps = fair_shares.Of(
            [&](std::size_t link) { return ReadRow<LinkStats>(m_links, link).rate_mbps * fair_shares.PayloadRatio(); },
            [&](std::size_t flow) { return ReadRow<FlowStats>(flow_stats, flow).active > 0; });
        for (std::size_t flow = 0; flow < shares_mbps.size(); ++flow)
        {
            auto row = ReadRow<FlowStats>(flow_stats, flow);
            row.fair_share_mbps = shares_mbps[flow];
            WriteRow(row, flow_stats, flow);
        }
    }

  private:
    std::vector<std::vector<double>> m_flows; ///< at each link
    std::vector<double> m_links;
};

/**
 * Fills the flows' summary and those of as many links as there is room for; `summarise(link, flow_rows, link_row)` does
 * so at a link.
 */
template <class Summarise>
void
SummariseNetwork(const Scenario& scenario, Summarise&& summarise, std::span<double> flow_table,
                 std::span<double> link_rows)
{
    constexpr std::size_t width = std::size(LINK_SUMMARY_FIELDS);
    std::vector<std::vector<double>> rows(scenario.Links(), std::vector<double>(flow_table.size()));
    std::vector<double> unseen(width);
    for (std::size_t link = 0; link < rows.size(); ++link)
    {
        const bool is_seen = (link + 1) * width <= link_rows.size();
        summarise(link, rows[link], is_seen ? link_rows.subspan(link * width, width) : std::span<double>(unseen));
    }
    WriteSummariesOnPaths(
        rows, scenario.flows.size(), [&](std::size_t flow) -> const auto& { return scenario.flows[flow].there; },
        flow_table, link_rows);
}

/** What a run shows of its links, [links, LINK_STAT + LINK_SUMMARY]. */
template <class Run>
std::vector<double>
LinkRowsOf(const Run& run, const NetworkRows& interval)
{
    const Scenario& scenario = run.GetScenario();
    if (interval.Links().size() != scenario.Links() * std::size(LINK_STAT_FIELDS))
    {
        throw std::logic_error("the scenario has one link, whose rows the tables hold");
    }
    std::vector<double> flows(scenario.flows.size() * std::size(FLOW_SUMMARY_FIELDS));
    std::vector<double> summaries(scenario.Links() * std::size(LINK_SUMMARY_FIELDS));
    run.Summarise(flows, summaries);
    std::vector<double> rows;
    for (std::size_t link = 0; link < scenario.Links(); ++link)
    {
        const auto add = [&](const std::vector<double>& table, std::size_t width) {
            const auto row = std::span(table).subspan(link * width, width);
            rows.insert(rows.end(), row.begin(), row.end());
        };
        add(interval.Links(), std::size(LINK_STAT_FIELDS));
        add(summaries, std::size(LINK_SUMMARY_FIELDS));
    }
    return rows;
}

} // namespace bbrgym

#endif
