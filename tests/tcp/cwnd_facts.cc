// SPDX-License-Identifier: GPL-2.0-only
//
// Window validation alone, with a window of 20 packets. Prints a name and a value a line.
//
// usage: cwnd_facts EXPERIMENT
//     rises     whether ACKs may raise the window, by what held the sender back
//     falls     to how many packets an unused window falls; -1: it stays
#include "cwnd_validation.hpp"

#include <cstdio>
#include <string_view>

namespace
{

constexpr int64_t MS = 1'000'000;
constexpr int64_t RTO_NS = 200 * MS;
constexpr uint32_t CWND_PKTS = 20;
constexpr uint32_t NO_SSTHRESH = UINT32_MAX;

bbrgym::CwndValidation
Started(bbrgym::window_use_choice use, bool by_flight = true)
{
    bbrgym::SocketFacts facts;
    facts.window_use = use;
    facts.slow_start_by_flight = by_flight;
    facts.slow_start_after_idle = true;
    bbrgym::CwndValidation validation;
    validation.Start(facts, true, 0);
    return validation;
}

bool
Rises(bbrgym::CwndValidation validation, uint32_t out_pkts, bool is_full, uint32_t ssthresh_pkts)
{
    validation.Validate({0, out_pkts, out_pkts}, is_full, is_full);
    return validation.MayRise(out_pkts, CWND_PKTS, ssthresh_pkts);
}

void
Rises()
{
    const bbrgym::CwndValidation held = Started(bbrgym::window_use_choice::held);
    std::printf("full %d\n", Rises(held, 20, true, 1));
    std::printf("half %d\n", Rises(held, 10, false, 1));
    std::printf("slow_start_half %d\n", Rises(held, 10, false, NO_SSTHRESH));
    std::printf("slow_start_more_than_half %d\n", Rises(held, 11, false, NO_SSTHRESH));
    bbrgym::CwndValidation ns3 = Started(bbrgym::window_use_choice::held, false);
    ns3.OnFull(15);
    std::printf("ns3_below %d\n", ns3.MayRise(15, CWND_PKTS, 1));
    std::printf("ns3_beyond %d\n", ns3.MayRise(16, CWND_PKTS, 1));

    // Full once, then ever less within the round trip, without anything sent at last.
    for (const auto use : {bbrgym::window_use_choice::held, bbrgym::window_use_choice::largest})
    {
        const bool is_held = use == bbrgym::window_use_choice::held;
        bbrgym::CwndValidation validation = Started(use);
        validation.Validate({0, 10, 10}, false, false);
        validation.Validate({0, 10, 10}, true, true);
        std::printf("%s_without_sending %d\n", is_held ? "held" : "largest", validation.MayRise(0, CWND_PKTS, 1));
    }
}

int64_t
FallsTo(bbrgym::CwndValidation validation, int64_t now_ns, bool may_fall)
{
    const auto used_pkts = validation.OnCwndUnderused(8, may_fall, RTO_NS, now_ns);
    return used_pkts ? int64_t{*used_pkts} : -1;
}

void
Falls()
{
    bbrgym::CwndValidation validation = Started(bbrgym::window_use_choice::held);
    std::printf("before_a_timeout %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS - 1, true)));
    std::printf("after_a_timeout %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS, true)));
    std::printf("for_another_reason %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS, false)));
    validation.OnCwndChanged(10 * MS);
    std::printf("after_a_change %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS, true)));
    validation.OnCwndUnderused(12, true, RTO_NS, 20 * MS);
    std::printf("largest_flight %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS + 10 * MS, true)));
    validation.OnUsed(20 * MS);
    std::printf("largest_flight_since_use %lld\n", static_cast<long long>(FallsTo(validation, RTO_NS + 20 * MS, true)));
}

} // namespace

int
main(int, char** argv)
{
    std::string_view(argv[1]) == "rises" ? Rises() : Falls();
}
