// SPDX-License-Identifier: GPL-2.0-only
//
// The sender's memory of what it has in the network, kept the way Linux keeps it (tcp_input.c, tcp_rate.c,
// tcp_recovery.c): which segments are acknowledged, lost or retransmitted, how fast they were delivered,
// and which are to be marked lost.
//
//   in flight = packets_out - sacked_out - lost_out + retrans_out
//   delivered = packets newly acknowledged, cumulatively or selectively, each counted once, and those that D-SACKs
//   report lost      = packets marked lost; a retransmission lost again counts again
//
// Loss is decided by time, as in RFC 8985 (RACK): a segment is lost once one sent later was delivered and
// a round trip plus the reordering window has passed since it left. So a lost retransmission is found like
// any other loss, without waiting for the retransmission timer.
//
// A fact of the stack decides it by counting instead, as RFC 6675: a segment is lost once three beyond it are SACKed.
// Other facts of ns-3.28 change what counts as in flight, what measures an RTT, and the sample of the delivery rate.
//
// Segments have sequence numbers, `seqno`: 0 for the connection's first one, then one more each. Time is nanoseconds.
#ifndef BBRGYM_TCP_SCOREBOARD_HPP
#define BBRGYM_TCP_SCOREBOARD_HPP

#include "reordering_window.hpp"
#include "ring.hpp"
#include "stack.hpp"
#include "times.hpp"
#include "timestamp.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

/** The number of blocks that fits into a TCP header's options without timestamps. */
inline constexpr std::size_t MAX_SACK_BLOCKS = 4;

inline constexpr uint32_t DUPLICATE_THRESHOLD_PKTS = 3; ///< RFC 5681; Linux: tcp_reordering
inline constexpr int64_t TIMER_SLACK_NS = 2'000'000;    ///< Linux: TCP_TIMEOUT_MIN_US
inline constexpr uint64_t MAX_REORDERING_PKTS = 300;    ///< Linux: tcp_max_reordering

/** The segments [begin, end). */
struct SeqnoRange
{
    uint64_t begin = 0;
    uint64_t end = 0;

    bool operator==(const SeqnoRange&) const = default;
};

/** One segment that was sent and is not yet cumulatively acknowledged: 24 bytes, because there are most of them. */
struct Segment
{
    static constexpr int TIME_BITS = 48; ///< the nanoseconds of a day and a half; a run lasts a day at most

    uint64_t is_runt : 1 = false;   ///< carries less than a full segment
    uint64_t is_joined : 1 = false; ///< left in one burst with the segment before
    uint64_t sacked : 1 = false;
    uint64_t lost : 1 = false;               ///< marked lost, not (yet) delivered
    uint64_t retransmitting : 1 = false;     ///< its retransmission is in the network
    uint64_t ever_retransmitted : 1 = false; ///< its RTT says nothing (Karn)
    uint64_t app_limited : 1 = false;        ///< the sampler, see below
    uint64_t found_late : 1 = false;         ///< RACK found its latest transmission lost, and looks at it no more
    uint64_t : 64 - TIME_BITS - 8;
    int64_t sent_ns : TIME_BITS = 0; ///< of its latest transmission

    // State of the delivery-rate sampler when the segment left. Times stand behind, where a shift alone extracts them.
    uint64_t delivered_low : 64 - TIME_BITS = 0;
    int64_t first_tx_ns : TIME_BITS = 0;
    uint64_t delivered_high : 64 - TIME_BITS = 0;
    int64_t delivered_ns : TIME_BITS = 0;

    void SetDelivered(uint64_t pkts)
    {
        delivered_low = static_cast<uint16_t>(pkts);
        delivered_high = static_cast<uint16_t>(pkts >> 16);
    }
    /** Packets delivered since it left, of `pkts` by now; while it is out these are below 2^32. */
    uint32_t DeliveredSince(uint64_t pkts) const
    {
        return static_cast<uint32_t>(pkts - (uint64_t{delivered_high} << 16 | delivered_low));
    }
};

/** The state of the flight when a segment left, for a controller that asks for it. */
struct TxState
{
    uint64_t lost_pkts = 0;      ///< ever marked lost
    uint64_t ce_pkts = 0;        ///< ever delivered with a mark
    uint32_t in_flight_pkts = 0; ///< itself included
};

/** A segment that was marked lost; `total_pkts` includes it. */
struct LostSegment
{
    TxState at_send;
    uint64_t total_pkts = 0;
    bool is_app_limited = false;
};

/** The result of one ACK. */
struct AckOutcome
{
    uint32_t acked_pkts = 0;           ///< newly delivered, cumulatively or selectively
    uint32_t removed_segments = 0;     ///< gone from the front of the scoreboard
    bool data_sacked = false;          ///< a block named a segment for the first time
    bool retransmission_acked = false; ///< cumulatively
    bool is_ack_delayed = false;       ///< a lone runt: it may have waited for the receiver's timer
    int64_t rtt_ns = -1;               ///< of the newest never-retransmitted segment; -1: none
    int64_t oldest_rtt_ns = -1;        ///< of the oldest one: the input of RFC 6298's estimator
    /** The first never-retransmitted segment among the newly delivered ones; all ones: none. */
    uint64_t first_original = std::numeric_limits<uint64_t>::max();

    bool UnaAdvanced() const { return removed_segments > 0; }
};

/** The delivery-rate sample of one ACK; -1: invalid. */
struct RateSample
{
    int64_t sample_pkts = -1;
    int64_t interval_ns = -1;
    uint64_t prior_delivered_pkts = 0;
    bool is_app_limited = false;
    TxState at_send; ///< of the segment that it samples
};

class Scoreboard
{
  public:
    /** A new segment left, `is_joined` in one burst with the one before; returns its sequence number. */
    [[gnu::always_inline]] uint64_t Sent(bool is_runt, bool is_joined, int64_t now_ns);
    /** A segment from NextLost was retransmitted. */
    void Retransmitted(uint64_t seqno, int64_t now_ns);
    /** The last segment was retransmitted, as a probe; in flight it counts once (Linux: __tcp_retransmit_skb). */
    void Probed(int64_t now_ns);
    /** First segment that is lost and waits for its retransmission; nothing if none does. */
    std::optional<uint64_t> NextLost();
    /** Segments from `seqno` on, at most `limit`, that left in one burst and all wait for their retransmission. */
    uint32_t LostTogether(uint64_t seqno, uint32_t limit) const;

    /**
     * Processes an acknowledgement of everything below `una` and of the blocks. `duplicate` was reported to have come
     * twice: what was sent without need counts as delivered too (Linux tcp_check_dsack).
     */
    AckOutcome Acknowledge(uint64_t una, std::span<const SeqnoRange> blocks, int64_t now_ns, SeqnoRange duplicate = {});
    /** Call before Acknowledge if the stack has timestamps: the one that the ACK echoes. */
    void OnTimestampEcho(int64_t echo_ms) { m_echo_ms = echo_ms; }
    int64_t EchoMs() const { return m_echo_ms; } ///< of the ACK being processed
    /**
     * Marks the segments that are lost by now; returns the number of packets. Nothing unless a delivery or ExamineAgain
     * came since it was called last.
     * `patient`: not yet in recovery, so that reordering is given a chance.
     */
    uint32_t DetectLosses(bool patient, int64_t srtt_ns, int64_t now_ns);
    /** The time at which DetectLosses must be called although no ACK came; NEVER_NS: none. */
    int64_t ReorderingDeadlineNs() const { return m_reordering_deadline_ns; }
    /** Has DetectLosses look although nothing was delivered: that time has come, or losses were unmarked. */
    void ExamineAgain() { m_has_rack_advanced = true; }
    /** An ACK without a sign of trouble: it restarts the other timers in place of this one (tcp_set_xmit_timer). */
    void StopReorderingTimer() { m_reordering_deadline_ns = NEVER_NS; }
    /** How long DetectLosses waits for what may only be late. */
    ReorderingWindow& Reordering() { return m_reordering_window; }
    const ReorderingWindow& Reordering() const { return m_reordering_window; }
    /** The original of `seqno`, which was unacknowledged, has arrived: it was late by what was SACKed beyond it. */
    void NoteLateOriginal(uint64_t seqno)
    {
        if (seqno < HighestSacked())
        {
            NoteReordering(seqno);
        }
    }
    /** Marks the segments that three SACKed ones are beyond, but no retransmission; returns the number of packets. */
    uint32_t DetectLossesByCount();
    /** The head is lost, its retransmission too. */
    void MarkHeadLost();
    /** The retransmission timer fired: the head counts as lost, and what else is in the network (timeout_marks). */
    void MarkTimedOut(int64_t now_ns);
    /** The losses were spurious: the segments count as in the network again. */
    void UnmarkLost();

    /** The delivery-rate sample of the last ACK; call after loss detection. */
    RateSample SampleRate(int64_t now_ns);
    /** The application has no more data than what is in the network or delivered. */
    void MarkAppLimited();
    bool IsAppLimited() const { return m_app_limited_until != 0; }
    /** True if nothing lost waits for its retransmission. */
    bool NothingToRetransmit() const { return m_lost_waiting == 0; }

    bool Empty() const { return m_segments.empty(); }
    uint64_t Una() const { return m_una; }                      ///< first segment not acknowledged
    uint64_t Next() const { return m_una + m_segments.size(); } ///< the next new segment's sequence number
    const Segment& At(uint64_t seqno) const { return m_segments[seqno - m_una]; }
    uint32_t PacketsOut() const { return static_cast<uint32_t>(m_segments.size()); }
    uint32_t SackedOut() const { return m_sacked_out; }
    uint32_t LostOut() const { return m_lost_out; }
    uint32_t RetransOut() const { return m_retrans_out; }
    uint32_t InFlight() const { return PacketsOut() - m_sacked_out - m_lost_out + m_retrans_out; }
    uint64_t Delivered() const { return m_delivered_pkts; } ///< what came twice, as far as it was reported, twice
    uint64_t DeliveredOnce() const { return m_delivered_pkts - m_duplicate_pkts; }
    int64_t DeliveredTimeNs() const { return m_delivered_ns; }
    uint64_t LostTotal() const { return m_lost_total; }
    /** Retransmissions marked lost, ever. */
    uint64_t LostRetransmitTotal() const { return m_lost_retransmit_total; }
    /** An original came after SACKs of segments more than three further on (Linux: reordering above tcp_reordering). */
    bool IsReordering() const { return m_reordering_pkts > DUPLICATE_THRESHOLD_PKTS; }
    /** By how many segments order was broken at most, three at least (tp->reordering). */
    uint32_t ReorderingPkts() const { return m_reordering_pkts; }
    uint32_t ReorderingCount() const { return m_reordering_count; }
    /** Whether a retransmission is in the network, or the head was ever retransmitted (tcp_any_retrans_done). */
    bool HasRetransmissions() const { return m_retrans_out > 0 || (!Empty() && m_segments.front().ever_retransmitted); }
    /** A timeout shows that gaps are losses after all. */
    void DoubtReordering()
    {
        if (m_sacked_out >= DUPLICATE_THRESHOLD_PKTS)
        {
            m_reordering_pkts = DUPLICATE_THRESHOLD_PKTS;
        }
    }
    /** Smallest RTT measured in the last 300 s (tcp_min_rtt_wlen), or -1. */
    int64_t MinRttNs() const { return m_min_rtt_ns; }
    void NoteRtt(int64_t rtt_ns, int64_t now_ns);
    /** The smoothed RTT is `srtt_ns` now. */
    void NoteSmoothedRtt(int64_t srtt_ns, int64_t now_ns)
    {
        if (m_smallest_is_smoothed)
        {
            NoteRtt(srtt_ns, now_ns);
        }
    }

    /** Call before anything is sent. */
    void SetFacts(const SocketFacts& facts);
    /** Remembers each segment's flight and each loss; call before anything is sent. */
    void KeepTxStates() { m_keeps_tx_states = true; }
    /** The segments marked lost since ClearNewlyLost, in order; only if flights are kept. */
    std::span<const LostSegment> NewlyLost() const { return m_newly_lost; }
    void ClearNewlyLost() { m_newly_lost.clear(); }
    /** Remembers the sequence number of each segment marked lost; call before anything is sent. */
    void LogLosses() { m_logs_losses = true; }
    /** The segments marked lost since the last call, in order; only if losses are logged. */
    std::vector<uint64_t> DrainLosses() { return std::exchange(m_loss_log, {}); }
    /** The ACK being processed echoes a mark: what it delivers was marked. */
    void NoteEcho(uint32_t acked_pkts) { m_ce_pkts += acked_pkts; }
    uint64_t MarkedTotal() const { return m_ce_pkts; } ///< packets delivered with a mark, ever
    /** Clears everything but keeps the memory, and reserves room for `segments`. */
    void Reset(std::size_t segments);

  private:
    /** One transmission, oldest first; stale once its segment was retransmitted, delivered or lost. */
    struct Transmission
    {
        uint64_t seqno;
        int64_t sent_ns;
    };

    /** The latest-sent segment ever delivered, and the round trip it took. */
    struct NewestDelivered
    {
        int64_t sent_ns = -1; ///< -1: none
        uint64_t seqno = 0;
        int64_t rtt_ns = 0;
    };

    Segment& Of(uint64_t seqno) { return m_segments[seqno - m_una]; }
    [[gnu::always_inline]] void Snapshot(Segment& segment, int64_t now_ns);
    TxState TxStateNow() const { return {m_lost_total, m_ce_pkts, InFlight() + 1}; }
    void MarkSacked(std::span<const SeqnoRange> blocks, int64_t now_ns, AckOutcome& outcome);
    void NoteSacked(uint64_t seqno, int64_t now_ns, AckOutcome& outcome);
    void RemoveAcknowledged(uint64_t una, int64_t now_ns, AckOutcome& outcome);
    void RemoveUntouched(std::size_t count, int64_t now_ns, AckOutcome& outcome);
    void RemoveOneByOne(uint64_t una, int64_t now_ns, AckOutcome& outcome);
    void OnDuplicate(SeqnoRange duplicate, AckOutcome& outcome);
    void ClearDuplicate(SeqnoRange duplicate);
    uint64_t HighestSacked() const { return m_sacked_out > 0 ? m_sacked_until : m_una; }
    void NoteReordering(uint64_t first_original);
    void Delivered(uint64_t seqno, bool is_cumulative, int64_t now_ns);
    void KeepSample(const Segment& segment, int64_t now_ns);
    RateSample KeptRateSample();
    void NoteNewest(const NewestDelivered& delivered);
    void NoteTouched(uint64_t seqno) { m_untouched_from = std::max(m_untouched_from, seqno + 1); }

    // Transmissions.
    bool HasTransmissions() const { return !m_transmissions.empty() || m_originals_from < Next(); }
    Transmission OldestTransmission() const;
    bool MayHaveOvertaken() const;
    void ForgetOldestTransmission();
    void ForgetTransmissions();
    void PutTransmission(uint64_t seqno, int64_t sent_ns);
    void PutOriginals();
    bool IsOut(const Transmission& transmission) const;
    int64_t LatestOvertakenNs() const;
    void NoteHeadRtt(const Segment& head, int64_t now_ns, AckOutcome& outcome) const;
    int64_t RttNs(int64_t sent_ns, int64_t now_ns) const;
    void MarkLost(uint64_t seqno);
    uint64_t SkipKnown(uint64_t seqno) const;
    int64_t ReorderingWindowNs(bool patient, int64_t srtt_ns) const;

    Ring<Segment> m_segments;
    uint64_t m_una = 0; ///< sequence number of m_segments[0]
    /** No segment from it on was ever SACKed, marked lost or retransmitted. */
    uint64_t m_untouched_from = 0;
    /**
     * The transmissions that are remembered: first these, then the only ones of the segments from m_originals_from on,
     * which are not stored a second time.
     */
    Ring<Transmission> m_transmissions;
    uint64_t m_originals_from = 0;
    std::array<SeqnoRange, MAX_SACK_BLOCKS> m_known_blocks{}; ///< SACK blocks of the previous ACK
    std::size_t m_known_count = 0;
    uint64_t m_retransmit_hint = 0; ///< no seqno below it waits for a retransmission
    uint32_t m_sacked_out = 0;
    uint32_t m_lost_out = 0;
    uint32_t m_retrans_out = 0;
    uint32_t m_lost_waiting = 0;        ///< lost and not retransmitting
    uint64_t m_sacked_until = 0;        ///< end of the highest segment SACKed
    uint64_t m_sacked_until_before = 0; ///< by the ACKs before this one: below it, order was not kept

    uint64_t m_delivered_pkts = 0;
    uint64_t m_duplicate_pkts = 0; ///< of these, reported by D-SACKs
    int64_t m_delivered_ns = 0;
    int64_t m_first_tx_ns = 0;
    uint64_t m_lost_total = 0;
    uint64_t m_lost_retransmit_total = 0;
    uint64_t m_app_limited_until = 0; ///< value of delivered at which the bubble is gone; 0: none

    // The newest segment delivered by the current ACK (sampler, step 2).
    bool m_has_newest = false;
    uint64_t m_newest_seqno = 0;
    Segment m_newest;
    TxState m_newest_tx_state;
    bool m_acked_any = false;

    NewestDelivered m_rack;
    int64_t m_echo_ms = NO_TIMESTAMP; ///< of the ACK being processed
    bool m_has_rack_advanced = false; ///< since DetectLosses was called last
    int64_t m_rack_rtt_ns = 0;        ///< after which, and the reordering window, a segment is lost
    uint64_t m_rack_rtt_seqno = 0;    ///< whose RTT it is, within an ACK
    ReorderingWindow m_reordering_window;
    uint32_t m_reordering_count = 0;
    uint32_t m_reordering_pkts = DUPLICATE_THRESHOLD_PKTS;
    int64_t m_reordering_deadline_ns = NEVER_NS;

    int64_t m_min_rtt_ns = -1;
    int64_t m_min_rtt_at_ns = 0;

    bool m_logs_losses = false;
    std::vector<uint64_t> m_loss_log;

    // For a controller that asks for it.
    bool m_keeps_tx_states = false;
    Ring<TxState> m_tx_states; ///< of m_segments
    std::vector<LostSegment> m_newly_lost;
    uint64_t m_ce_pkts = 0;

    // Facts of the stack, and what they need.
    bool m_counts_sacked = false;       ///< loss_detection: three_sacked
    bool m_waits_a_millisecond = false; ///< reordering_window: while_none_lost, until_recovery
    bool m_window_widens = false;       ///< reordering_window_widens
    bool m_spares_recent = false;       ///< timeout_marks: older
    bool m_follows_rack =
        false; ///< reordering_window: while_none_lost; what left no later than RACK's newest changes nothing
    bool m_keeps_sacked_retransmissions = false; ///< sacked_retransmissions_count
    bool m_keeps_sample = false;                 ///< rate_sample: kept
    bool m_smallest_is_smoothed = false;         ///< smallest_rtt: smoothed
    bool m_measures_head = false;                ///< rtt_samples: head
    int64_t m_clock_ns = 1000;                   ///< rtt_clock_us
    uint64_t m_counted_until = 0;                ///< no segment below it is to be marked by count

    /** The sample that is kept over ACKs. */
    struct KeptSample
    {
        uint64_t prior_delivered_pkts = 0; ///< 0: none yet
        int64_t interval_ns = 0;
        bool is_app_limited = false;
        int64_t rate_pkts = -1; ///< of the last valid rate
        int64_t rate_interval_ns = -1;
    };

    KeptSample m_kept;
};

// ---- of every packet, which stand in line ----------------------------------------------------------------

inline void
Scoreboard::Snapshot(Segment& segment, int64_t now_ns)
{
    if (m_keeps_sample ? InFlight() == 0 : m_segments.empty())
    {
        m_first_tx_ns = now_ns;
        m_delivered_ns = now_ns;
    }
    segment.sent_ns = now_ns;
    segment.first_tx_ns = m_first_tx_ns;
    segment.delivered_ns = m_delivered_ns;
    segment.SetDelivered(m_delivered_pkts);
    segment.app_limited = m_app_limited_until != 0;
}

inline uint64_t
Scoreboard::Sent(bool is_runt, bool is_joined, int64_t now_ns)
{
    const uint64_t seqno = Next();
    Segment segment;
    Snapshot(segment, now_ns);
    segment.is_runt = is_runt;
    segment.is_joined = is_joined;
    if (m_keeps_tx_states) [[unlikely]]
    {
        m_tx_states.push_back(TxStateNow());
    }
    m_segments.push_back(segment);
    return seqno;
}

} // namespace bbrgym

#endif
