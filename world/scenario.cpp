// SPDX-License-Identifier: GPL-2.0-only
#include "scenario.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr double MIN_BUFFER_BYTES = 64e6;
constexpr double MAX_BUFFER_BYTES = 1e9; // what TCP's window scale can announce

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

} // namespace

PathDelays
PathDelaysOf(const Flow& flow, const Link& link)
{
    const int64_t access_ns = std::max<int64_t>(flow.rtt_ns / 2 - link.delay_ns, 0);
    return {access_ns, flow.rtt_ns - link.delay_ns - access_ns};
}

double
MeanRateBps(const Link& link)
{
    return link.trace ? link.trace->MeanRateBps() : link.rate_bps;
}

double
UsefulWindowBytes(const Scenario& scenario)
{
    double rate_bps = MeanRateBps(scenario.link);
    double extra_ns = 0;
    for (const LinkChange& change : scenario.link.changes)
    {
        rate_bps = std::max(rate_bps, change.rate_bps.value_or(0));
        extra_ns = std::max(extra_ns, static_cast<double>(change.delay_ns.value_or(0)));
    }
    extra_ns += LongestHoldNs(scenario.link);
    double rtt_ns = 0;
    for (const Flow& flow : scenario.flows)
    {
        rtt_ns = std::max(rtt_ns, static_cast<double>(flow.rtt_ns));
    }
    const Queue& queue = scenario.link.queue;
    const double packet_bytes = scenario.mss_bytes + HEADER_BYTES;
    const double queue_bytes = queue.size_bytes ? static_cast<double>(*queue.size_bytes)
                                                : static_cast<double>(*queue.size_packets) * packet_bytes;
    return rate_bps * (rtt_ns + extra_ns) / 8e9 + queue_bytes;
}

uint32_t
BufferBytes(const Scenario& scenario)
{
    return static_cast<uint32_t>(std::clamp<double>(4 * UsefulWindowBytes(scenario), MIN_BUFFER_BYTES, MAX_BUFFER_BYTES));
}

} // namespace bbrgym
