// SPDX-License-Identifier: GPL-2.0-only
//
// What shows that a timeout or a recovery was not needed: F-RTO (RFC 5682), D-SACK (RFC 2883), Eifel (RFC 3522); alone,
// and on a path of 50 ms.
#include "connection.hpp"
#include "frto.hpp"
#include "undo.hpp"

#include <iterator>
#include <limits>

using namespace bbrgym;

namespace
{

using Kind = Departure::Kind;

constexpr int64_t RTT = 50 * MS;
constexpr uint64_t NO_LOSS = std::numeric_limits<uint64_t>::max();
constexpr SocketFacts UNPACED{.pacing = pacing_choice::none};

/**
 * F-RTO after the events, a letter each: whether the test goes on, and whether new data is to leave.
 *
 *     t: a timeout that may be spurious   r: one that may not
 *     a: an ACK advances                  n: one that advances after new data left    s: a SACK of new data
 *     u: a duplicate ACK after new data   f: an ACK of all
 *     h: new data is held back            p: pacing's timer is over
 */
std::string
FrtoAfter(const char* events)
{
    Frto frto;
    int64_t now_ns = 0;
    for (; *events != '\0'; ++events)
    {
        now_ns += MS;
        switch (*events)
        {
        case 't': frto.Begin(true); break;
        case 'r': frto.Begin(false); break;
        case 'a': frto.OnAck({true, false, false, false, false}, now_ns); break;
        case 'n': frto.OnAck({true, false, false, false, true}, now_ns); break;
        case 's': frto.OnAck({false, false, true, false, true}, now_ns); break;
        case 'u': frto.OnAck({false, false, false, true, true}, now_ns); break;
        case 'f': frto.OnAck({true, true, false, false, false}, now_ns); break;
        case 'h': frto.BeforeSending(true, false, true, now_ns); break;
        default: frto.BeforeSending(false, false, true, now_ns);
        }
    }
    return std::to_string(frto.IsOn()) + "," + std::to_string(frto.SendsNewData());
}

/**
 * What proves a recovery needless after the events: D-SACKs, an echo of before the first retransmission, one of its
 * time.
 *
 *     b: a recovery begins at segment 10  x: a retransmission leaves   d: a D-SACK of segment 12   o: one of segment 5
 *     g: nothing retransmitted is on the scoreboard                    e: the recovery ends
 */
std::string
ProofsAfter(const char* events)
{
    UndoState undo;
    for (; *events != '\0'; ++events)
    {
        switch (*events)
        {
        case 'b': undo.Begin(10, 0); break;
        case 'x': undo.OnRetransmitted(50 * MS); break;
        case 'd': undo.OnDuplicateReport(13, 1); break;
        case 'o': undo.OnDuplicateReport(6, 1); break;
        case 'g': undo.ForgetRetransmissions(); break;
        default: undo.End();
        }
    }
    return std::to_string(undo.AllWereDuplicates()) + "," + std::to_string(undo.WasDelayed(49)) + "," +
           std::to_string(undo.WasDelayed(50));
}

} // namespace

TEST(a_timeout_is_tested_by_new_data)
{
    Equal(FrtoAfter("t"), "1,0");
    Equal(FrtoAfter("ta"), "1,1", "new data is to leave before retransmissions");
    Equal(FrtoAfter("tan"), "1,1", "an ACK of the old says nothing more");
    Equal(FrtoAfter("tas"), "0,1", "new data overtook the old");
    Equal(FrtoAfter("tau"), "0,1");
    Equal(FrtoAfter("tf"), "1,0", "all arrived: there is nothing left to test");
    Equal(FrtoAfter("tah"), "0,0", "no test without new data");
    Equal(FrtoAfter("tap"), "1,0", "what counts as lost leaves first");
    Equal(FrtoAfter("ra"), "0,0");
}

TEST(a_recovery_is_undone_by_reports_of_duplicates_or_by_what_was_delayed)
{
    Equal(ProofsAfter("x"), "0,0,0", "without a recovery there is nothing to undo");
    Equal(ProofsAfter("b"), "0,1,1", "nothing was retransmitted yet: what arrives is an original");
    Equal(ProofsAfter("bx"), "0,1,0", "what left before the first retransmission is one");
    Equal(ProofsAfter("bxd"), "1,1,0");
    Equal(ProofsAfter("bxxd"), "0,1,0", "each has to be reported");
    Equal(ProofsAfter("bxo"), "0,1,0", "of before the recovery");
    Equal(ProofsAfter("bxg"), "0,1,1");
    Equal(ProofsAfter("bxde"), "0,0,0");
}

// ---- timeouts -------------------------------------------------------------------------------------------

namespace
{

constexpr int64_t SPIKE_NS = 4 * RTT;
constexpr int64_t SPIKE_END_NS = SPIKE_NS + 600 * MS;

/** A bulk flow until nothing arrives any more. */
void
RunToTheSpike(Connection& c)
{
    c.Write(2000);
    c.Run(SPIKE_NS + RTT);
}

/** A connection whose path stands still for 600 ms; a segment may be lost beforehand. */
struct Spike
{
    explicit Spike(const SocketFacts& facts, uint64_t lost_seqno = NO_LOSS)
        : c({.initial_cwnd_pkts = 20, .facts = facts})
    {
        c.arrival = [lost_seqno, stall = Stalling(SPIKE_NS, SPIKE_END_NS)](const Departure& d, int64_t arrives_ns) {
            return d.seqno == lost_seqno && d.nth == 1 ? NEVER_NS : stall(d, arrives_ns);
        };
        RunToTheSpike(c);
        const uint32_t cwnd = c.Cwnd();
        in_flight = c.sender.Board().InFlight();
        c.Run(SPIKE_END_NS + RTT / 2 + MS);
        Equal(c.sender.Totals().rto_count, 1);
        window_kept = double(c.Cwnd()) / cwnd;
        c.Drain(60 * SECOND);
    }

    /** Requires that everything was sent again, and the window fell. */
    void CheckAllRetransmitted() const
    {
        const uint64_t retransmitted = c.sender.Totals().retransmitted_pkts;
        Require(retransmitted > 300 && retransmitted == c.duplicate_pkts && window_kept < 0.1, "all is sent again");
    }

    Connection c;
    uint64_t in_flight = 0;
    double window_kept = 0;
};

bool
IsInSpike(int64_t arrives_ns)
{
    return SPIKE_NS <= arrives_ns && arrives_ns < SPIKE_END_NS;
}

} // namespace

/**
 * As in Linux's tcp_tsq_write: between two ACKs the pacing timer sends again what counts as lost, so no original is the
 * first to be acknowledged, and only D-SACKs undo.
 */
TEST(pacing_takes_the_proof_from_f_rto)
{
    const Spike spike({});
    spike.CheckAllRetransmitted();
    Equal(spike.c.sender.GetController().Undos(), 1);
}

TEST(without_undo_everything_is_sent_again)
{
    const Spike spike({.tail_loss_probe = false, .undo = false, .gso_max_segs = 1});
    spike.CheckAllRetransmitted();
    Equal(spike.c.sender.GetController().Undos(), 0);
    Equal(spike.c.sender.Totals().probe_count, 0);
}

/** A segment amid those that stand still is really lost. */
TEST(a_loss_in_the_spike_is_found_without_a_second_timeout)
{
    Connection dry({.initial_cwnd_pkts = 20, .facts = UNPACED});
    dry.arrival = Stalling(SPIKE_NS, SPIKE_END_NS);
    RunToTheSpike(dry);
    const Spike spike(UNPACED, dry.sender.Board().Una() + 20);
    // What left in one burst with a SACKed segment counts as lost: RACK's newest is the timeout's retransmission.
    const uint64_t duplicates = spike.c.duplicate_pkts;
    Require(duplicates < spike.in_flight / 2, "the others are not sent again");
    CheckCounts(spike.c, {.timeouts = 1,
                          .probes = spike.c.sender.Totals().probe_count,
                          .retransmitted = 1 + duplicates,
                          .dropped = 1,
                          .duplicates = duplicates,
                          .reductions = 2,
                          .undos = 1});
}

/** Linux's tcp_fastretrans_alert, which reduces the window a second time; of what is sent again the tenth is lost. */
TEST(a_retransmission_lost_after_a_timeout_begins_a_recovery)
{
    for (const bool recovers : {true, false})
    {
        Connection c({.initial_cwnd_pkts = 20,
                      .facts = {.loss_recovers = recovers, .gso_max_segs = 1, .prr = prr_choice::none}});
        c.arrival = [again = 0](const Departure& d, int64_t arrives_ns) mutable {
            const bool is_lost_again = d.kind == Kind::RETRANSMIT && ++again == 10;
            return is_lost_again || IsInSpike(arrives_ns) ? NEVER_NS : arrives_ns;
        };
        int after_timeout = 0;
        bool is_loss = false;
        c.on_ack = [&](const cc_sample& sample) {
            after_timeout += is_loss && sample.ca_state == CC_CA_RECOVERY;
            is_loss = sample.ca_state == CC_CA_LOSS;
        };
        RunToTheSpike(c);
        c.Drain(60 * SECOND);
        Equal(after_timeout, recovers);
        Equal(c.sender.GetController().Reductions(), 1 + recovers);
        Equal(c.Undelivered(), 0);
    }
}

/**
 * Segment 30 is lost, and while it is repaired the path stands still for longer than a timeout. F-RTO does not test a
 * timeout in a recovery; 4.11 and 4.12 look at originals after any timeout.
 */
TEST(a_timeout_in_recovery_is_undone_by_an_original_in_4_11_alone)
{
    for (const bool undoes : {false, true})
    {
        const timeout_undo_choice by = undoes ? timeout_undo_choice::any_original : timeout_undo_choice::frto;
        Connection c(
            {.initial_cwnd_pkts = 20, .facts = {.timeout_undo = by, .gso_max_segs = 1, .prr = prr_choice::none}});
        c.arrival = [stalls = Stalling(110 * MS, 800 * MS)](const Departure& d, int64_t arrives_ns) {
            return d.seqno == 30 && d.nth == 1 ? NEVER_NS : stalls(d, arrives_ns);
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
        Require(before == CC_CA_RECOVERY, "the timeout is in a recovery");
        c.Run(825 * MS + MS / 10); // the first ACK after the spike
        Equal(c.sender.Totals().rto_count, 1);
        Equal(c.sender.GetController().Undos(), undoes);
        Equal(c.Cwnd() >= cwnd, undoes);
        Require(c.sender.LossState() != CC_CA_OPEN, "in Disorder or Loss");
    }
}

/** An undo leaves a retransmission in the network beside its original; both may be lost all the same. */
TEST(a_timeout_gives_up_a_retransmission_that_an_undo_left)
{
    Scoreboard board;
    board.SetFacts({});
    board.Sent(false, false, 0);
    board.MarkTimedOut(SECOND);
    board.Retransmitted(*board.NextLost(), SECOND);
    board.UnmarkLost();
    Equal(board.InFlight(), 2);
    board.MarkTimedOut(2 * SECOND);
    Equal(board.InFlight(), 0);
    Equal(board.NextLost().value_or(NO_LOSS), 0);
}

// ---- recoveries for a late segment ----------------------------------------------------------------------

namespace
{

constexpr uint64_t LATE = 30;

/** Segment 30 takes longer than those behind it, and another one perhaps too. */
Connection::Arrival
Late(int64_t late_ns, uint64_t other = NO_LOSS, int64_t other_late_ns = 0)
{
    return [=](const Departure& d, int64_t arrives_ns) {
        const int64_t by_ns = (d.seqno == LATE ? late_ns : 0) + (d.seqno == other ? other_late_ns : 0);
        return arrives_ns + (d.nth > 1 ? 0 : by_ns);
    };
}

/** A connection whose window falls for a segment that is late, and is restored. */
struct SpuriousRecovery
{
    explicit SpuriousRecovery(const Connection::Arrival& arrival, bool timestamps = false)
        : c({.initial_cwnd_pkts = 20, .facts = {.gso_max_segs = 1, .prr = prr_choice::none, .timestamps = timestamps}})
    {
        c.arrival = arrival;
        c.Write(1000);
        uint32_t before = 0;
        uint32_t reduced = 0;
        uint32_t restored = 0;
        c.on_ack = [&](const cc_sample&) {
            const bbrgym::CcController& controller = c.sender.GetController();
            before = controller.Reductions() == 0 ? c.Cwnd() : before;
            reduced = controller.Undos() == 0 ? c.Cwnd() : reduced;
            restored = restored == 0 && controller.Undos() > 0 ? c.Cwnd() : restored;
            undone_ns = controller.Undos() == 0 ? c.now_ns : undone_ns;
        };
        c.Run(SECOND);
        Require(reduced < 0.8 * before, "the window falls");
        Require(restored >= before, "and is restored");
    }

    Connection c;
    int64_t undone_ns = 0;
};

} // namespace

/** Eifel detection: half a round trip sooner than the D-SACK. */
TEST(with_timestamps_a_recovery_is_undone_by_the_original_not_by_its_duplicate)
{
    const SpuriousRecovery plain(Late(40 * MS));
    const SpuriousRecovery timestamped(Late(40 * MS), true);
    Equal(timestamped.c.sender.GetController().Undos(), 1);
    Equal(timestamped.c.sender.Totals().retransmitted_pkts, 1);
    Equal(timestamped.c.duplicate_pkts, 1);
    Require(timestamped.undone_ns < plain.undone_ns - 10 * MS, "sooner");
}

/**
 * The 30th segment is lost, the 31st comes after the retransmission of the 30th, and its own retransmission is lost.
 * PAWS (RFC 7323, section 5): the receiver drops segments older by more than 1 ms, and they are sent again.
 */
TEST(with_timestamps_what_left_before_a_retransmission_in_order_is_refused)
{
    for (const bool timestamps : {false, true})
    {
        Connection c({.initial_cwnd_pkts = 60, .facts = {.gso_max_segs = 1, .timestamps = timestamps}});
        c.arrival = [](const Departure& d, int64_t arrives_ns) {
            const bool is_lost = (d.seqno == 30 && d.nth == 1) || (d.seqno == 31 && d.nth == 2);
            return is_lost ? NEVER_NS : arrives_ns + (d.seqno == 31 && d.nth == 1 ? 90 * MS : 0);
        };
        c.Write(400);
        c.Drain(5 * SECOND);
        Equal(c.refused_pkts, timestamps);
        Equal(c.Undelivered(), 0);
    }
}
