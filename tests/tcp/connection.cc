// SPDX-License-Identifier: GPL-2.0-only
#include "connection.hpp"

#include <algorithm>
#include <span>

Connection::Connection(const Settings& settings) : m_settings(settings)
{
    bbrgym::SocketFacts facts = settings.facts;
    facts.initial_cwnd_segments = settings.initial_cwnd_pkts;
    const int64_t handshake_rtt_ns = 2 * settings.one_way_ns;
    receiver.Reset(facts, settings.mss_bytes);
    receiver.NoteSynAck(0);
    receiver.NoteEstablished(handshake_rtt_ns);
    sender.Start(settings.mss_bytes, handshake_rtt_ns, facts, now_ns);
    sender.GetController().SetPacing(settings.pacing_Bps);
}

void
Connection::Write(uint64_t pkts)
{
    sender.BeforeWrite(HasUnsent());
    m_written += pkts;
    TrySend();
}

void
Connection::Run(int64_t at_ns)
{
    while (Step(at_ns))
    {
    }
    now_ns = at_ns;
}

void
Connection::Drain(int64_t limit_ns)
{
    const int64_t until_ns = now_ns + limit_ns;
    while (sender.Board().Una() < m_written && Step(until_ns))
    {
    }
}

bool
Connection::Step(int64_t until_ns)
{
    const int64_t packet_ns = m_packets.empty() ? bbrgym::NEVER_NS : m_packets.begin()->first;
    const int64_t ack_ns = m_acks.empty() ? bbrgym::NEVER_NS : m_acks.begin()->first;
    const int64_t delayed_ns = receiver.DelayedAckDeadlineNs();
    const int64_t timer_ns = sender.TimerDeadlineNs();
    const int64_t pacing_ns = sender.PacingDeadlineNs();
    const int64_t next_ns = std::min({packet_ns, ack_ns, delayed_ns, timer_ns, pacing_ns});
    if (next_ns == bbrgym::NEVER_NS || next_ns > until_ns)
    {
        return false;
    }
    Require(next_ns >= now_ns, "no timer lies in the past");
    now_ns = next_ns;
    if (next_ns == packet_ns)
    {
        const Departure packet = m_packets.begin()->second;
        m_packets.erase(m_packets.begin());
        Arrive(packet);
    }
    else if (next_ns == ack_ns)
    {
        const Ack ack = m_acks.begin()->second;
        m_acks.erase(m_acks.begin());
        if (m_settings.facts.timestamps)
        {
            sender.OnTimestampEcho(ack.echo_ms);
        }
        on_ack(sender.OnAck(ack.una, std::span(ack.blocks.data(), ack.count), now_ns));
        TrySend();
    }
    else if (next_ns == delayed_ns)
    {
        receiver.OnTimer(now_ns);
        Answer();
    }
    else
    {
        if (next_ns == timer_ns && sender.OnTimer(now_ns))
        {
            Probe();
        }
        Require(sender.TimerDeadlineNs() > now_ns, "a timer that went off is set again");
        TrySend();
    }
    return true;
}

void
Connection::TrySend()
{
    const uint64_t sent_before = sender.Totals().sent_pkts;
    for (;;)
    {
        const bbrgym::ToSend next = sender.Next(m_written - sender.Board().Next(), now_ns);
        if (next.kind == bbrgym::ToSend::Kind::NOTHING)
        {
            sender.ValidateCwnd(HasUnsent(), sender.Totals().sent_pkts > sent_before, false, now_ns);
            return;
        }
        Require(sender.Board().InFlight() < sender.WindowPkts() || m_settings.facts.partial_ack_sends,
                "the window is kept");
        if (next.kind == bbrgym::ToSend::Kind::NEW)
        {
            const uint32_t pkts = m_settings.tells_bursts ? sender.LeftInBurstPkts() : 1;
            for (uint32_t i = 0; i < pkts; ++i)
            {
                Depart(sender.Board().Next() + i, Departure::Kind::NEW);
            }
            sender.OnNewSent(m_settings.mss_bytes, false, now_ns, pkts);
        }
        else
        {
            Depart(next.seqno, Departure::Kind::RETRANSMIT);
            sender.OnRetransmitted(next.seqno, m_settings.mss_bytes, now_ns);
        }
    }
}

void
Connection::Probe()
{
    const bool is_new = HasUnsent();
    Depart(sender.Board().Next() - !is_new, Departure::Kind::PROBE);
    if (is_new)
    {
        sender.OnNewSent(m_settings.mss_bytes, false, now_ns);
    }
    sender.OnProbeSent(!is_new, m_settings.mss_bytes, now_ns);
}

void
Connection::Depart(uint64_t seqno, Departure::Kind kind)
{
    const Departure departure{now_ns, seqno, kind, ++m_transmissions[seqno]};
    departures.push_back(departure);
    const int64_t arrives_ns = arrival(departure, now_ns + m_settings.one_way_ns);
    if (arrives_ns == bbrgym::NEVER_NS)
    {
        ++dropped_pkts;
    }
    else
    {
        m_packets.emplace(arrives_ns, departure);
    }
}

void
Connection::Arrive(const Departure& packet)
{
    duplicate_pkts += ++m_arrivals[packet.seqno] > 1;
    const int64_t sent_ms = bbrgym::TimestampMs(packet.at_ns);
    if (m_settings.facts.timestamps && receiver.RefusesOld(packet.seqno, sent_ms, now_ns))
    {
        ++refused_pkts;
        Answer();
    }
    else if (receiver.OnSegment(packet.seqno, now_ns).answer_at_once)
    {
        Answer();
    }
}

void
Connection::Answer()
{
    Ack ack;
    ack.una = receiver.Next();
    ack.count = receiver.Acknowledge(ack.blocks);
    ack.echo_ms = receiver.RecentMs();
    m_acks.emplace(now_ns + m_settings.one_way_ns, ack);
}

const Departure&
Connection::First(Departure::Kind kind) const
{
    const auto found = std::ranges::find(departures, kind, &Departure::kind);
    Require(found != departures.end(), "a segment leaves for this reason");
    return *found;
}

const Departure&
Connection::Transmission(uint64_t seqno, uint32_t nth) const
{
    const auto found =
        std::ranges::find_if(departures, [=](const Departure& d) { return d.seqno == seqno && d.nth == nth; });
    Require(found != departures.end(), "a segment leaves as often");
    return *found;
}

void
CheckCounts(const Connection& c, const Counts& expected, const std::source_location& at)
{
    const bbrgym::SenderTotals& totals = c.sender.Totals();
    const bbrgym::CcController& controller = c.sender.GetController();
    Equal(totals.rto_count, expected.timeouts, "timeouts", at);
    Equal(totals.probe_count, expected.probes, "probes", at);
    Equal(totals.retransmitted_pkts, expected.retransmitted, "retransmitted", at);
    Equal(c.dropped_pkts, expected.dropped, "dropped", at);
    Equal(c.duplicate_pkts, expected.duplicates, "duplicates", at);
    Equal(uint64_t(controller.Reductions()), expected.reductions, "reductions", at);
    Equal(uint64_t(controller.Undos()), expected.undos, "undos", at);
    Equal(c.Undelivered(), 0, "undelivered", at);
    Equal(c.sender.LossState() == CC_CA_OPEN, true, "is open", at);
}

Connection::Arrival
Losing(uint64_t begin, uint64_t end)
{
    return [=](const Departure& d, int64_t arrives_ns) {
        return d.nth == 1 && begin <= d.seqno && d.seqno < end ? bbrgym::NEVER_NS : arrives_ns;
    };
}

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
