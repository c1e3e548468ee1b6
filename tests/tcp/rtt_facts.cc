// SPDX-License-Identifier: GPL-2.0-only
//
// The RTT estimator, fed with the RTTs of its arguments in ms ("=": what it expects), ten of which are a round trip.
// It prints, after each, what the timer waits for beside the smoothed RTT, in ms.
//
//     rtt_facts largest|mean RTT...
#include "rtt_estimator.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

int
main(int argc, char** argv)
{
    constexpr uint64_t ROUND_PKTS = 10;
    constexpr double MS = 1e6;
    bbrgym::SocketFacts facts;
    facts.rtt_variation = std::string_view(argv[1]) == "mean" ? bbrgym::rtt_variation_choice::mean : bbrgym::rtt_variation_choice::largest;
    bbrgym::RttEstimator rtt;
    rtt.SetFacts(facts);
    for (int i = 2; i < argc; ++i)
    {
        const bool is_as_expected = std::string_view(argv[i]) == "=";
        const auto una = static_cast<uint64_t>(i - 1);
        rtt.AddSample(is_as_expected ? rtt.SmoothedNs() : static_cast<int64_t>(std::atof(argv[i]) * MS), una, una + ROUND_PKTS);
        std::printf("%.6f\n", double(rtt.TimeoutNs() - rtt.SmoothedNs()) / MS);
    }
}
