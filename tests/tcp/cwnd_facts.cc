// SPDX-License-Identifier: GPL-2.0-only
//
// Window validation (RFC 2861): when ACKs may raise the window, and when one that is not used falls; alone, with a
// window of 20 packets, and on a path.
#include "connection.hpp"
#include "cwnd_validation.hpp"

#include <array>
#include <optional>

using namespace bbrgym;

namespace
{

constexpr int64_t RTO_NS = 200 * MS;
constexpr uint32_t CWND_PKTS = 20;
constexpr uint32_t NO_SSTHRESH = UINT32_MAX;
constexpr SocketFacts PLAIN{.gso_max_segs = 1, .prr = prr_choice::none};

CwndValidation
Started(window_use_choice use, bool by_flight = true)
{
    CwndValidation validation;
    validation.Start({.slow_start_after_idle = true, .slow_start_by_flight = by_flight, .window_use = use}, true, 0);
    return validation;
}

} // namespace

TEST(slow_start_raises_it_to_twice_the_largest_flight)
{
    for (const uint32_t out_pkts : {10u, 11u})
    {
        CwndValidation validation = Started(window_use_choice::held);
        validation.Validate({0, out_pkts, out_pkts}, false, false);
        Equal(validation.MayRise(out_pkts, CWND_PKTS, NO_SSTHRESH), out_pkts == 11, "if more than half was used");
    }
}

TEST(in_ns3_acks_of_what_was_sent_below_a_full_window_raise_it)
{
    CwndValidation ns3 = Started(window_use_choice::held, false);
    ns3.OnFull(15);
    Require(ns3.MayRise(15, CWND_PKTS, 1) && !ns3.MayRise(16, CWND_PKTS, 1), "up to what was sent");
}

/** Full once, then ever less within the round trip, without anything sent at last. */
TEST(until_linux_5_10_only_what_leaves_tells)
{
    for (const auto use : {window_use_choice::held, window_use_choice::largest})
    {
        CwndValidation validation = Started(use);
        validation.Validate({0, 10, 10}, false, false);
        validation.Validate({0, 10, 10}, true, true);
        Equal(validation.MayRise(0, CWND_PKTS, 1), use == window_use_choice::held);
    }
}

TEST(a_window_unused_for_a_timeout_falls_to_the_largest_flight)
{
    CwndValidation validation = Started(window_use_choice::held);
    const auto falls_to = [&](int64_t now_ns, bool may_fall = true) {
        CwndValidation copy = validation;
        return int64_t{copy.OnCwndUnderused(8, may_fall, RTO_NS, now_ns).value_or(0)};
    };
    Equal(falls_to(RTO_NS - 1), 0, "it stays");
    Equal(falls_to(RTO_NS), 8);
    Equal(falls_to(RTO_NS, false), 0, "something else held the sender back");
    validation.OnCwndChanged(10 * MS);
    Equal(falls_to(RTO_NS), 0);
    validation.OnCwndUnderused(12, true, RTO_NS, 20 * MS);
    Equal(falls_to(RTO_NS + 10 * MS), 12);
    validation.OnUsed(20 * MS);
    Equal(falls_to(RTO_NS + 20 * MS), 8, "the largest since it was used");
}

/**
 * Linux's tcp_may_raise_cwnd: the path reorders once more than three overtook a segment. Two overtake the 30th, fifty
 * the 100th, and the 400th.
 */
TEST(sacks_grow_the_window_once_the_path_is_known_to_reorder)
{
    Connection c({.initial_cwnd_pkts = 20});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_late = d.nth == 1 && (d.seqno == 100 || d.seqno == 400);
        return arrives_ns + (d.nth == 1 && d.seqno == 30 ? MS / 4 : 0) + (is_late ? 5 * MS : 0);
    };
    std::array<int64_t, 2> acks{};
    std::array<int64_t, 2> growth_pkts{};
    uint64_t una = 0;
    uint32_t cwnd = c.Cwnd();
    c.on_ack = [&](const cc_sample& sample) {
        if (sample.ca_state == CC_CA_DISORDER && sample.una_pkts == una)
        {
            acks[sample.is_reordering] += 1;
            growth_pkts[sample.is_reordering] += int64_t{c.Cwnd()} - cwnd;
        }
        una = sample.una_pkts;
        cwnd = c.Cwnd();
    };
    c.Write(1000);
    c.Drain(10 * SECOND);
    Require(acks[0] >= 2 && growth_pkts[0] == 0, "not before");
    Require(acks[1] > 40 && growth_pkts[1] == acks[1], "a packet each, in slow start");
}
