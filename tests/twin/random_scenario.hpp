// SPDX-License-Identifier: GPL-2.0-only
//
// Random valid scenarios: everything that a scenario can hold, and random changes of tunables. The same seed
// gives the same scenario.
#ifndef BBRGYM_TESTS_RANDOM_SCENARIO_HPP
#define BBRGYM_TESTS_RANDOM_SCENARIO_HPP

#include "params.hpp"
#include "random.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace bbrgym
{

/** Draws values for scenarios. */
class Draw
{
  public:
    Draw(uint64_t seed, const std::string& stream)
        : m_random(seed, stream)
    {
    }

    bool Chance(double probability) { return m_random.Chance(probability); }
    double Between(double low, double high) { return low + (high - low) * m_random.Uniform(); }
    /** Spread evenly over magnitudes. */
    double Log(double low, double high) { return low * std::pow(high / low, m_random.Uniform()); }
    uint64_t Below(uint64_t n) { return static_cast<uint64_t>(m_random.Uniform() * static_cast<double>(n)); }
    int64_t LogNs(double low_s, double high_s) { return std::llround(Log(low_s, high_s) * 1e9); }
    uint64_t LogCount(double low, double high) { return static_cast<uint64_t>(std::llround(Log(low, high))); }

    template <class T, std::size_t N>
    T Of(const T (&values)[N])
    {
        return values[Below(N)];
    }

  private:
    Random m_random;
};

/** Any value that the tunable may have, the ends included. */
inline double
DrawTunable(Draw& draw, const TunableInfo& tunable)
{
    if (draw.Chance(0.1))
    {
        return draw.Chance(0.5) ? tunable.low : tunable.high;
    }
    const double value = draw.Between(tunable.low, tunable.high);
    return tunable.kind == TunableKind::ratio ? value : std::round(value);
}

/** Writes new values into a caller's table of tunables, where the flows have them. */
inline void
ChangeTunables(Draw& draw, std::span<double> table)
{
    const std::size_t width = Tunables().size();
    for (std::size_t i = 0; i < table.size(); ++i)
    {
        if (!std::isnan(table[i]) && draw.Chance(0.2))
        {
            table[i] = DrawTunable(draw, Tunables()[i % width]);
        }
    }
}

inline Queue
DrawQueue(Draw& draw, double bdp_bytes, uint64_t packet_bytes)
{
    Queue queue;
    const double packets = std::max(draw.Chance(0.2) ? draw.Log(1, 10) : draw.Log(0.05, 20) * bdp_bytes / packet_bytes, 1.0);
    uint64_t bytes = static_cast<uint64_t>(packets) * packet_bytes;
    if (draw.Chance(0.5))
    {
        queue.size_packets = bytes / packet_bytes;
    }
    else
    {
        bytes += draw.Below(packet_bytes);
        queue.size_bytes = bytes;
    }
    if (draw.Chance(0.2))
    {
        Red red;
        red.max_bytes = draw.LogCount(2, static_cast<double>(bytes));
        red.min_bytes = 1 + draw.Below(red.max_bytes - 1);
        red.max_probability = draw.Log(1e-3, 1);
        queue.discipline = red;
    }
    else if (draw.Chance(0.4))
    {
        CoDel codel;
        codel.interval_ns = draw.LogNs(1e-3, 1);
        codel.target_ns = std::max<int64_t>(std::llround(static_cast<double>(codel.interval_ns) * draw.Log(1e-3, 0.99)), 1);
        queue.discipline = codel;
        if (draw.Chance(0.5))
        {
            queue.discipline = FqCoDel{codel, draw.LogCount(64, 20'000)};
        }
    }
    queue.ecn = !std::holds_alternative<DropTail>(queue.discipline) && draw.Chance(0.5);
    if (draw.Chance(0.1))
    {
        queue.ecn_threshold_bytes = draw.LogCount(1, static_cast<double>(bytes));
    }
    else if (draw.Chance(0.1))
    {
        queue.ecn_threshold_packets = draw.LogCount(1, std::max(packets, 2.0));
    }
    else if (draw.Chance(0.1))
    {
        queue.ecn_threshold_ns = draw.LogNs(1e-5, 0.1);
    }
    return queue;
}

/** What a link may have beside rate, delay, queue and loss. */
inline void
DrawFeatures(Draw& draw, Link& link, double rate_bps, uint64_t packet_bytes)
{
    if (draw.Chance(0.15))
    {
        link.policer = Policer{std::max(rate_bps * draw.Log(0.1, 3), 1e3), draw.LogCount(packet_bytes, 1e6)};
    }
    if (draw.Chance(0.2))
    {
        link.jitter = Jitter{draw.Chance(0.1) ? 1 : draw.Log(1e-3, 1), draw.LogNs(1e-6, 0.3), draw.Chance(0.6)};
    }
    if (draw.Chance(0.15))
    {
        link.acks = AckSlots{draw.LogNs(1e-6, 0.3)};
    }
    else if (draw.Chance(0.15))
    {
        link.acks = AckBursts{draw.LogCount(1, 100), draw.LogNs(1e-6, 0.3)};
    }
}

inline Loss
DrawLoss(Draw& draw)
{
    if (draw.Chance(0.3))
    {
        return Bernoulli{draw.Log(1e-4, 0.5)};
    }
    if (draw.Chance(0.3))
    {
        GilbertElliott bursts{draw.Log(1e-4, 1), draw.Log(1e-2, 1), draw.Chance(0.5) ? 0 : draw.Log(1e-4, 0.1), draw.Between(0, 1)};
        bursts.clock = draw.Chance(0.5) ? GilbertElliott::Clock::TIME : GilbertElliott::Clock::PACKET;
        return bursts;
    }
    return Bernoulli{0};
}

/** Opportunities of about `rate_bps`. */
inline Trace
DrawTrace(Draw& draw, double rate_bps, uint64_t packet_bytes)
{
    Trace trace;
    trace.opportunity_bytes = draw.Chance(0.5) ? packet_bytes : draw.LogCount(packet_bytes / 8.0, packet_bytes * 8.0);
    trace.period_ns = draw.LogNs(1e-3, 5);
    const double times = rate_bps / 8e9 * static_cast<double>(trace.period_ns) / static_cast<double>(trace.opportunity_bytes);
    const auto count = static_cast<std::size_t>(std::clamp(times, 1.0, 500.0));
    for (std::size_t i = 0; i < count; ++i)
    {
        const bool again = !trace.times_ns.empty() && draw.Chance(0.2);
        trace.times_ns.push_back(again ? trace.times_ns.back()
                                       : static_cast<int64_t>(draw.Between(0, static_cast<double>(trace.period_ns))));
    }
    // Too few to reach the rate, or at least one though the rate is less: then the period fits.
    const double bytes = static_cast<double>(count * trace.opportunity_bytes);
    const auto period_ns = std::max<int64_t>(std::llround(bytes * 8e9 / rate_bps), 1'000);
    for (int64_t& time_ns : trace.times_ns)
    {
        time_ns = static_cast<int64_t>(static_cast<double>(time_ns) / static_cast<double>(trace.period_ns) *
                                       static_cast<double>(period_ns));
        time_ns = std::min(time_ns, period_ns);
    }
    trace.period_ns = period_ns;
    std::ranges::sort(trace.times_ns);
    return trace;
}

inline App
DrawApp(Draw& draw, double rate_bps, double duration_s, double max_writes, uint32_t mss_bytes)
{
    if (draw.Chance(0.6))
    {
        return Bulk{draw.Chance(0.2) ? draw.LogCount(1, max_writes) : 0};
    }
    const double highest_bps = std::max(max_writes * mss_bytes * 8 / duration_s, 1e3);
    const double app_bps = std::clamp(rate_bps * draw.Log(0.01, 3), 1e3, highest_bps);
    if (draw.Chance(0.4))
    {
        return Cbr{app_bps};
    }
    const double shortest_s = std::max(1e-3, duration_s / 1000);
    return OnOff{app_bps, draw.LogNs(shortest_s, duration_s + 2e-3), draw.LogNs(shortest_s, duration_s + 2e-3), draw.Chance(0.5)};
}

inline int64_t
DrawBuffer(Draw& draw)
{
    const int64_t names[] = {SIZE_ample, SIZE_ample, SIZE_auto};
    return draw.Chance(0.7) ? draw.Of(names) : static_cast<int64_t>(draw.LogCount(1, 1e7));
}

/** Any preset, often with buffers that are full. */
inline Stack
DrawStack(Draw& draw)
{
    Stack stack = StackOf(draw.Chance(0.5) ? StackPreset::LINUX_6 : static_cast<StackPreset>(draw.Below(STACK_PRESETS.size())));
    stack.socket.send_buffer_bytes = DrawBuffer(draw);
    stack.socket.receive_buffer_bytes = DrawBuffer(draw);
    const pacing_choice pacings[] = {pacing_choice::internal, pacing_choice::fq, pacing_choice::none};
    stack.socket.pacing = draw.Chance(0.3) ? draw.Of(pacings) : stack.socket.pacing;
    return stack;
}

inline Flow
DrawFlow(Draw& draw, const Scenario& scenario, double rate_bps, double max_writes, std::size_t index)
{
    Flow flow;
    const auto variant = static_cast<int>(draw.Below(Variants().size()));
    const auto duration_ns = static_cast<double>(scenario.duration_ns);
    flow.name = "flow-" + std::to_string(index);
    flow.cc = VariantName(variant);
    flow.start_ns = draw.Chance(0.5) ? 0 : static_cast<int64_t>(draw.Between(0, 0.9 * duration_ns));
    flow.stop_ns = scenario.duration_ns;
    if (draw.Chance(0.3))
    {
        flow.stop_ns = flow.start_ns + 1 + static_cast<int64_t>(draw.Between(0, duration_ns - static_cast<double>(flow.start_ns) - 1));
    }
    flow.app = DrawApp(draw, rate_bps, duration_ns / 1e9, max_writes, scenario.mss_bytes);
    for (std::size_t i = 0; i < Tunables().size(); ++i)
    {
        if (VariantHasTunable(variant, static_cast<int>(i)) && draw.Chance(0.2))
        {
            flow.tunables[std::string(Tunables()[i].name)] = DrawTunable(draw, Tunables()[i]);
        }
    }
    return flow;
}

/** BBR on a path so fast, long and lossy that its ample buffer is full of what waits behind a segment lost again and again. */
inline Scenario
DrawFullBuffer(Draw& draw, double max_packets)
{
    Scenario scenario;
    scenario.mss_bytes = 65'000; // so that few fill 64 MB
    const double rate_bps = draw.Log(2e9, 1e10);
    scenario.duration_ns = std::llround(max_packets * scenario.mss_bytes * 8e9 / rate_bps);
    scenario.link.rate_bps = rate_bps;
    scenario.link.loss = Bernoulli{draw.Between(0.1, 0.3)};
    scenario.link.queue.size_packets = draw.LogCount(10, 100);
    if (draw.Chance(0.3))
    {
        scenario.link.jitter = Jitter{draw.Log(1e-3, 1), draw.LogNs(1e-6, 0.01), draw.Chance(0.6)};
    }
    Flow flow;
    flow.name = "flow";
    flow.cc = VariantName(static_cast<int>(draw.Below(CC_VARIANT_BBR_MIX)));
    flow.rtt_ns = draw.LogNs(0.02, 0.1);
    flow.stop_ns = scenario.duration_ns;
    flow.stack = StackOf(static_cast<StackPreset>(draw.Below(STACK_PRESETS.size())));
    scenario.flows.push_back(flow);
    return scenario;
}

/** A scenario of about `max_packets` packets at most, from 1 kbit/s to 10 Gbit/s and 0.1 ms to 1 s. */
inline Scenario
DrawScenario(uint64_t seed, double max_packets)
{
    Draw draw(seed, "scenario");
    if (draw.Chance(0.03))
    {
        return DrawFullBuffer(draw, max_packets);
    }
    Scenario scenario;
    scenario.name = "random-" + std::to_string(seed);
    scenario.mss_bytes = draw.Chance(0.6) ? 1448 : static_cast<uint32_t>(draw.LogCount(64, draw.Chance(0.3) ? 65e3 : 9000));
    const uint64_t packet_bytes = scenario.mss_bytes + HEADER_BYTES;

    const std::size_t flows = draw.Chance(0.3) ? 1 : 1 + draw.Below(20);
    std::vector<int64_t> rtts_ns(flows);
    std::ranges::generate(rtts_ns, [&draw] { return draw.LogNs(1e-4, 1); });
    const int64_t longest_ns = std::ranges::max(rtts_ns);

    // Some are long and slow, so that every timer comes to its end.
    const bool is_long = draw.Chance(0.15);
    const double rate_bps = is_long ? draw.Log(1e3, 1e5) : draw.Log(1e5, 1e10);
    const double longest_s = max_packets * static_cast<double>(packet_bytes) * 8 / rate_bps;
    const double duration_s = std::clamp(is_long ? draw.Log(100, 5000) : draw.Log(0.1, 60), 1e-3, longest_s);
    scenario.duration_ns = std::llround(duration_s * 1e9);
    scenario.warmup_ns = draw.Chance(0.3) ? 0 : static_cast<int64_t>(draw.Between(0, 0.9) * duration_s * 1e9);

    Link& link = scenario.link;
    link.delay_ns = static_cast<int64_t>(draw.Between(0, static_cast<double>(std::ranges::min(rtts_ns)) / 2));
    link.queue = DrawQueue(draw, rate_bps / 8e9 * static_cast<double>(longest_ns), packet_bytes);
    link.loss = DrawLoss(draw);
    DrawFeatures(draw, link, rate_bps, packet_bytes);
    if (draw.Chance(0.2))
    {
        link.trace = DrawTrace(draw, rate_bps, packet_bytes);
    }
    else
    {
        link.rate_bps = rate_bps;
    }
    std::vector<int64_t> times_ns(draw.Chance(0.5) ? 0 : draw.Below(12));
    std::ranges::generate(times_ns, [&] { return static_cast<int64_t>(draw.Between(0, duration_s * 1.1e9)); });
    std::ranges::sort(times_ns);
    for (const int64_t at_ns : times_ns)
    {
        LinkChange change;
        change.at_ns = draw.Chance(0.1) ? 0 : at_ns;
        change.at_ns = std::max(change.at_ns, link.changes.empty() ? 0 : link.changes.back().at_ns);
        if (!link.trace && draw.Chance(0.6))
        {
            change.rate_bps = draw.Chance(0.15) ? 0 : std::max(rate_bps * draw.Log(0.03, 1), 1e3);
        }
        if (draw.Chance(0.5))
        {
            change.delay_ns = draw.Chance(0.1) ? 0 : draw.LogNs(1e-5, 1);
        }
        if (!std::holds_alternative<GilbertElliott>(link.loss) && draw.Chance(0.5))
        {
            change.loss_rate = draw.Chance(0.3) ? 0 : draw.Log(1e-4, 0.5);
        }
        link.changes.push_back(change);
    }
    for (std::size_t i = 0; i < flows; ++i)
    {
        scenario.flows.push_back(DrawFlow(draw, scenario, rate_bps, max_packets, i));
        scenario.flows.back().stack = DrawStack(draw);
        scenario.flows.back().stack.socket.ecn = draw.Chance(0.4);
        scenario.flows.back().rtt_ns = rtts_ns[i];
    }
    return scenario;
}

} // namespace bbrgym

#endif
