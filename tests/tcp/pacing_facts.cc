// SPDX-License-Identifier: GPL-2.0-only
//
// Bursts and their pacing, alone and on a path of 50 ms; and the marks of an application that does not fill the window.
#include "burst_pacing.hpp"
#include "connection.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

using namespace bbrgym;

namespace
{

constexpr uint32_t MSS_BYTES = 1000;
constexpr uint64_t MEGABYTE_Bps = 1'000'000;

BurstPacing
Started(const SocketFacts& facts, bool may_send_singles = true)
{
    BurstPacing pacing;
    pacing.Start(facts, MSS_BYTES, may_send_singles);
    return pacing;
}

/** Returns the time until the next burst, of 10 segments of 1000 bytes at 1 MB/s. */
double
GapMs(BurstPacing pacing, int64_t now_ns, uint32_t overhead_bytes = 0, uint64_t sent_pkts = 100)
{
    pacing.BeginNew(10);
    for (int i = 0; i < 10; ++i)
    {
        pacing.OnSent(MSS_BYTES);
    }
    pacing.End(MEGABYTE_Bps, overhead_bytes, sent_pkts, now_ns);
    return double(pacing.WaitNs(now_ns)) / MS;
}

SocketFacts
Paced(pacing_choice by)
{
    return {.pacing = by, .unpaced_segments = 10, .pacing_credit = true};
}

} // namespace

TEST(a_burst_holds_a_millisecond_of_data_and_more_on_a_short_path)
{
    SocketFacts facts{.min_tso_segs = 1, .tso_by_rtt = false};
    Equal(Started(facts).SizePkts(149'999, -1), 1, "BBR below 1.2 Mbit/s");
    Equal(Started(facts).SizePkts(150'000, -1), 2);
    Equal(Started(facts, false).SizePkts(150'000, -1), 1, "min_tso_segs");
    Equal(Started(facts).SizePkts(10 * 1024 * MSS_BYTES, -1), 10);
    Equal(Started(facts).SizePkts(UINT64_MAX, -1), CC_GSO_MAX_BYTES / MSS_BYTES);
    facts.tso_by_rtt = true;
    Equal(Started(facts).SizePkts(MEGABYTE_Bps, 100'000), CC_GSO_MAX_BYTES / MSS_BYTES, "a short path");
    Equal(Started(facts).SizePkts(MEGABYTE_Bps, 50 * MS), 2, "a long path");
}

/** bbr_min_tso_segs of v1 and v2; bbr_tso_segs of v3 and all others have tcp_min_tso_segs. */
TEST(slow_bbr_and_bbr2_send_one_by_one_and_bbr3_does_not)
{
    const SocketFacts facts{.tso_by_rtt = false};
    const auto least_pkts = [&](cc_variant variant) {
        cc_params params;
        cc_params_init(&params, variant);
        return Started(facts, cc_may_send_singles(&params)).SizePkts(125'000, -1); // 1 Mbit/s
    };
    Equal(least_pkts(CC_VARIANT_BBR), 1);
    Equal(least_pkts(CC_VARIANT_BBR2), 1);
    Equal(least_pkts(CC_VARIANT_BBR3), 2);
    Equal(least_pkts(CC_VARIANT_CUBIC), 2);
}

TEST(pacing_waits_for_the_bytes_of_a_burst)
{
    const BurstPacing fq = Started(Paced(pacing_choice::fq));
    Near(GapMs(fq, 0), 10.54, 1e-6, "Ethernet frames");
    Equal(GapMs(fq, 0, 0, 9), 0, "the first segments");
    const BurstPacing tcp = Started(Paced(pacing_choice::internal));
    Near(GapMs(tcp, 0), 10, 1e-6);
    Near(GapMs(tcp, 0, 40), 10.4, 1e-6, "with headers");
    BurstPacing passing = tcp;
    passing.Restart(7 * MS);
    passing.PassPacing();
    Near(GapMs(passing, 0), 7, 1e-6, "the gap that ran");
    Equal(GapMs(Started(Paced(pacing_choice::none)), 0), 0);
}

TEST(a_late_burst_gets_credit_for_half_of_its_gap_at_most)
{
    const BurstPacing tcp = Started(Paced(pacing_choice::internal));
    Near(GapMs(tcp, 2 * MS), 10 - 2, 1e-6);
    Near(GapMs(tcp, 20 * MS), 10 / 2, 1e-6);
}

/** Bursts of 9 segments from sk_buffs of 52, each 1250 bytes of 64 KB. */
TEST(a_burst_ends_with_its_sk_buff)
{
    constexpr uint64_t SKB_PKTS = 52;
    constexpr uint64_t BURST_PKTS = 9;
    for (const bool end_with_skb : {true, false})
    {
        Connection c(
            {.initial_cwnd_pkts = 10'000, .facts = {.gso_max_segs = 65'535, .bursts_end_with_skb = end_with_skb}});
        c.Write(5000);
        c.Run(200 * MS);
        std::map<int64_t, uint64_t> sizes_pkts; // by departure; the first ones leave at once, the last may be cut off
        for (const Departure& d : c.departures)
        {
            ++sizes_pkts[d.at_ns];
        }
        uint64_t next = 0;
        uint64_t short_ends = 0;
        for (auto burst = sizes_pkts.begin(); burst != std::prev(sizes_pkts.end()); ++burst)
        {
            next += burst->second;
            if (burst->second > BURST_PKTS)
            {
                continue;
            }
            const bool is_short = end_with_skb && next % SKB_PKTS == 0;
            Equal(burst->second, is_short ? SKB_PKTS % BURST_PKTS : BURST_PKTS,
                  "52 segments are five bursts of 9 and one of 7");
            short_ends += is_short;
        }
        Require(end_with_skb == (short_ends > 10), "sk_buffs end");
    }
}

/** Segments 20 and 21 left together, 23 and 24 in two bursts, and all of them are lost. */
TEST(segments_that_left_and_were_lost_together_leave_together_again)
{
    Connection c(
        {.initial_cwnd_pkts = 1000, .pacing_Bps = 1'250'000, .facts = {.gso_max_segs = 2, .prr = prr_choice::none}});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_lost = d.seqno == 20 || d.seqno == 21 || d.seqno == 23 || d.seqno == 24;
        return is_lost && d.nth == 1 ? NEVER_NS : arrives_ns;
    };
    c.Write(300);
    c.Run(SECOND);
    Equal(c.Transmission(21, 2).at_ns, c.Transmission(20, 2).at_ns);
    Equal(c.Transmission(24, 2).at_ns - c.Transmission(23, 2).at_ns, MS);
}

TEST(a_burst_told_as_a_whole_is_that_of_its_segments)
{
    const auto departures = [](bool tells_bursts) {
        Connection c({.pacing_Bps = 5'000'000, .tells_bursts = tells_bursts, .facts = {.gso_max_segs = 65'535}});
        c.arrival = [](const Departure& d, int64_t arrives_ns) {
            return d.nth == 1 && d.seqno % 97 < d.seqno / 1000 ? NEVER_NS : arrives_ns;
        };
        for (int i = 0; i < 10; ++i)
        {
            c.Write(400 + 3 * i); // it pauses in between, so the timer starts again
            c.Drain(c.now_ns + 10 * SECOND);
        }
        Equal(c.Undelivered(), 0);
        Require(c.dropped_pkts > 50, "some are lost");
        return c.departures;
    };
    Require(departures(true) == departures(false), "the same segments leave at the same times");
}

/** A segment each 10 ms for a second, then as much as goes. */
TEST(samples_of_a_slow_application_are_marked)
{
    Connection c({});
    std::array<int, 2> samples{};
    int64_t last_limited_ns = 0;
    c.on_ack = [&](const cc_sample& sample) {
        ++samples[sample.is_app_limited];
        last_limited_ns = sample.is_app_limited ? static_cast<int64_t>(sample.now_us) * 1000 : last_limited_ns;
    };
    for (int64_t at_ns = 0; at_ns < SECOND; at_ns += 10 * MS)
    {
        c.Run(at_ns);
        c.Write(1);
    }
    c.Run(SECOND);
    Require(samples[0] == 0 && samples[1] > 50 && c.sender.Board().Rate().IsAppLimited(), "all of the trickle are");
    c.Write(10'000);
    c.Run(3 * SECOND);
    // The mark goes when what was out at the last write is acknowledged; what left before then bears it a round more.
    const int64_t after_ns = last_limited_ns - SECOND;
    Require(50 * MS < after_ns && after_ns <= 2 * 50 * MS, "and those of the round after it");
    Require(!c.sender.Board().Rate().IsAppLimited(), "not the bulk's");
}
