// SPDX-License-Identifier: GPL-2.0-only
#include "reward.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>

namespace bbrgym
{

namespace
{

constexpr double MOST = 64; // what ratios count at most, and 1 / what they count at least under a logarithm

// ---- of a learner flow --------------------------------------------------------------------------------------

/** Goodput / fair share; 1 where the link carries nothing. */
double
Share(const FlowStats& stats)
{
    return std::min(stats.fair_share_mbps > 0 ? stats.goodput_mbps / stats.fair_share_mbps : 1, MOST);
}

double
ShareLog2(const FlowStats& stats)
{
    return std::log2(std::max(Share(stats), 1 / MOST));
}

/** Mean RTT / base RTT, from 1. */
double
Stretch(const FlowStats& stats, double base_rtt_ms)
{
    return std::max(stats.rtt_mean_ms / base_rtt_ms, 1.0);
}

double
OfSent(double pkts, const FlowStats& stats)
{
    return std::min(pkts / std::max(stats.sent_pkts, 1.0), 1.0);
}

// ---- of an interval -----------------------------------------------------------------------------------------

std::size_t
ActiveCount(const std::vector<FlowStats>& flows)
{
    return static_cast<std::size_t>(
        std::count_if(flows.begin(), flows.end(), [](const FlowStats& stats) { return stats.active > 0; }));
}

/** Over the active learner flows, 0 without one. */
template <typename Value>
double
Mean(const Interval& interval, Value value)
{
    double sum = 0;
    for (std::size_t i = 0; i < interval.learners.size(); ++i)
    {
        if (interval.learners[i].active > 0)
        {
            sum += value(interval.learners[i], interval.base_rtt_ms[i]);
        }
    }
    return sum / std::max(static_cast<double>(ActiveCount(interval.learners)), 1.0);
}

double
Throughput(const Interval& interval, double)
{
    return Mean(interval, [](const FlowStats& stats, double) { return ShareLog2(stats); });
}

double
Delay(const Interval& interval, double)
{
    return 0 - Mean(interval, [](const FlowStats& stats, double base_rtt_ms) {
               return std::log2(std::min(Stretch(stats, base_rtt_ms), MOST));
           });
}

double
Power(const Interval& interval, double)
{
    return Mean(interval, [](const FlowStats& stats, double base_rtt_ms) {
        return Share(stats) / Stretch(stats, base_rtt_ms);
    });
}

double
Goodput(const Interval& interval, double)
{
    return Mean(interval, [](const FlowStats& stats, double) { return Share(stats); });
}

double
AlphaFair(const Interval& interval, double alpha)
{
    if (alpha == 1)
    {
        return Throughput(interval, alpha);
    }
    const double growth = 1 - alpha;
    return Mean(interval, [growth](const FlowStats& stats, double) {
        const double utility = (std::exp2(growth * ShareLog2(stats)) - 1) / (growth * std::numbers::ln2);
        return std::min(std::max(utility, -MOST), MOST);
    });
}

double
Loss(const Interval& interval, double)
{
    return 0 - Mean(interval, [](const FlowStats& stats, double) { return OfSent(stats.dropped_pkts, stats); });
}

double
Retransmission(const Interval& interval, double)
{
    return 0 - Mean(interval, [](const FlowStats& stats, double) { return OfSent(stats.retransmitted_pkts, stats); });
}

/** Jain's index of all active flows, - 1; 0 without a learner flow among them. */
double
Fairness(const Interval& interval, double)
{
    double total = 0;
    double squares = 0;
    for (const FlowStats& stats : interval.flows)
    {
        const double goodput_mbps = stats.active > 0 ? stats.goodput_mbps : 0;
        total += goodput_mbps;
        squares += goodput_mbps * goodput_mbps;
    }
    const bool is_known = ActiveCount(interval.learners) > 0 && squares > 0;
    return is_known ? total * total / (static_cast<double>(ActiveCount(interval.flows)) * squares) - 1 : 0;
}

double
Change(const Interval& interval, double)
{
    double sum = 0;
    for (const float moved : interval.moved)
    {
        sum += static_cast<double>(moved);
    }
    return 0 - sum / static_cast<double>(interval.moved.size()) / 2;
}

using Term = std::function<double(const Interval&, double alpha)>;

const std::map<std::string, Term>&
Terms()
{
    static const std::map<std::string, Term> terms{{"throughput", Throughput},
                                                   {"delay", Delay},
                                                   {"power", Power},
                                                   {"goodput", Goodput},
                                                   {"alpha_fair", AlphaFair},
                                                   {"loss", Loss},
                                                   {"retransmission", Retransmission},
                                                   {"fairness", Fairness},
                                                   {"change", Change}};
    return terms;
}

} // namespace

bool
HasTerm(const std::string& name)
{
    return Terms().contains(name);
}

Averages::Averages(double horizon_s, double interval_s, std::size_t learners)
    : m_keep(std::exp(-interval_s / horizon_s)),
      m_means(learners)
{
}

void
Averages::Replace(std::vector<FlowStats>& learners)
{
    for (std::size_t i = 0; i < learners.size(); ++i)
    {
        FlowStats& stats = learners[i];
        Means& means = m_means[i];
        const double active = stats.active > 0 ? stats.active : 0;
        stats.goodput_mbps = means.goodput.Add(m_keep, stats.goodput_mbps, active);
        stats.fair_share_mbps = means.fair_share.Add(m_keep, stats.fair_share_mbps, active);
        stats.rtt_mean_ms = means.rtt.Add(m_keep, stats.rtt_mean_ms, active > 0 ? stats.rtt_samples : 0);
    }
}

double
Averages::Mean::Add(double keep, double value, double weight)
{
    sum = sum * keep + value * weight;
    total = total * keep + weight;
    return total > 0 ? sum / total : value;
}

Reward
RewardOf(const RewardSpec& spec, const Interval& interval)
{
    Reward reward;
    for (const WeightedTerm& term : spec.terms)
    {
        const double value = Terms().at(term.name)(interval, spec.alpha);
        reward.terms.emplace_back(term.name, value);
        if (term.weight != 0)
        {
            reward.total += term.weight * value;
        }
    }
    return reward;
}

} // namespace bbrgym
