// SPDX-License-Identifier: GPL-2.0-only
//
// A sender and a receiver of tcp/ and a path between them that loses, delays and reorders data as an experiment
// says. CUBIC controls the window, because it answers losses and undo visibly. ACKs are never lost.
#ifndef BBRGYM_TESTS_CONNECTION_HPP
#define BBRGYM_TESTS_CONNECTION_HPP

#include "facts.hpp"
#include "receiver.hpp"
#include "sender.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <source_location>
#include <vector>

constexpr int64_t MS = 1'000'000;
constexpr int64_t SECOND = 1000 * MS;

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
    uint64_t seqno;
    Kind kind;
    uint32_t nth; ///< transmission of this segment, from 1 on

    bool operator==(const Departure&) const = default;
};

struct Settings
{
    int64_t one_way_ns = 25 * MS;
    uint32_t initial_cwnd_pkts = 10;
    uint32_t mss_bytes = 1250;
    uint64_t pacing_Bps = 12'500'000; ///< 0.1 ms a segment, so that they leave one by one
    bool tells_bursts = false;        ///< of new segments, to the sender, as a whole
    // Segments leave one by one, and a reduction shows at once.
    bbrgym::SocketFacts facts{.gso_max_segs = 1, .prr = bbrgym::prr_choice::none};
};

class Connection
{
  public:
    using Arrival = std::function<int64_t(const Departure&, int64_t arrives_ns)>;

    explicit Connection(const Settings& settings);

    bbrgym::TcpSender sender;
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

    void Write(uint64_t pkts);
    /** Until `at_ns`, what happens at that very time included. */
    void Run(int64_t at_ns);
    /** Until everything written is acknowledged, or for so long. */
    void Drain(int64_t limit_ns);

    uint64_t Written() const { return m_written; }
    uint64_t Undelivered() const { return m_written - sender.Board().Una(); }
    /** Returns the first segment that left for this reason. */
    const Departure& First(Departure::Kind kind) const;
    /** Returns the n-th transmission of a segment. */
    const Departure& Transmission(uint64_t seqno, uint32_t nth) const;

  private:
    bool HasUnsent() const { return m_written > sender.Board().Next(); }
    bool Step(int64_t until_ns);
    void TrySend();
    void Probe();
    void Depart(uint64_t seqno, Departure::Kind kind);
    void Arrive(const Departure& packet);
    void Answer();

    struct Ack
    {
        uint64_t una = 0;
        std::array<bbrgym::SeqnoRange, bbrgym::MAX_SACK_BLOCKS> blocks{};
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

/** What a path and its sender did. */
struct Counts
{
    uint64_t timeouts = 0;
    uint64_t probes = 0;
    uint64_t retransmitted = 0;
    uint64_t dropped = 0;
    uint64_t duplicates = 0;
    uint64_t reductions = 0;
    uint64_t undos = 0;
};

/** Requires that everything arrived, the connection is as if nothing had been, and this and no more happened. */
void CheckCounts(const Connection& c, const Counts& expected,
                 const std::source_location& at = std::source_location::current());

/** The first transmission of each of the segments is lost. */
Connection::Arrival Losing(uint64_t begin, uint64_t end);
/** A link that stands still for a time and then carries on, in order, a segment each 0.1 ms. */
Connection::Arrival Stalling(int64_t from_ns, int64_t to_ns);

#endif
