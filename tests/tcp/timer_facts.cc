// SPDX-License-Identifier: GPL-2.0-only
//
// The retransmission timer (RFC 6298): what it waits for beside the smoothed RTT, and when it goes off on a path of 50
// ms.
#include "connection.hpp"

#include <initializer_list>

using namespace bbrgym;

namespace
{

using Kind = Departure::Kind;

constexpr SocketFacts NO_FEATURES{.tail_loss_probe = false, .undo = false, .gso_max_segs = 1};
constexpr double LEAST_MS = 200;

/** An estimator that is given RTTs, ten of which are a round trip. */
class Estimate
{
  public:
    explicit Estimate(rtt_variation_choice variation) { m_rtt.SetFacts({.rtt_variation = variation}); }

    /** Returns the wait beside the smoothed RTT after an RTT so many times. */
    double After(double rtt_ms, int times = 1) { return AddNs(static_cast<int64_t>(rtt_ms * MS), times); }
    double AfterExpected() { return AddNs(m_rtt.SmoothedNs(), 1); }

  private:
    double AddNs(int64_t rtt_ns, int times)
    {
        for (int i = 0; i < times; ++i)
        {
            ++m_una;
            m_rtt.AddSample(rtt_ns, m_una, m_una + 10);
        }
        return double(m_rtt.TimeoutNs() - m_rtt.SmoothedNs()) / MS;
    }

    RttEstimator m_rtt;
    uint64_t m_una = 0;
};

/** An estimator that has forgotten the deviation of its first RTT. */
Estimate
Steady(rtt_variation_choice variation)
{
    Estimate estimate(variation);
    estimate.After(50, 40);
    return estimate;
}

int64_t
Nothing(const Departure&, int64_t)
{
    return NEVER_NS;
}

double
RtoMs(const Connection& c)
{
    return double(c.sender.RtoNs()) / MS;
}

} // namespace

/** As Linux's tcp_rtt_estimator: a burst of ACKs does not hide that its first one was late. */
TEST(the_wait_outlasts_the_acks_of_its_round_and_then_falls_by_a_quarter_each_round)
{
    Estimate estimate = Steady(rtt_variation_choice::largest);
    double wait_ms = estimate.After(50 + 400);
    double fall_ms = (400 - LEAST_MS) / 4;
    int falls = 0;
    for (int i = 1; i <= 60; ++i)
    {
        const double before_ms = wait_ms;
        wait_ms = estimate.AfterExpected();
        if (i == 9)
        {
            Near(wait_ms, 400, 0.01);
        }
        if (wait_ms != before_ms)
        {
            Near(before_ms - wait_ms, fall_ms, 0.1);
            fall_ms *= 0.75;
            ++falls;
        }
    }
    Require(falls >= 3, "it falls");
}

TEST(a_mean_deviation_is_forgotten_within_the_acks_of_a_burst)
{
    Estimate estimate = Steady(rtt_variation_choice::mean);
    estimate.After(50 + 400);
    for (int i = 0; i < 8; ++i)
    {
        estimate.AfterExpected();
    }
    Near(estimate.AfterExpected(), LEAST_MS, 0.01);
}

/** The path was 4 s long and is no longer: the wait is as a mean deviation's would be of an eighth. */
TEST(an_rtt_far_below_the_expected_one_counts_for_an_eighth)
{
    Estimate mean = Steady(rtt_variation_choice::mean);
    mean.After(4000, 80);
    Near(mean.After(50), 4000 - 50, 0.01 * (4000 - 50));
    Estimate largest = Steady(rtt_variation_choice::largest);
    largest.After(4000, 400);
    Near(largest.After(50), (4000 - 50) / 8.0, 0.05 * (4000 - 50) / 8);
}

TEST(timeouts_in_a_row_double_up_to_120_s)
{
    Connection c({.facts = NO_FEATURES});
    c.Write(10);
    c.Run(SECOND);
    c.arrival = Nothing;
    c.Write(1);
    int64_t last_ns = c.now_ns;
    double wait_ms = 50 + 200;
    for (int i = 0; i < 14; ++i)
    {
        const std::size_t before = c.departures.size();
        while (c.departures.size() == before)
        {
            c.Run(c.sender.TimerDeadlineNs());
        }
        const int64_t at_ns = c.departures.back().at_ns;
        Near(double(at_ns - last_ns) / MS, wait_ms, 1e-6 * wait_ms);
        last_ns = at_ns;
        wait_ms = std::min(2 * wait_ms, 120'000.0);
    }
}

TEST(no_timeout_comes_before_200_ms)
{
    Connection c({.one_way_ns = MS / 10, .facts = NO_FEATURES});
    c.Write(1001); // the receiver answers the last one at once, so that SRTT is the path's
    c.Run(SECOND);
    c.arrival = Nothing;
    c.Write(1);
    c.Run(2 * SECOND);
    const int64_t wait_ns = c.Transmission(1001, 2).at_ns - SECOND;
    Require(200 * MS <= wait_ns && wait_ns < 201 * MS, "it comes then");
}

/** A segment every 20 ms on a path of 50 ms, of which none arrives any more; beside the head, which is sent again. */
TEST(a_timeout_spares_what_left_less_than_a_round_trip_ago)
{
    for (const auto marks : {timeout_marks_choice::older, timeout_marks_choice::all})
    {
        Connection c(
            {.initial_cwnd_pkts = 20, .facts = {.tail_loss_probe = false, .timeout_marks = marks, .gso_max_segs = 1}});
        c.Write(10);
        c.Run(SECOND);
        c.arrival = Nothing;
        for (int64_t now_ns = SECOND; c.sender.Totals().rto_count == 0; c.Run(now_ns += 20 * MS))
        {
            c.Write(1);
        }
        Equal(c.sender.Board().InFlight(), marks == timeout_marks_choice::older ? 1 + 2 : 1);
    }
}

namespace
{

/** Segment 30 of 40 is lost three times, the last one is late; the time between two transmissions of segment 30. */
struct LateSack
{
    LateSack(bool restarts, int64_t late_ns)
        : c({.initial_cwnd_pkts = 40,
             .facts = {.tail_loss_probe = false, .sacks_restart_rto = restarts, .gso_max_segs = 1}})
    {
        c.arrival = [late_ns](const Departure& d, int64_t arrives_ns) {
            const bool is_lost = d.seqno == 30 && d.nth <= 3;
            return is_lost ? NEVER_NS : arrives_ns + (d.seqno == 39 ? late_ns : 0);
        };
        c.Write(40);
        c.Drain(20 * SECOND);
    }

    double GapMs(uint32_t nth) const
    {
        return double(c.Transmission(30, nth).at_ns - c.Transmission(30, nth - 1).at_ns) / MS;
    }

    Connection c;
};

} // namespace

/** It comes 200 ms after the timeout, and restarts the timer without doubling it; the next timeout doubles it. */
TEST(the_rtt_of_a_sack_ends_the_back_off)
{
    const LateSack late(true, 400 * MS);
    Near(late.GapMs(4), 150 + RtoMs(late.c) / 2, 1);
    Near(LateSack(false, 400 * MS).GapMs(4), 2 * 250, 1);
}

/**
 * A lone segment is lost. The ACK of its retransmission tells no RTT, so the timer stays doubled (RFC 6298, 5.7, and
 * Linux's tcp_ack_update_rtt); a timestamp echoes when it left, a round trip of 50 ms ago (tcp_rtt_tsopt_us).
 */
TEST(an_ack_of_what_was_sent_again_keeps_the_back_off_unless_it_echoes_a_timestamp)
{
    for (const bool timestamps : {false, true})
    {
        SocketFacts facts = NO_FEATURES;
        facts.timestamps = timestamps;
        Connection c({.facts = facts});
        c.Write(10);
        c.Run(SECOND);
        c.arrival = Losing(10, 11);
        const double rto_ms = RtoMs(c);
        c.Write(1);
        c.Run(2 * SECOND);
        const double after_retransmission_ms = RtoMs(c);
        c.Write(1);
        c.Run(3 * SECOND);
        Near(rto_ms, 250, 1);
        Near(after_retransmission_ms, timestamps ? 250 : 2 * rto_ms, timestamps ? 1 : 0);
        Near(RtoMs(c), rto_ms, timestamps ? 1 : 0, "after new data");
    }
}

/** A segment each 300 ms, of which none arrives any more: tcp_pacing_delay, from Linux 5.9 on. */
TEST(the_timer_begins_when_pacing_lets_a_segment_go)
{
    constexpr int64_t GAP_NS = 300 * MS;
    for (const bool delays : {true, false})
    {
        Connection c(
            {.mss_bytes = 1000,
             .pacing_Bps = 1000 * SECOND / GAP_NS,
             .facts = {
                 .tail_loss_probe = false, .unpaced_segments = 0, .gso_max_segs = 1, .pacing_delays_timers = delays}});
        c.Write(10);
        c.arrival = [](const Departure& d, int64_t arrives_ns) { return d.at_ns > 5 * GAP_NS ? NEVER_NS : arrives_ns; };
        c.Run(5 * GAP_NS + SECOND);
        const Departure& again = c.First(Kind::RETRANSMIT);
        Near(double(again.at_ns - c.Transmission(again.seqno, 1).at_ns) / MS, (delays ? 300 : 0) + 250, 1);
    }
}
