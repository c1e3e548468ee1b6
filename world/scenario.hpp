// SPDX-License-Identifier: GPL-2.0-only
//
// A scenario as every C++ world sees it: read strictly from JSON in which all defaults are already resolved
// (the package's Scenario writes it). Times in nanoseconds, rates in bits per second.
#ifndef BBRGYM_WORLD_SCENARIO_HPP
#define BBRGYM_WORLD_SCENARIO_HPP

#include "stack.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace bbrgym
{

/** An invalid field of a scenario: its path, its value and what is allowed. */
class ScenarioError : public std::invalid_argument
{
  public:
    ScenarioError(const std::string& path, const std::string& problem)
        : std::invalid_argument("scenario" + (path.empty() ? "" : ": " + path) + ": " + problem)
    {}
};

struct DropTail
{
};

struct Red
{
    /** Packets from one early drop to the next, uniform in units of 1 / probability: from 1 to 2, or from 0 to 1. */
    enum class Gaps
    {
        NS3,  ///< RedQueueDisc's Wait
        LINUX ///< sch_red: twice as many drops as the probability says
    };

    uint64_t min_bytes = 0;
    uint64_t max_bytes = 0;
    double max_probability = 0; ///< of an early drop at max_bytes; above that everything is dropped
    Gaps gaps = Gaps::NS3;
};

struct CoDel
{
    int64_t target_ns = 0;
    int64_t interval_ns = 0;
};

struct FqCoDel
{
    CoDel codel;
    uint64_t quantum_bytes = 0; ///< of a flow in each round
};

struct Pie
{
    int64_t target_ns = 0;
};

struct Cake
{
    int64_t rtt_ns = 0;
};

struct Queue
{
    std::variant<DropTail, Red, CoDel, FqCoDel, Pie, Cake> discipline;
    std::optional<uint64_t> size_bytes; ///< exactly one of the two is set
    std::optional<uint64_t> size_packets;
    bool ecn = false; ///< all but drop-tail mark what is ECN-capable instead of dropping it; RED below its max

    // Marks what is ECN-capable, at most one of them: on arrival at a queue that holds so much, or on departure after
    // more than that wait.
    std::optional<uint64_t> ecn_threshold_bytes;
    std::optional<uint64_t> ecn_threshold_packets;
    std::optional<int64_t> ecn_threshold_ns;
};

/** In front of the queue: drops what exceeds a rate and a burst. */
struct Policer
{
    double rate_bps = 0;
    uint64_t burst_bytes = 0;
};

struct Bernoulli
{
    double rate = 0;
};

/** Two states; in each a packet is lost with that state's probability. The state may change at each tick of its clock.
 */
struct GilbertElliott
{
    enum class Clock
    {
        PACKET, ///< after each packet
        TIME,   ///< each time that a full packet takes at the link's mean rate, whether or not one passes
    };

    double good_to_bad = 0;
    double bad_to_good = 0;
    double loss_good = 0;
    double loss_bad = 0;
    Clock clock = Clock::PACKET;
};

using Loss = std::variant<Bernoulli, GilbertElliott>;

/** A delay that steps through a list, again and again. */
struct DelayTrace
{
    std::vector<int64_t> delays_ns; ///< never empty
    int64_t step_ns = 0;

    int64_t At(int64_t now_ns) const
    {
        return delays_ns[static_cast<std::size_t>(now_ns / step_ns) % delays_ns.size()];
    }
};

/** Behind the bottleneck: a share of the packets is late. */
struct Jitter
{
    double share = 0;
    int64_t delay_ns = 0;
    bool reorders = false; ///< late packets are overtaken
};

struct AcksAtOnce
{
};

/** All that goes back leaves at the multiples of a time. */
struct AckSlots
{
    int64_t every_ns = 0;
};

/** All that goes back leaves when there are so many packets, or when the first has waited that long. */
struct AckBursts
{
    uint64_t packets = 0;
    int64_t timeout_ns = 0;
};

using Acks = std::variant<AcksAtOnce, AckSlots, AckBursts>;

/** The mean rate of a trace: what a period carries, over the period. */
constexpr double
TraceRateBps(std::size_t opportunities, uint64_t opportunity_bytes, int64_t period_ns)
{
    return static_cast<double>(opportunities * opportunity_bytes) * 8e9 / static_cast<double>(period_ns);
}

struct Trace
{
    std::vector<int64_t> times_ns; ///< ascending within [0, period_ns], repeats allowed
    std::vector<uint64_t> counts;  ///< opportunities at each; empty: one
    int64_t period_ns = 0;
    uint64_t opportunity_bytes = 0;

    double MeanRateBps() const
    {
        const uint64_t count =
            counts.empty() ? times_ns.size() : std::accumulate(counts.begin(), counts.end(), uint64_t{0});
        return TraceRateBps(count, opportunity_bytes, period_ns);
    }
};

/** A time as every world counts it: the nearest nanosecond. Times that are equal or in order stay so. */
inline int64_t
NanosecondsOfMs(double time_ms)
{
    return std::llround(time_ms * 1e6);
}
inline int64_t
NanosecondsOfS(double time_s)
{
    return std::llround(time_s * 1e9);
}

struct LinkChange
{
    int64_t at_ns = 0;
    std::optional<double> rate_bps; ///< 0: an outage
    std::optional<int64_t> delay_ns;
    std::optional<double> loss_rate;
};

/** A basic service set of 802.11 at 5 GHz with one station, both at rest. */
struct WifiHop
{
    std::string standard; ///< n, ac or ax
    uint32_t width_mhz = 0;
    uint32_t streams = 0;
    std::optional<uint32_t> mcs; ///< per stream; unset: Minstrel-HT chooses
    double distance_m = 0;
    uint32_t queue_packets = 0;
};

/** A cell of LTE with one UE, both at rest. */
struct LteHop
{
    uint32_t bandwidth_mhz = 0;
    uint32_t layers = 0;
    double distance_m = 0;
    uint32_t queue_packets = 0;
};

/** The radio between the bottleneck and the receivers, which the ns-3 world alone has. */
using LastHop = std::variant<WifiHop, LteHop>;

struct Link
{
    std::string name = "link"; ///< its field's path in the scenario; its random streams are called after it
    double rate_bps = 0;       ///< 0 where there is a trace
    std::optional<Trace> trace;
    int64_t delay_ns = 0;
    std::optional<DelayTrace> delay_trace; ///< beside delay_ns
    bool reorders = false;                 ///< a packet overtakes those that left before the delay fell
    std::optional<Policer> policer;
    Queue queue;
    Loss loss;
    bool loses_skbs = false; ///< one decision for all segments of an sk_buff, as netem's
    std::optional<Jitter> jitter;
    Acks acks;
    std::vector<LinkChange> changes; ///< ascending
    std::optional<LastHop> last_hop; ///< behind the delay
};

struct Bulk
{
    uint64_t pkts = 0; ///< full packets, after which it ends; 0: without an end
};

struct Cbr
{
    double rate_bps = 0; ///< of payload
};

struct OnOff
{
    double rate_bps = 0; ///< of payload, while on
    int64_t on_ns = 0;
    int64_t off_ns = 0;
    bool random = false; ///< exponential with those means instead of fixed
};

/** A media source: a frame each period, of which some are key frames. */
struct Frames
{
    double fps = 0;
    double rate_bps = 0; ///< of payload, in the mean
    uint64_t key_every = 0;
    double key_ratio = 0; ///< of a key frame's size to the others'
    double spread = 0;    ///< sizes are uniform within this part of their means
    int64_t late_after_ns = 0;
};

using App = std::variant<Bulk, Cbr, OnOff, Frames>;

/** A transfer of a random size that begins at a random time: what each run draws for a flow, see Drawn(). */
struct Transfer
{
    std::vector<double> size_bytes; ///< of payload: one of these
    std::vector<double> weights;    ///< of each
    bool exponential = false;       ///< times a number that is exponential with mean 1
    int64_t earliest_ns = 0;
    int64_t within_ns = 0; ///< after the earliest time
};

/** Whose tunables are set and whose score counts; no world treats the flows differently. */
enum class Role
{
    TUNED,
    FIXED,
    BACKGROUND
};

struct Flow
{
    std::string name;
    std::string cc;
    std::string quic; ///< the stack of another project that runs it; empty: ours
    Role role = Role::FIXED;
    int64_t rtt_ns = 0; ///< propagation both ways, the link's delay included
    int64_t start_ns = 0;
    int64_t stop_ns = 0;
    App app;
    double read_bps = 0;              ///< of payload, by its receiver; 0: as it arrives
    std::optional<Transfer> transfer; ///< start and app are drawn; nothing: they are as they are
    Stack stack;
    std::map<std::string, double> tunables;
    std::vector<uint32_t> there{0}; ///< the links that its data cross, in order, see Scenario::LinkAt
    std::vector<uint32_t> back;     ///< those of its ACKs
};

struct Scenario
{
    std::string name;
    int64_t duration_ns = 0;
    int64_t warmup_ns = 0;
    uint32_t mss_bytes = 0;
    Link link;
    std::vector<Link> further_links;
    std::vector<Flow> flows;

    const Link& LinkAt(std::size_t index) const { return index == 0 ? link : further_links[index - 1]; }
    std::size_t Links() const { return further_links.size() + 1; }
    /** Whether data of some flow cross several links. */
    bool HasPaths() const
    {
        return std::ranges::any_of(flows, [](const Flow& flow) { return flow.there.size() > 1; });
    }
};

/** The delays beside the links' own: before the first link, and behind the last one back to the sender. */
struct PathDelays
{
    int64_t access_ns;
    int64_t return_ns;
};

/** The scenario of a run: start and size of each Transfer are from the run's stream flow.NAME.app. */
std::shared_ptr<const Scenario> Drawn(std::shared_ptr<const Scenario> scenario, uint64_t run_seed);

PathDelays PathDelaysOf(const Flow& flow, const Scenario& scenario);

/** The link's rate, or a trace's mean. */
double MeanRateBps(const Link& link);

/** The largest useful window of a scenario: the bandwidth-delay product and a full queue. */
double UsefulWindowBytes(const Scenario& scenario);

/** The buffer of each socket: four times that, at least 64 MB, at most 1 GB; a multiple of 16 KB, which any window
 * scale can tell. */
uint32_t BufferBytes(const Scenario& scenario);

/** Parses a resolved scenario; throws ScenarioError for the first invalid field. */
Scenario ParseScenario(const std::string& json);

/** Bytes of a packet on the link beside its payload: IPv4 and TCP headers without options. */
inline constexpr uint32_t HEADER_BYTES = 40;

/** Those of the timestamps of an ACK, with what aligns them. */
inline constexpr uint32_t TIMESTAMP_BYTES = 12;

} // namespace bbrgym

#endif
