// SPDX-License-Identifier: GPL-2.0-only
#include "measurement.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr double NOTHING = std::numeric_limits<double>::quiet_NaN();

double
Mbps(double bytes, double seconds)
{
    return seconds > 0 ? bytes * 8 / 1e6 / seconds : 0;
}

double
Ratio(double part, double whole, double if_nothing)
{
    return whole > 0 ? part / whole : if_nothing;
}

double
Seconds(int64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

double
Real(uint64_t count)
{
    return static_cast<double>(count);
}

/** Bytes of a period, those of packets in transmission at its ends included as far as they left within it. */
template <class Totals>
double
Carried(const Totals& period)
{
    return Real(period.departed_bytes) + period.partly_sent_bytes;
}

/** At most 1: sums of real numbers err in the last digits. */
double
Utilisation(double carried_bytes, double capacity_bytes, double if_nothing)
{
    return std::min(Ratio(carried_bytes, capacity_bytes, if_nothing), 1.0);
}

/**
 * The time of a transfer alone on its path as it is at the beginning: handshake, way there, all packets at the slowest
 * link's rate.
 */
double
IdealSeconds(const Scenario& scenario, const Flow& flow, uint64_t pkts)
{
    const double bits = Real(pkts) * (scenario.mss_bytes + HEADER_BYTES) * 8;
    double rate_bps = MeanRateBps(scenario.LinkAt(flow.there.front()));
    for (const uint32_t index : flow.there)
    {
        rate_bps = std::min(rate_bps, MeanRateBps(scenario.LinkAt(index)));
    }
    return 1.5 * Seconds(flow.rtt_ns) + bits / rate_bps;
}

} // namespace

Measurement::FlowTotals
Measurement::FlowTotals::operator-(const FlowTotals& earlier) const
{
    return {sent_pkts - earlier.sent_pkts,
            retransmitted_pkts - earlier.retransmitted_pkts,
            dropped_pkts - earlier.dropped_pkts,
            ecn_marked_pkts - earlier.ecn_marked_pkts,
            departed_bytes - earlier.departed_bytes,
            partly_sent_bytes - earlier.partly_sent_bytes,
            goodput_bytes - earlier.goodput_bytes,
            in_order_pkts - earlier.in_order_pkts,
            waited_ns - earlier.waited_ns,
            waits - earlier.waits,
            marked_lost_pkts - earlier.marked_lost_pkts,
            delivered_pkts - earlier.delivered_pkts,
            rto_count - earlier.rto_count,
            busy_ns - earlier.busy_ns,
            rwnd_limited_ns - earlier.rwnd_limited_ns,
            sndbuf_limited_ns - earlier.sndbuf_limited_ns,
            fair_share_bytes - earlier.fair_share_bytes};
}

Measurement::LinkTotals
Measurement::LinkTotals::operator-(const LinkTotals& earlier) const
{
    return {time_ns - earlier.time_ns,
            capacity_bytes - earlier.capacity_bytes,
            queue_byte_ns - earlier.queue_byte_ns,
            fair_share_bytes - earlier.fair_share_bytes,
            departed_bytes - earlier.departed_bytes,
            partly_sent_bytes - earlier.partly_sent_bytes,
            goodput_bytes - earlier.goodput_bytes,
            queue_dropped_pkts - earlier.queue_dropped_pkts,
            random_lost_pkts - earlier.random_lost_pkts,
            policed_pkts - earlier.policed_pkts,
            ecn_marked_pkts - earlier.ecn_marked_pkts};
}

void
Measurement::Reset(const Scenario& scenario)
{
    m_log.Clear();
    m_payload_ratio = static_cast<double>(scenario.mss_bytes) / (scenario.mss_bytes + HEADER_BYTES);
    m_mss_bytes = scenario.mss_bytes;
    m_flows.resize(scenario.flows.size());
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        FlowRecord& record = m_flows[flow];
        Histogram interval_rtt = std::move(record.interval_rtt);
        Histogram window_rtt = std::move(record.window_rtt);
        Histogram frame_delays = std::move(record.frame_delays);
        Ring<Frame> frames = std::move(record.frames);
        record = FlowRecord();
        record.interval_rtt = std::move(interval_rtt);
        record.window_rtt = std::move(window_rtt);
        record.interval_rtt.Clear();
        record.window_rtt.Clear();
        record.frame_delays = std::move(frame_delays);
        record.frame_delays.Clear();
        record.frames.TakeMemory(frames);
        if (const auto* media = std::get_if<Frames>(&scenario.flows[flow].app))
        {
            record.late_after_ns = media->late_after_ns;
        }
        const auto* bulk = std::get_if<Bulk>(&scenario.flows[flow].app);
        if (bulk != nullptr && bulk->pkts > 0)
        {
            record.transfer_bytes = bulk->pkts * scenario.mss_bytes;
            record.ideal_s = IdealSeconds(scenario, scenario.flows[flow], bulk->pkts);
        }
    }
    m_active_flows = 0;
    m_has_paths = scenario.HasPaths();
    m_is_warm = false;
    m_warmed_within = false;
    m_link = m_link_at_interval = m_link_at_warm = LinkTotals();
    m_interval_wait.Clear();
    m_window_wait.Clear();
}

// ---- events ---------------------------------------------------------------------------------------------

void
Measurement::RttSample(std::size_t flow, int64_t rtt_ns)
{
    FlowRecord& record = m_flows[flow];
    record.interval_rtt.Add(rtt_ns);
    record.last_rtt_ms = static_cast<double>(rtt_ns) / 1e6;
    if (record.opened_within) [[unlikely]]
    {
        record.window_rtt.Add(rtt_ns);
    }
}

void
Measurement::FrameWritten(std::size_t flow, uint64_t end_bytes, bool is_whole, int64_t now_ns)
{
    FlowRecord& record = m_flows[flow];
    const bool is_measured = record.window == Window::OPEN;
    if (!is_whole)
    {
        record.late_frames += is_measured;
        record.dropped_frames += is_measured;
        return;
    }
    record.frames.push_back({end_bytes, now_ns, is_measured});
    record.transfer_bytes = record.frames.front().end_bytes;
}

/** What was awaited is readable: whether it was a transfer. */
bool
Measurement::EndsTransfer(FlowRecord& record, int64_t now_ns)
{
    if (record.frames.empty())
    {
        return true;
    }
    for (; !record.frames.empty() && record.frames.front().end_bytes <= record.totals.goodput_bytes;
         record.frames.pop_front())
    {
        const Frame& frame = record.frames.front();
        if (frame.is_measured)
        {
            record.frame_delays.Add(now_ns - frame.written_ns);
            record.late_frames += now_ns - frame.written_ns > record.late_after_ns;
        }
    }
    record.transfer_bytes = record.frames.empty() ? NO_TRANSFER : record.frames.front().end_bytes;
    return false;
}

void
Measurement::Policed(std::size_t flow, bool has_payload)
{
    m_flows[flow].totals.dropped_pkts += has_payload;
    m_link.policed_pkts += has_payload;
}

void
Measurement::QueueDropped(std::size_t flow, bool has_payload)
{
    m_flows[flow].totals.dropped_pkts += has_payload;
    m_link.queue_dropped_pkts += has_payload;
}

void
Measurement::Marked(std::size_t flow)
{
    ++m_flows[flow].totals.ecn_marked_pkts;
    ++m_link.ecn_marked_pkts;
}

void
Measurement::RandomLost(std::size_t flow, bool has_payload)
{
    m_flows[flow].totals.dropped_pkts += has_payload;
    m_link.random_lost_pkts += has_payload;
}

// ---- moments --------------------------------------------------------------------------------------------

void
Measurement::FlowStarted(std::size_t flow, const MeasuredWorld& world)
{
    AccrueFairShare(world);
    ++m_active_flows;
    m_flows[flow].is_active = true;
    m_flows[flow].started_ns = world.NowNs();
    if (m_is_warm)
    {
        OpenWindow(flow, world);
    }
}

void
Measurement::FlowStopped(std::size_t flow, const MeasuredWorld& world)
{
    FlowRecord& record = m_flows[flow];
    if (!record.is_active)
    {
        return;
    }
    AccrueFairShare(world);
    --m_active_flows;
    record.is_active = false;
    record.was_active = true;
    if (record.window == Window::OPEN)
    {
        GatherRtt(record);
        record.window = Window::CLOSED;
        record.flow_at_close = WindowTotals(flow, world);
        record.link_at_close = LinkNow(world);
    }
}

void
Measurement::FlowCompleted(std::size_t flow, const MeasuredWorld& world)
{
    FlowRecord& record = m_flows[flow];
    record.completion_s = Seconds(world.NowNs() - record.started_ns);
    record.transfer_bytes = NO_TRANSFER; // it is complete once
    FlowStopped(flow, world);
}

void
Measurement::WarmedUp(const MeasuredWorld& world)
{
    AccrueFairShare(world);
    m_is_warm = true;
    m_warmed_within = true;
    m_link_at_warm = LinkNow(world);
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        if (m_flows[flow].is_active)
        {
            OpenWindow(flow, world);
        }
    }
}

void
Measurement::OpenWindow(std::size_t flow, const MeasuredWorld& world)
{
    FlowRecord& record = m_flows[flow];
    record.window = Window::OPEN;
    record.opened_within = true;
    record.flow_at_open = WindowTotals(flow, world);
    record.link_at_open = LinkNow(world);
}

/** The interval or the window ends: the window gets the samples of the interval, unless it has them. */
void
Measurement::GatherRtt(FlowRecord& record)
{
    if (record.window == Window::OPEN && !record.opened_within)
    {
        record.window_rtt.Add(record.interval_rtt);
    }
    record.opened_within = false;
}

/** Must be called before the number of active flows changes. */
void
Measurement::AccrueFairShare(const MeasuredWorld& world)
{
    m_link = LinkNow(world);
}

Measurement::FlowTotals
Measurement::TotalsNow(std::size_t flow, const MeasuredWorld& world) const
{
    return TotalsNow(flow, world.Sender(flow), world.InTransmission());
}

Measurement::FlowTotals
Measurement::TotalsNow(std::size_t flow, const SenderState& sender, const PartlySent& in_transmission) const
{
    FlowTotals totals = m_flows[flow].totals;
    totals.partly_sent_bytes = in_transmission.flow == flow ? in_transmission.bytes : 0;
    totals.marked_lost_pkts = sender.marked_lost_pkts;
    totals.delivered_pkts = sender.delivered_pkts;
    totals.rto_count = sender.rto_count;
    totals.busy_ns = sender.busy_ns;
    totals.rwnd_limited_ns = sender.rwnd_limited_ns;
    totals.sndbuf_limited_ns = sender.sndbuf_limited_ns;
    return totals;
}

Measurement::FlowTotals
Measurement::WindowTotals(std::size_t flow, const MeasuredWorld& world) const
{
    FlowTotals totals = TotalsNow(flow, world);
    totals.fair_share_bytes = m_has_paths ? world.FairShareBytes(flow) : 0;
    return totals;
}

Measurement::LinkTotals
Measurement::LinkNow(const MeasuredWorld& world) const
{
    LinkTotals totals = m_link;
    totals.time_ns = world.NowNs();
    totals.capacity_bytes = world.CapacityBytes();
    totals.partly_sent_bytes = world.InTransmission().bytes;
    totals.queue_byte_ns = world.QueueByteNs();
    if (m_active_flows > 0)
    {
        const double capacity_bytes = totals.capacity_bytes - m_link.capacity_bytes;
        totals.fair_share_bytes += capacity_bytes * m_payload_ratio / m_active_flows;
    }
    return totals;
}

// ---- intervals ------------------------------------------------------------------------------------------

void
Measurement::TakeInterval(const MeasuredWorld& world, std::span<double> flow_stats, std::span<double> link_stats)
{
    const LinkTotals now = LinkNow(world);
    const LinkTotals interval = now - m_link_at_interval;
    const double seconds = Seconds(interval.time_ns);
    double active_flows = 0;
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        active_flows += IsActiveInInterval(flow, world);
    }
    const LinkStats link = IntervalOfLink(interval, active_flows);
    const double fair_share_mbps = Ratio(link.rate_mbps * m_payload_ratio, active_flows, 0);
    const PartlySent in_transmission = world.InTransmission();
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        WriteRow(IntervalOf(flow, seconds, fair_share_mbps, in_transmission, world), flow_stats, flow);
    }
    WriteRow(link, link_stats, 0);
    if (m_is_warm && !m_warmed_within)
    {
        m_window_wait.Add(m_interval_wait);
    }
    m_warmed_within = false;
    m_interval_wait.Clear();
    m_link_at_interval = now;
}

bool
Measurement::IsActiveInInterval(std::size_t flow, const MeasuredWorld& world) const
{
    const FlowRecord& record = m_flows[flow];
    return record.was_active || (record.is_active && record.started_ns < world.NowNs());
}

FlowStats
Measurement::IntervalOf(std::size_t flow, double seconds, double fair_share_mbps, const PartlySent& in_transmission,
                        const MeasuredWorld& world)
{
    FlowRecord& record = m_flows[flow];
    const SenderState sender = world.Sender(flow);
    const FlowTotals now = TotalsNow(flow, sender, in_transmission);
    const FlowTotals interval = now - record.at_interval;
    const Histogram& rtt = record.interval_rtt;
    const bool has_rtt = rtt.Count() > 0;

    FlowStats stats;
    stats.active = IsActiveInInterval(flow, world);
    stats.goodput_mbps = Mbps(Real(interval.goodput_bytes), seconds);
    stats.throughput_mbps = Mbps(Carried(interval), seconds);
    stats.fair_share_mbps = fair_share_mbps;
    stats.delivery_rate_mbps = Mbps(Real(interval.delivered_pkts) * m_mss_bytes, seconds);
    stats.bw_mbps = Mbps(sender.bw_Bps, 1);
    stats.pacing_mbps = Mbps(sender.pacing_Bps, 1);
    stats.cwnd_pkts = sender.cwnd_pkts;
    stats.in_flight_pkts = sender.in_flight_pkts;
    stats.rtt_mean_ms = has_rtt ? rtt.MeanMs() : record.last_rtt_ms;
    stats.rtt_p95_ms = has_rtt ? rtt.PercentileMs(95) : record.last_rtt_ms;
    stats.rtt_min_ms = has_rtt ? rtt.MinMs() : record.last_rtt_ms;
    stats.rtt_samples = Real(rtt.Count());
    stats.srtt_ms = sender.srtt_us / 1e3;
    stats.min_rtt_ms = sender.min_rtt_us / 1e3;
    stats.sent_pkts = Real(interval.sent_pkts);
    stats.retransmitted_pkts = Real(interval.retransmitted_pkts);
    stats.lost_pkts = Real(interval.marked_lost_pkts);
    stats.delivered_pkts = Real(interval.delivered_pkts);
    stats.rto_count = Real(interval.rto_count);
    stats.phase = sender.phase;
    stats.app_limited = sender.app_limited;
    stats.queue_delay_mean_ms = Ratio(Real(interval.waited_ns) / 1e6, Real(interval.waits), 0);
    stats.dropped_pkts = Real(interval.dropped_pkts);
    stats.in_order_arrival_mbps = Mbps(Real(interval.in_order_pkts) * m_mss_bytes, seconds);
    stats.busy_share = Ratio(Seconds(interval.busy_ns), seconds, 0);
    stats.rwnd_limited_share = Ratio(Seconds(interval.rwnd_limited_ns), seconds, 0);
    stats.sndbuf_limited_share = Ratio(Seconds(interval.sndbuf_limited_ns), seconds, 0);
    stats.ecn_marked_pkts = Real(interval.ecn_marked_pkts);

    record.at_interval = now;
    GatherRtt(record);
    record.interval_rtt.Clear();
    record.was_active = record.is_active;
    return stats;
}

LinkStats
Measurement::IntervalOfLink(const LinkTotals& interval, double active_flows) const
{
    const double seconds = Seconds(interval.time_ns);
    const bool has_wait = m_interval_wait.Count() > 0;
    LinkStats stats;
    stats.rate_mbps = Mbps(interval.capacity_bytes, seconds);
    stats.utilisation = Utilisation(Carried(interval), interval.capacity_bytes, 0);
    stats.queue_mean_bytes = Ratio(interval.queue_byte_ns, static_cast<double>(interval.time_ns), 0);
    stats.queue_delay_mean_ms = has_wait ? m_interval_wait.MeanMs() : 0;
    stats.queue_delay_p95_ms = has_wait ? m_interval_wait.PercentileMs(95) : 0;
    stats.queue_dropped_pkts = Real(interval.queue_dropped_pkts);
    stats.random_lost_pkts = Real(interval.random_lost_pkts);
    stats.active_flows = active_flows;
    stats.policed_pkts = Real(interval.policed_pkts);
    stats.ecn_marked_pkts = Real(interval.ecn_marked_pkts);
    return stats;
}

// ---- summary --------------------------------------------------------------------------------------------

void
Measurement::Summarise(const MeasuredWorld& world, std::span<double> flow_table, std::span<double> link_row) const
{
    double sum = 0;
    double sum_of_squares = 0;
    double count = 0;
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        const FlowSummary summary = SummaryOf(flow, world);
        WriteRow(summary, flow_table, flow);
        if (m_flows[flow].window != Window::BEFORE)
        {
            sum += summary.goodput_mbps;
            sum_of_squares += summary.goodput_mbps * summary.goodput_mbps;
            ++count;
        }
    }
    WriteRow(SummaryOfLink(Ratio(sum * sum, count * sum_of_squares, NOTHING), world), link_row, 0);
}

FlowSummary
Measurement::SummaryOf(std::size_t flow, const MeasuredWorld& world) const
{
    const FlowRecord& record = m_flows[flow];
    if (record.window == Window::BEFORE)
    {
        return {}; // all NaN: nothing was measured
    }
    const bool is_open = record.window == Window::OPEN;
    const FlowTotals totals = (is_open ? WindowTotals(flow, world) : record.flow_at_close) - record.flow_at_open;
    const LinkTotals link = (is_open ? LinkNow(world) : record.link_at_close) - record.link_at_open;
    const double seconds = Seconds(link.time_ns);
    const double sent_pkts = Real(totals.sent_pkts);
    const bool has_rtt = record.window_rtt.Count() > 0;

    FlowSummary summary;
    summary.start_s = Seconds(record.link_at_open.time_ns);
    summary.stop_s = summary.start_s + seconds;
    summary.goodput_mbps = Mbps(Real(totals.goodput_bytes), seconds);
    summary.throughput_mbps = Mbps(Carried(totals), seconds);
    summary.fair_share_mbps = Mbps(m_has_paths ? totals.fair_share_bytes : link.fair_share_bytes, seconds);
    summary.share = Ratio(Real(totals.goodput_bytes), Real(link.goodput_bytes), NOTHING);
    summary.sent_pkts = sent_pkts;
    summary.retransmitted_pkts = Real(totals.retransmitted_pkts);
    summary.lost_pkts = Real(totals.marked_lost_pkts);
    summary.dropped_pkts = Real(totals.dropped_pkts);
    summary.retransmit_rate = Ratio(summary.retransmitted_pkts, sent_pkts, NOTHING);
    summary.loss_rate = Ratio(summary.dropped_pkts, sent_pkts, NOTHING);
    summary.rtt_mean_ms = has_rtt ? record.window_rtt.MeanMs() : NOTHING;
    summary.rtt_p95_ms = has_rtt ? record.window_rtt.PercentileMs(95) : NOTHING;
    summary.rtt_min_ms = has_rtt ? record.window_rtt.MinMs() : NOTHING;
    summary.queue_delay_mean_ms = Ratio(Real(totals.waited_ns) / 1e6, Real(totals.waits), NOTHING);
    summary.rto_count = Real(totals.rto_count);
    summary.in_order_arrival_mbps = Mbps(Real(totals.in_order_pkts) * m_mss_bytes, seconds);
    summary.out_of_order_rate = Ratio(sent_pkts - Real(totals.in_order_pkts), sent_pkts, NOTHING);
    summary.busy_share = Ratio(Seconds(totals.busy_ns), seconds, NOTHING);
    summary.rwnd_limited_share = Ratio(Seconds(totals.rwnd_limited_ns), seconds, NOTHING);
    summary.sndbuf_limited_share = Ratio(Seconds(totals.sndbuf_limited_ns), seconds, NOTHING);
    summary.ecn_marked_pkts = Real(totals.ecn_marked_pkts);
    if (record.completion_s > 0)
    {
        summary.completed = 1;
        summary.completion_s = record.completion_s;
        summary.slowdown = record.completion_s / record.ideal_s;
    }
    else if (record.ideal_s > 0)
    {
        summary.completed = 0;
    }
    WriteFrames(record, world.NowNs(), summary);
    return summary;
}

/** Of a media source; frames on their way count once they are late. */
void
Measurement::WriteFrames(const FlowRecord& record, int64_t now_ns, FlowSummary& summary)
{
    uint64_t overdue_frames = 0;
    for (std::size_t i = 0; i < record.frames.size(); ++i)
    {
        const Frame& frame = record.frames[i];
        overdue_frames += frame.is_measured && now_ns - frame.written_ns > record.late_after_ns;
    }
    const uint64_t frames = record.frame_delays.Count() + record.dropped_frames + overdue_frames;
    summary.late_frame_share = Ratio(Real(record.late_frames + overdue_frames), Real(frames), NOTHING);
    if (record.frame_delays.Count() > 0)
    {
        summary.frame_delay_p50_ms = record.frame_delays.PercentileMs(50);
        summary.frame_delay_p99_ms = record.frame_delays.PercentileMs(99);
    }
}

LinkSummary
Measurement::SummaryOfLink(double jain, const MeasuredWorld& world) const
{
    if (!m_is_warm)
    {
        return {};
    }
    const LinkTotals totals = LinkNow(world) - m_link_at_warm;
    const bool has_wait = m_window_wait.Count() > 0;
    LinkSummary summary;
    summary.utilisation = Utilisation(Carried(totals), totals.capacity_bytes, NOTHING);
    summary.queue_delay_mean_ms = has_wait ? m_window_wait.MeanMs() : NOTHING;
    summary.queue_delay_p95_ms = has_wait ? m_window_wait.PercentileMs(95) : NOTHING;
    summary.jain = jain;
    summary.capacity_mbps = Mbps(totals.capacity_bytes, Seconds(totals.time_ns));
    summary.queue_dropped_pkts = Real(totals.queue_dropped_pkts);
    summary.random_lost_pkts = Real(totals.random_lost_pkts);
    summary.policed_pkts = Real(totals.policed_pkts);
    summary.ecn_marked_pkts = Real(totals.ecn_marked_pkts);
    const Punctuality lateness = world.Lateness();
    summary.late_p50_us = lateness.late_p50_us;
    summary.late_p99_us = lateness.late_p99_us;
    summary.late_p999_us = lateness.late_p999_us;
    summary.late_share = lateness.late_share;
    return summary;
}

} // namespace bbrgym
