// SPDX-License-Identifier: GPL-2.0-only
//
// The sender's memory of what it has in the network, kept the way Linux keeps it (tcp_input.c,
// tcp_recovery.c): which segments are acknowledged, lost or retransmitted, and which are to be marked lost.
// DeliveryRate measures how fast they were delivered, TransmissionOrder keeps them by the time at which they left.
//
//   in flight = packets_out - sacked_out - lost_out + retrans_out
//   lost      = packets marked lost; a retransmission lost again counts again
//
// Loss is decided by time, as in RFC 8985 (RACK): a segment is lost once one sent later was delivered and
// a round trip plus the reordering window has passed since it left. So a lost retransmission is found like
// any other loss, without waiting for the retransmission timer.
//
// A fact of the stack decides it by counting instead, as RFC 6675: a segment is lost once three beyond it are SACKed.
// Other facts of ns-3.28 change what counts as in flight, what measures an RTT, and the sample of the delivery rate.
#ifndef BBRGYM_TCP_SCOREBOARD_HPP
#define BBRGYM_TCP_SCOREBOARD_HPP

#include "delivery_rate.hpp"
#include "reordering_window.hpp"
#include "ring.hpp"
#include "segment.hpp"
#include "stack.hpp"
#include "times.hpp"
#include "timestamp.hpp"
#include "transmission_order.hpp"

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

class Scoreboard
{
  public:
    /** New segments of a burst left, the first of them `is_joined` with the one before; returns its sequence number. */
    [[gnu::always_inline]] uint64_t Sent(bool is_runt, bool is_joined, int64_t now_ns, uint32_t pkts = 1);
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
    /** The head, if there is one, is lost, its retransmission too. */
    void MarkHeadLost() { Empty() ? void() : MarkLost(Una()); }
    /** The retransmission timer fired: the head counts as lost, and what else is in the network (timeout_marks). */
    void MarkTimedOut(int64_t now_ns);
    /** The losses were spurious: the segments count as in the network again. */
    void UnmarkLost();

    /** The delivery-rate sample of the last ACK; call after loss detection. */
    RateSample SampleRate(int64_t now_ns) { return m_rate.Sample(m_min_rtt_ns, now_ns); }
    /** The application has no more data than what is in the network or delivered. */
    void MarkAppLimited() { m_rate.MarkAppLimited(InFlight()); }
    const DeliveryRate& Rate() const { return m_rate; }
    /** True if nothing lost waits for its retransmission. */
    bool NothingToRetransmit() const { return m_lost_waiting == 0; }

    bool Empty() const { return m_out.Empty(); }
    uint64_t Una() const { return m_out.una; }     ///< first segment not acknowledged
    uint64_t Next() const { return m_out.Next(); } ///< the next new segment's sequence number
    const Segment& At(uint64_t seqno) const { return m_out.At(seqno); }
    uint32_t PacketsOut() const { return static_cast<uint32_t>(m_out.ring.size()); }
    uint32_t SackedOut() const { return m_sacked_out; }
    uint32_t LostOut() const { return m_lost_out; }
    uint32_t RetransOut() const { return m_retrans_out; }
    uint32_t InFlight() const { return PacketsOut() - m_sacked_out - m_lost_out + m_retrans_out; }
    uint64_t LostTotal() const { return m_lost_total; }
    /** Retransmissions marked lost, ever. */
    uint64_t LostRetransmitTotal() const { return m_lost_retransmit_total; }
    /** An original came after SACKs of segments more than three further on (Linux: reordering above tcp_reordering). */
    bool IsReordering() const { return m_reordering_pkts > DUPLICATE_THRESHOLD_PKTS; }
    /** By how many segments order was broken at most, three at least (tp->reordering). */
    uint32_t ReorderingPkts() const { return m_reordering_pkts; }
    uint32_t ReorderingCount() const { return m_reordering_count; }
    /** Whether a retransmission is in the network, or the head was ever retransmitted (tcp_any_retrans_done). */
    bool HasRetransmissions() const { return m_retrans_out > 0 || (!Empty() && m_out.ring.front().ever_retransmitted); }
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
    /** The latest-sent segment ever delivered, and the round trip it took. */
    struct NewestDelivered
    {
        Transmission transmission{0, -1}; ///< at -1: none
        int64_t rtt_ns = 0;
    };

    [[gnu::always_inline]] void Snapshot(Segment& segment, int64_t now_ns)
    {
        m_rate.Snapshot(segment, m_rate.KeepsSample() ? InFlight() == 0 : m_out.Empty(), now_ns);
    }
    TxState TxStateNow() const { return {m_lost_total, m_ce_pkts, InFlight() + 1}; }
    void MarkSacked(std::span<const SeqnoRange> blocks, int64_t now_ns, AckOutcome& outcome);
    void NoteSacked(uint64_t seqno, int64_t now_ns, AckOutcome& outcome);
    void RemoveAcknowledged(uint64_t una, int64_t now_ns, AckOutcome& outcome);
    void RemoveUntouched(std::size_t count, int64_t now_ns, AckOutcome& outcome);
    void RemoveOneByOne(uint64_t una, int64_t now_ns, AckOutcome& outcome);
    void OnDuplicate(SeqnoRange duplicate, AckOutcome& outcome);
    void ClearDuplicate(SeqnoRange duplicate);
    uint64_t HighestSacked() const { return m_sacked_out > 0 ? m_sacked_until : Una(); }
    void NoteReordering(uint64_t first_original);
    void Delivered(uint64_t seqno, bool is_cumulative, int64_t now_ns);
    void NoteNewest(const NewestDelivered& delivered);
    void NoteTouched(uint64_t seqno) { m_untouched_from = std::max(m_untouched_from, seqno + 1); }

    void NoteHeadRtt(const Segment& head, int64_t now_ns, AckOutcome& outcome) const;
    /** Time since `sent_ns`, by a clock of the stack's step. */
    int64_t RttNs(int64_t sent_ns, int64_t now_ns) const
    {
        return m_clock_ns == 1000 ? now_ns - sent_ns : (now_ns / m_clock_ns - sent_ns / m_clock_ns) * m_clock_ns;
    }
    void MarkLost(uint64_t seqno);
    uint64_t SkipKnown(uint64_t seqno) const;
    int64_t ReorderingWindowNs(bool patient, int64_t srtt_ns) const;

    SegmentsOut m_out;
    /** No segment from it on was ever SACKed, marked lost or retransmitted. */
    uint64_t m_untouched_from = 0;
    TransmissionOrder m_order;
    DeliveryRate m_rate;
    std::array<SeqnoRange, MAX_SACK_BLOCKS> m_known_blocks{}; ///< SACK blocks of the previous ACK
    std::size_t m_known_count = 0;
    uint64_t m_retransmit_hint = 0; ///< no seqno below it waits for a retransmission
    uint32_t m_sacked_out = 0;
    uint32_t m_lost_out = 0;
    uint32_t m_retrans_out = 0;
    uint32_t m_lost_waiting = 0;        ///< lost and not retransmitting
    uint64_t m_sacked_until = 0;        ///< end of the highest segment SACKed
    uint64_t m_sacked_until_before = 0; ///< by the ACKs before this one: below it, order was not kept

    uint64_t m_lost_total = 0;
    uint64_t m_lost_retransmit_total = 0;
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
    Ring<TxState> m_tx_states; ///< of m_out
    std::vector<LostSegment> m_newly_lost;
    uint64_t m_ce_pkts = 0;

    // Facts of the stack, and what they need.
    bool m_counts_sacked = false;       ///< loss_detection: three_sacked
    bool m_waits_a_millisecond = false; ///< reordering_window: while_none_lost, until_recovery
    bool m_window_widens = false;       ///< reordering_window_widens
    bool m_spares_recent = false;       ///< timeout_marks: older
    bool m_follows_rack = false;        ///< while_none_lost: what left no later than RACK's newest changes nothing
    bool m_keeps_sacked_retransmissions = false; ///< sacked_retransmissions_count
    bool m_smallest_is_smoothed = false;         ///< smallest_rtt: smoothed
    bool m_measures_head = false;                ///< rtt_samples: head
    int64_t m_clock_ns = 1000;                   ///< rtt_clock_us
    uint64_t m_counted_until = 0;                ///< no segment below it is to be marked by count
};

// ---- of every packet, which stand in line ----------------------------------------------------------------

inline uint64_t
Scoreboard::Sent(bool is_runt, bool is_joined, int64_t now_ns, uint32_t pkts)
{
    const uint64_t seqno = Next();
    Segment segment;
    Snapshot(segment, now_ns);
    segment.is_runt = is_runt;
    segment.is_joined = is_joined;
    for (uint32_t i = 0; i < pkts; ++i)
    {
        if (m_keeps_tx_states) [[unlikely]]
        {
            m_tx_states.push_back(TxStateNow());
        }
        m_out.ring.push_back(segment);
        segment.is_joined = true;
    }
    return seqno;
}

} // namespace bbrgym

#endif
