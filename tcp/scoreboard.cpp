// SPDX-License-Identifier: GPL-2.0-only
#include "scoreboard.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr int64_t MIN_RTT_WINDOW_NS = 300'000'000'000; // Linux: tcp_min_rtt_wlen
constexpr int64_t LEAST_WINDOW_NS = 1'000'000;         // Linux before 4.18: tcp_rack_detect_loss

} // namespace

void
Scoreboard::Retransmitted(uint64_t seqno, int64_t now_ns)
{
    m_order.PutOriginals(m_out);
    Segment& segment = m_out.At(seqno);
    Snapshot(segment, now_ns);
    if (m_keeps_tx_states)
    {
        m_tx_states[seqno - m_out.una] = TxStateNow();
    }
    NoteTouched(seqno);
    --m_lost_waiting;
    ++m_retrans_out;
    segment.retransmitting = true;
    segment.ever_retransmitted = true;
    segment.found_late = false;
    m_order.Put({seqno, now_ns});
}

void
Scoreboard::Probed(int64_t now_ns)
{
    m_order.PutOriginals(m_out);
    Segment& segment = m_out.ring.back();
    Snapshot(segment, now_ns);
    if (m_keeps_tx_states)
    {
        m_tx_states.back() = TxStateNow();
    }
    segment.ever_retransmitted = true;
    NoteTouched(Next() - 1);
    m_order.Put({Next() - 1, now_ns});
}

std::optional<uint64_t>
Scoreboard::NextLost()
{
    if (m_lost_waiting == 0)
    {
        return std::nullopt;
    }
    uint64_t seqno = std::max(m_retransmit_hint, m_out.una);
    while (!m_out.At(seqno).lost || m_out.At(seqno).retransmitting)
    {
        ++seqno;
    }
    m_retransmit_hint = seqno;
    return seqno;
}

uint32_t
Scoreboard::LostTogether(uint64_t seqno, uint32_t limit) const
{
    uint32_t count = 1;
    while (count < limit && seqno + count < Next())
    {
        const Segment& segment = m_out.At(seqno + count);
        if (!segment.is_joined || !segment.lost || segment.retransmitting)
        {
            break;
        }
        ++count;
    }
    return count;
}

AckOutcome
Scoreboard::Acknowledge(uint64_t una, std::span<const SeqnoRange> blocks, int64_t now_ns, SeqnoRange duplicate)
{
    AckOutcome outcome;
    m_rate.BeginAck();
    m_rack_rtt_seqno = 0;
    m_sacked_until_before = m_sacked_until;

    const bool has_duplicate = duplicate.begin < duplicate.end;
    if (has_duplicate) [[unlikely]]
    {
        OnDuplicate(duplicate, outcome);
    }
    if (!blocks.empty() || m_known_count > 0)
    {
        MarkSacked(blocks, now_ns, outcome);
    }
    if (has_duplicate) [[unlikely]]
    {
        ClearDuplicate(duplicate);
    }
    RemoveAcknowledged(una, now_ns, outcome);

    if (outcome.first_original < m_sacked_until_before)
    {
        NoteReordering(outcome.first_original);
    }
    outcome.acked_pkts = m_rate.AckedPkts();
    if (m_reordering_count > 0 && m_window_widens && m_rate.HasNewest()) [[unlikely]]
    {
        m_reordering_window.OnDelivered(m_rate.PriorDelivered(), m_rate.Delivered());
    }
    if (outcome.rtt_ns >= 0 && !m_smallest_is_smoothed)
    {
        NoteRtt(outcome.rtt_ns, now_ns);
    }
    return outcome;
}

uint32_t
Scoreboard::DetectLosses(bool patient, int64_t srtt_ns, int64_t now_ns)
{
    if (!m_has_rack_advanced)
    {
        return 0; // the timer goes on
    }
    m_has_rack_advanced = false;
    m_reordering_deadline_ns = NEVER_NS;
    if (m_counts_sacked)
    {
        m_order.ForgetAll(m_out); // for those who need their times
        return DetectLossesByCount();
    }
    const Transmission& newest = m_rack.transmission;
    if (newest.sent_ns < 0 || !m_order.MayBeOvertaken(newest, m_out))
    {
        return 0;
    }
    const uint64_t lost_before = m_lost_total;
    const int64_t rack_rtt_ns = m_follows_rack ? m_rack.rtt_ns : m_rack_rtt_ns; // 4.11 keeps that of the newest
    const int64_t wait_ns = rack_rtt_ns + ReorderingWindowNs(patient, srtt_ns);
    // Transmissions are ordered by time: the first one that is still out and not old enough ends the search.
    for (; !m_order.Empty(m_out); m_order.ForgetOldest())
    {
        const Transmission oldest = m_order.Oldest(m_out);
        if (TransmissionOrder::IsOut(oldest, m_out))
        {
            if (!newest.IsAfter(oldest))
            {
                break;
            }
            if (oldest.sent_ns + wait_ns + m_follows_rack > now_ns)
            {
                const int64_t from_ns =
                    m_waits_a_millisecond ? m_order.LatestOvertakenNs(newest, m_out) : oldest.sent_ns;
                m_reordering_deadline_ns = from_ns + wait_ns + TIMER_SLACK_NS;
                break;
            }
            MarkLost(oldest.seqno);
            m_out.At(oldest.seqno).found_late = true;
        }
    }
    return static_cast<uint32_t>(m_lost_total - lost_before);
}

/** RFC 6675's IsLost, of segments: three beyond it are SACKed. A retransmission is never found lost. */
uint32_t
Scoreboard::DetectLossesByCount()
{
    const uint64_t lost_before = m_lost_total;
    const uint64_t from = std::max(m_counted_until, m_out.una);
    uint32_t sacked = 0;
    uint64_t seqno = m_sacked_until;
    while (seqno > from && sacked < DUPLICATE_THRESHOLD_PKTS)
    {
        --seqno;
        sacked += m_out.At(seqno).sacked;
    }
    if (sacked < DUPLICATE_THRESHOLD_PKTS)
    {
        return 0;
    }
    m_counted_until = seqno;
    for (seqno = from; seqno < m_counted_until; ++seqno)
    {
        if (!m_out.At(seqno).sacked && !m_out.At(seqno).lost)
        {
            MarkLost(seqno);
        }
    }
    return static_cast<uint32_t>(m_lost_total - lost_before);
}

void
Scoreboard::MarkTimedOut(int64_t now_ns)
{
    const int64_t sent_by_ns = m_spares_recent ? now_ns - m_rack_rtt_ns : NEVER_NS;
    for (uint64_t seqno = m_out.una; seqno < Next(); ++seqno)
    {
        const Segment& segment = m_out.At(seqno);
        if (!segment.sacked && (seqno == m_out.una || segment.sent_ns <= sent_by_ns))
        {
            MarkLost(seqno);
            if (segment.retransmitting) // of what an undo held to be there
            {
                m_out.At(seqno).retransmitting = false;
                --m_retrans_out;
                ++m_lost_waiting;
            }
        }
        else if (segment.sacked && segment.retransmitting && m_keeps_sacked_retransmissions)
        {
            m_out.At(seqno).retransmitting = false;
            --m_retrans_out;
        }
    }
    if (!m_spares_recent)
    {
        m_order.ForgetAll(m_out);
    }
    m_reordering_deadline_ns = NEVER_NS;
    m_counted_until = 0;
}

/**
 * Linux's tcp_undo_cwnd_reduction: a retransmission stays in the network beside its original, and what RACK itself
 * found lost it does not look at again.
 */
void
Scoreboard::UnmarkLost()
{
    m_order.ForgetAll(m_out);
    for (uint64_t seqno = m_out.una; seqno < Next(); ++seqno)
    {
        Segment& segment = m_out.At(seqno);
        segment.lost = false;
        if (!segment.sacked && (!segment.found_late || m_waits_a_millisecond))
        {
            m_order.Put({seqno, segment.sent_ns});
        }
    }
    m_lost_out = 0;
    m_lost_waiting = 0;
    m_order.Sort();
    m_counted_until = 0;
}

void
Scoreboard::NoteRtt(int64_t rtt_ns, int64_t now_ns)
{
    if (m_min_rtt_ns < 0 || rtt_ns <= m_min_rtt_ns || now_ns - m_min_rtt_at_ns > MIN_RTT_WINDOW_NS)
    {
        m_min_rtt_ns = rtt_ns;
        m_min_rtt_at_ns = now_ns;
    }
}

void
Scoreboard::Reset(std::size_t segments)
{
    Scoreboard fresh;
    fresh.m_out.ring.TakeMemory(m_out.ring);
    fresh.m_out.ring.reserve(segments);
    fresh.m_order.TakeMemory(m_order);
    fresh.m_tx_states.TakeMemory(m_tx_states);
    fresh.m_newly_lost = std::move(m_newly_lost);
    fresh.m_newly_lost.clear();
    *this = std::move(fresh);
}

void
Scoreboard::SetFacts(const SocketFacts& facts)
{
    m_counts_sacked = facts.loss_detection == loss_detection_choice::three_sacked;
    m_waits_a_millisecond = facts.reordering_window != reordering_window_choice::until_three_sacked;
    m_spares_recent = facts.timeout_marks == timeout_marks_choice::older;
    m_follows_rack = facts.reordering_window == reordering_window_choice::while_none_lost;
    m_keeps_sacked_retransmissions = facts.sacked_retransmissions_count;
    m_rate.KeepSample(facts.rate_sample == rate_sample_choice::kept);
    m_smallest_is_smoothed = facts.smallest_rtt == smallest_rtt_choice::smoothed;
    m_measures_head = facts.rtt_samples == rtt_samples_choice::head;
    m_clock_ns = facts.rtt_clock_us * 1000;
    m_window_widens = facts.reordering_window_widens;
}

/** What arrived twice was delivered; a segment that was SACKed and retransmitted arrived out of order
 * (tcp_sacktag_one). */
void
Scoreboard::OnDuplicate(SeqnoRange duplicate, AckOutcome& outcome)
{
    m_rate.OnDuplicate(duplicate.end - duplicate.begin);
    for (uint64_t seqno = std::max(duplicate.begin, m_out.una); seqno < std::min(duplicate.end, Next()); ++seqno)
    {
        if (m_out.At(seqno).ever_retransmitted && m_out.At(seqno).sacked)
        {
            outcome.first_original = std::min(outcome.first_original, seqno);
        }
    }
}

/** Its retransmission is not in the network any more either. */
void
Scoreboard::ClearDuplicate(SeqnoRange duplicate)
{
    for (uint64_t seqno = std::max(duplicate.begin, m_out.una); seqno < std::min(duplicate.end, Next()); ++seqno)
    {
        Segment& segment = m_out.At(seqno);
        m_retrans_out -= segment.retransmitting;
        m_lost_waiting += segment.lost && segment.retransmitting;
        segment.retransmitting = false;
    }
}

void
Scoreboard::MarkSacked(std::span<const SeqnoRange> blocks, int64_t now_ns, AckOutcome& outcome)
{
    for (std::size_t i = 0; i < blocks.size(); ++i)
    {
        const uint64_t end = std::min(blocks[i].end, Next());
        uint64_t seqno = std::max(blocks[i].begin, m_out.una);
        // Nearly always a block is unchanged or has grown: then only its new part is processed.
        if (i < m_known_count && m_known_blocks[i].begin <= seqno && seqno < m_known_blocks[i].end)
        {
            seqno = m_known_blocks[i].end;
        }
        while (seqno < end)
        {
            if (m_out.At(seqno).sacked)
            {
                seqno = SkipKnown(seqno);
                continue;
            }
            NoteSacked(seqno, now_ns, outcome);
            ++seqno;
        }
    }
    m_known_count = blocks.size();
    std::ranges::copy(blocks, m_known_blocks.begin());
}

void
Scoreboard::NoteSacked(uint64_t seqno, int64_t now_ns, AckOutcome& outcome)
{
    Segment& segment = m_out.At(seqno);
    if (!segment.ever_retransmitted)
    {
        outcome.first_original = std::min(outcome.first_original, seqno);
    }
    if (!segment.ever_retransmitted && !m_measures_head)
    {
        const int64_t rtt_ns = RttNs(segment.sent_ns, now_ns);
        outcome.oldest_rtt_ns = std::max(outcome.oldest_rtt_ns, rtt_ns);
        outcome.rtt_ns = outcome.rtt_ns < 0 ? rtt_ns : std::min(outcome.rtt_ns, rtt_ns);
    }
    Delivered(seqno, false, now_ns);
    segment.sacked = true;
    NoteTouched(seqno);
    ++m_sacked_out;
    m_sacked_until = std::max(m_sacked_until, seqno + 1);
    outcome.data_sacked = true;
}

void
Scoreboard::RemoveAcknowledged(uint64_t una, int64_t now_ns, AckOutcome& outcome)
{
    if (m_out.una < m_untouched_from || m_rate.KeepsSample() || m_measures_head)
    {
        RemoveOneByOne(una, now_ns, outcome);
    }
    else if (m_out.una < una && !m_out.Empty())
    {
        RemoveUntouched(std::min<std::size_t>(una - m_out.una, m_out.ring.size()), now_ns, outcome);
    }
    m_order.OnAcknowledged(m_out.una);
}

/** The first `count` segments are delivered, as they were sent: what they tell are the times of the first and the last.
 */
void
Scoreboard::RemoveUntouched(std::size_t count, int64_t now_ns, AckOutcome& outcome)
{
    const uint64_t seqno = m_out.una + count - 1;
    const Segment& newest = m_out.ring[count - 1];
    m_rate.OnDeliveredInOrder(newest, seqno, count);
    outcome.first_original = m_out.una;
    outcome.oldest_rtt_ns = RttNs(m_out.ring.front().sent_ns, now_ns);
    outcome.rtt_ns = RttNs(newest.sent_ns, now_ns);
    outcome.removed_segments = static_cast<uint32_t>(count);
    outcome.is_ack_delayed = count == 1 && newest.is_runt;
    m_rack_rtt_ns = now_ns - newest.sent_ns;
    m_rack_rtt_seqno = seqno;
    NoteNewest({{seqno, newest.sent_ns}, m_rack_rtt_ns});
    if (m_keeps_tx_states) [[unlikely]]
    {
        m_rate.SetNewestTxState(m_tx_states[count - 1]);
        m_tx_states.pop_front(count);
    }
    m_out.ring.pop_front(count);
    m_out.una += count;
}

void
Scoreboard::RemoveOneByOne(uint64_t una, int64_t now_ns, AckOutcome& outcome)
{
    const bool sacked_before = m_sacked_out > 0;
    bool retransmitted_data = false;
    bool runt = false;
    int64_t newest_rtt_ns = -1;
    int64_t oldest_rtt_ns = -1;

    if (m_measures_head && m_out.una < una && !m_out.Empty())
    {
        NoteHeadRtt(m_out.ring.front(), now_ns, outcome);
    }
    while (m_out.una < una && !m_out.Empty())
    {
        const Segment& segment = m_out.ring.front();
        retransmitted_data |= segment.ever_retransmitted;
        runt = segment.is_runt;
        if (segment.sacked)
        {
            --m_sacked_out;
            m_retrans_out -= segment.retransmitting;
        }
        else
        {
            if (!segment.ever_retransmitted)
            {
                outcome.first_original = std::min(outcome.first_original, m_out.una);
                newest_rtt_ns = RttNs(segment.sent_ns, now_ns);
                oldest_rtt_ns = std::max(oldest_rtt_ns, newest_rtt_ns);
            }
            Delivered(m_out.una, true, now_ns);
        }
        m_out.ring.pop_front();
        if (m_keeps_tx_states) [[unlikely]]
        {
            m_tx_states.pop_front();
        }
        ++m_out.una;
        ++outcome.removed_segments;
    }
    outcome.retransmission_acked = retransmitted_data;
    if (m_measures_head)
    {
        return;
    }
    // An ACK that also covers a retransmission cannot tell which transmission it answers (Karn).
    if (!retransmitted_data && newest_rtt_ns >= 0)
    {
        outcome.oldest_rtt_ns = oldest_rtt_ns;
        outcome.rtt_ns = outcome.rtt_ns < 0 ? newest_rtt_ns : outcome.rtt_ns;
        outcome.is_ack_delayed = outcome.removed_segments == 1 && !sacked_before && runt;
    }
}

/** The head is acknowledged: its RTT, by its timestamp's echo, is the ACK's only one. */
void
Scoreboard::NoteHeadRtt(const Segment& head, int64_t now_ns, AckOutcome& outcome) const
{
    const int64_t rtt_ns = RttNs(head.sent_ns, now_ns);
    if (!head.ever_retransmitted && !head.sacked && rtt_ns > 0)
    {
        outcome.rtt_ns = rtt_ns;
        outcome.oldest_rtt_ns = rtt_ns;
    }
}

/** A segment never retransmitted came after one further on: by how many segments (tcp_check_sack_reordering). */
void
Scoreboard::NoteReordering(uint64_t first_original)
{
    ++m_reordering_count;
    const auto distance = static_cast<uint32_t>(std::min(HighestSacked() - first_original, MAX_REORDERING_PKTS));
    m_reordering_pkts = std::max(m_reordering_pkts, distance);
}

void
Scoreboard::Delivered(uint64_t seqno, bool is_cumulative, int64_t now_ns)
{
    Segment& segment = m_out.At(seqno);
    // A retransmission of what is not held to be lost any more stays in the network beside the SACKed original.
    if (is_cumulative || (segment.lost && !m_keeps_sacked_retransmissions))
    {
        m_retrans_out -= segment.retransmitting;
        m_lost_waiting -= segment.lost && !segment.retransmitting;
        segment.retransmitting = false;
    }
    else
    {
        m_lost_waiting -= segment.lost && !segment.retransmitting;
    }
    m_lost_out -= segment.lost;
    segment.lost = false;
    const bool is_newest = m_rate.OnDelivered(segment, seqno, now_ns);
    if (is_newest && m_keeps_tx_states) [[unlikely]]
    {
        m_rate.SetNewestTxState(m_tx_states[seqno - m_out.una]);
    }

    const NewestDelivered delivered{{seqno, segment.sent_ns}, now_ns - segment.sent_ns};
    // RFC 8985, 6.2 step 2: faster than any round trip, so the original arrived, not the retransmission; or its
    // timestamp says so (tcp_skb_spurious_retrans).
    const bool is_echo_older = is_cumulative && m_echo_ms != NO_TIMESTAMP && m_echo_ms < TimestampMs(segment.sent_ns);
    if (segment.ever_retransmitted && (delivered.rtt_ns < m_min_rtt_ns || is_echo_older))
    {
        return;
    }
    NoteNewest(delivered);
    // Linux's tcp_rack_advance: not that of the newest, but of the last one that an ACK delivers, SACKed ones first.
    if (is_cumulative || seqno >= m_rack_rtt_seqno)
    {
        m_rack_rtt_ns = delivered.rtt_ns;
        m_rack_rtt_seqno = seqno;
    }
}

/** RACK's newest: in 4.11 a segment that left before it changes nothing, since then each has losses looked for. */
void
Scoreboard::NoteNewest(const NewestDelivered& delivered)
{
    const bool is_newest = delivered.transmission.IsAfter(m_rack.transmission);
    if (is_newest)
    {
        m_rack = delivered;
    }
    m_has_rack_advanced |= is_newest || !m_follows_rack;
}

void
Scoreboard::MarkLost(uint64_t seqno)
{
    Segment& segment = m_out.At(seqno);
    if (segment.lost && !segment.retransmitting)
    {
        return;
    }
    // A retransmission of what was not held to be lost any more stays in the network (tcp_mark_skb_lost).
    const bool is_lost_retransmit = segment.lost;
    m_lost_retransmit_total += is_lost_retransmit;
    m_retrans_out -= is_lost_retransmit;
    m_lost_out += !is_lost_retransmit;
    segment.retransmitting &= !is_lost_retransmit;
    segment.lost = true;
    m_lost_waiting += !segment.retransmitting;
    NoteTouched(seqno);
    ++m_lost_total;
    if (m_keeps_tx_states)
    {
        m_newly_lost.push_back({m_tx_states[seqno - m_out.una], m_lost_total, segment.app_limited != 0});
    }
    if (m_logs_losses)
    {
        m_loss_log.push_back(seqno);
    }
    m_retransmit_hint = std::min(m_retransmit_hint, seqno);
}

/** The next segment after a SACKed one, past the whole block in which the previous ACK reported it. */
uint64_t
Scoreboard::SkipKnown(uint64_t seqno) const
{
    for (std::size_t i = 0; i < m_known_count; ++i)
    {
        if (m_known_blocks[i].begin <= seqno && seqno < m_known_blocks[i].end)
        {
            return m_known_blocks[i].end;
        }
    }
    return seqno + 1;
}

/** RFC 8985, 6.2 step 4, as in Linux (tcp_rack_reo_wnd). */
int64_t
Scoreboard::ReorderingWindowNs(bool patient, int64_t srtt_ns) const
{
    const int64_t steps_ns = std::max<int64_t>(m_min_rtt_ns, 0) / 4 * m_reordering_window.Steps();
    if (m_waits_a_millisecond)
    {
        return m_reordering_count > 0 || patient ? std::max(std::min(steps_ns, srtt_ns), LEAST_WINDOW_NS)
                                                 : LEAST_WINDOW_NS;
    }
    return m_reordering_count > 0 || (patient && m_sacked_out < DUPLICATE_THRESHOLD_PKTS) ? std::min(steps_ns, srtt_ns)
                                                                                          : 0;
}

} // namespace bbrgym
