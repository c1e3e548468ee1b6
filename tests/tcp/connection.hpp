// SPDX-License-Identifier: GPL-2.0-only
//
// A sender and a receiver of tcp/ and a path between them that loses, delays and reorders data as an experiment
// says. CUBIC controls the window, because it answers losses and undo visibly. ACKs are never lost.
#ifndef BBRGYM_TESTS_CONNECTION_HPP
#define BBRGYM_TESTS_CONNECTION_HPP

#include "program.hpp"
#include "receiver.hpp"
#include "sender.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <vector>

constexpr int64_t MS = 1'000'000;
constexpr int64_t SECOND = 1000 * MS;

/** CUBIC at a fixed pacing rate, with a count of what it was told. */
class Controller
{
  public:
    void SetPacing(uint64_t pacing_Bps) { m_state.pacing_Bps = pacing_Bps; }
    int Reductions() const { return m_reductions; }
    int Undos() const { return m_undos; }
    int UndosInRecovery() const { return m_undos_in_recovery; }

    const cc_state& State() const { return m_state; }
    bool IsLossBased() const { return true; }
    bool MaySendSingles() const { return false; }
    bool WantsTxStates() const { return m_wants_tx_states; }
    void AskForFlights() { m_wants_tx_states = true; }
    const std::vector<cc_lost_packet>& Lost() const { return m_lost; }
    void Start(const cc_start& start) { cc_init(&m_state, &m_params, &start); }
    void OnAck(const cc_sample& sample) { cc_on_ack(&m_state, &m_params, &sample); }
    void OnPacketLost(const cc_lost_packet& lost) { m_lost.push_back(lost); }
    void OnProbeRepair(uint64_t, uint64_t, bool) {}
    void OnLossState(cc_ca_state state, uint32_t in_flight_pkts)
    {
        m_reductions += state == CC_CA_CWR || state == CC_CA_RECOVERY;
        cc_on_loss_state(&m_state, &m_params, state, in_flight_pkts);
    }
    void OnRto(bool is_new_episode, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts)
    {
        m_reductions += m_state.ca_state < CC_CA_CWR;
        cc_on_rto(&m_state, &m_params, is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
    }
    void OnIdle(uint64_t idle_us, uint64_t rto_us) { cc_on_idle(&m_state, &m_params, idle_us, rto_us); }
    void OnCwndUnderused(uint32_t used_pkts) { cc_on_cwnd_underused(&m_state, &m_params, used_pkts); }
    void OnRestart(uint64_t now_us, bool app_limited) { cc_on_restart(&m_state, &m_params, now_us, app_limited); }
    void OnUndo()
    {
        ++m_undos;
        m_undos_in_recovery += m_state.ca_state == CC_CA_RECOVERY;
        cc_on_undo(&m_state, &m_params);
    }

  private:
    static cc_params CubicParams()
    {
        cc_params params{};
        params.algorithm = CC_ALGORITHM_CUBIC;
        return params;
    }

    cc_params m_params = CubicParams();
    cc_state m_state{};
    int m_reductions = 0;
    int m_undos = 0;
    int m_undos_in_recovery = 0;
    bool m_wants_tx_states = false;
    std::vector<cc_lost_packet> m_lost;
};

/** A segment leaves. */
struct Departure
{
    enum class Kind
    {
        NEW,
        RETRANSMIT,
        PROBE
    };

    int64_t at_ns;
    uint64_t serial;
    Kind kind;
    uint32_t nth; ///< transmission of this segment, from 1 on
};

struct Settings
{
    int64_t one_way_ns = 25 * MS;
    uint32_t initial_cwnd_pkts = 10;
    uint32_t mss_bytes = 1250;
    uint64_t pacing_Bps = 12'500'000; ///< 0.1 ms a segment, so that they leave one by one
    // Segments leave one by one, and a reduction shows at once.
    bbrgym::SocketFacts facts{.gso_max_segs = 1, .prr = bbrgym::prr_choice::none};
};

class Connection
{
  public:
    using Arrival = std::function<int64_t(const Departure&, int64_t arrives_ns)>;

    explicit Connection(const Settings& settings)
        : m_settings(settings)
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

    bbrgym::TcpSender<Controller> sender;
    bbrgym::TcpReceiver receiver;
    int64_t now_ns = 0;

    /** Changes when a segment arrives; NEVER_NS: it is dropped. Segments may overtake each other. */
    Arrival arrival = [](const Departure&, int64_t arrives_ns) { return arrives_ns; };
    std::function<void(const cc_sample&)> on_ack = [](const cc_sample&) {};

    std::vector<Departure> departures;
    uint64_t dropped_pkts = 0;
    uint64_t duplicate_pkts = 0; ///< arrived more than once
    uint64_t refused_pkts = 0;   ///< by the receiver, for their timestamps

    uint32_t Cwnd() const { return sender.GetController().State().cwnd_pkts; }

    void Write(uint64_t pkts)
    {
        sender.BeforeWrite(HasUnsent());
        m_written += pkts;
        TrySend();
    }

    /** Until `at_ns`, what happens at that very time included. */
    void Run(int64_t at_ns)
    {
        while (Step(at_ns))
        {
        }
        now_ns = at_ns;
    }

    /** Until everything written is acknowledged, or for so long. */
    void Drain(int64_t limit_ns)
    {
        const int64_t until_ns = now_ns + limit_ns;
        while (sender.Board().Una() < m_written && Step(until_ns))
        {
        }
    }

    uint64_t Written() const { return m_written; }

  private:
    bool HasUnsent() const { return m_written > sender.Board().Next(); }

    bool Step(int64_t until_ns)
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

    void TrySend()
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
            Require(sender.Board().InFlight() < sender.WindowPkts() || m_settings.facts.partial_ack_sends, "the window is kept");
            if (next.kind == bbrgym::ToSend::Kind::NEW)
            {
                Depart(sender.Board().Next(), Departure::Kind::NEW);
                sender.OnNewSent(m_settings.mss_bytes, false, now_ns);
            }
            else
            {
                Depart(next.serial, Departure::Kind::RETRANSMIT);
                sender.OnRetransmitted(next.serial, m_settings.mss_bytes, now_ns);
            }
        }
    }

    void Probe()
    {
        const bool is_new = HasUnsent();
        Depart(sender.Board().Next() - !is_new, Departure::Kind::PROBE);
        if (is_new)
        {
            sender.OnNewSent(m_settings.mss_bytes, false, now_ns);
        }
        sender.OnProbeSent(!is_new, m_settings.mss_bytes, now_ns);
    }

    void Depart(uint64_t serial, Departure::Kind kind)
    {
        const Departure departure{now_ns, serial, kind, ++m_transmissions[serial]};
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

    void Arrive(const Departure& packet)
    {
        duplicate_pkts += ++m_arrivals[packet.serial] > 1;
        const int64_t sent_ms = bbrgym::TimestampMs(packet.at_ns);
        if (m_settings.facts.timestamps && receiver.RefusesOld(packet.serial, sent_ms, now_ns))
        {
            ++refused_pkts;
            Answer();
        }
        else if (receiver.OnSegment(packet.serial, now_ns).answer_at_once)
        {
            Answer();
        }
    }

    void Answer()
    {
        Ack ack;
        ack.una = receiver.Next();
        ack.count = receiver.Acknowledge(ack.blocks);
        ack.echo_ms = receiver.RecentMs();
        m_acks.emplace(now_ns + m_settings.one_way_ns, ack);
    }

    struct Ack
    {
        uint64_t una = 0;
        std::array<bbrgym::SerialRange, bbrgym::MAX_SACK_BLOCKS> blocks{};
        std::size_t count = 0;
        int64_t echo_ms = bbrgym::NO_TIMESTAMP;
    };

    Settings m_settings;
    uint64_t m_written = 0;
    std::multimap<int64_t, Departure> m_packets; ///< under way, by arrival
    std::multimap<int64_t, Ack> m_acks;
    std::map<uint64_t, uint32_t> m_transmissions;
    std::map<uint64_t, uint32_t> m_arrivals;
};

#endif
