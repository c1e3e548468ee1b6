// SPDX-License-Identifier: GPL-2.0-only
//
// The tail loss probe (RFC 8985, section 7): alone, and on a path of 50 ms.
#include "connection.hpp"
#include "tail_loss_probe.hpp"

using namespace bbrgym;

namespace
{

constexpr uint64_t NEXT = 20;

/** A probe that left as the last segment. */
TailLossProbe
Sent()
{
    TailLossProbe probe;
    probe.Arm(10 * MS);
    probe.OnSent(NEXT, true, false);
    return probe;
}

} // namespace

TEST(it_waits_two_round_trips_and_longer_for_a_lone_packet)
{
    RttEstimator rtt;
    Equal(TailLossProbe::WaitNs(rtt, 5), SECOND, "without a sample");
    rtt.AddSample(50 * MS, 0, 0);
    Equal(TailLossProbe::WaitNs(rtt, 1), 300 * MS);
    Equal(TailLossProbe::WaitNs(rtt, 2), 102 * MS);
}

TEST(an_ack_up_to_a_retransmission_is_of_it_or_of_its_original_and_a_duplicate_means_that_both_arrived)
{
    TailLossProbe probe = Sent();
    Require(!probe.OnAck(NEXT, true, false) && probe.IsAcked() && probe.IsOut(), "either of them");
    Require(!probe.OnAck(NEXT, false, false) && !probe.IsAcked() && !probe.IsOut(), "both");
}

TEST(only_a_d_sack_of_the_retransmission_is_the_probes)
{
    TailLossProbe probe = Sent();
    Require(probe.OnDuplicateReport(NEXT) && !probe.IsOut(), "its own");
    probe = Sent();
    Require(!probe.OnDuplicateReport(NEXT - 1) && !probe.IsAcked() && probe.IsOut(), "another one's");
}

/** Ten segments, the last is lost; later ten more, for which the window does not decay. */
TEST(a_lost_tail_of_one_is_repaired_by_the_probe_and_counts_as_one_loss)
{
    Connection c({.facts = {.slow_start_after_idle = false, .gso_max_segs = 1, .prr = prr_choice::none}});
    c.arrival = Losing(9, 10);
    c.Write(10);
    c.Run(SECOND);
    Equal(c.sender.GetController().Reductions(), 0, "a duplicate might still be reported");
    const uint32_t cwnd = c.Cwnd();
    c.Write(10);
    c.Drain(SECOND);
    Near(double(c.Cwnd()) / cwnd, 0.7, 0.05);
    const Departure& probe = c.First(Departure::Kind::PROBE);
    Equal(probe.seqno, 9);
    Equal(probe.at_ns, (50 + 250) * MS); // in place of the timeout: two round trips and a delayed ACK take longer
    CheckCounts(c, {.probes = 1, .retransmitted = 1, .dropped = 1, .reductions = 1});
}

/** The first of four is lost; the probe repeats the last, which had arrived. Its D-SACK is not a word about the first.
 */
TEST(a_duplicate_of_the_probe_undoes_no_real_recovery)
{
    Connection c({});
    c.arrival = [stall = Stalling(0, 200 * MS)](const Departure& d, int64_t arrives_ns) {
        return d.seqno == 0 && d.nth == 1 ? NEVER_NS : stall(d, arrives_ns);
    };
    c.Write(4);
    c.Drain(2 * SECOND);
    c.Write(10);
    c.Drain(2 * SECOND);
    CheckCounts(c, {.probes = 1, .retransmitted = 2, .dropped = 1, .duplicates = 1, .reductions = 1});
}

/**
 * A segment every 20 ms on a path of 200 ms; of what left from some moment on nothing arrives. Nine segments left
 * between the head and the ACK that set the timer; two round trips and their wait are 622 ms. The variation that the
 * timer waits for, twice the handshake's RTT at first, has not quite fallen to 200 ms.
 */
TEST(a_probe_comes_no_later_than_a_timeout)
{
    for (const bool limits : {true, false})
    {
        Connection c({.one_way_ns = 100 * MS, .facts = {.head_limits_probe = limits, .gso_max_segs = 1}});
        constexpr int64_t BREAK_NS = 5 * SECOND;
        c.arrival = [](const Departure& d, int64_t arrives_ns) { return d.at_ns < BREAK_NS ? arrives_ns : NEVER_NS; };
        for (int64_t now_ns = 0; now_ns <= BREAK_NS + 220 * MS; now_ns += 20 * MS)
        {
            c.Run(now_ns);
            c.Write(1);
        }
        c.Run(BREAK_NS + SECOND);
        const double after_head_ms = double(c.First(Departure::Kind::PROBE).at_ns - BREAK_NS) / MS;
        Near(after_head_ms, (limits ? 0 : 9 * 20) + 200 + 200, 0.5);
    }
}

/**
 * Ten segments: the ACK of the first comes late, when the probe has left, and no other one. As in Linux's
 * tcp_send_loss_probe: the head left at 0, so its timeout is over when that timer is.
 */
TEST(a_second_probes_timer_is_the_timeout_of_the_head)
{
    Connection c({.facts = {.gso_max_segs = 1}});
    c.arrival = [](const Departure& d, int64_t) { return d.seqno == 0 ? 175 * MS : NEVER_NS; };
    c.Write(10);
    c.Run(SECOND);
    constexpr double SRTT_MS = 7.0 / 8 * 50 + 1.0 / 8 * 200;
    Near(double(c.First(Departure::Kind::RETRANSMIT).at_ns) / MS, 200 + (2 * SRTT_MS + 2) + 1, 1e-6);
    Equal(c.sender.Totals().probe_count, 1);
}
