// SPDX-License-Identifier: GPL-2.0-only
#include "score.h"

#include "fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace bbrgym
{

namespace
{

constexpr double DELTA = 0.5; // weight of the RTT

double
FlowScore(const Flow& flow, const FlowStats& stats, double least_mbps)
{
    const double base_rtt_ms = static_cast<double>(flow.rtt_ns) / 1e6;
    const double rtt_ms = stats.rtt_mean_ms > 0 ? stats.rtt_mean_ms : base_rtt_ms;
    return std::log2(std::max(stats.goodput_mbps, least_mbps) / stats.fair_share_mbps) -
           DELTA * std::log2(rtt_ms / base_rtt_ms);
}

} // namespace

double
IntervalScore(const Scenario& scenario, std::span<const double> flow_stats, double interval_s)
{
    struct Sum
    {
        double score = 0;
        double flows = 0;
    };

    std::array<Sum, 3> by_role; // in the order in which they count
    const double least_mbps = scenario.mss_bytes * 8 / 1e6 / interval_s;
    for (std::size_t flow = 0; flow < scenario.flows.size(); ++flow)
    {
        const FlowStats stats = ReadRow<FlowStats>(flow_stats, flow);
        if (stats.active > 0 && stats.fair_share_mbps > 0)
        {
            Sum& sum = by_role[static_cast<std::size_t>(scenario.flows[flow].role)];
            sum.score += FlowScore(scenario.flows[flow], stats, least_mbps);
            ++sum.flows;
        }
    }
    Sum counted;
    for (const Sum& sum : by_role)
    {
        counted = {counted.score + sum.score, counted.flows + sum.flows};
        if (counted.flows > 0)
        {
            return counted.score / counted.flows;
        }
    }
    return std::numeric_limits<double>::quiet_NaN();
}

} // namespace bbrgym
