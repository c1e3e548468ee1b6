// SPDX-License-Identifier: GPL-2.0-only
//
// Computes the rows of fields.def. The world reports events; this class counts them per control interval and per
// measured window (from the warm-up's end on, while the flow runs).
#ifndef BBRGYM_WORLD_MEASUREMENT_HPP
#define BBRGYM_WORLD_MEASUREMENT_HPP

#include "fields.hpp"
#include "histogram.hpp"
#include "packet_log.hpp"
#include "ring.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace bbrgym
{

/** The current state of a sender; totals count from the connection's start. */
struct SenderState
{
    double bw_Bps = 0;     ///< 0: the algorithm has no estimate
    double pacing_Bps = 0; ///< 0: unpaced
    double cwnd_pkts = 0;
    double in_flight_pkts = 0;
    double srtt_us = 0;    ///< 0: none yet
    double min_rtt_us = 0; ///< 0: none yet
    double phase = 0;
    bool app_limited = false;
    uint64_t marked_lost_pkts = 0;
    uint64_t delivered_pkts = 0;
    uint64_t rto_count = 0;
    int64_t busy_ns = 0; ///< time with unsent or unacknowledged data, the two limits' included
    int64_t rwnd_limited_ns = 0;
    int64_t sndbuf_limited_ns = 0;
};

/** How late a world delivers its packets; a simulated one never is. */
struct Punctuality
{
    double late_p50_us = 0;
    double late_p99_us = 0;
    double late_p999_us = 0;
    double late_share = 0; ///< of the packets, by more than 1 ms
};

/** The bytes of a packet in transmission that have left: the rest departs later. */
struct PartlySent
{
    std::optional<std::size_t> flow; ///< nothing: known for the link alone
    double bytes = 0;
};

/** The queries of a measurement to its world. */
class MeasuredWorld
{
  public:
    virtual ~MeasuredWorld() = default;
    virtual int64_t NowNs() const = 0;
    /** Bytes the bottleneck could have carried until now. */
    virtual double CapacityBytes() const = 0;
    virtual PartlySent InTransmission() const = 0;
    /** Integral of the queued bytes over time until now. */
    virtual double QueueByteNs() const = 0;
    virtual SenderState Sender(std::size_t flow) const = 0;
    /** Payload that a flow's max-min share has come to until now; asked where data of some flow cross several links. */
    virtual double FairShareBytes(std::size_t) const { return 0; }
    /** Of all packets until now. */
    virtual Punctuality Lateness() const { return {}; }
};

class Measurement
{
  public:
    Measurement() = default;
    explicit Measurement(const Scenario& scenario) { Reset(scenario); }

    /** Clears all measurements but keeps the memory. */
    void Reset(const Scenario& scenario);

    // Events of the network. Packets without payload (SYN, FIN) count in bytes and waits, not as packets.
    void Sent(std::size_t flow, bool is_retransmission, uint32_t pkts = 1);
    void RttSample(std::size_t flow, int64_t rtt_ns);
    /**
     * An arrival that advances the next expected sequence number; with it, data behind a gap may have become readable.
     * Returns whether the flow's transfer is complete: FlowCompleted is to be called.
     */
    bool Readable(std::size_t flow, uint64_t payload_bytes, int64_t now_ns);
    /** A frame was written; `end_bytes`: all that the flow has written; `is_whole`: the send buffer took all of it. */
    void FrameWritten(std::size_t flow, uint64_t end_bytes, bool is_whole, int64_t now_ns);
    void Policed(std::size_t flow, bool has_payload);
    void QueueDropped(std::size_t flow, bool has_payload);
    void Marked(std::size_t flow);
    [[gnu::always_inline]] void TransmissionBegan(std::size_t flow, int64_t waited_ns);
    void Departed(std::size_t flow, uint64_t ip_bytes);
    void RandomLost(std::size_t flow, bool has_payload);

    // Moments of the scenario.
    void FlowStarted(std::size_t flow, const MeasuredWorld& world);
    /** A flow whose transfer is complete has stopped already. */
    void FlowStopped(std::size_t flow, const MeasuredWorld& world);
    void FlowCompleted(std::size_t flow, const MeasuredWorld& world);
    void WarmedUp(const MeasuredWorld& world);

    /** The log of the packets behind these events; a reset ends it. */
    PacketLog& Log() { return m_log; }
    const PacketLog& Log() const { return m_log; }

    /** Data packets of a flow that policer, queue or random loss took, ever. */
    uint64_t DroppedPkts(std::size_t flow) const { return m_flows[flow].totals.dropped_pkts; }

    /** Writes the rows of the interval since the last call, or since the run's start. */
    void TakeInterval(const MeasuredWorld& world, std::span<double> flow_stats, std::span<double> link_stats);
    void Summarise(const MeasuredWorld& world, std::span<double> flow_table, std::span<double> link_row) const;

  private:
    /** Cumulative counters; an interval or a window is the difference of two of these. */
    struct FlowTotals
    {
        uint64_t sent_pkts = 0;
        uint64_t retransmitted_pkts = 0;
        uint64_t dropped_pkts = 0;
        uint64_t ecn_marked_pkts = 0;
        uint64_t departed_bytes = 0;  ///< of whole packets
        double partly_sent_bytes = 0; ///< beside them
        uint64_t goodput_bytes = 0;
        uint64_t in_order_pkts = 0; ///< arrivals that advanced the next expected sequence number
        uint64_t waited_ns = 0;
        uint64_t waits = 0;
        uint64_t marked_lost_pkts = 0;
        uint64_t delivered_pkts = 0;
        uint64_t rto_count = 0;
        int64_t busy_ns = 0;
        int64_t rwnd_limited_ns = 0;
        int64_t sndbuf_limited_ns = 0;
        double fair_share_bytes = 0; ///< in windows, where data of some flow cross several links

        FlowTotals operator-(const FlowTotals& earlier) const;
    };

    struct LinkTotals
    {
        int64_t time_ns = 0;
        double capacity_bytes = 0;
        double queue_byte_ns = 0;
        double fair_share_bytes = 0;  ///< integral of payload capacity / active flows
        uint64_t departed_bytes = 0;  ///< of whole packets
        double partly_sent_bytes = 0; ///< beside them
        uint64_t goodput_bytes = 0;
        uint64_t queue_dropped_pkts = 0;
        uint64_t random_lost_pkts = 0;
        uint64_t policed_pkts = 0;
        uint64_t ecn_marked_pkts = 0;

        LinkTotals operator-(const LinkTotals& earlier) const;
    };

    enum class Window
    {
        BEFORE,
        OPEN,
        CLOSED
    };

    static constexpr uint64_t NO_TRANSFER = std::numeric_limits<uint64_t>::max();

    struct Frame
    {
        uint64_t end_bytes;
        int64_t written_ns;
        bool is_measured; ///< it was written in the window
    };

    struct FlowRecord
    {
        FlowTotals totals;
        FlowTotals at_interval;
        Histogram interval_rtt;
        double last_rtt_ms = 0;
        bool is_active = false;
        bool was_active = false; ///< at the interval's start, or stopped within it
        int64_t started_ns = 0;

        uint64_t transfer_bytes = NO_TRANSFER; ///< of payload
        double ideal_s = 0;                    ///< of a transfer, see slowdown
        double completion_s = 0;               ///< of a transfer that is complete; 0: it is not

        Ring<Frame> frames; ///< that are not readable yet: the first one's end is transfer_bytes
        int64_t late_after_ns = 0;
        Histogram frame_delays;
        uint64_t late_frames = 0;    ///< of the measured ones
        uint64_t dropped_frames = 0; ///< of these

        Window window = Window::BEFORE;
        FlowTotals flow_at_open;
        FlowTotals flow_at_close;
        LinkTotals link_at_open;
        LinkTotals link_at_close;
        Histogram window_rtt;       ///< gathered at ends of intervals
        bool opened_within = false; ///< the window opened within this interval: it takes each sample itself
    };

    FlowTotals TotalsNow(std::size_t flow, const MeasuredWorld& world) const;
    FlowTotals TotalsNow(std::size_t flow, const SenderState& sender, const PartlySent& in_transmission) const;
    FlowTotals WindowTotals(std::size_t flow, const MeasuredWorld& world) const;
    LinkTotals LinkNow(const MeasuredWorld& world) const;
    void AccrueFairShare(const MeasuredWorld& world);
    static void GatherRtt(FlowRecord& record);
    [[gnu::noinline]] static bool EndsTransfer(FlowRecord& record, int64_t now_ns);
    void OpenWindow(std::size_t flow, const MeasuredWorld& world);
    bool IsActiveInInterval(std::size_t flow, const MeasuredWorld& world) const;
    FlowStats IntervalOf(std::size_t flow, double seconds, double fair_share_mbps, const PartlySent& in_transmission,
                         const MeasuredWorld& world);
    LinkStats IntervalOfLink(const LinkTotals& interval, double active_flows) const;
    static void WriteFrames(const FlowRecord& record, int64_t now_ns, FlowSummary& summary);
    FlowSummary SummaryOf(std::size_t flow, const MeasuredWorld& world) const;
    LinkSummary SummaryOfLink(double jain, const MeasuredWorld& world) const;

    PacketLog m_log;
    double m_payload_ratio = 0; ///< payload / IP bytes of a full packet
    double m_mss_bytes = 0;
    std::vector<FlowRecord> m_flows;
    uint32_t m_active_flows = 0;
    bool m_is_warm = false;
    bool m_has_paths = false; ///< data of some flow cross several links

    LinkTotals m_link; ///< time_ns and capacity_bytes are those of the last AccrueFairShare
    LinkTotals m_link_at_interval;
    LinkTotals m_link_at_warm;
    Histogram m_interval_wait;
    Histogram m_window_wait;      ///< as window_rtt
    bool m_warmed_within = false; ///< as opened_within
};

// ---- events of every packet, which stand in line -----------------------------------------------------------

inline void
Measurement::Sent(std::size_t flow, bool is_retransmission, uint32_t pkts)
{
    m_flows[flow].totals.sent_pkts += pkts;
    m_flows[flow].totals.retransmitted_pkts += is_retransmission ? pkts : 0;
}

inline bool
Measurement::Readable(std::size_t flow, uint64_t payload_bytes, int64_t now_ns)
{
    FlowRecord& record = m_flows[flow];
    record.totals.goodput_bytes += payload_bytes;
    ++record.totals.in_order_pkts;
    m_link.goodput_bytes += payload_bytes;
    return record.totals.goodput_bytes >= record.transfer_bytes && EndsTransfer(record, now_ns);
}

inline void
Measurement::TransmissionBegan(std::size_t flow, int64_t waited_ns)
{
    m_flows[flow].totals.waited_ns += static_cast<uint64_t>(waited_ns);
    ++m_flows[flow].totals.waits;
    m_interval_wait.Add(waited_ns);
    if (m_warmed_within) [[unlikely]]
    {
        m_window_wait.Add(waited_ns);
    }
}

inline void
Measurement::Departed(std::size_t flow, uint64_t ip_bytes)
{
    m_flows[flow].totals.departed_bytes += ip_bytes;
    m_link.departed_bytes += ip_bytes;
}

} // namespace bbrgym

#endif
