// SPDX-License-Identifier: GPL-2.0-only
//
// The facts of ns-3.28's sender, each beside its other value: on a scoreboard by hand, or on a path of 50 ms.
#include "connection.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>
#include <vector>

using namespace bbrgym;

namespace
{

constexpr SocketFacts PLAIN{.tail_loss_probe = false, .undo = false, .gso_max_segs = 1, .prr = prr_choice::none};

SocketFacts
ThreeSacked()
{
    SocketFacts facts = PLAIN;
    facts.loss_detection = loss_detection_choice::three_sacked;
    return facts;
}

Scoreboard
Board(const SocketFacts& facts)
{
    Scoreboard board;
    board.SetFacts(facts);
    return board;
}

void
Send(Scoreboard& board, int pkts, int64_t now_ns)
{
    for (int i = 0; i < pkts; ++i)
    {
        board.Sent(false, false, now_ns);
    }
}

AckOutcome
Acknowledge(Scoreboard& board, uint64_t una, std::vector<SeqnoRange> blocks, int64_t now_ns)
{
    return board.Acknowledge(una, blocks, now_ns);
}

} // namespace

// ---- losses ---------------------------------------------------------------------------------------------

/** SACKs reach a scoreboard of ten one by one from the sixth segment on; then two retransmissions arrive, behind a gap.
 */
TEST(segments_are_lost_once_three_beyond_them_are_sacked_and_a_sacked_retransmission_may_count_as_in_flight)
{
    for (const bool counts_sacked : {false, true})
    {
        SocketFacts facts = ThreeSacked();
        facts.sacked_retransmissions_count = counts_sacked;
        Scoreboard board = Board(facts);
        Send(board, 10, 0);
        for (uint64_t sacked = 1; sacked <= 4; ++sacked)
        {
            Acknowledge(board, 0, {{5, 5 + sacked}}, 100 * MS);
            Equal(board.DetectLosses(true, 100 * MS, 100 * MS), sacked == 3 ? 5 : 0);
        }
        Equal(board.ReorderingDeadlineNs(), NEVER_NS);
        for (int i = 0; i < 3; ++i)
        {
            board.Retransmitted(*board.NextLost(), 100 * MS);
        }
        Acknowledge(board, 0, {{1, 3}, {5, 9}}, 200 * MS);
        Equal(board.InFlight(), 2 + (counts_sacked ? 2 : 0), "the first retransmission and the last segment");
        Equal(board.DetectLosses(false, 100 * MS, 300 * MS), 0, "no retransmission is found lost");
        Acknowledge(board, 3, {{5, 9}}, 200 * MS);
        Equal(board.InFlight(), 1);
        board.MarkTimedOut(300 * MS);
        Equal(board.InFlight(), 0);
    }
}

namespace
{

/** Four segments of a window are lost. */
struct Holes
{
    explicit Holes(void (*change)(SocketFacts&) = [](SocketFacts&) {})
    {
        SocketFacts facts = ThreeSacked();
        facts.sacks_restart_rto = false;
        change(facts);
        Connection c({.initial_cwnd_pkts = 40, .facts = facts});
        const auto is_hole = [](uint64_t seqno) { return seqno == 4 || seqno == 8 || seqno == 12 || seqno == 16; };
        c.arrival = [is_hole](const Departure& d, int64_t arrives_ns) {
            return d.nth == 1 && is_hole(d.seqno) ? NEVER_NS : arrives_ns;
        };
        std::set<int64_t> deadlines_ns;
        c.on_ack = [&](const cc_sample& sample) {
            lost_pkts += sample.lost_pkts;
            if (c.sender.LossState() == CC_CA_RECOVERY && c.sender.Board().Una() > 4)
            {
                deadlines_ns.insert(c.sender.RtoDeadlineNs());
            }
        };
        c.Write(200);
        c.Drain(5 * SECOND);
        Equal(c.Undelivered(), 0);
        transmissions = std::ranges::count_if(c.departures, is_hole, &Departure::seqno);
        duplicates = c.duplicate_pkts;
        deadlines = deadlines_ns.size();
    }

    int64_t transmissions = 0; ///< of the four
    uint64_t duplicates = 0;
    uint64_t lost_pkts = 0;    ///< as reported to the algorithm
    std::size_t deadlines = 0; ///< that the timer had in the recovery, once the first hole was filled
};

} // namespace

TEST(a_partial_ack_sends_the_next_hole_again_though_that_is_on_its_way)
{
    const Holes plain;
    const Holes sends([](SocketFacts& facts) { facts.partial_ack_sends = true; });
    Equal(plain.transmissions, 8);
    Equal(plain.duplicates, 0);
    Equal(sends.transmissions, 8 + 3);
    Equal(sends.duplicates, 3);
}

TEST(in_a_recovery_the_first_partial_ack_alone_restarts_the_timer)
{
    Equal(Holes().deadlines, 3, "three of the four holes' repairs leave another");
    Equal(Holes([](SocketFacts& facts) { facts.rto_restarts = false; }).deadlines, 1);
}

// ---- RTTs and the timer ---------------------------------------------------------------------------------

/** Two segments leave 10 ms apart, the clock's step between them; then a SACK and an ACK of both and the next. */
TEST(an_rtt_is_of_each_segment_or_of_the_head_in_steps_of_the_clock_and_the_smallest_may_be_smoothed)
{
    struct Case
    {
        rtt_samples_choice samples;
        int64_t clock_us;
        smallest_rtt_choice smallest;
        std::array<int64_t, 4> rtts_ns; ///< by SACK, newest, oldest, smallest
    };
    constexpr int64_t US = 1000;
    constexpr auto latest = smallest_rtt_choice::latest;
    constexpr auto acked = rtt_samples_choice::acked;
    for (const Case& expected : {
             Case{acked, 1, latest, {89'900 * US, 99'900 * US, 109'900 * US, 89'900 * US}},
             Case{rtt_samples_choice::head, 1, latest, {-1, 109'900 * US, 109'900 * US, 109'900 * US}},
             Case{acked, 1000, latest, {90'000 * US, 100'000 * US, 110'000 * US, 90'000 * US}},
             Case{acked, 1, smallest_rtt_choice::smoothed, {89'900 * US, 99'900 * US, 109'900 * US, 95'000 * US}},
         })
    {
        SocketFacts facts = PLAIN;
        facts.rtt_samples = expected.samples;
        facts.smallest_rtt = expected.smallest;
        facts.rtt_clock_us = expected.clock_us;
        Scoreboard board = Board(facts);
        Send(board, 1, MS * 4 / 10);
        Send(board, 2, MS * 104 / 10);
        const int64_t by_sack_ns = Acknowledge(board, 0, {{2, 3}}, MS * 1003 / 10).rtt_ns;
        const AckOutcome outcome = Acknowledge(board, 2, {{2, 3}}, MS * 1103 / 10);
        board.NoteSmoothedRtt(95 * MS, 111 * MS);
        const std::array rtts_ns{by_sack_ns, outcome.rtt_ns, outcome.oldest_rtt_ns, board.MinRttNs()};
        Equal(rtts_ns, expected.rtts_ns);
    }
}

/** Nothing arrives. */
TEST(the_least_time_bounds_the_variation_or_the_whole)
{
    struct Case
    {
        int64_t min_rto_ms;
        min_rto_of_choice of;
        int64_t at_ms;
    };
    for (const Case& first :
         {Case{200, min_rto_of_choice::variation, 50 + 200}, Case{1000, min_rto_of_choice::timeout, 1000},
          Case{100, min_rto_of_choice::timeout, 50 + 4 * 25}})
    {
        SocketFacts facts = PLAIN;
        facts.min_rto_ms = first.min_rto_ms;
        facts.min_rto_of = first.of;
        Connection c({.facts = facts});
        c.arrival = [](const Departure&, int64_t) { return NEVER_NS; };
        c.Write(1);
        Equal(c.sender.RtoDeadlineNs(), first.at_ms * MS);
    }
}

// ---- the delivery rate ----------------------------------------------------------------------------------

/**
 * A flight of two; then two that leave together and are acknowledged 10 ms apart; then an ACK too soon for any RTT. A
 * kept sample counts what a later ACK delivers over its own interval; an interval below the smallest RTT gives no rate,
 * or the last one.
 */
TEST(a_rate_is_sampled_afresh_by_each_ack_or_kept)
{
    for (const bool kept : {false, true})
    {
        SocketFacts facts = PLAIN;
        facts.rate_sample = kept ? rate_sample_choice::kept : rate_sample_choice::fresh;
        facts.smallest_rtt = smallest_rtt_choice::smoothed; // so that the last ACK's RTT is not the smallest
        Scoreboard board = Board(facts);
        const auto check = [&board](int64_t now_ns, int64_t pkts, int64_t interval_ms) {
            const RateSample sample = board.SampleRate(now_ns);
            Equal(sample.sample_pkts, pkts);
            Near(double(sample.interval_ns) / MS, double(interval_ms), 1e-5);
        };
        Send(board, 2, 0);
        Acknowledge(board, 2, {}, 100 * MS);
        kept ? check(100 * MS, -1, 0) : check(100 * MS, 2, 100); // nothing was delivered before
        Send(board, 2, 100 * MS);
        Acknowledge(board, 3, {}, 200 * MS);
        check(200 * MS, 1, 100);
        Acknowledge(board, 4, {}, 210 * MS);
        check(210 * MS, 2, kept ? 100 : 110);
        Send(board, 1, 210 * MS);
        board.NoteRtt(50 * MS, 210 * MS);
        Acknowledge(board, 5, {}, 220 * MS);
        const RateSample last = board.SampleRate(220 * MS);
        Near(double(last.interval_ns) / MS, kept ? 100 : 0, 1e-5);
        Require(!kept || last.sample_pkts == 2, "the last one's");
    }
}
