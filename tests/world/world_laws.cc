// SPDX-License-Identifier: GPL-2.0-only
//
// The parts that C++ worlds share, against brute force: opportunities of a trace, the histogram, exponential
// draws, the chain of Gilbert-Elliott losses, the times of writes. usage: world_laws SEED; prints the first broken law and ends with 1.
#include "histogram.hpp"
#include "loss.hpp"
#include "opportunities.hpp"
#include "program.hpp"
#include "random.hpp"
#include "write_times.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace
{

int64_t
Below(bbrgym::Random& random, int64_t n)
{
    return static_cast<int64_t>(random.Uniform() * static_cast<double>(n));
}

/** Every opportunity of the first rounds, one by one. */
void
CheckOpportunities(bbrgym::Random& random)
{
    constexpr uint64_t BYTES = 1500;
    constexpr int64_t ROUNDS = 5;
    const int64_t period = 1 + Below(random, 40);
    std::vector<int64_t> times(static_cast<std::size_t>(1 + Below(random, 30)));
    std::generate(times.begin(), times.end(), [&] { return Below(random, period + 1); });
    std::sort(times.begin(), times.end());
    std::vector<int64_t> all;
    for (int64_t round = 0; round <= ROUNDS; ++round)
    {
        for (const int64_t time : times)
        {
            all.push_back(round * period + time);
        }
    }
    const bbrgym::Opportunities opportunities(times, period, BYTES);
    for (int64_t now = 0; now < (ROUNDS - 1) * period; ++now)
    {
        const auto at = [&](int64_t time) { return BYTES * static_cast<uint64_t>(std::ranges::count(all, time)); };
        const auto next = opportunities.After(now);
        const auto later = [now](int64_t time) { return time > now; };
        std::vector<int64_t> ahead;
        std::ranges::copy_if(all, std::back_inserter(ahead), later);
        Require(next.time_ns == std::ranges::min(ahead), "After gives the first later time");
        Require(next.bytes == at(next.time_ns), "After gives all bytes of that time");
        const auto used = std::ranges::count_if(all, [now](int64_t time) { return time > 0 && time <= now; });
        Require(opportunities.BytesUntil(now) == BYTES * static_cast<uint64_t>(used), "BytesUntil counts (0, now]");
    }
}

void
CheckHistogram(bbrgym::Random& random)
{
    bbrgym::Histogram histogram;
    bbrgym::Histogram other;
    for (int fill = 0; fill < 3; ++fill)
    {
        histogram.Clear();
        other.Clear();
        const double share_of_other = random.Uniform();
        std::vector<int64_t> values(static_cast<std::size_t>(1 + Below(random, 500)));
        const double octaves = 37 * random.Uniform();
        std::generate(values.begin(), values.end(), [&] {
            return static_cast<int64_t>(std::exp2(octaves * random.Uniform()));
        });
        double sum = 0;
        for (const int64_t value : values)
        {
            (random.Chance(share_of_other) ? other : histogram).Add(value);
            sum += static_cast<double>(value);
        }
        histogram.Add(other);
        std::sort(values.begin(), values.end());
        Require(histogram.Count() == values.size(), "Count");
        Require(histogram.MinMs() == static_cast<double>(values.front()) / 1e6, "MinMs is exact");
        const double mean = sum / static_cast<double>(values.size());
        Require(std::abs(histogram.MeanMs() * 1e6 - mean) <= 1e-9 * mean, "MeanMs is exact");
        for (const uint64_t percent : {1, 50, 95, 100})
        {
            const auto exact = static_cast<double>(values[(values.size() * percent + 99) / 100 - 1]);
            Require(std::abs(histogram.PercentileMs(percent) * 1e6 - exact) <= 0.004 * exact, "PercentileMs to 0.4 %");
        }
    }
}

void
CheckExponential(bbrgym::Random& random)
{
    constexpr int DRAWS = 200'000;
    double sum = 0;
    int above_two = 0;
    for (int i = 0; i < DRAWS; ++i)
    {
        const double draw = random.Exponential();
        sum += draw;
        above_two += draw > 2;
    }
    const double error = 5 / std::sqrt(DRAWS);
    Require(std::abs(sum / DRAWS - 1) < error, "the mean of exponential draws is 1");
    Require(std::abs(above_two / static_cast<double>(DRAWS) - std::exp(-2)) < error, "and they exceed 2 as they should");
}

/** The state after many ticks at once is that of tick after tick. */
void
CheckChain(bbrgym::Random& random)
{
    const bbrgym::GilbertElliott chain{random.Uniform(), random.Uniform()};
    for (const bool was_bad : {false, true})
    {
        double bad = was_bad;
        for (uint64_t ticks = 0; ticks < 40; ++ticks)
        {
            Require(std::abs(bbrgym::BadAfter(chain, was_bad, ticks) - bad) < 1e-12, "ticks at once are ticks one by one");
            bad = bad * (1 - chain.bad_to_good) + (1 - bad) * chain.good_to_bad;
        }
    }
    Require(bbrgym::BadAfter({}, true, 1000) == 1 && bbrgym::BadAfter({}, false, 1000) == 0, "a frozen chain stays");
}

/** Losses of packets that come a tick apart follow packets' clock; after a long silence the chain has forgotten. */
void
CheckClocks(bbrgym::Random& random)
{
    using Clock = bbrgym::GilbertElliott::Clock;
    constexpr int PACKETS = 200'000;
    constexpr int64_t TICK_NS = 1000;
    const bbrgym::GilbertElliott bursts{0.01, 0.2, 0.0, 1.0, Clock::TIME};
    const double share = 0.01 / 0.21;
    const auto seed = static_cast<uint64_t>(random.Uniform() * 1e9);
    const auto lost_share = [&](Clock clock, int64_t gap_ns, double& again) {
        bbrgym::GilbertElliott chain = bursts;
        chain.clock = clock;
        bbrgym::LossModel model(chain, TICK_NS, seed);
        int lost = 0;
        int both = 0;
        bool was_lost = false;
        for (int i = 1; i <= PACKETS; ++i)
        {
            const bool is_lost = model.IsLost(i * gap_ns);
            lost += is_lost;
            both += is_lost && was_lost;
            was_lost = is_lost;
        }
        again = static_cast<double>(both) / lost;
        return static_cast<double>(lost) / PACKETS;
    };
    const double error = 5 * std::sqrt(share * (1 + 2 / 0.21) / PACKETS); // losses of one stay go together
    double again = 0;
    for (const Clock clock : {Clock::PACKET, Clock::TIME})
    {
        Require(std::abs(lost_share(clock, TICK_NS, again) - share) < error, "the share of losses is the chain's");
        Require(std::abs(again - 0.8) < 0.03, "and a loss is followed by another as often as it stays bad");
    }
    Require(std::abs(lost_share(Clock::TIME, 1000 * TICK_NS, again) - share) < error, "in silence as well");
    Require(std::abs(again - share) < 0.03, "after which nothing of the last state is left");
    lost_share(Clock::PACKET, 1000 * TICK_NS, again);
    Require(std::abs(again - 0.8) < 0.03, "but by the packet's clock it is");
}

/** Segments of a source come at its rate while it is on, and after each burst it is off for as long as it should be. */
void
CheckWriteTimes(bbrgym::Random& random)
{
    constexpr uint32_t SEGMENT_BYTES = 1000;
    const double rate_bps = 1e5 * std::exp(7 * random.Uniform());
    const double gap_ns = SEGMENT_BYTES * 8e9 / rate_bps;
    const int64_t start_ns = Below(random, 1'000'000'000);
    bbrgym::Flow flow;
    flow.app = bbrgym::Cbr{rate_bps};
    bbrgym::WriteTimes steady(flow, SEGMENT_BYTES, 1);
    int64_t time_ns = start_ns;
    for (int write = 1; write < 1000; ++write)
    {
        time_ns = steady.NextNs(time_ns);
        Require(std::abs(static_cast<double>(time_ns - start_ns) - write * gap_ns) < 1, "no rounding error adds up");
    }
    const auto on_ns = static_cast<int64_t>(gap_ns * (1 + 20 * random.Uniform()));
    const int64_t off_ns = 1 + Below(random, 1'000'000'000);
    flow.app = bbrgym::OnOff{rate_bps, on_ns, off_ns, false};
    bbrgym::WriteTimes bursts(flow, SEGMENT_BYTES, 1);
    for (int64_t burst_ns = start_ns; burst_ns < start_ns + 10 * (on_ns + off_ns); burst_ns += on_ns + off_ns)
    {
        int writes = 0;
        for (time_ns = burst_ns; time_ns < burst_ns + on_ns; time_ns = bursts.NextNs(time_ns))
        {
            ++writes;
        }
        Require(time_ns == burst_ns + on_ns + off_ns, "a burst begins after the one before and its pause");
        Require(writes == static_cast<int>(std::ceil(static_cast<double>(on_ns) / gap_ns)), "and is full of segments");
    }
    constexpr int BURSTS = 2000;
    flow.app = bbrgym::OnOff{rate_bps, static_cast<int64_t>(gap_ns / 100), static_cast<int64_t>(100 * gap_ns), true};
    bbrgym::WriteTimes random_bursts(flow, SEGMENT_BYTES, static_cast<uint64_t>(Below(random, 1'000'000)));
    time_ns = 0;
    for (int burst = 0; burst < BURSTS; ++burst)
    {
        time_ns = random_bursts.NextNs(time_ns);
    }
    const double mean_ns = static_cast<double>(time_ns) / BURSTS;
    Require(std::abs(mean_ns / (100 * gap_ns) - 1) < 6 / std::sqrt(BURSTS), "random pauses have their mean");
}

} // namespace

int
main(int argc, char** argv)
{
    bbrgym::Random random(Number(1, argc, argv), "test");
    for (int round = 0; round < 200; ++round)
    {
        CheckChain(random);
        CheckOpportunities(random);
        CheckHistogram(random);
        CheckWriteTimes(random);
    }
    CheckExponential(random);
    CheckClocks(random);
    return 0;
}
