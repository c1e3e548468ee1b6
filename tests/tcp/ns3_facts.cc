// SPDX-License-Identifier: GPL-2.0-only
//
// The facts of ns-3.28's sender, each beside its other value: a scoreboard by hand, or one connection over a path of
// 50 ms. Prints what was measured as "name value" lines; test_ns3_facts.py says what it should be.
//
// usage: ns3_facts EXPERIMENT

#include "connection.hpp"

#include <set>

namespace
{

using bbrgym::Scoreboard;
using bbrgym::SerialRange;
using bbrgym::SocketFacts;

constexpr SocketFacts PLAIN{.tail_loss_probe = false, .undo = false, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none};

void
Print(const char* name, double value)
{
    std::printf("%s %.9g\n", name, value);
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

bbrgym::AckOutcome
Take(Scoreboard& board, uint64_t una, std::vector<SerialRange> blocks, int64_t now_ns)
{
    return board.Acknowledge(una, blocks, now_ns);
}

// ---- losses ---------------------------------------------------------------------------------------------

/** SACKs reach a scoreboard of ten one by one from the sixth segment on; then two retransmissions arrive, behind a gap. */
void
Counting(bool counts_sacked_retransmissions)
{
    SocketFacts facts = PLAIN;
    facts.loss_detection = bbrgym::loss_detection_choice::three_sacked;
    facts.sacked_retransmissions_count = counts_sacked_retransmissions;
    Scoreboard board = Board(facts);
    Send(board, 10, 0);
    for (uint64_t sacked = 1; sacked <= 4; ++sacked)
    {
        Take(board, 0, {{5, 5 + sacked}}, 100 * MS);
        Print(("lost_by_" + std::to_string(sacked)).c_str(), board.DetectLosses(true, 100 * MS, 100 * MS));
    }
    Print("has_a_timer", board.ReorderingDeadlineNs() != bbrgym::NEVER_NS);
    for (int i = 0; i < 3; ++i)
    {
        board.Retransmitted(*board.NextLost(), 100 * MS);
    }
    Take(board, 0, {{1, 3}, {5, 9}}, 200 * MS);
    Print("in_flight_with_two_sacked", board.InFlight());
    Print("lost_retransmit", board.DetectLosses(false, 100 * MS, 300 * MS));
    Take(board, 3, {{5, 9}}, 200 * MS);
    Print("in_flight_with_two_acknowledged", board.InFlight());
    board.MarkTimedOut(300 * MS);
    Print("in_flight_after_a_timeout", board.InFlight());
}

/** Two segments of a window are lost. */
void
TwoHoles(bool sends, bool reports_change, bool restarts)
{
    SocketFacts facts = PLAIN;
    facts.loss_detection = bbrgym::loss_detection_choice::three_sacked;
    facts.partial_ack_sends = sends;
    facts.losses_of_ack = reports_change ? bbrgym::losses_of_ack_choice::change : bbrgym::losses_of_ack_choice::marked;
    facts.rto_restarts = restarts;
    facts.sacks_restart_rto = false;
    Connection c({.initial_cwnd_pkts = 40, .facts = facts});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_hole = d.serial == 4 || d.serial == 8 || d.serial == 12 || d.serial == 16;
        return d.nth == 1 && is_hole ? bbrgym::NEVER_NS : arrives_ns;
    };
    uint32_t lost_pkts = 0;
    std::set<int64_t> deadlines;
    c.on_ack = [&](const cc_sample& sample) {
        lost_pkts += sample.lost_pkts;
        if (c.sender.LossState() == CC_CA_RECOVERY && c.sender.Board().Una() > 4)
        {
            deadlines.insert(c.sender.RtoDeadlineNs());
        }
    };
    c.Write(200);
    c.Drain(5 * SECOND);
    Print("transmissions_of_holes", double(std::ranges::count_if(c.departures, [](const Departure& d) {
              return d.serial == 4 || d.serial == 8 || d.serial == 12 || d.serial == 16;
          })));
    Print("duplicates", double(c.duplicate_pkts));
    Print("lost_pkts", lost_pkts);
    Print("deadlines", double(deadlines.size()));
    Print("undelivered", double(c.Written() - c.sender.Board().Una()));
}

/** A segment and its retransmission are lost. */
void
LostRetransmission()
{
    SocketFacts facts = PLAIN;
    facts.loss_detection = bbrgym::loss_detection_choice::three_sacked;
    Connection c({.initial_cwnd_pkts = 20, .facts = facts});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        return d.serial == 50 && d.nth <= 2 ? bbrgym::NEVER_NS : arrives_ns;
    };
    c.Write(300);
    c.Drain(5 * SECOND);
    Print("timeouts", double(c.sender.Totals().rto_count));
    Print("undelivered", double(c.Written() - c.sender.Board().Una()));
}

// ---- RTTs and the timer ---------------------------------------------------------------------------------

/** Two segments leave 10 ms apart, the clock's step between them; then a SACK and an ACK of both and the next. */
void
Rtts(bool head, int64_t clock_us, bool smoothed)
{
    SocketFacts facts = PLAIN;
    facts.rtt_samples = head ? bbrgym::rtt_samples_choice::head : bbrgym::rtt_samples_choice::acked;
    facts.smallest_rtt = smoothed ? bbrgym::smallest_rtt_choice::smoothed : bbrgym::smallest_rtt_choice::latest;
    facts.rtt_clock_us = clock_us;
    Scoreboard board = Board(facts);
    Send(board, 1, MS * 4 / 10);
    Send(board, 2, MS * 104 / 10);
    Print("by_sack_us", double(Take(board, 0, {{2, 3}}, MS * 1003 / 10).rtt_ns) / 1e3);
    const bbrgym::AckOutcome outcome = Take(board, 2, {{2, 3}}, MS * 1103 / 10);
    Print("newest_us", double(outcome.rtt_ns) / 1e3);
    Print("oldest_us", double(outcome.oldest_rtt_ns) / 1e3);
    board.NoteSmoothedRtt(95 * MS, 111 * MS);
    Print("smallest_us", double(board.MinRttNs()) / 1e3);
}

/** Nothing arrives: when the first timeout comes. */
void
FirstTimeout(int64_t min_rto_ms, bool of_timeout)
{
    SocketFacts facts = PLAIN;
    facts.min_rto_ms = min_rto_ms;
    facts.min_rto_of = of_timeout ? bbrgym::min_rto_of_choice::timeout : bbrgym::min_rto_of_choice::variation;
    Connection c({.facts = facts});
    c.arrival = [](const Departure&, int64_t) { return bbrgym::NEVER_NS; };
    c.Write(1);
    Print("at_ms", double(c.sender.RtoDeadlineNs()) / MS);
}

// ---- the delivery rate ----------------------------------------------------------------------------------

void
PrintSample(const char* name, Scoreboard& board, int64_t now_ns)
{
    const bbrgym::RateSample sample = board.TakeRateSample(now_ns);
    Print((std::string(name) + "_pkts").c_str(), double(sample.sample_pkts));
    Print((std::string(name) + "_ms").c_str(), double(sample.interval_ns) / MS);
}

/** A flight of two; then two that leave together and are acknowledged 10 ms apart; then an ACK too soon for any RTT. */
void
Rates(bool kept)
{
    SocketFacts facts = PLAIN;
    facts.rate_sample = kept ? bbrgym::rate_sample_choice::kept : bbrgym::rate_sample_choice::fresh;
    facts.smallest_rtt = bbrgym::smallest_rtt_choice::smoothed; // so that the last ACK's RTT is not the smallest
    Scoreboard board = Board(facts);
    Send(board, 2, 0);
    Take(board, 2, {}, 100 * MS);
    PrintSample("first", board, 100 * MS);
    Send(board, 2, 100 * MS);
    Take(board, 3, {}, 200 * MS);
    PrintSample("second", board, 200 * MS);
    Take(board, 4, {}, 210 * MS);
    PrintSample("third", board, 210 * MS);
    Send(board, 1, 210 * MS);
    board.NoteRtt(50 * MS, 210 * MS);
    Take(board, 5, {}, 220 * MS);
    PrintSample("fourth", board, 220 * MS);
}

constexpr Experiment EXPERIMENTS[] = {
    {"counting", [] { Counting(false); }},
    {"counting_sacked_retransmissions", [] { Counting(true); }},
    {"holes", [] { TwoHoles(false, false, true); }},
    {"holes_partial_ack_sends", [] { TwoHoles(true, false, true); }},
    {"holes_change", [] { TwoHoles(false, true, true); }},
    {"holes_without_restarts", [] { TwoHoles(false, false, false); }},
    {"lost_retransmission", LostRetransmission},
    {"rtts", [] { Rtts(false, 1, false); }},
    {"rtts_of_the_head", [] { Rtts(true, 1, false); }},
    {"rtts_in_ms", [] { Rtts(false, 1000, false); }},
    {"rtts_smoothed", [] { Rtts(false, 1, true); }},
    {"first_timeout", [] { FirstTimeout(200, false); }},
    {"first_timeout_of_a_second", [] { FirstTimeout(1000, true); }},
    {"first_timeout_of_a_tenth", [] { FirstTimeout(100, true); }},
    {"rates", [] { Rates(false); }},
    {"rates_kept", [] { Rates(true); }},
};

} // namespace

int
main(int argc, char** argv)
{
    return RunExperiment(EXPERIMENTS, argc, argv);
}
