// SPDX-License-Identifier: GPL-2.0-only
//
// The parts that C++ worlds share, against brute force: opportunities of a trace, the histogram, exponential
// draws. usage: world_laws SEED; prints the first broken law and ends with 1.
#include "histogram.hpp"
#include "opportunities.hpp"
#include "program.hpp"
#include "random.hpp"

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

} // namespace

int
main(int argc, char** argv)
{
    bbrgym::Random random(Number(1, argc, argv), "test");
    for (int round = 0; round < 200; ++round)
    {
        CheckOpportunities(random);
        CheckHistogram(random);
    }
    CheckExponential(random);
    return 0;
}
