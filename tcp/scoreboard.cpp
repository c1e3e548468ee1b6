// SPDX-License-Identifier: GPL-2.0-only
#include "scoreboard.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr int64_t MIN_RTT_WINDOW_NS = 300'000'000'000; // Linux: tcp_min_rtt_wlen
constexpr int64_t LEAST_WINDOW_NS = 1'000'000;         // Linux before 4.18: tcp_rack_detect_loss

/** Whether one segment was sent after another; at the same time, the one further in the stream is later. */
bool
SentAfter(int64_t a_ns, uint64_t a, int64_t b_ns, uint64_t b)
{
    return a_ns > b_ns || (a_ns == b_ns && a > b);
}

} // namespace

void
Scoreboard::Retransmitted(uint64_t seqno, int64_t now_ns)
{
    PutOriginals();
    Segment& segment = Of(seqno);
    Snapshot(segment, now_ns);
    if (m_keeps_tx_states)
    {
        m_tx_states[seqno - m_una] = TxStateNow();
    }
    NoteTouched(seqno);
    --m_lost_waiting;
    ++m_retrans_out;
    segment.retransmitting = true;
    segment.ever_retransmitted = true;
    segment.found_late = false;
    PutTransmission(seqno, now_ns);
}

void
Scoreboard::Probed(int64_t now_ns)
{
    PutOriginals();
    Segment& segment = m_segments.back();
    Snapshot(segment, now_ns);
    if (m_keeps_tx_states)
    {
        m_tx_states.back() = TxStateNow();
    }
    segment.ever_retransmitted = true;
    NoteTouched(Next() - 1);
    PutTransmission(Next() - 1, now_ns);
}

std::optional<uint64_t>
Scoreboard::NextLost()
{
    if (m_lost_waiting == 0)
    {
        return std::nullopt;
    }
    uint64_t seqno = std::max(m_retransmit_hint, m_una);
    while (!Of(seqno).lost || Of(seqno).retransmitting)
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
        const Segment& segment = At(seqno + count);
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
    const uint64_t delivered_before = m_delivered_pkts;
    m_has_newest = false;
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
    outcome.acked_pkts = static_cast<uint32_t>(m_delivered_pkts - delivered_before);
    m_acked_any = outcome.acked_pkts > 0;
    if (m_reordering_count > 0 && m_window_widens && m_has_newest) [[unlikely]]
    {
        m_reordering_window.OnDelivered(m_delivered_pkts - m_newest.DeliveredSince(m_delivered_pkts), m_delivered_pkts);
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
        ForgetTransmissions(); // for those who need their times
        return DetectLossesByCount();
    }
    if (m_rack.sent_ns < 0 || !MayHaveOvertaken())
    {
        return 0;
    }
    const uint64_t lost_before = m_lost_total;
    const int64_t rack_rtt_ns = m_follows_rack ? m_rack.rtt_ns : m_rack_rtt_ns; // 4.11 keeps that of the newest
    const int64_t wait_ns = rack_rtt_ns + ReorderingWindowNs(patient, srtt_ns);
    // Transmissions are ordered by time: the first one that is still out and not old enough ends the search.
    for (; HasTransmissions(); ForgetOldestTransmission())
    {
        const Transmission oldest = OldestTransmission();
        if (IsOut(oldest))
        {
            if (!SentAfter(m_rack.sent_ns, m_rack.seqno, oldest.sent_ns, oldest.seqno))
            {
                break;
            }
            if (oldest.sent_ns + wait_ns + m_follows_rack > now_ns)
            {
                m_reordering_deadline_ns =
                    (m_waits_a_millisecond ? LatestOvertakenNs() : oldest.sent_ns) + wait_ns + TIMER_SLACK_NS;
                break;
            }
            MarkLost(oldest.seqno);
            Of(oldest.seqno).found_late = true;
        }
    }
    return static_cast<uint32_t>(m_lost_total - lost_before);
}

/** Whether it is its segment's latest one, and neither delivered nor found lost. */
bool
Scoreboard::IsOut(const Transmission& transmission) const
{
    if (transmission.seqno < m_una)
    {
        return false;
    }
    const Segment& segment = At(transmission.seqno);
    const bool waits = segment.lost && !segment.retransmitting;
    return !segment.sacked && !waits && segment.sent_ns == transmission.sent_ns;
}

Scoreboard::Transmission
Scoreboard::OldestTransmission() const
{
    return m_transmissions.empty() ? Transmission{m_originals_from, At(m_originals_from).sent_ns}
                                   : m_transmissions.front();
}

/** False: no transmission was overtaken by the newest one delivered. Stored ones may be stale, so they have to be
 * looked at. */
bool
Scoreboard::MayHaveOvertaken() const
{
    if (!m_transmissions.empty() || m_originals_from == Next())
    {
        return !m_transmissions.empty();
    }
    return SentAfter(m_rack.sent_ns, m_rack.seqno, At(m_originals_from).sent_ns, m_originals_from);
}

void
Scoreboard::ForgetOldestTransmission()
{
    m_transmissions.empty() ? static_cast<void>(++m_originals_from) : m_transmissions.pop_front();
}

void
Scoreboard::ForgetTransmissions()
{
    m_transmissions.clear();
    m_originals_from = Next();
}

/** One after all others. */
void
Scoreboard::PutTransmission(uint64_t seqno, int64_t sent_ns)
{
    m_transmissions.push_back({seqno, sent_ns});
}

/** A segment is about to be retransmitted: the times at which all of them left first are stored. */
void
Scoreboard::PutOriginals()
{
    for (; m_originals_from < Next(); ++m_originals_from)
    {
        PutTransmission(m_originals_from, At(m_originals_from).sent_ns);
    }
}

/** When the last of those left that one sent later has overtaken. */
int64_t
Scoreboard::LatestOvertakenNs() const
{
    int64_t latest_ns = OldestTransmission().sent_ns;
    const auto is_overtaken = [&](const Transmission& transmission) {
        const bool is = SentAfter(m_rack.sent_ns, m_rack.seqno, transmission.sent_ns, transmission.seqno);
        latest_ns = is && IsOut(transmission) ? transmission.sent_ns : latest_ns;
        return is;
    };
    for (std::size_t i = 0; i < m_transmissions.size(); ++i)
    {
        if (!is_overtaken(m_transmissions[i]))
        {
            return latest_ns;
        }
    }
    for (uint64_t seqno = m_originals_from; seqno < Next() && is_overtaken({seqno, At(seqno).sent_ns}); ++seqno)
    {
    }
    return latest_ns;
}

/** RFC 6675's IsLost, of segments: three beyond it are SACKed. A retransmission is never found lost. */
uint32_t
Scoreboard::DetectLossesByCount()
{
    const uint64_t lost_before = m_lost_total;
    const uint64_t from = std::max(m_counted_until, m_una);
    uint32_t sacked = 0;
    uint64_t seqno = m_sacked_until;
    while (seqno > from && sacked < DUPLICATE_THRESHOLD_PKTS)
    {
        --seqno;
        sacked += At(seqno).sacked;
    }
    if (sacked < DUPLICATE_THRESHOLD_PKTS)
    {
        return 0;
    }
    m_counted_until = seqno;
    for (seqno = from; seqno < m_counted_until; ++seqno)
    {
        if (!At(seqno).sacked && !At(seqno).lost)
        {
            MarkLost(seqno);
        }
    }
    return static_cast<uint32_t>(m_lost_total - lost_before);
}

void
Scoreboard::MarkHeadLost()
{
    if (!m_segments.empty())
    {
        MarkLost(m_una);
    }
}

void
Scoreboard::MarkTimedOut(int64_t now_ns)
{
    const int64_t sent_by_ns = m_spares_recent ? now_ns - m_rack_rtt_ns : NEVER_NS;
    for (uint64_t seqno = m_una; seqno < Next(); ++seqno)
    {
        const Segment& segment = At(seqno);
        if (!segment.sacked && (seqno == m_una || segment.sent_ns <= sent_by_ns))
        {
            MarkLost(seqno);
            if (segment.retransmitting) // of what an undo held to be there
            {
                Of(seqno).retransmitting = false;
                --m_retrans_out;
                ++m_lost_waiting;
            }
        }
        else if (segment.sacked && segment.retransmitting && m_keeps_sacked_retransmissions)
        {
            Of(seqno).retransmitting = false;
            --m_retrans_out;
        }
    }
    if (!m_spares_recent)
    {
        ForgetTransmissions();
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
    ForgetTransmissions();
    for (uint64_t seqno = m_una; seqno < Next(); ++seqno)
    {
        Segment& segment = Of(seqno);
        segment.lost = false;
        if (!segment.sacked && (!segment.found_late || m_waits_a_millisecond))
        {
            PutTransmission(seqno, segment.sent_ns);
        }
    }
    m_lost_out = 0;
    m_lost_waiting = 0;
    std::ranges::sort(m_transmissions.in_one_piece(), [](const Transmission& a, const Transmission& b) {
        return SentAfter(b.sent_ns, b.seqno, a.sent_ns, a.seqno);
    });
    m_counted_until = 0;
}

RateSample
Scoreboard::SampleRate(int64_t now_ns)
{
    if (m_app_limited_until != 0 && m_delivered_pkts > m_app_limited_until)
    {
        m_app_limited_until = 0;
    }
    if (m_acked_any)
    {
        m_delivered_ns = now_ns;
    }
    if (m_keeps_sample)
    {
        return KeptRateSample();
    }
    RateSample sample;
    if (!m_has_newest)
    {
        return sample;
    }
    sample.sample_pkts = m_newest.DeliveredSince(m_delivered_pkts);
    sample.prior_delivered_pkts = m_delivered_pkts - static_cast<uint64_t>(sample.sample_pkts);
    sample.is_app_limited = m_newest.app_limited;
    const int64_t send_phase_ns = m_newest.sent_ns - m_newest.first_tx_ns;
    const int64_t ack_phase_ns = now_ns - m_newest.delivered_ns;
    const int64_t interval_ns = std::max(send_phase_ns, ack_phase_ns);
    // Shorter than any round trip: the ACKs were compressed, and the rate would be meaningless.
    if (m_min_rtt_ns < 0 || interval_ns >= m_min_rtt_ns)
    {
        sample.interval_ns = interval_ns;
    }
    sample.at_send = m_newest_tx_state;
    return sample;
}

/** A delivered segment becomes the sample if more was delivered when it left than when the sample's did. */
void
Scoreboard::KeepSample(const Segment& segment, int64_t now_ns)
{
    m_delivered_ns = now_ns;
    const uint64_t prior_delivered_pkts = m_delivered_pkts - segment.DeliveredSince(m_delivered_pkts);
    if (prior_delivered_pkts <= m_kept.prior_delivered_pkts)
    {
        return;
    }
    m_kept.prior_delivered_pkts = prior_delivered_pkts;
    m_kept.is_app_limited = segment.app_limited;
    m_kept.interval_ns = std::max(segment.sent_ns - segment.first_tx_ns, now_ns - segment.delivered_ns);
    m_first_tx_ns = segment.sent_ns;
}

/** The kept sample with what was delivered since, or its last rate if the interval is below the smallest RTT. */
RateSample
Scoreboard::KeptRateSample()
{
    if (m_kept.prior_delivered_pkts == 0)
    {
        return {};
    }
    if (m_kept.interval_ns > 0 && (m_min_rtt_ns < 0 || m_kept.interval_ns >= m_min_rtt_ns))
    {
        m_kept.rate_pkts = static_cast<int64_t>(m_delivered_pkts - m_kept.prior_delivered_pkts);
        m_kept.rate_interval_ns = m_kept.interval_ns;
    }
    return {m_kept.rate_pkts, m_kept.rate_interval_ns, m_kept.prior_delivered_pkts, m_kept.is_app_limited};
}

void
Scoreboard::MarkAppLimited()
{
    m_app_limited_until = std::max<uint64_t>(m_delivered_pkts + InFlight(), 1);
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
    Ring<Segment> kept = std::move(m_segments);
    Ring<Transmission> kept_transmissions = std::move(m_transmissions);
    Ring<TxState> kept_tx_states = std::move(m_tx_states);
    std::vector<LostSegment> kept_lost = std::move(m_newly_lost);
    *this = Scoreboard();
    kept.clear();
    kept.reserve(segments);
    kept_transmissions.clear();
    m_segments = std::move(kept);
    m_transmissions = std::move(kept_transmissions);
    kept_tx_states.clear();
    m_tx_states = std::move(kept_tx_states);
    kept_lost.clear();
    m_newly_lost = std::move(kept_lost);
}

void
Scoreboard::SetFacts(const SocketFacts& facts)
{
    m_counts_sacked = facts.loss_detection == loss_detection_choice::three_sacked;
    m_waits_a_millisecond = facts.reordering_window != reordering_window_choice::until_three_sacked;
    m_spares_recent = facts.timeout_marks == timeout_marks_choice::older;
    m_follows_rack = facts.reordering_window == reordering_window_choice::while_none_lost;
    m_keeps_sacked_retransmissions = facts.sacked_retransmissions_count;
    m_keeps_sample = facts.rate_sample == rate_sample_choice::kept;
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
    m_delivered_pkts += duplicate.end - duplicate.begin;
    m_duplicate_pkts += duplicate.end - duplicate.begin;
    for (uint64_t seqno = std::max(duplicate.begin, m_una); seqno < std::min(duplicate.end, Next()); ++seqno)
    {
        if (At(seqno).ever_retransmitted && At(seqno).sacked)
        {
            outcome.first_original = std::min(outcome.first_original, seqno);
        }
    }
}

/** Its retransmission is not in the network any more either. */
void
Scoreboard::ClearDuplicate(SeqnoRange duplicate)
{
    for (uint64_t seqno = std::max(duplicate.begin, m_una); seqno < std::min(duplicate.end, Next()); ++seqno)
    {
        Segment& segment = Of(seqno);
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
        uint64_t seqno = std::max(blocks[i].begin, m_una);
        // Nearly always a block is unchanged or has grown: then only its new part is processed.
        if (i < m_known_count && m_known_blocks[i].begin <= seqno && seqno < m_known_blocks[i].end)
        {
            seqno = m_known_blocks[i].end;
        }
        while (seqno < end)
        {
            if (At(seqno).sacked)
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
    Segment& segment = Of(seqno);
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
    if (m_una < m_untouched_from || m_keeps_sample || m_measures_head)
    {
        RemoveOneByOne(una, now_ns, outcome);
    }
    else if (m_una < una && !m_segments.empty())
    {
        RemoveUntouched(std::min<std::size_t>(una - m_una, m_segments.size()), now_ns, outcome);
    }
    m_originals_from = std::max(m_originals_from, m_una);
}

/** The first `count` segments are delivered, as they were sent: what they tell are the times of the first and the last.
 */
void
Scoreboard::RemoveUntouched(std::size_t count, int64_t now_ns, AckOutcome& outcome)
{
    const uint64_t seqno = m_una + count - 1;
    m_newest = m_segments[count - 1];
    m_has_newest = true;
    m_newest_seqno = seqno;
    outcome.first_original = m_una;
    outcome.oldest_rtt_ns = RttNs(m_segments.front().sent_ns, now_ns);
    outcome.rtt_ns = RttNs(m_newest.sent_ns, now_ns);
    outcome.removed_segments = static_cast<uint32_t>(count);
    outcome.is_ack_delayed = count == 1 && m_newest.is_runt;
    m_delivered_pkts += count;
    m_first_tx_ns = m_newest.sent_ns;
    m_rack_rtt_ns = now_ns - m_newest.sent_ns;
    m_rack_rtt_seqno = seqno;
    NoteNewest({m_newest.sent_ns, seqno, m_rack_rtt_ns});
    if (m_keeps_tx_states) [[unlikely]]
    {
        m_newest_tx_state = m_tx_states[count - 1];
        m_tx_states.pop_front(count);
    }
    m_segments.pop_front(count);
    m_una += count;
}

void
Scoreboard::RemoveOneByOne(uint64_t una, int64_t now_ns, AckOutcome& outcome)
{
    const bool sacked_before = m_sacked_out > 0;
    bool retransmitted_data = false;
    bool runt = false;
    int64_t newest_rtt_ns = -1;
    int64_t oldest_rtt_ns = -1;

    if (m_measures_head && m_una < una && !m_segments.empty())
    {
        NoteHeadRtt(m_segments.front(), now_ns, outcome);
    }
    while (m_una < una && !m_segments.empty())
    {
        const Segment& segment = m_segments.front();
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
                outcome.first_original = std::min(outcome.first_original, m_una);
                newest_rtt_ns = RttNs(segment.sent_ns, now_ns);
                oldest_rtt_ns = std::max(oldest_rtt_ns, newest_rtt_ns);
            }
            Delivered(m_una, true, now_ns);
        }
        m_segments.pop_front();
        if (m_keeps_tx_states) [[unlikely]]
        {
            m_tx_states.pop_front();
        }
        ++m_una;
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

/** Since `sent_ns`, by a clock of the stack's step. */
int64_t
Scoreboard::RttNs(int64_t sent_ns, int64_t now_ns) const
{
    return m_clock_ns == 1000 ? now_ns - sent_ns : (now_ns / m_clock_ns - sent_ns / m_clock_ns) * m_clock_ns;
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
    Segment& segment = Of(seqno);
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
    ++m_delivered_pkts;

    if (m_keeps_sample)
    {
        KeepSample(segment, now_ns);
    }
    else if (!m_has_newest || SentAfter(segment.sent_ns, seqno, m_newest.sent_ns, m_newest_seqno))
    {
        m_has_newest = true;
        m_newest = segment;
        m_newest_seqno = seqno;
        if (m_keeps_tx_states) [[unlikely]]
        {
            m_newest_tx_state = m_tx_states[seqno - m_una];
        }
        m_first_tx_ns = segment.sent_ns;
    }

    const NewestDelivered delivered{segment.sent_ns, seqno, now_ns - segment.sent_ns};
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
    const bool is_newest = SentAfter(delivered.sent_ns, delivered.seqno, m_rack.sent_ns, m_rack.seqno);
    if (is_newest)
    {
        m_rack = delivered;
    }
    m_has_rack_advanced |= is_newest || !m_follows_rack;
}

void
Scoreboard::MarkLost(uint64_t seqno)
{
    Segment& segment = Of(seqno);
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
        m_newly_lost.push_back({m_tx_states[seqno - m_una], m_lost_total, segment.app_limited != 0});
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
