// SPDX-License-Identifier: GPL-2.0-only
//
// Bursts and their pacing alone. Prints a name and a value a line.
//
// usage: burst_facts EXPERIMENT
//     sizes   segments of a burst by its kind: BBR's at low and high rates, one without its rule, one on a short path
//     least   segments of a burst at 1 Mbit/s by the algorithm that sends it
//     gaps    ms until the next burst of 10 segments of 1000 bytes at 1 MB/s, by its kind
//     bursts  whether segments end their burst, and what is retransmitted next
#include "burst_pacing.hpp"

#include <cstdio>
#include <string_view>
#include <utility>

namespace
{

constexpr int64_t MS = 1'000'000;
constexpr uint32_t MSS_BYTES = 1000;
constexpr uint64_t MEGABYTE_Bps = 1'000'000;

bbrgym::BurstPacing
Started(const bbrgym::SocketFacts& facts, bool may_send_singles = true)
{
    bbrgym::BurstPacing pacing;
    pacing.Start(facts, MSS_BYTES, may_send_singles);
    return pacing;
}

void
Sizes()
{
    bbrgym::SocketFacts facts;
    facts.tso_by_rtt = false;
    facts.min_tso_segs = 1;
    std::printf("below_lone_rate %u\n", Started(facts).SizePkts(149'999, -1));
    std::printf("at_lone_rate %u\n", Started(facts).SizePkts(150'000, -1));
    std::printf("without_singles %u\n", Started(facts, false).SizePkts(150'000, -1));
    std::printf("by_rate %u\n", Started(facts).SizePkts(10 * 1024 * MSS_BYTES, -1));
    std::printf("largest %u\n", Started(facts).SizePkts(UINT64_MAX, -1));
    facts.tso_by_rtt = true;
    std::printf("short_path %u\n", Started(facts).SizePkts(MEGABYTE_Bps, 100'000));
    std::printf("long_path %u\n", Started(facts).SizePkts(MEGABYTE_Bps, 50 * MS));
}

void
Least()
{
    bbrgym::SocketFacts facts;
    facts.tso_by_rtt = false;
    for (const auto& [name, variant] : {std::pair{"bbr", CC_VARIANT_BBR},
                                        std::pair{"bbr2", CC_VARIANT_BBR2},
                                        std::pair{"bbr3", CC_VARIANT_BBR3},
                                        std::pair{"cubic", CC_VARIANT_CUBIC}})
    {
        cc_params params;
        cc_params_init(&params, variant);
        std::printf("%s %u\n", name, Started(facts, cc_may_send_singles(&params)).SizePkts(125'000, -1));
    }
}

double
GapMs(bbrgym::BurstPacing pacing, int64_t now_ns, uint32_t overhead_bytes = 0, uint64_t sent_pkts = 100)
{
    pacing.BeginNew(10);
    for (int i = 0; i < 10; ++i)
    {
        pacing.OnSent(MSS_BYTES);
    }
    pacing.End(MEGABYTE_Bps, overhead_bytes, sent_pkts, now_ns);
    return double(pacing.WaitNs(now_ns)) / MS;
}

void
Gaps()
{
    bbrgym::SocketFacts facts;
    facts.pacing = bbrgym::pacing_choice::fq;
    facts.pacing_credit = true;
    facts.unpaced_segments = 10;
    bbrgym::BurstPacing fq = Started(facts);
    std::printf("fq %g\n", GapMs(fq, 0));
    std::printf("first %g\n", GapMs(fq, 0, 0, 9));
    facts.pacing = bbrgym::pacing_choice::internal;
    const bbrgym::BurstPacing tcp = Started(facts);
    std::printf("tcp %g\n", GapMs(tcp, 0));
    std::printf("tcp_overhead %g\n", GapMs(tcp, 0, 40));
    std::printf("late_by_2_ms %g\n", GapMs(tcp, 2 * MS));
    std::printf("late_by_20_ms %g\n", GapMs(tcp, 20 * MS));
    bbrgym::BurstPacing passing = tcp;
    passing.Restart(7 * MS);
    passing.PassPacing();
    std::printf("past_pacing %g\n", GapMs(passing, 0));
    facts.pacing = bbrgym::pacing_choice::none;
    std::printf("none %g\n", GapMs(Started(facts), 0));
}

void
Bursts()
{
    bbrgym::BurstPacing pacing = Started({});
    pacing.BeginRetransmit(30, 3);
    for (const char* name : {"first", "second", "third"})
    {
        std::printf("%s_is %llu\n", name, static_cast<unsigned long long>(pacing.NextRetransmit()));
        std::printf("%s_ends %d\n", name, pacing.OnSent(MSS_BYTES));
    }
    pacing.End(MEGABYTE_Bps, 0, 100, 0);
    std::printf("probe_ends %d\n", pacing.OnSent(MSS_BYTES));
    pacing.End(MEGABYTE_Bps, 0, 100, 0);
    pacing.BeginNew(2);
    std::printf("new_is_retransmitted %d\n", pacing.NextRetransmit() != bbrgym::BurstPacing::NONE);
}

} // namespace

int
main(int, char** argv)
{
    const std::string_view experiment = argv[1];
    experiment == "sizes" ? Sizes() : experiment == "least" ? Least() : experiment == "gaps" ? Gaps() : Bursts();
}
