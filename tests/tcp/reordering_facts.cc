// SPDX-License-Identifier: GPL-2.0-only
//
// RACK (RFC 8985): its reordering window by events alone, its losses on a scoreboard, and on a path of 50 ms.
#include "connection.hpp"
#include "reordering_window.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

using namespace bbrgym;

namespace
{

using Kind = Departure::Kind;
using Window = reordering_window_choice;

constexpr SocketFacts PLAIN{.gso_max_segs = 1, .prr = prr_choice::none};
constexpr int PERSISTENCE = 16; ///< recoveries; Linux TCP_RACK_RECOVERY_THRESH

std::string
Repeated(int times, const std::string& events)
{
    std::string all;
    for (int i = 0; i < times; ++i)
    {
        all += events;
    }
    return all;
}

/**
 * Returns the steps of the window after each event, a letter each.
 *
 *     d: a D-SACK          a: an ACK of what left after all that was delivered by then, and so a round trip later
 *     s: an ACK of what left before the window widened last
 *     r: a recovery ends   u: D-SACKs undo one
 */
std::vector<uint32_t>
Steps(const std::string& events)
{
    constexpr uint64_t ROUND_PKTS = 10;
    ReorderingWindow window;
    uint64_t delivered_pkts = 0;
    std::vector<uint32_t> steps;
    for (const char event : events)
    {
        switch (event)
        {
        case 'd': window.OnDuplicateReport(); break;
        case 'a': delivered_pkts += ROUND_PKTS; [[fallthrough]];
        case 's': window.OnDelivered(delivered_pkts - ROUND_PKTS, delivered_pkts); break;
        case 'r': window.OnRecovered(); break;
        default: window.OnUndone();
        }
        steps.push_back(window.Steps());
    }
    return steps;
}

} // namespace

TEST(several_duplicates_of_a_round_trip_widen_it_once)
{
    Equal(Steps("addda" + Repeated(5, "ds")).back(), 2);
}

TEST(it_widens_to_255_steps_at_most)
{
    Equal(Steps("a" + Repeated(300, "da")).back(), 255);
}

TEST(it_falls_back_after_16_recoveries_that_were_needed)
{
    Equal(Steps("adadada" + Repeated(PERSISTENCE - 1, "ra")).back(), 4);
    Equal(Steps("adadada" + Repeated(PERSISTENCE, "ra")).back(), 1);
    Equal(Steps("adadada" + Repeated(PERSISTENCE + 1, "ra")).back(), 1);
}

TEST(a_recovery_undone_by_duplicates_keeps_it_longer)
{
    Equal(Steps("ada" + Repeated(PERSISTENCE - 1, "ra") + "ura").back(), 2);
}

/**
 * Ten segments leave at once; the first is lost, and from 100 ms on others are SACKed, 0.1 ms apart. RACK's timer is
 * for 2 ms more. Before 4.18 it is at least for 1 ms, and three SACKed beyond a segment mark it too.
 */
TEST(rack_waits_as_its_generation)
{
    struct Case
    {
        Window window;
        bool in_recovery;
        int sacked;
        uint32_t lost;
        int64_t deadline_ns;
        uint32_t counted;
    };
    constexpr int64_t US = 1000;
    for (const Case& expected : {
             Case{Window::until_three_sacked, false, 1, 0, 127'125 * US, 0},
             Case{Window::until_three_sacked, false, 3, 1, NEVER_NS, 0},
             Case{Window::until_three_sacked, true, 1, 1, NEVER_NS, 0},
             Case{Window::until_recovery, false, 1, 0, 127'125 * US, 0},
             Case{Window::until_recovery, false, 3, 0, 127'325 * US, 1},
             Case{Window::until_recovery, true, 1, 0, 103'100 * US, 0},
             Case{Window::while_none_lost, false, 1, 0, 127'125 * US, 0},
             Case{Window::while_none_lost, false, 3, 0, 127'325 * US, 1},
             Case{Window::while_none_lost, true, 1, 0, 103'100 * US, 0},
         })
    {
        Scoreboard board;
        board.SetFacts({.reordering_window = expected.window});
        for (int i = 0; i < 10; ++i)
        {
            board.Sent(false, false, 0);
        }
        uint32_t lost = 0;
        for (int i = 1; i <= expected.sacked; ++i)
        {
            const int64_t now_ns = 100 * MS + i * MS / 10;
            const std::array blocks = {SeqnoRange{1, 1 + static_cast<uint64_t>(i)}};
            board.Acknowledge(0, blocks, now_ns);
            lost += board.DetectLosses(!expected.in_recovery, 50 * MS, now_ns);
        }
        Equal(lost, expected.lost);
        Equal(board.ReorderingDeadlineNs(), expected.deadline_ns);
        Equal(board.DetectLossesByCount(), expected.counted);
    }
}

/**
 * Segments 2 and 18 of 20 are lost, so that one follows the second. Rate samples count the losses of ACKs alone: BBR's
 * window does not fall by those that 4.11's timer finds.
 */
TEST(a_loss_that_the_timer_finds_is_not_reported_to_the_algorithm)
{
    for (const auto window : {Window::until_three_sacked, Window::while_none_lost})
    {
        Connection c({.initial_cwnd_pkts = 20, .facts = {.gso_max_segs = 1, .reordering_window = window}});
        c.arrival = [](const Departure& d, int64_t arrives_ns) {
            return d.nth == 1 && (d.seqno == 2 || d.seqno == 18) ? NEVER_NS : arrives_ns;
        };
        uint64_t reported = 0;
        c.on_ack = [&](const cc_sample& sample) { reported += sample.lost_pkts; };
        c.Write(20);
        c.Drain(SECOND);
        const bool is_by_timer = window == Window::while_none_lost;
        Near(double(c.Transmission(18, 2).at_ns) / MS, is_by_timer ? 53.9 : 51, 1e-4);
        Equal(reported, is_by_timer ? 1 : 2);
        CheckCounts(c, {.retransmitted = 2, .dropped = 2, .reductions = 1});
    }
}
