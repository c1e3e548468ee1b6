// SPDX-License-Identifier: GPL-2.0-only
//
// Random scenarios against the laws that every run obeys. Each runs with all laws checked after each step, again
// from a snapshot of its middle, twice, in other steps, on an engine that ran others before (the second time it may not
// allocate), and event by event instead of in turns.
//
// usage: twin_fuzz FIRST_SEED < SCENARIOS, a line of JSON each (fuzz_program.py)
// Prints what ran, or the first broken law with its seed, and ends with 1.
#include "vector.hpp"

#include "fields.hpp"
#include "params.hpp"
#include "random.hpp"
#include "scenario.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <cinttypes>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace bbrgym;

namespace
{

constexpr time_t HANG_S = 300; // of CPU time for one scenario: some have millions of packets

uint64_t g_seed = 0;
double g_now_s = 0;
uint64_t g_allocations = 0;

[[noreturn]] void
Fail(const std::string& law)
{
    std::fprintf(stderr, "broken: %s (seed %" PRIu64 ", %.9f s)\n", law.c_str(), g_seed, g_now_s);
    std::exit(1);
}

void
Require(bool holds, const char* law)
{
    if (!holds)
    {
        Fail(law);
    }
}

void
Require(bool holds, const char* law, std::size_t flow, double is, double bound)
{
    if (!holds)
    {
        Fail(std::string(law) + ": flow " + std::to_string(flow) + ", " + std::to_string(is) + " against " +
             std::to_string(bound));
    }
}

extern "C" void
OnHang(int)
{
    std::fprintf(stderr, "broken: no hang (seed %" PRIu64 ", after %.9f s)\n", g_seed, g_now_s);
    _exit(1);
}

// ---- a run's plan and tables ------------------------------------------------------------------------------

/** Draws what the caller of a run does. */
class Draw
{
  public:
    explicit Draw(const std::string& stream, uint64_t number = 0) : m_random(g_seed + number, stream) {}

    bool Chance(double probability) { return m_random.Chance(probability); }
    double Between(double low, double high) { return low + (high - low) * m_random.Uniform(); }
    /** Spread evenly over magnitudes. */
    double Log(double low, double high) { return low * std::pow(high / low, m_random.Uniform()); }
    uint64_t Below(uint64_t n) { return static_cast<uint64_t>(m_random.Uniform() * static_cast<double>(n)); }

  private:
    Random m_random;
};

/** Any value that the tunable may have, the ends included. */
double
DrawTunable(Draw& draw, const TunableInfo& tunable)
{
    if (draw.Chance(0.1))
    {
        return draw.Chance(0.5) ? tunable.low : tunable.high;
    }
    const double value = draw.Between(tunable.low, tunable.high);
    return tunable.kind == TunableKind::ratio ? value : std::round(value);
}

/** What the caller does: advances, and sets tunables before some of them. */
struct Plan
{
    std::vector<int64_t> steps_ns;
    std::vector<bool> changes; ///< before this step
    std::size_t saved_before;  ///< this step

    Plan(const Scenario& scenario, Draw& draw)
    {
        const auto duration_ns = static_cast<double>(scenario.duration_ns);
        const double mean_ns = duration_ns / draw.Log(2, 60);
        for (double left_ns = duration_ns; left_ns > 0; left_ns -= static_cast<double>(steps_ns.back()))
        {
            steps_ns.push_back(draw.Chance(0.05) ? 0 : 1 + static_cast<int64_t>(draw.Between(0, 2 * mean_ns)));
            changes.push_back(draw.Chance(0.3));
        }
        saved_before = draw.Below(steps_ns.size());
    }
};

double
Seconds(int64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

struct TableMemory
{
    explicit TableMemory(std::size_t flows)
        : tunables(flows * Tunables().size()),
          flow_stats(flows * std::size(FLOW_STAT_FIELDS)),
          link_stats(std::size(LINK_STAT_FIELDS))
    {}

    WorldTables View() { return {tunables, flow_stats, link_stats}; }
    VectorTables ViewOfOne(std::size_t flows)
    {
        return {flows, tunables, flow_stats, link_stats, {&now_s, 1}, {&done, 1}};
    }

    template <class Row> static Row ReadRow(const std::vector<double>& table, std::size_t index)
    {
        Row row;
        std::memcpy(static_cast<void*>(&row), table.data() + index * sizeof(Row) / sizeof(double), sizeof(Row));
        return row;
    }

    FlowStats Flow(std::size_t index) const { return ReadRow<FlowStats>(flow_stats, index); }
    LinkStats Link() const { return ReadRow<LinkStats>(link_stats, 0); }

    std::vector<double> tunables;
    std::vector<double> flow_stats;
    std::vector<double> link_stats;
    double now_s = 0;
    bool done = false;
};

std::vector<double>
SummaryOf(const Engine& engine)
{
    std::vector<double> flows(engine.GetScenario().flows.size() * std::size(FLOW_SUMMARY_FIELDS));
    std::vector<double> link(std::size(LINK_SUMMARY_FIELDS));
    engine.Summarise(flows, link);
    flows.insert(flows.end(), link.begin(), link.end());
    return flows;
}

/** All that a run has shown, for comparing bit by bit. */
class Shown
{
  public:
    void Add(const std::vector<double>& table)
    {
        for (const double value : table)
        {
            uint64_t bits = 0;
            std::memcpy(&bits, &value, sizeof(bits));
            m_words.push_back(bits);
        }
    }
    void Add(const TableMemory& tables, const Engine& engine)
    {
        Add(tables.tunables);
        Add(tables.flow_stats);
        Add(tables.link_stats);
        AddTotals(engine);
    }
    void AddTotals(const Engine& engine)
    {
        Add(SummaryOf(engine));
        m_words.push_back(engine.EventCount());
        for (std::size_t flow = 0; flow < engine.GetScenario().flows.size(); ++flow)
        {
            const PacketCounts counts = engine.CountPackets(flow);
            m_words.insert(m_words.end(), {counts.sent_pkts, counts.in_access_pkts, counts.queued_pkts});
            m_words.insert(m_words.end(), {counts.on_link_pkts, counts.arrived_pkts, counts.dropped_pkts});
        }
    }
    bool operator==(const Shown&) const = default;

  private:
    std::vector<uint64_t> m_words;
};

// ---- the laws ---------------------------------------------------------------------------------------------

/** Totals of a flow, gathered from the intervals' tables. */
struct FlowTotal
{
    double sent_pkts = 0;
    double retransmitted_pkts = 0;
    double lost_pkts = 0;
    double delivered_pkts = 0;
    double readable_pkts = 0;
    double dropped_pkts = 0;
    std::vector<double> departed_bytes{}; ///< from each link, of ACKs too
    int64_t silent_since_ns = 0;
    int64_t acts_at_ns = NEVER_NS; ///< at the latest, as it was known when the silence began
    bool is_established = false;

    double NewPkts() const { return sent_pkts - retransmitted_pkts; }
};

/** All that is at a link. */
struct LinkTotal
{
    uint64_t queued_pkts = 0;
    double departed_bytes = 0; ///< of all flows, ever
    double departed_before_bytes = 0;
    double capacity_bytes = 0;
};

class Laws
{
  public:
    explicit Laws(const Scenario& scenario)
        : m_scenario(scenario),
          m_packet_bytes(scenario.mss_bytes + HEADER_BYTES),
          m_flows(scenario.flows.size()),
          m_links(scenario.Links())
    {
        for (FlowTotal& flow : m_flows)
        {
            flow.departed_bytes.resize(m_links.size());
        }
    }

    void Check(const Engine& engine, const TableMemory& tables, int64_t step_ns)
    {
        Clock(engine, step_ns);
        for (LinkTotal& link : m_links)
        {
            link.queued_pkts = 0;
            link.departed_before_bytes = std::exchange(link.departed_bytes, 0);
        }
        for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
        {
            Gather(flow, engine, tables);
            Values(flow, tables.Flow(flow));
            Packets(flow, engine, tables.Flow(flow));
            const Outlook outlook = engine.OutlookOf(flow);
            Liveness(flow, outlook);
            Silence(flow, outlook, tables.Flow(flow));
        }
        for (std::size_t link = 0; link < m_links.size(); ++link)
        {
            Queue(link);
            Link(link, engine);
            LinkValues(link, m_links.size() == 1 ? tables.Link()
                                                 : TableMemory::ReadRow<LinkStats>(engine.Rows().Links(), link));
        }
        const SlotCounts slots = engine.CountSlots();
        Require(slots.used == slots.found, "what has a slot is somewhere", 0, static_cast<double>(slots.used),
                static_cast<double>(slots.found));
        Events(engine);
        Summary(engine);
    }

    double SentPkts() const
    {
        double sum = 0;
        for (const FlowTotal& flow : m_flows)
        {
            sum += flow.sent_pkts;
        }
        return sum;
    }

  private:
    void Clock(const Engine& engine, int64_t step_ns)
    {
        const int64_t expected_ns = std::min(m_now_ns + step_ns, m_scenario.duration_ns);
        Require(engine.NowNs() == expected_ns, "an advance ends where it should");
        Require(engine.Done() == (expected_ns == m_scenario.duration_ns), "a run is done at its end");
        m_step_ns = expected_ns - m_now_ns;
        m_now_ns = expected_ns;
    }

    void Gather(std::size_t flow, const Engine& engine, const TableMemory& tables)
    {
        const FlowStats stats = tables.Flow(flow);
        FlowTotal& total = m_flows[flow];
        const double bytes_of_mbps = Seconds(m_step_ns) * 1e6 / 8;
        const double readable = stats.goodput_mbps * bytes_of_mbps / m_scenario.mss_bytes;
        Require(std::abs(readable - std::round(readable)) < 1e-5 * (1 + readable), "goodput is whole segments", flow,
                readable, 0);
        total.sent_pkts += stats.sent_pkts;
        total.retransmitted_pkts += stats.retransmitted_pkts;
        total.lost_pkts += stats.lost_pkts;
        total.delivered_pkts += stats.delivered_pkts;
        total.readable_pkts += std::round(readable);
        total.dropped_pkts += stats.dropped_pkts;
        for (std::size_t link = 0; link < m_links.size(); ++link)
        {
            const FlowStats there =
                m_links.size() == 1 ? stats : TableMemory::ReadRow<FlowStats>(engine.Rows().FlowsAt(link), flow);
            total.departed_bytes[link] += there.throughput_mbps * bytes_of_mbps;
            m_links[link].departed_bytes += total.departed_bytes[link];
        }
        total.is_established |= stats.cwnd_pkts > 0;
    }

    /** Fields are numbers, and within what they mean. */
    void Values(std::size_t flow, const FlowStats& stats)
    {
        double values[std::size(FLOW_STAT_FIELDS)];
        std::memcpy(values, &stats, sizeof(stats));
        for (std::size_t i = 0; i < std::size(values); ++i)
        {
            Require(std::isfinite(values[i]) && values[i] >= 0, FLOW_STAT_FIELDS[i].name, flow, values[i], 0);
        }
        Require(stats.retransmitted_pkts <= stats.sent_pkts, "sent includes sent again", flow, stats.retransmitted_pkts,
                stats.sent_pkts);
        Require(stats.rtt_min_ms <= stats.rtt_mean_ms * (1 + 1e-9), "minimum <= mean", flow, stats.rtt_min_ms,
                stats.rtt_mean_ms);
        Require(stats.rtt_min_ms <= stats.rtt_p95_ms * 1.005, "minimum <= p95", flow, stats.rtt_min_ms,
                stats.rtt_p95_ms);
        Require(!m_flows[flow].is_established || stats.cwnd_pkts >= 1, "a window is never empty", flow, stats.cwnd_pkts,
                1);
        // The difference of two readings of the RTT's clock, or of timestamps in ms, falls short of the time by less
        // than a step.
        const SocketFacts& facts = m_scenario.flows[flow].stack.socket;
        const double step_ms = std::max(static_cast<double>(facts.rtt_clock_us) / 1e3, facts.timestamps ? 1.0 : 0.0);
        const double least_ms = static_cast<double>(LeastRttNs(flow)) / 1e6 - step_ms;
        Require(stats.rtt_samples == 0 || stats.rtt_min_ms >= least_ms, "no RTT below the path's", flow,
                stats.rtt_min_ms, least_ms);
    }

    /** The path's delay, with the least of the link's. */
    int64_t LeastRttNs(std::size_t flow) const
    {
        const PathDelays delays = PathDelaysOf(m_scenario.flows[flow], m_scenario);
        int64_t links_ns = 0;
        for (const std::vector<uint32_t>* path : {&m_scenario.flows[flow].there, &m_scenario.flows[flow].back})
        {
            for (const uint32_t index : *path)
            {
                int64_t link_ns = m_scenario.LinkAt(index).delay_ns;
                for (const LinkChange& change : m_scenario.LinkAt(index).changes)
                {
                    link_ns = std::min(link_ns, change.delay_ns.value_or(link_ns));
                }
                links_ns += link_ns;
            }
        }
        return delays.access_ns + links_ns + delays.return_ns;
    }

    /** Packets and bytes are conserved. */
    void Packets(std::size_t flow, const Engine& engine, const FlowStats& stats)
    {
        const PacketCounts counts = engine.CountPackets(flow);
        const FlowTotal& total = m_flows[flow];
        const auto real = [](uint64_t count) { return static_cast<double>(count); };
        const uint64_t known = counts.in_access_pkts + counts.queued_pkts + counts.on_link_pkts + counts.arrived_pkts +
                               counts.dropped_pkts;
        Require(counts.sent_pkts == known, "each packet sent is somewhere", flow, real(counts.sent_pkts), real(known));
        Require(total.sent_pkts == real(counts.sent_pkts), "the table counts what is sent", flow, total.sent_pkts,
                real(counts.sent_pkts));
        Require(total.dropped_pkts == real(counts.dropped_pkts), "the table counts drops", flow, total.dropped_pkts,
                real(counts.dropped_pkts));
        Require(total.readable_pkts <= total.NewPkts(), "no more is read than was written", flow, total.readable_pkts,
                total.NewPkts());
        Require(total.readable_pkts <= real(counts.arrived_pkts), "what is read has arrived", flow, total.readable_pkts,
                real(counts.arrived_pkts));
        Require(total.delivered_pkts <= real(counts.arrived_pkts), "what was delivered has arrived", flow,
                total.delivered_pkts, real(counts.arrived_pkts));
        Require(total.delivered_pkts <= total.NewPkts(), "each segment is delivered once", flow, total.delivered_pkts,
                total.NewPkts());
        const double out = total.NewPkts() - total.delivered_pkts;
        Require(stats.in_flight_pkts <= out + total.retransmitted_pkts, "in flight is what is out", flow,
                stats.in_flight_pkts, out);
        Require(stats.in_flight_pkts == 0 || out > 0, "nothing out, nothing in flight", flow, stats.in_flight_pkts,
                out);
        if (!m_scenario.flows[flow]
                 .stack.socket.tail_loss_probe) // probes send again what is not lost; what it unmarks it may mark again
        {
            Require(total.retransmitted_pkts <= total.lost_pkts, "only what is lost is sent again", flow,
                    total.retransmitted_pkts, total.lost_pkts);
            Require(total.lost_pkts <= total.sent_pkts, "no more is lost than was sent", flow, total.lost_pkts,
                    total.sent_pkts);
        }
        constexpr double BARE_BYTES = 48 * 64; // SYNs, and what completes the handshake
        const std::vector<uint32_t>& path = m_scenario.flows[flow].there;
        double behind_pkts = real(counts.arrived_pkts); // that have come to the next link, or the end
        for (std::size_t i = path.size(); i-- > 0;)
        {
            const LinkCounts at_link = engine.CountAtLink(flow, path[i]);
            const double least_bytes = (behind_pkts + real(at_link.on_link_pkts)) * m_packet_bytes;
            const double most_bytes = least_bytes + (real(at_link.dropped_pkts) + 1) * m_packet_bytes + BARE_BYTES;
            const double departed_bytes = total.departed_bytes[path[i]];
            Require(least_bytes <= departed_bytes * (1 + 1e-9) + 1e-3, "what came behind a link has departed", flow,
                    least_bytes, departed_bytes);
            Require(departed_bytes <= most_bytes * (1 + 1e-9), "what departed is on the link, lost, or came behind it",
                    flow, departed_bytes, most_bytes);
            behind_pkts += real(at_link.queued_pkts) + real(at_link.on_link_pkts) + real(at_link.dropped_pkts);
            m_links[path[i]].queued_pkts += at_link.queued_pkts;
        }
        Require(behind_pkts + real(counts.in_access_pkts) == real(counts.sent_pkts), "each packet sent is at one place",
                flow, behind_pkts, real(counts.sent_pkts));
    }

    /** Who has work goes on by itself, or waits for what a column names: nobody is forgotten. */
    void Liveness(std::size_t flow, const Outlook& outlook)
    {
        const auto real = [](uint64_t count) { return static_cast<double>(count); };
        const bbrgym::Flow& spec = m_scenario.flows[flow];
        if (!outlook.is_established)
        {
            const bool has_begun = m_now_ns >= spec.start_ns;
            Require(!has_begun || (outlook.syn_ns > m_now_ns && outlook.syn_ns < NEVER_NS), "a SYN has a timer", flow,
                    Seconds(m_now_ns), 0);
            return;
        }
        const bool has_timer =
            outlook.timer_ns > m_now_ns && outlook.timer_ns <= outlook.rto_ns && outlook.rto_ns < NEVER_NS;
        Require(outlook.out_pkts == 0 || has_timer, "what is out has a timer", flow, Seconds(outlook.rto_ns),
                Seconds(outlook.timer_ns));
        const bool is_closed = outlook.window_pkts == 0 && m_scenario.flows[flow].read_bps > 0;
        if (outlook.out_pkts == 0 && outlook.unsent_pkts > 0 && !is_closed)
        {
            Require(outlook.window_pkts > 0, "a window is open when all has arrived", flow, real(outlook.unsent_pkts),
                    0);
            const bool is_due =
                outlook.send_ns > m_now_ns && outlook.send_ns < NEVER_NS && outlook.send_ns <= outlook.paced_ns;
            Require(is_due, "with nothing out, pacing alone holds back", flow, real(outlook.unsent_pkts),
                    Seconds(outlook.send_ns));
        }
        if (outlook.is_writing && outlook.unsent_pkts == 0 && !outlook.is_writer_due)
        {
            Require(outlook.waits_for_room, "a writer that is not at work waits for room", flow, real(outlook.out_pkts),
                    real(outlook.buffer_pkts));
            Require(outlook.out_pkts > 0, "an empty buffer has room", flow, 0, 0);
            Require(outlook.out_pkts >= outlook.buffer_pkts, "an ample buffer is full when a writer waits", flow,
                    real(outlook.out_pkts), real(outlook.buffer_pkts));
        }
    }

    /** Without an answer a sender acts when its timer is due; a tail loss probe may put that off once. */
    void Silence(std::size_t flow, const Outlook& outlook, const FlowStats& stats)
    {
        constexpr int64_t MAX_RTO_NS = 120'000'000'000;
        FlowTotal& total = m_flows[flow];
        const bool has_work = outlook.is_established && (outlook.out_pkts > 0 || outlook.unsent_pkts > 0);
        if (!has_work || stats.sent_pkts > 0 || stats.delivered_pkts > 0 || total.acts_at_ns == NEVER_NS)
        {
            total.silent_since_ns = m_now_ns;
            const int64_t sends_ns = outlook.paced_ns != NEVER_NS ? outlook.paced_ns : outlook.send_ns;
            total.acts_at_ns = !has_work ? NEVER_NS : outlook.out_pkts > 0 ? outlook.rto_ns : sends_ns;
            return;
        }
        const int64_t silence_ns = m_now_ns - total.silent_since_ns;
        const int64_t allowed_ns = total.acts_at_ns - total.silent_since_ns;
        Require(silence_ns <= 2 * allowed_ns + 1'000'000, "a timer that is due sends", flow, Seconds(silence_ns),
                Seconds(allowed_ns));
        const bool is_paced = outlook.send_ns != NEVER_NS; // as slowly as a packet an hour
        Require(is_paced || silence_ns <= 2 * MAX_RTO_NS, "no silence is longer than a timer's longest", flow,
                Seconds(silence_ns), 120);
    }

    void Queue(std::size_t link)
    {
        const auto& queue = m_scenario.LinkAt(link).queue;
        const uint64_t max_pkts = queue.size_packets.value_or(*LimitBytes(link) / m_packet_bytes);
        Require(m_links[link].queued_pkts <= max_pkts + 1, "the queue is within its limit"); // and one in transmission
    }

    /** RED and every queue counted in bytes; others hold packets of any size. */
    std::optional<uint64_t> LimitBytes(std::size_t link) const
    {
        const auto& queue = m_scenario.LinkAt(link).queue;
        return queue.size_bytes ? *queue.size_bytes : *queue.size_packets * m_packet_bytes;
    }

    /** What is measured of a link. */
    void LinkValues(std::size_t link, const LinkStats& stats)
    {
        double values[std::size(LINK_STAT_FIELDS)];
        std::memcpy(values, &stats, sizeof(stats));
        for (std::size_t i = 0; i < std::size(values); ++i)
        {
            Require(std::isfinite(values[i]) && values[i] >= 0, LINK_STAT_FIELDS[i].name, link, values[i], 0);
        }
        Require(stats.utilisation <= 1, "a link is used at most in full", link, stats.utilisation, 1);
        Require(!LimitBytes(link) || stats.queue_mean_bytes <= static_cast<double>(*LimitBytes(link)) * (1 + 1e-9),
                "a queue is within its limit in the mean");
    }

    /** A link carries no more than it can, in every interval. */
    void Link(std::size_t index, const Engine& engine)
    {
        LinkTotal& link = m_links[index];
        const double capacity_bytes = engine.CapacityBytes(index);
        Require(link.departed_bytes <= capacity_bytes * (1 + 1e-9) + 1e-3, "no more departs than the link can carry",
                index, link.departed_bytes, capacity_bytes);
        const double departed = link.departed_bytes - link.departed_before_bytes;
        const double capacity = capacity_bytes - std::exchange(link.capacity_bytes, capacity_bytes);
        Require(capacity >= 0, "capacity only grows");
        Require(departed <= capacity + 1e-9 * capacity_bytes + 1e-3, "no more departs in an interval than it can carry",
                index, departed, capacity);
    }

    /** Work is in proportion to packets, writes and timers. */
    void Events(const Engine& engine)
    {
        const double seconds = Seconds(m_now_ns);
        double budget = 100;
        for (std::size_t index = 0; index < m_links.size(); ++index)
        {
            const bbrgym::Link& link = m_scenario.LinkAt(index);
            budget += 10 * static_cast<double>(link.changes.size());
            if (link.trace)
            {
                const double periods = seconds * 1e9 / static_cast<double>(link.trace->period_ns) + 1;
                budget += static_cast<double>(link.trace->times_ns.size()) * periods;
            }
        }
        for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
        {
            const bbrgym::Flow& spec = m_scenario.flows[flow];
            double writes_bps = 0;
            double bursts = 0;
            if (const auto* cbr = std::get_if<Cbr>(&spec.app))
            {
                writes_bps = cbr->rate_bps;
            }
            else if (const auto* frames = std::get_if<Frames>(&spec.app))
            {
                bursts = frames->fps * seconds;
            }
            else if (const auto* on_off = std::get_if<OnOff>(&spec.app))
            {
                writes_bps = on_off->rate_bps;
                // Random ones may be shorter than their means for a while.
                bursts = 50 + 10 * seconds / Seconds(on_off->on_ns + on_off->off_ns);
            }
            budget += 200 + 20 * m_flows[flow].sent_pkts + 10 * seconds + 2 * bursts +
                      2 * writes_bps * seconds / (8.0 * m_scenario.mss_bytes);
        }
        Require(static_cast<double>(engine.EventCount()) <= budget, "events are within their budget", 0,
                static_cast<double>(engine.EventCount()), budget);
    }

    void Summary(const Engine& engine)
    {
        const std::vector<double> rows = SummaryOf(engine);
        const bool is_warm = m_now_ns >= m_scenario.warmup_ns;
        for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
        {
            const auto row = TableMemory::ReadRow<FlowSummary>(rows, flow);
            const bbrgym::Flow& spec = m_scenario.flows[flow];
            const bool is_measured = is_warm && m_now_ns >= spec.start_ns && spec.stop_ns > m_scenario.warmup_ns;
            const bool is_touching = m_now_ns == spec.start_ns || spec.stop_ns == m_scenario.warmup_ns;
            const auto* bulk = std::get_if<Bulk>(&spec.app);
            const bool may_be_complete = bulk != nullptr && bulk->pkts > 0; // before the warm-up ended
            Require(is_touching || may_be_complete || std::isnan(row.start_s) != is_measured,
                    "a row is there when the window is", flow, row.start_s, Seconds(m_now_ns));
            if (std::isnan(row.start_s))
            {
                continue;
            }
            const double always[] = {row.start_s,         row.stop_s,    row.goodput_mbps,       row.throughput_mbps,
                                     row.fair_share_mbps, row.sent_pkts, row.retransmitted_pkts, row.lost_pkts,
                                     row.dropped_pkts,    row.rto_count};
            for (const double value : always)
            {
                Require(std::isfinite(value) && value >= 0, "a measured row has numbers", flow, value, 0);
            }
            Require(row.stop_s >= row.start_s && row.stop_s <= Seconds(m_now_ns) + 1e-9, "a window is in the past",
                    flow, row.start_s, row.stop_s);
            Require(std::isnan(row.retransmit_rate) == (row.sent_pkts == 0), "a ratio of nothing is NaN", flow,
                    row.retransmit_rate, row.sent_pkts);
            Require(std::isnan(row.share) || (row.share >= 0 && row.share <= 1), "a share is one", flow, row.share, 1);
            Require(std::isnan(row.frame_delay_p50_ms) ||
                        (row.frame_delay_p50_ms > 0 && row.frame_delay_p50_ms <= row.frame_delay_p99_ms),
                    "a frame takes time", flow, row.frame_delay_p50_ms, row.frame_delay_p99_ms);
            Require(std::isnan(row.late_frame_share) || (row.late_frame_share >= 0 && row.late_frame_share <= 1),
                    "a share is one", flow, row.late_frame_share, 1);
            Require(std::isnan(row.rtt_mean_ms) == std::isnan(row.rtt_min_ms), "RTTs are there or not", flow,
                    row.rtt_mean_ms, 0);
        }
        const auto* link_row = rows.data() + m_flows.size() * std::size(FLOW_SUMMARY_FIELDS);
        LinkSummary link;
        std::memcpy(static_cast<void*>(&link), link_row, sizeof(link));
        Require(std::isnan(link.utilisation) || (link.utilisation >= 0 && link.utilisation <= 1),
                "a link is used at most in full");
        Require(std::isnan(link.jain) || (link.jain > 0 && link.jain <= 1 + 1e-12),
                "Jain's index is above 0, at most 1");
        Require(std::isnan(link.capacity_mbps) != is_warm || m_now_ns == m_scenario.warmup_ns,
                "the link is measured after warm-up");
    }

    const Scenario& m_scenario;
    double m_packet_bytes;
    std::vector<FlowTotal> m_flows;
    int64_t m_now_ns = 0;
    int64_t m_step_ns = 0;
    std::vector<LinkTotal> m_links;
};

// ---- one scenario -----------------------------------------------------------------------------------------

/** Writes new values into the table of tunables, where the flows have them. */
void
ChangeBefore(std::size_t step, const Plan& plan, TableMemory& tables)
{
    Draw draw("tunables", step);
    for (std::size_t i = 0; plan.changes[step] && i < tables.tunables.size(); ++i)
    {
        if (!std::isnan(tables.tunables[i]) && draw.Chance(0.2))
        {
            tables.tunables[i] = DrawTunable(draw, Tunables()[i % Tunables().size()]);
        }
    }
}

struct Counts
{
    uint64_t events = 0;
    double packets = 0;
};

/** A vector of one world that runs the scenario. */
std::unique_ptr<TwinVector>
Begin(std::shared_ptr<const Scenario> scenario, uint64_t seed, TableMemory& tables)
{
    auto vector = std::make_unique<TwinVector>(1, 1);
    vector->LayOut(tables.ViewOfOne(scenario->flows.size()));
    vector->Reset(0, std::move(scenario), seed);
    return vector;
}

/** Laws after each step; then again from the middle. Returns the totals that every other way must reach. */
Shown
RunByLaw(std::shared_ptr<const Scenario> scenario, const Plan& plan, Counts& counts)
{
    TableMemory tables(scenario->flows.size());
    StopCheck never([](StopCheck::Clock::duration) { return false; });
    auto simulation = Begin(scenario, g_seed, tables);
    Laws laws(*scenario);
    std::optional<Snapshot> snapshot;
    Shown first;
    for (std::size_t step = 0; step < plan.steps_ns.size(); ++step)
    {
        if (step == plan.saved_before)
        {
            snapshot = simulation->Save(0);
        }
        ChangeBefore(step, plan, tables);
        const double seconds[] = {Seconds(plan.steps_ns[step])};
        simulation->Advance(seconds, never);
        g_now_s = tables.now_s;
        laws.Check(simulation->World(0), tables, plan.steps_ns[step]);
        if (snapshot)
        {
            first.Add(tables, simulation->World(0));
        }
    }
    counts.events += simulation->World(0).EventCount();
    counts.packets += laws.SentPkts();
    Shown totals;
    totals.AddTotals(simulation->World(0));

    if (g_seed % 2 == 0)
    {
        simulation = Begin(scenario, g_seed + 1, tables); // a stranger to that run
    }
    simulation->Restore(0, *snapshot);
    snapshot.reset();
    Shown again;
    for (std::size_t step = plan.saved_before; step < plan.steps_ns.size(); ++step)
    {
        ChangeBefore(step, plan, tables);
        const double seconds[] = {Seconds(plan.steps_ns[step])};
        simulation->Advance(seconds, never);
        again.Add(tables, simulation->World(0));
    }
    Require(again == first, "from a snapshot the same bytes come again");
    return totals;
}

struct Rerun
{
    Shown totals;
    uint64_t allocations;
};

/** Each step in two, on an engine that has a past. */
Rerun
RunInOtherSteps(Engine& engine, std::shared_ptr<const Scenario> scenario, const Plan& plan)
{
    TableMemory tables(scenario->flows.size());
    engine.Reset(scenario, g_seed, tables.View());
    Draw draw("splits");
    const uint64_t before = g_allocations;
    for (std::size_t step = 0; step < plan.steps_ns.size(); ++step)
    {
        ChangeBefore(step, plan, tables);
        const auto part_ns = static_cast<int64_t>(draw.Between(0, static_cast<double>(plan.steps_ns[step])));
        engine.Advance(Seconds(part_ns), tables.View());
        engine.Advance(Seconds(plan.steps_ns[step] - part_ns), tables.View());
    }
    Rerun rerun{{}, g_allocations - before};
    rerun.totals.AddTotals(engine);
    return rerun;
}

} // namespace

/** AddressSanitizer calls it for each allocation. */
extern "C" void
__sanitizer_malloc_hook(const volatile void*, std::size_t)
{
    ++g_allocations;
}

extern "C" void
__sanitizer_free_hook(const volatile void*)
{}

int
main(int argc, char** argv)
{
    if (argc != 2)
    {
        std::fprintf(stderr, "usage: %s FIRST_SEED < SCENARIOS\n", argv[0]);
        return 2;
    }
    std::signal(SIGPROF, OnHang);
    Engine veteran;
    Engine stepper; // takes every event by time
    Counts counts;
    uint64_t scenarios = 0;
    g_seed = std::strtoull(argv[1], nullptr, 10);
    for (std::string line; std::getline(std::cin, line); ++g_seed, ++scenarios)
    {
        const itimerval hang{{}, {HANG_S, 0}};
        setitimer(ITIMER_PROF, &hang, nullptr);
        g_now_s = 0;
        try
        {
            const auto scenario = Drawn(std::make_shared<const Scenario>(ParseScenario(line)), g_seed);
            Draw draw("plan");
            const Plan plan(*scenario, draw);
            const Shown totals = RunByLaw(scenario, plan, counts);
            const Rerun once = RunInOtherSteps(veteran, scenario, plan);
            Require(once.totals == totals, "the size of the steps and the past change nothing");
            const Rerun twice = RunInOtherSteps(veteran, scenario, plan);
            Require(twice.totals == totals, "an engine forgets");
            Require(twice.allocations == 0, "what it has run before needs no memory", 0,
                    static_cast<double>(twice.allocations), 0);
            stepper.TakeTurns(false);
            Require(RunInOtherSteps(stepper, scenario, plan).totals == totals, "turns change nothing");
        }
        catch (const std::exception& error)
        {
            Fail(std::string("no exception: ") + error.what());
        }
    }
    std::printf("%" PRIu64 " scenarios, %.0f packets, %" PRIu64 " events: every law holds\n", scenarios, counts.packets,
                counts.events);
    return 0;
}
