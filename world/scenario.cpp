// SPDX-License-Identifier: GPL-2.0-only
#include "scenario.hpp"

#include "random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bbrgym
{

namespace
{

constexpr double LEAST_BUFFER_BYTES = 64e6;
constexpr double MAX_BUFFER_BYTES = 1e9;      // what TCP's window scale can announce
constexpr double WINDOW_UNIT_BYTES = 1 << 14; // of the largest scale: every scale can tell a multiple exactly

/** The longest time that jitter and the gate of the ACKs add to a round trip. */
double
LongestHoldNs(const Link& link)
{
    double hold_ns = link.jitter ? static_cast<double>(link.jitter->delay_ns) : 0;
    if (const auto* slots = std::get_if<AckSlots>(&link.acks))
    {
        hold_ns += static_cast<double>(slots->every_ns);
    }
    else if (const auto* bursts = std::get_if<AckBursts>(&link.acks))
    {
        hold_ns += static_cast<double>(bursts->timeout_ns);
    }
    return hold_ns;
}

/** The value at a random place of weights. */
double
ChosenBy(const std::vector<double>& weights, const std::vector<double>& values, Random& random)
{
    double left = random.Uniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t index = 0;
    while (index + 1 < weights.size() && left >= weights[index])
    {
        left -= weights[index];
        ++index;
    }
    return values[index];
}

void
DrawTransfer(Flow& flow, uint32_t mss_bytes, uint64_t run_seed)
{
    const Transfer& transfer = *flow.transfer;
    Random random(run_seed, "flow." + flow.name + ".app");
    flow.start_ns =
        transfer.earliest_ns + static_cast<int64_t>(random.Uniform() * static_cast<double>(transfer.within_ns));
    double bytes = ChosenBy(transfer.weights, transfer.size_bytes, random);
    if (transfer.exponential)
    {
        bytes *= random.Exponential();
    }
    flow.app = Bulk{std::max<uint64_t>(static_cast<uint64_t>(std::ceil(bytes / mss_bytes)), 1)};
}

} // namespace

std::shared_ptr<const Scenario>
Drawn(std::shared_ptr<const Scenario> scenario, uint64_t run_seed)
{
    const auto is_drawn = [](const Flow& flow) { return flow.transfer.has_value(); };
    if (!std::ranges::any_of(scenario->flows, is_drawn))
    {
        return scenario;
    }
    auto drawn = std::make_shared<Scenario>(*scenario);
    for (Flow& flow : drawn->flows)
    {
        if (is_drawn(flow))
        {
            DrawTransfer(flow, drawn->mss_bytes, run_seed);
        }
    }
    return drawn;
}

PathDelays
PathDelaysOf(const Flow& flow, const Scenario& scenario)
{
    const auto delay_of = [&scenario](const std::vector<uint32_t>& links) {
        int64_t delay_ns = 0;
        for (const uint32_t index : links)
        {
            delay_ns += scenario.LinkAt(index).delay_ns;
        }
        return delay_ns;
    };
    const int64_t there_ns = delay_of(flow.there);
    const int64_t access_ns = std::max<int64_t>(flow.rtt_ns / 2 - there_ns, 0);
    return {access_ns, flow.rtt_ns - there_ns - access_ns - delay_of(flow.back)};
}

double
MeanRateBps(const Link& link)
{
    return link.trace ? link.trace->MeanRateBps() : link.rate_bps;
}

double
UsefulWindowBytes(const Scenario& scenario)
{
    double rtt_ns = 0;
    for (const Flow& flow : scenario.flows)
    {
        rtt_ns = std::max(rtt_ns, static_cast<double>(flow.rtt_ns));
    }
    const double packet_bytes = scenario.mss_bytes + HEADER_BYTES;
    const bool is_network = !scenario.further_links.empty();
    double fastest_bps = 0;
    double largest_queue_bytes = 0;
    double extra_ns = 0;
    for (std::size_t index = 0; index <= scenario.further_links.size(); ++index)
    {
        const Link& link = scenario.LinkAt(index);
        double rate_bps = MeanRateBps(link);
        double delay_ns = 0;
        for (const LinkChange& change : link.changes)
        {
            rate_bps = std::max(rate_bps, change.rate_bps.value_or(0));
            delay_ns = std::max(delay_ns, static_cast<double>(change.delay_ns.value_or(0)));
        }
        delay_ns += link.delay_trace ? static_cast<double>(std::ranges::max(link.delay_trace->delays_ns)) : 0;
        const double queue_bytes = link.queue.size_bytes ? static_cast<double>(*link.queue.size_bytes)
                                                         : static_cast<double>(*link.queue.size_packets) * packet_bytes;
        fastest_bps = std::max(fastest_bps, rate_bps);
        largest_queue_bytes = std::max(largest_queue_bytes, queue_bytes);
        extra_ns += delay_ns + LongestHoldNs(link) + (is_network ? queue_bytes * 8e9 / MeanRateBps(link) : 0);
    }
    return fastest_bps * (rtt_ns + extra_ns) / 8e9 + largest_queue_bytes;
}

uint32_t
BufferBytes(const Scenario& scenario)
{
    const double bytes = std::clamp<double>(4 * UsefulWindowBytes(scenario), LEAST_BUFFER_BYTES, MAX_BUFFER_BYTES);
    return static_cast<uint32_t>(std::ceil(bytes / WINDOW_UNIT_BYTES) * WINDOW_UNIT_BYTES);
}

} // namespace bbrgym
