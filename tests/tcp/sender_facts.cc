// SPDX-License-Identifier: GPL-2.0-only
//
// One connection over a path of 50 ms that misbehaves as the named experiment says. Prints what was measured as
// "name value" lines; test_sender.py says what it should be.
//
// usage: sender_facts EXPERIMENT

#include "connection.hpp"

#include <iterator>
#include <limits>

namespace
{

constexpr int64_t RTT = 50 * MS;
constexpr bbrgym::SocketFacts UNPACED{.pacing = bbrgym::pacing_choice::none};
constexpr bbrgym::SocketFacts NO_FEATURES{.tail_loss_probe = false, .undo = false, .gso_max_segs = 1};

using Kind = Departure::Kind;

void
Print(const char* name, double value)
{
    std::printf("%s %.9g\n", name, value);
}

void
PrintCounts(const Connection& c)
{
    Print("timeouts", double(c.sender.Totals().rto_count));
    Print("probes", double(c.sender.Totals().probe_count));
    Print("retransmitted", double(c.sender.Totals().retransmitted_pkts));
    Print("dropped", double(c.dropped_pkts));
    Print("duplicates", double(c.duplicate_pkts));
    Print("reductions", c.sender.GetController().Reductions());
    Print("undos", c.sender.GetController().Undos());
    Print("undos_in_recovery", c.sender.GetController().UndosInRecovery());
    Print("undelivered", double(c.Written() - c.sender.Board().Una()));
    Print("is_open", c.sender.LossState() == CC_CA_OPEN);
}

/** The first transmission of each of the segments is lost. */
Connection::Arrival
Losing(uint64_t begin, uint64_t end)
{
    return [=](const Departure& d, int64_t arrives_ns) {
        return d.nth == 1 && begin <= d.serial && d.serial < end ? bbrgym::NEVER_NS : arrives_ns;
    };
}

/** A link that stands still for a time and then carries on, in order, a segment each 0.1 ms. */
Connection::Arrival
Stalling(int64_t from_ns, int64_t to_ns)
{
    return [=, free_ns = int64_t{0}](const Departure&, int64_t arrives_ns) mutable {
        arrives_ns = std::max(arrives_ns, free_ns);
        arrives_ns = from_ns <= arrives_ns && arrives_ns < to_ns ? to_ns : arrives_ns;
        free_ns = arrives_ns + MS / 10;
        return arrives_ns;
    };
}

void
PrintFirstProbe(const Connection& c)
{
    const auto probe =
        std::ranges::find_if(c.departures, [](const Departure& d) { return d.kind == Kind::PROBE; });
    Print("probe_at_ms", double(probe->at_ns) / MS);
    Print("probe_serial", double(probe->serial));
}

// ---- tail loss probes -----------------------------------------------------------------------------------

/** Ten segments, the last is lost; later ten more, for which the window does not decay. */
void
TailOfOne()
{
    Connection c({.facts = {.slow_start_after_idle = false, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.arrival = Losing(9, 10);
    c.Write(10);
    c.Run(SECOND);
    Print("reductions_before_more_is_acknowledged", c.sender.GetController().Reductions());
    const uint32_t cwnd = c.Cwnd();
    c.Write(10);
    c.Drain(SECOND);
    Print("window_kept", double(c.Cwnd()) / cwnd);
    PrintFirstProbe(c);
    PrintCounts(c);
}

/** Ten segments, the last three are lost. */
void
TailOfMany()
{
    Connection c({});
    c.arrival = Losing(7, 10);
    c.Write(10);
    c.Drain(2 * SECOND);
    PrintFirstProbe(c);
    PrintCounts(c);
}

/** A whole window is lost, and there is more to send. */
void
ProbeOfNewData()
{
    Connection c({});
    c.arrival = Losing(0, 10);
    c.Write(40);
    c.Drain(2 * SECOND);
    PrintFirstProbe(c);
    PrintCounts(c);
}

/** Five segments take three round trips, but arrive; later ten more. */
void
ProbeOfWhatArrived()
{
    Connection c({});
    c.arrival = Stalling(0, 4 * RTT);
    c.Write(5);
    c.Run(SECOND);
    c.Write(10);
    c.Drain(SECOND);
    PrintFirstProbe(c);
    PrintCounts(c);
}

/** One segment waits for the receiver's delayed ACK; its probe must not come before. */
void
LoneSegment()
{
    Connection c({});
    int64_t now_ns = 0;
    for (uint64_t i = 0; i < 40; ++i) // past the quick ACKs
    {
        c.Write(1);
        c.Run(now_ns += 10 * RTT);
    }
    PrintCounts(c);
}

// ---- F-RTO ----------------------------------------------------------------------------------------------

constexpr int64_t SPIKE_NS = 4 * RTT;
constexpr int64_t SPIKE_END_NS = SPIKE_NS + 600 * MS;
constexpr uint64_t NO_LOSS = std::numeric_limits<uint64_t>::max();

/** A bulk flow until nothing arrives any more. */
void
RunToTheSpike(Connection& c)
{
    c.Write(2000);
    c.Run(SPIKE_NS + RTT);
}

/** Everything stands still for 600 ms; a segment may be lost beforehand. */
void
Spike(const bbrgym::SocketFacts& facts, uint64_t lost_serial)
{
    Connection c({.initial_cwnd_pkts = 20, .facts = facts});
    auto stall = Stalling(SPIKE_NS, SPIKE_END_NS);
    c.arrival = [&](const Departure& d, int64_t arrives_ns) {
        return d.serial == lost_serial && d.nth == 1 ? bbrgym::NEVER_NS : stall(d, arrives_ns);
    };
    RunToTheSpike(c);
    const uint32_t cwnd = c.Cwnd();
    Print("in_flight", c.sender.Board().InFlight());
    c.Run(SPIKE_END_NS + RTT / 2 + MS);
    Print("window_kept", double(c.Cwnd()) / cwnd);
    Print("timeouts_by_then", double(c.sender.Totals().rto_count));
    c.Drain(60 * SECOND);
    PrintCounts(c);
}

void
DelaySpike()
{
    Spike(UNPACED, NO_LOSS);
}

/** Between two ACKs the pacing timer sends again what counts as lost, so no original is the first to be acknowledged. */
void
DelaySpikePaced()
{
    Spike({}, NO_LOSS);
}

void
DelaySpikeWithoutUndo()
{
    Spike(NO_FEATURES, NO_LOSS);
}

/** A segment amid those that stand still is really lost. */
void
DelaySpikeWithLoss()
{
    Connection dry({.initial_cwnd_pkts = 20, .facts = UNPACED});
    dry.arrival = Stalling(SPIKE_NS, SPIKE_END_NS);
    RunToTheSpike(dry);
    Spike(UNPACED, dry.sender.Board().Una() + 20);
}

/** What would arrive in 600 ms is lost. */
void
RealTimeout()
{
    Connection c({.initial_cwnd_pkts = 20});
    c.arrival = [](const Departure&, int64_t arrives_ns) {
        return SPIKE_NS <= arrives_ns && arrives_ns < SPIKE_END_NS ? bbrgym::NEVER_NS : arrives_ns;
    };
    RunToTheSpike(c);
    const uint32_t ssthresh_before = c.Cwnd();
    c.Drain(60 * SECOND);
    Print("threshold_kept", double(c.sender.GetController().State().ssthresh_pkts) / ssthresh_before);
    PrintCounts(c);
}

/** What would arrive in 600 ms is lost, and of what is sent again the tenth segment. */
void
RetransmitLostAfterTimeout(bool recovers)
{
    Connection c({.initial_cwnd_pkts = 20,
                  .facts = {.loss_recovers = recovers, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.arrival = [again = 0](const Departure& d, int64_t arrives_ns) mutable {
        const bool is_lost_again = d.kind == Kind::RETRANSMIT && ++again == 10;
        const bool is_in_spike = SPIKE_NS <= arrives_ns && arrives_ns < SPIKE_END_NS;
        return is_lost_again || is_in_spike ? bbrgym::NEVER_NS : arrives_ns;
    };
    int after_timeout = 0;
    bool is_loss = false;
    c.on_ack = [&](const cc_sample& sample) {
        after_timeout += is_loss && sample.ca_state == CC_CA_RECOVERY;
        is_loss = sample.ca_state == CC_CA_LOSS;
    };
    RunToTheSpike(c);
    c.Drain(60 * SECOND);
    Print("recoveries_after_timeout", after_timeout);
    PrintCounts(c);
}

/** Segment 30 is lost, and while it is repaired the path stands still for longer than a timeout. */
void
SpikeInRecovery(bbrgym::timeout_undo_choice timeout_undo)
{
    Connection c({.initial_cwnd_pkts = 20,
                  .facts = {.timeout_undo = timeout_undo, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.arrival = [stalls = Stalling(110 * MS, 800 * MS)](const Departure& d, int64_t arrives_ns) mutable {
        return d.serial == 30 && d.nth == 1 ? bbrgym::NEVER_NS : stalls(d, arrives_ns);
    };
    cc_ca_state before = CC_CA_OPEN;
    uint32_t cwnd = 0;
    c.Write(1000);
    while (c.sender.Totals().rto_count == 0)
    {
        before = c.sender.LossState();
        cwnd = c.Cwnd();
        c.Run(c.now_ns + MS);
    }
    Print("timeout_in_recovery", before == CC_CA_RECOVERY);
    c.Run(825 * MS + MS / 10); // the first ACK after the spike
    Print("window_kept", double(c.Cwnd()) / cwnd);
    PrintCounts(c);
}

// ---- D-SACK ---------------------------------------------------------------------------------------------

constexpr uint64_t LATE = 30;

/** Segment 30 takes longer than those behind it, and another one perhaps too. */
Connection::Arrival
Late(int64_t late_ns, uint64_t other = NO_LOSS, int64_t other_late_ns = 0)
{
    return [=](const Departure& d, int64_t arrives_ns) {
        if (d.nth > 1)
        {
            return arrives_ns;
        }
        return arrives_ns + (d.serial == LATE ? late_ns : 0) + (d.serial == other ? other_late_ns : 0);
    };
}

void
SpuriousRecovery(const Connection::Arrival& arrival, bool timestamps = false)
{
    Connection c({.initial_cwnd_pkts = 20, .facts = {.gso_max_segs = 1, .prr = bbrgym::prr_choice::none, .timestamps = timestamps}});
    c.arrival = arrival;
    c.Write(1000);
    uint32_t before = 0;
    uint32_t reduced = 0;
    uint32_t restored = 0;
    int64_t undone_ns = 0;
    c.on_ack = [&](const cc_sample&) {
        const Controller& controller = c.sender.GetController();
        before = controller.Reductions() == 0 ? c.Cwnd() : before;
        reduced = controller.Undos() == 0 ? c.Cwnd() : reduced;
        restored = restored == 0 && controller.Undos() > 0 ? c.Cwnd() : restored;
        undone_ns = controller.Undos() == 0 ? c.now_ns : undone_ns;
    };
    c.Run(SECOND);
    Print("undone_after_ms", double(undone_ns) / MS);
    Print("window_reduced", double(reduced) / before);
    Print("window_restored", double(restored) / before);
    PrintCounts(c);
}

/** The original arrives before its retransmission, which is then the duplicate. */
void
LateOriginal()
{
    SpuriousRecovery(Late(40 * MS));
}

/** The original arrives long after its retransmission, when recovery is over, and is the duplicate. */
void
VeryLateOriginal()
{
    SpuriousRecovery(Late(200 * MS));
}

/** As LateOriginal, and recovery still waits for the last segment sent before it began. */
void
LateOriginalInRecovery()
{
    Connection dry({.initial_cwnd_pkts = 20});
    dry.arrival = Late(40 * MS);
    dry.Write(1000);
    dry.Run(SECOND);
    const auto again =
        std::ranges::find_if(dry.departures, [](const Departure& d) { return d.serial == LATE && d.nth == 2; });
    SpuriousRecovery(Late(40 * MS, std::prev(again)->serial, 10 * MS));
}

/** Every 40th segment is late by 30 ms; two overtake the 20th, so that reordering has been seen. */
void
ManyLate(const bbrgym::SocketFacts& facts)
{
    constexpr uint64_t SEGMENTS = 4000;
    Connection c({.initial_cwnd_pkts = 20, .facts = facts});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const int64_t late_ns = d.serial % 40 == 39 ? 30 * MS : d.serial == 20 ? MS / 4 : 0;
        return arrives_ns + (d.nth == 1 ? late_ns : 0);
    };
    c.Write(SEGMENTS);
    c.Drain(60 * SECOND);
    const auto in_late_half = [](const Departure& d) { return d.kind == Kind::RETRANSMIT && d.serial >= SEGMENTS / 2; };
    Print("steps", double(c.sender.Board().Reordering().Steps()));
    Print("late_half_retransmitted", double(std::ranges::count_if(c.departures, in_late_half)));
    PrintCounts(c);
}

/** The 30th segment is late by 40 ms, and pacing lets a segment go each 50 ms. */
void
LateBeforeRetransmission()
{
    Connection c({.initial_cwnd_pkts = 60, .pacing_Bps = 25'000, .facts = {.unpaced_segments = 40, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.arrival = Late(14 * MS);
    c.Write(60);
    c.Drain(5 * SECOND);
    PrintCounts(c);
}

/** The 30th segment is lost, the 31st comes after the retransmission of the 30th, and its own retransmission is lost. */
void
LaterOriginal(bool timestamps)
{
    Connection c({.initial_cwnd_pkts = 60, .facts = {.gso_max_segs = 1, .timestamps = timestamps}});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_lost = (d.serial == 30 && d.nth == 1) || (d.serial == 31 && d.nth == 2);
        return is_lost ? bbrgym::NEVER_NS : arrives_ns + (d.serial == 31 && d.nth == 1 ? 90 * MS : 0);
    };
    c.Write(400);
    c.Drain(5 * SECOND);
    Print("refused", double(c.refused_pkts));
    PrintCounts(c);
}

/** The first of four is lost; the probe repeats the last, which had arrived. Its D-SACK is not a word about the first. */
void
DuplicateOfTheProbe()
{
    Connection c({});
    auto stall = Stalling(0, 4 * RTT);
    c.arrival = [&](const Departure& d, int64_t arrives_ns) {
        return d.serial == 0 && d.nth == 1 ? bbrgym::NEVER_NS : stall(d, arrives_ns);
    };
    c.Write(4);
    c.Drain(2 * SECOND);
    c.Write(10);
    c.Drain(2 * SECOND);
    PrintCounts(c);
}

/** A segment every 20 ms on a path of 200 ms; of what left from some moment on nothing arrives. */
void
HeadLimitsProbe(bool limits)
{
    Connection c({.one_way_ns = 100 * MS, .facts = {.head_limits_probe = limits, .gso_max_segs = 1}});
    constexpr int64_t BREAK_NS = 5 * SECOND;
    c.arrival = [](const Departure& d, int64_t arrives_ns) { return d.at_ns < BREAK_NS ? arrives_ns : bbrgym::NEVER_NS; };
    for (int64_t now_ns = 0; now_ns <= BREAK_NS + 220 * MS; now_ns += 20 * MS)
    {
        c.Run(now_ns);
        c.Write(1);
    }
    c.Run(BREAK_NS + SECOND);
    const auto probe = std::ranges::find_if(c.departures, [](const Departure& d) { return d.kind == Kind::PROBE; });
    Print("probe_after_head_ms", double(probe->at_ns - BREAK_NS) / MS);
    Print("rto_ms", double(c.sender.RtoNs()) / MS);
}

/** Ten segments: the ACK of the first comes late, when the probe has left, and no other one. */
void
AckWhileProbeIsOut()
{
    Connection c({.facts = {.gso_max_segs = 1}});
    c.arrival = [](const Departure& d, int64_t) { return d.serial == 0 ? 175 * MS : bbrgym::NEVER_NS; };
    c.Write(10);
    c.Run(SECOND);
    const auto again = std::ranges::find_if(c.departures, [](const Departure& d) { return d.kind == Kind::RETRANSMIT; });
    Print("again_at_ms", double(again->at_ns) / MS);
    Print("probes", double(c.sender.Totals().probe_count));
}

// ---- the retransmission timer ---------------------------------------------------------------------------

/** A segment every 20 ms on a path of 50 ms, none of which arrives; what is in flight after the timeout. */
void
TimeoutMarks(bbrgym::timeout_marks_choice marks)
{
    Connection c({.initial_cwnd_pkts = 20, .facts = {.tail_loss_probe = false, .timeout_marks = marks, .gso_max_segs = 1}});
    c.Write(10);
    c.Run(SECOND);
    c.arrival = [](const Departure&, int64_t) { return bbrgym::NEVER_NS; };
    for (int64_t now_ns = SECOND; c.sender.Totals().rto_count == 0; c.Run(now_ns += 20 * MS))
    {
        c.Write(1);
    }
    std::printf("in_flight_after_timeout %u\n", c.sender.Board().InFlight());
}

/** Nothing arrives any more; the times between the transmissions of the head. */
void
Backoff()
{
    Connection c({.facts = NO_FEATURES});
    c.Write(10);
    c.Run(SECOND);
    c.arrival = [](const Departure&, int64_t) { return bbrgym::NEVER_NS; };
    c.Write(1);
    int64_t last_ns = c.now_ns;
    for (int i = 0; i < 14; ++i)
    {
        const std::size_t before = c.departures.size();
        while (c.departures.size() == before)
        {
            c.Run(c.sender.TimerDeadlineNs());
        }
        std::printf("gap_%d_ms %.9g\n", i, double(c.departures.back().at_ns - last_ns) / MS);
        last_ns = c.departures.back().at_ns;
    }
}

/** A lone segment is lost; the timer after the ACK of its retransmission, and after that of another one. */
void
BackOffAfterRetransmission(bbrgym::SocketFacts facts)
{
    Connection c({.facts = facts});
    c.Write(10);
    c.Run(SECOND);
    c.arrival = [](const Departure& d, int64_t arrives_ns) { return d.serial == 10 && d.nth == 1 ? bbrgym::NEVER_NS : arrives_ns; };
    for (const char* name : {"rto_ms", "rto_after_retransmission_ms", "rto_after_new_data_ms"})
    {
        Print(name, double(c.sender.RtoNs()) / MS);
        c.Write(1);
        c.Run(c.now_ns + SECOND);
    }
}

/** Segments leave 300 ms apart; the time from the last ACK to the timeout, when nothing arrives any more. */
void
PacedTimeout(bool delays)
{
    constexpr int64_t GAP_NS = 300 * MS;
    constexpr uint32_t MSS = 1000;
    Connection c({.mss_bytes = MSS,
                  .pacing_Bps = MSS * SECOND / GAP_NS,
                  .facts = {.tail_loss_probe = false, .unpaced_segments = 0, .gso_max_segs = 1, .pacing_delays_timers = delays}});
    c.Write(10);
    const int64_t last_ns = 5 * GAP_NS;
    c.arrival = [](const Departure& d, int64_t arrives_ns) { return d.at_ns > last_ns ? bbrgym::NEVER_NS : arrives_ns; };
    c.Run(last_ns + SECOND);
    const auto again = std::ranges::find_if(c.departures, [](const Departure& d) { return d.kind == Kind::RETRANSMIT; });
    const auto head = std::ranges::find_if(c.departures, [&](const Departure& d) { return d.serial == again->serial; });
    Print("wait_ms", double(again->at_ns - head->at_ns) / MS);
}

/** Segment 30 of 40 is lost three times, the last one is late; the times between the transmissions of segment 30. */
void
LateSack(bool restarts, int64_t late_ns)
{
    Connection c({.initial_cwnd_pkts = 40,
                  .facts = {.tail_loss_probe = false, .sacks_restart_rto = restarts, .gso_max_segs = 1}});
    c.arrival = [late_ns](const Departure& d, int64_t arrives_ns) {
        const bool is_lost = d.serial == 30 && d.nth <= 3;
        return is_lost ? bbrgym::NEVER_NS : arrives_ns + (d.serial == 39 ? late_ns : 0);
    };
    c.Write(40);
    c.Drain(20 * SECOND);
    int64_t last_ns = 0;
    for (const Departure& d : c.departures)
    {
        if (d.serial == 30)
        {
            std::printf("gap_%u_ms %.9g\n", d.nth, double(d.at_ns - last_ns) / MS);
            last_ns = d.at_ns;
        }
    }
    Print("rto_ms", double(c.sender.RtoNs()) / MS);
    PrintCounts(c);
}

void
ShortRttTimeout()
{
    Connection c({.one_way_ns = MS / 10, .facts = NO_FEATURES});
    c.Write(1001); // the receiver answers the last one at once, so that SRTT is the path's
    c.Run(SECOND);
    c.arrival = [](const Departure&, int64_t) { return bbrgym::NEVER_NS; };
    c.Write(1);
    c.Run(2 * SECOND);
    const Departure& again = c.departures[c.departures.size() - 2];
    Print("gap_ms", double(again.at_ns - SECOND) / MS);
    Print("nth", again.nth);
}

// ---- RACK -----------------------------------------------------------------------------------------------

/** A segment is lost three times while data flows. */
void
LostRetransmission()
{
    Connection c({.initial_cwnd_pkts = 20, .facts = NO_FEATURES});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        return d.serial == 50 && d.nth <= 3 ? bbrgym::NEVER_NS : arrives_ns;
    };
    c.Write(300);
    c.Drain(5 * SECOND);
    PrintCounts(c);
    Print("lost_total", double(c.sender.Board().LostTotal()));
}

using bbrgym::reordering_window_choice;

/** Ten segments leave at once; the first is lost, and from 100 ms on so many of the others are SACKed, 0.1 ms apart. */
void
AtOnce(reordering_window_choice window, bool is_patient, int sacked)
{
    bbrgym::Scoreboard board;
    board.SetFacts({.reordering_window = window});
    for (int i = 0; i < 10; ++i)
    {
        board.Sent(false, false, 0);
    }
    int64_t now_ns = 100 * MS;
    uint32_t lost = 0;
    for (uint64_t i = 1; i <= static_cast<uint64_t>(sacked); ++i)
    {
        now_ns += MS / 10;
        const std::array blocks = {bbrgym::SerialRange{1, 1 + i}};
        board.Acknowledge(0, blocks, now_ns);
        lost += board.DetectLosses(is_patient, RTT, now_ns);
    }
    Print("lost", lost);
    const int64_t deadline_ns = board.ReorderingDeadlineNs();
    Print("deadline_ms", deadline_ns == bbrgym::NEVER_NS ? -1 : double(deadline_ns) / MS);
    Print("counted", board.DetectLossesByCount());
}

/** Segments 2 and 18 of 20 are lost, so that one follows the second. */
void
LossBeforeLast(reordering_window_choice window)
{
    Connection c({.initial_cwnd_pkts = 20, .facts = {.gso_max_segs = 1, .reordering_window = window}});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        return d.nth == 1 && (d.serial == 2 || d.serial == 18) ? bbrgym::NEVER_NS : arrives_ns;
    };
    uint64_t reported = 0;
    c.on_ack = [&](const cc_sample& sample) { reported += sample.lost_pkts; };
    c.Write(20);
    c.Drain(SECOND);
    const auto again = std::ranges::find_if(c.departures, [](const Departure& d) { return d.serial == 18 && d.nth == 2; });
    Print("again_ms", double(again->at_ns) / MS);
    Print("reported", double(reported));
    PrintCounts(c);
}

// ---- pacing ---------------------------------------------------------------------------------------------

/** A millisecond a segment, a window that never limits, and some losses. */
void
Pacing()
{
    Connection c({.initial_cwnd_pkts = 1000, .pacing_Bps = 1'250'000});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        return d.serial % 20 == 5 && d.nth == 1 ? bbrgym::NEVER_NS : arrives_ns;
    };
    c.Write(500);
    c.Run(300 * MS);
    const auto at_once = std::ranges::count_if(c.departures, [](const Departure& d) { return d.at_ns == 0; });
    Print("at_once", double(at_once));
    int64_t shortest_ns = SECOND;
    int64_t longest_ns = 0;
    for (std::size_t i = static_cast<std::size_t>(at_once); i < c.departures.size(); ++i)
    {
        const int64_t gap_ns = c.departures[i].at_ns - c.departures[i - 1].at_ns;
        shortest_ns = std::min(shortest_ns, gap_ns);
        longest_ns = std::max(longest_ns, gap_ns);
    }
    Print("shortest_gap_us", double(shortest_ns) / 1e3);
    Print("longest_gap_us", double(longest_ns) / 1e3);
    Print("retransmitted", double(c.sender.Totals().retransmitted_pkts));
}

// ---- bursts ---------------------------------------------------------------------------------------------

/** Prints how many segments leave together once they are paced, and the time to the next burst. */
void
PrintBursts(const Connection& c)
{
    std::vector<std::pair<int64_t, int>> bursts;
    for (const Departure& d : c.departures)
    {
        if (bursts.empty() || bursts.back().first != d.at_ns)
        {
            bursts.emplace_back(d.at_ns, 0);
        }
        ++bursts.back().second;
    }
    const std::size_t last = bursts.size() - 2; // the last one may be cut off
    for (std::size_t i = 1; i <= last; ++i)
    {
        Require(bursts[i].second == bursts[1].second, "every burst is as large");
        Require(bursts[i + 1].first - bursts[i].first == bursts[2].first - bursts[1].first, "and as far from the next");
    }
    Print("segments", bursts[1].second);
    Print("gap_us", double(bursts[2].first - bursts[1].first) / 1e3);
}

void
Bursts(int64_t gso_max_segs, uint64_t pacing_Bps, int64_t one_way_ns = 25 * MS)
{
    Connection c({.one_way_ns = one_way_ns,
                  .initial_cwnd_pkts = 10'000,
                  .pacing_Bps = pacing_Bps,
                  .facts = {.gso_max_segs = gso_max_segs}});
    c.Write(5000);
    c.Run(20 * MS);
    PrintBursts(c);
}

/** Bursts of nine from sk_buffs of 52 segments: how many end an sk_buff or not, by their size. */
void
BurstsInSkbs(bool end_with_skb)
{
    constexpr uint64_t SKB_PKTS = 52; // of 1250 bytes in 64 KB
    constexpr uint64_t BURST_PKTS = 9;
    Connection c({.initial_cwnd_pkts = 10'000, .facts = {.gso_max_segs = 65'535, .bursts_end_with_skb = end_with_skb}});
    c.Write(5000);
    c.Run(200 * MS);
    std::map<int64_t, uint64_t> sizes_pkts; // by departure; the last one may be cut off
    for (const Departure& d : c.departures)
    {
        ++sizes_pkts[d.at_ns];
    }
    uint64_t next = 0;
    std::array<std::array<int, BURST_PKTS + 1>, 2> counts{};
    for (auto burst = sizes_pkts.begin(); burst != std::prev(sizes_pkts.end()); ++burst)
    {
        next += burst->second;
        if (burst->second <= BURST_PKTS) // the first ones leave at once
        {
            ++counts[next % SKB_PKTS == 0][burst->second];
        }
    }
    Print("ends_of_seven", counts[true][SKB_PKTS % BURST_PKTS]);
    Print("ends_of_nine", counts[true][BURST_PKTS]);
    Print("nines_elsewhere", counts[false][BURST_PKTS]);
    Print("sevens_elsewhere", counts[false][SKB_PKTS % BURST_PKTS]);
}

/** Ten segments at once, later more: the pacer has waited for data. */
void
Credit(bool has_credit)
{
    Connection c({.initial_cwnd_pkts = 100, .pacing_Bps = 1'250'000, .facts = {.pacing_credit = has_credit}});
    c.Write(10);
    c.Run(SECOND);
    const std::size_t before = c.departures.size();
    c.Write(10);
    c.Run(SECOND + 20 * MS);
    Print("first_gap_us", double(c.departures[before + 2].at_ns - SECOND) / 1e3);
    Print("second_gap_us", double(c.departures[before + 4].at_ns - c.departures[before + 2].at_ns) / 1e3);
}

/** Segments 20 and 21 left together, 23 and 24 in two bursts, and all of them are lost. */
void
BurstAgain()
{
    Connection c({.initial_cwnd_pkts = 1000, .pacing_Bps = 1'250'000, .facts = {.gso_max_segs = 2, .prr = bbrgym::prr_choice::none}});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_lost = d.serial == 20 || d.serial == 21 || d.serial == 23 || d.serial == 24;
        return is_lost && d.nth == 1 ? bbrgym::NEVER_NS : arrives_ns;
    };
    c.Write(300);
    c.Run(SECOND);
    std::map<uint64_t, int64_t> again;
    for (const Departure& d : c.departures)
    {
        if (d.kind == Kind::RETRANSMIT)
        {
            again[d.serial] = d.at_ns;
        }
    }
    Print("apart_20_21_us", double(again.at(21) - again.at(20)) / 1e3);
    Print("apart_23_24_us", double(again.at(24) - again.at(23)) / 1e3);
}

// ---- application-limited --------------------------------------------------------------------------------

/** A segment each 10 ms for a second, then as much as goes. */
void
AppLimited()
{
    Connection c({});
    std::array<int, 2> samples{};
    int64_t bulk_ns = SECOND;
    int64_t last_limited_ns = 0;
    c.on_ack = [&](const cc_sample& sample) {
        ++samples[sample.is_app_limited];
        if (sample.is_app_limited)
        {
            last_limited_ns = static_cast<int64_t>(sample.now_us) * 1000;
        }
    };
    for (int64_t at_ns = 0; at_ns < bulk_ns; at_ns += 10 * MS)
    {
        c.Run(at_ns);
        c.Write(1);
    }
    c.Run(bulk_ns);
    Print("samples_of_the_trickle", samples[0] + samples[1]);
    Print("limited_of_the_trickle", samples[1]);
    Print("is_limited_in_the_trickle", c.sender.Board().IsAppLimited());
    c.Write(10'000);
    c.Run(3 * SECOND);
    Print("limited_after_the_trickle_ms", double(last_limited_ns - bulk_ns) / MS);
    Print("is_limited_in_the_bulk", c.sender.Board().IsAppLimited());
}

// ---- growth of the window -------------------------------------------------------------------------------

/** Two segments overtake the 30th, fifty the 100th, from which on the path is known to reorder, and the 400th. */
void
Overtaken()
{
    Connection c({.initial_cwnd_pkts = 20});
    c.arrival = [](const Departure& d, int64_t arrives_ns) {
        const bool is_late = d.nth == 1 && (d.serial == 100 || d.serial == 400);
        return arrives_ns + (d.nth == 1 && d.serial == 30 ? MS / 4 : 0) + (is_late ? 5 * MS : 0);
    };
    double acks[2] = {};
    double growth[2] = {};
    uint64_t una = 0;
    uint32_t cwnd = c.Cwnd();
    c.on_ack = [&](const cc_sample& sample) {
        if (sample.ca_state == CC_CA_DISORDER && sample.una_pkts == una)
        {
            acks[sample.is_reordering] += 1;
            growth[sample.is_reordering] += c.Cwnd() - double(cwnd);
        }
        una = sample.una_pkts;
        cwnd = c.Cwnd();
    };
    c.Write(1000);
    c.Drain(10 * SECOND);
    Print("acks_in_order", acks[0]);
    Print("growth_in_order", growth[0]);
    Print("acks_reordering", acks[1]);
    Print("growth_reordering", growth[1]);
}

/** Everything sent is acknowledged, and the application writes again after so many timeouts. */
void
Pause(double timeouts, bool decays)
{
    Connection c({.initial_cwnd_pkts = 20,
                  .facts = {.slow_start_after_idle = decays, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.Write(1000);
    c.Drain(10 * SECOND);
    const double window = c.Cwnd();
    c.Run(c.departures.back().at_ns + static_cast<int64_t>(timeouts * double(c.sender.RtoNs())));
    c.Write(1000);
    Print("kept", c.Cwnd() / window);
    Print("cwnd_pkts", c.Cwnd());
    c.Drain(10 * SECOND);
    Print("undelivered", double(c.Written() - c.sender.Board().Una()));
}

/** A segment leaves 0.1 s after the last ACK and is late, and a second one after such a part of a timeout without an ACK. */
void
Sparse(double part, bool decays)
{
    Connection c({.one_way_ns = 100 * MS,
                  .facts = {.slow_start_after_idle = decays, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    bool is_lost = false;
    c.arrival = [&is_lost](const Departure& departure, int64_t arrives_ns) {
        const bool is_dropped = departure.serial == 400 && !is_lost; // congestion avoidance follows
        is_lost |= is_dropped;
        return is_dropped ? bbrgym::NEVER_NS : arrives_ns + (departure.serial == 1000 ? 300 * MS : 0);
    };
    c.Write(1000);
    c.Drain(60 * SECOND);
    const double window = c.Cwnd();
    const int64_t acked_ns = c.now_ns;
    c.Run(acked_ns + 100 * MS);
    c.Write(1);
    c.Run(acked_ns + static_cast<int64_t>(part * double(c.sender.RtoNs())));
    c.Write(1);
    Print("kept", c.Cwnd() / window);
    Print("expected", double(uint64_t(window + 10) / 2) / window);
    Print("packets_out", c.sender.Board().PacketsOut());
    c.Drain(10 * SECOND);
    Print("undelivered", double(c.Written() - c.sender.Board().Una()));
}

/** In slow start the first window is used up, then half as much is written while that is out, and nothing more. */
void
Held(bbrgym::window_use_choice window_use)
{
    Connection c({.facts = {.window_use = window_use, .unpaced_segments = 0, .gso_max_segs = 1, .prr = bbrgym::prr_choice::none}});
    c.Write(10);
    c.Run(50 * MS + MS / 2);
    Print("acked", double(c.sender.Board().Una()));
    c.Write(5);
    c.Drain(SECOND);
    Print("cwnd_pkts", c.Cwnd());
}

constexpr Experiment EXPERIMENTS[] = {
    {"sparse", [] { Sparse(1.01, true); }},
    {"sparse_of_ns3", [] { Sparse(1.01, false); }},
    {"less_sparse", [] { Sparse(0.99, true); }},
    {"held", [] { Held(bbrgym::window_use_choice::held); }},
    {"held_by_largest", [] { Held(bbrgym::window_use_choice::largest); }},
    {"overtaken", Overtaken},
    {"short_pause", [] { Pause(0.9, true); }},
    {"pause", [] { Pause(2.5, true); }},
    {"long_pause", [] { Pause(100, true); }},
    {"pause_of_ns3", [] { Pause(2.5, false); }},
    {"tail_of_one", TailOfOne},
    {"tail_of_many", TailOfMany},
    {"probe_of_new_data", ProbeOfNewData},
    {"probe_of_what_arrived", ProbeOfWhatArrived},
    {"lone_segment", LoneSegment},
    {"delay_spike", DelaySpike},
    {"delay_spike_paced", DelaySpikePaced},
    {"delay_spike_without_undo", DelaySpikeWithoutUndo},
    {"delay_spike_with_loss", DelaySpikeWithLoss},
    {"real_timeout", RealTimeout},
    {"retransmit_lost_after_timeout", [] { RetransmitLostAfterTimeout(true); }},
    {"retransmit_lost_after_timeout_of_ns3", [] { RetransmitLostAfterTimeout(false); }},
    {"spike_in_recovery", [] { SpikeInRecovery(bbrgym::timeout_undo_choice::frto); }},
    {"spike_in_recovery_of_linux_4_11", [] { SpikeInRecovery(bbrgym::timeout_undo_choice::any_original); }},
    {"sack_before_timeout", [] { LateSack(true, 30 * MS); }},
    {"sack_before_timeout_of_ns3", [] { LateSack(false, 30 * MS); }},
    {"sack_after_timeout", [] { LateSack(true, 400 * MS); }},
    {"sack_after_timeout_of_ns3", [] { LateSack(false, 400 * MS); }},
    {"late_original", LateOriginal},
    {"late_original_with_timestamps", [] { SpuriousRecovery(Late(40 * MS), true); }},
    {"late_before_retransmission", LateBeforeRetransmission},
    {"later_original", [] { LaterOriginal(false); }},
    {"later_original_with_timestamps", [] { LaterOriginal(true); }},
    {"many_late", [] { ManyLate({.gso_max_segs = 1, .prr = bbrgym::prr_choice::none}); }},
    {"many_late_of_4_11",
     [] { ManyLate({.gso_max_segs = 1, .prr = bbrgym::prr_choice::none, .reordering_window_widens = false}); }},
    {"very_late_original", VeryLateOriginal},
    {"late_original_in_recovery", LateOriginalInRecovery},
    {"duplicate_of_the_probe", DuplicateOfTheProbe},
    {"probe_limited_by_head", [] { HeadLimitsProbe(true); }},
    {"probe_limited_by_timer", [] { HeadLimitsProbe(false); }},
    {"ack_while_probe_is_out", AckWhileProbeIsOut},
    {"timeout_marks_older", [] { TimeoutMarks(bbrgym::timeout_marks_choice::older); }},
    {"timeout_marks_all", [] { TimeoutMarks(bbrgym::timeout_marks_choice::all); }},
    {"backoff", Backoff},
    {"back_off_after_retransmission", [] { BackOffAfterRetransmission(NO_FEATURES); }},
    {"back_off_after_retransmission_with_timestamps",
     [] { BackOffAfterRetransmission({.tail_loss_probe = false, .undo = false, .gso_max_segs = 1, .timestamps = true}); }},
    {"paced_timeout", [] { PacedTimeout(true); }},
    {"paced_timeout_before_5_9", [] { PacedTimeout(false); }},
    {"short_rtt_timeout", ShortRttTimeout},
    {"lost_retransmission", LostRetransmission},
    {"one_overtakes", [] { AtOnce(reordering_window_choice::until_three_sacked, true, 1); }},
    {"three_overtake", [] { AtOnce(reordering_window_choice::until_three_sacked, true, 3); }},
    {"one_overtakes_in_recovery", [] { AtOnce(reordering_window_choice::until_three_sacked, false, 1); }},
    {"one_overtakes_of_4_17", [] { AtOnce(reordering_window_choice::until_recovery, true, 1); }},
    {"three_overtake_of_4_17", [] { AtOnce(reordering_window_choice::until_recovery, true, 3); }},
    {"one_overtakes_in_recovery_of_4_17", [] { AtOnce(reordering_window_choice::until_recovery, false, 1); }},
    {"one_overtakes_of_4_11", [] { AtOnce(reordering_window_choice::while_none_lost, true, 1); }},
    {"three_overtake_of_4_11", [] { AtOnce(reordering_window_choice::while_none_lost, true, 3); }},
    {"one_overtakes_in_recovery_of_4_11", [] { AtOnce(reordering_window_choice::while_none_lost, false, 1); }},
    {"loss_before_last", [] { LossBeforeLast(reordering_window_choice::until_three_sacked); }},
    {"loss_before_last_of_4_11", [] { LossBeforeLast(reordering_window_choice::while_none_lost); }},
    {"pacing", Pacing},
    {"bursts_at_10_mbps", [] { Bursts(65'535, 1'250'000); }},
    {"bursts_at_100_mbps", [] { Bursts(65'535, 12'500'000); }},
    {"bursts_at_1_gbps", [] { Bursts(65'535, 125'000'000); }},
    {"bursts_of_three", [] { Bursts(3, 12'500'000); }},
    {"bursts_in_skbs", [] { BurstsInSkbs(true); }},
    {"bursts_across_skbs", [] { BurstsInSkbs(false); }},
    {"bursts_on_a_path_of_2_ms", [] { Bursts(65'535, 1'250'000, MS); }},
    {"credit", [] { Credit(true); }},
    {"no_credit", [] { Credit(false); }},
    {"burst_again", BurstAgain},
    {"app_limited", AppLimited},
};

} // namespace

int
main(int argc, char** argv)
{
    return RunExperiment(EXPERIMENTS, argc, argv);
}
