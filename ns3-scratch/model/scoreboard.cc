// SPDX-License-Identifier: GPL-2.0-only
#include "scoreboard.h"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr int64_t MIN_RTT_WINDOW_NS = 300'000'000'000; // Linux: tcp_min_rtt_wlen
constexpr uint32_t DUPLICATE_THRESHOLD_PKTS = 3;       // RFC 5681; Linux: tcp_reordering

/** Later on the wire; of segments sent in the same instant the one further in the stream. */
bool
SentAfter(int64_t a_ns, uint64_t a_end, int64_t b_ns, uint64_t b_end)
{
    return a_ns > b_ns || (a_ns == b_ns && a_end > b_end);
}

} // namespace

void
Scoreboard::Sent(ByteRange bytes, int64_t now_ns)
{
    Segment segment;
    segment.bytes = bytes;
    Snapshot(segment, now_ns);
    m_transmissions.push_back({m_front_serial + m_segments.size(), now_ns});
    m_segments.push_back(segment);
}

void
Scoreboard::Retransmitted(std::size_t index, int64_t now_ns)
{
    Segment& segment = m_segments[index];
    Snapshot(segment, now_ns);
    segment.retransmitting = true;
    segment.ever_retransmitted = true;
    ++m_retrans_out;
    --m_lost_waiting;
    m_transmissions.push_back({m_front_serial + index, now_ns});
}

std::optional<std::size_t>
Scoreboard::NextLost()
{
    if (m_lost_waiting == 0)
    {
        return std::nullopt;
    }
    std::size_t index = m_retransmit_hint > m_front_serial ? m_retransmit_hint - m_front_serial : 0;
    while (!m_segments[index].lost || m_segments[index].retransmitting)
    {
        ++index;
    }
    m_retransmit_hint = m_front_serial + index;
    return index;
}

AckOutcome
Scoreboard::Acknowledge(uint64_t una, std::span<const ByteRange> sack_blocks, int64_t now_ns)
{
    AckOutcome outcome;
    const uint64_t delivered_before = m_delivered_pkts;
    m_has_newest = false;
    m_highest_sacked_before = m_highest_sacked;

    MarkSacked(sack_blocks, now_ns, outcome);
    RemoveAcknowledged(una, now_ns, outcome);

    outcome.acked_pkts = static_cast<uint32_t>(m_delivered_pkts - delivered_before);
    m_acked_any = outcome.acked_pkts > 0;
    if (outcome.rtt_ns >= 0)
    {
        NoteRtt(outcome.rtt_ns, now_ns);
    }
    return outcome;
}

uint32_t
Scoreboard::DetectLosses(bool patient, int64_t srtt_ns, int64_t now_ns)
{
    m_reordering_deadline_ns = NEVER_NS;
    if (m_rack_sent_ns < 0)
    {
        return 0;
    }
    const uint64_t lost_before = m_lost_total;
    const int64_t wait_ns = m_rack_rtt_ns + ReorderingWindowNs(patient, srtt_ns);
    // Transmissions stand in the order of time: the first that is still out and young enough ends the search.
    while (!m_transmissions.empty())
    {
        const Transmission& oldest = m_transmissions.front();
        if (oldest.serial >= m_front_serial)
        {
            Segment& segment = m_segments[oldest.serial - m_front_serial];
            const bool waits = segment.lost && !segment.retransmitting;
            if (!segment.sacked && !waits && segment.sent_ns == oldest.sent_ns)
            {
                if (SentLaterThanNewestDelivered(segment))
                {
                    break;
                }
                if (segment.sent_ns + wait_ns > now_ns)
                {
                    m_reordering_deadline_ns = segment.sent_ns + wait_ns;
                    break;
                }
                MarkLost(segment, oldest.serial);
            }
        }
        m_transmissions.pop_front();
    }
    return static_cast<uint32_t>(m_lost_total - lost_before);
}

void
Scoreboard::MarkAllLost()
{
    for (std::size_t i = 0; i < m_segments.size(); ++i)
    {
        if (!m_segments[i].sacked)
        {
            MarkLost(m_segments[i], m_front_serial + i);
        }
    }
    m_transmissions.clear();
    m_reordering_deadline_ns = NEVER_NS;
}

RateSample
Scoreboard::TakeRateSample(int64_t now_ns)
{
    if (m_app_limited_until != 0 && m_delivered_pkts > m_app_limited_until)
    {
        m_app_limited_until = 0;
    }
    if (m_acked_any)
    {
        m_delivered_ns = now_ns;
    }
    RateSample sample;
    if (!m_has_newest)
    {
        return sample;
    }
    sample.prior_delivered_pkts = m_newest.delivered_pkts;
    sample.is_app_limited = m_newest.app_limited;
    sample.sample_pkts = static_cast<int64_t>(m_delivered_pkts - m_newest.delivered_pkts);
    const int64_t ack_phase_ns = now_ns - m_newest.delivered_ns;
    const int64_t interval_ns = std::max(m_send_phase_ns, ack_phase_ns);
    // Shorter than any round trip: the ACKs were compressed, the rate would be fiction.
    if (m_min_rtt_ns < 0 || interval_ns >= m_min_rtt_ns)
    {
        sample.interval_ns = interval_ns;
    }
    return sample;
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
Scoreboard::Snapshot(Segment& segment, int64_t now_ns)
{
    if (m_segments.empty())
    {
        m_first_tx_ns = now_ns;
        m_delivered_ns = now_ns;
    }
    segment.sent_ns = now_ns;
    segment.first_tx_ns = m_first_tx_ns;
    segment.delivered_ns = m_delivered_ns;
    segment.delivered_pkts = m_delivered_pkts;
    segment.app_limited = m_app_limited_until != 0;
}

void
Scoreboard::MarkSacked(std::span<const ByteRange> blocks, int64_t now_ns, AckOutcome& outcome)
{
    for (const ByteRange& block : blocks)
    {
        std::size_t i = SkipKnown(FirstAtOrAfter(block.begin));
        while (i < m_segments.size() && m_segments[i].bytes.end <= block.end)
        {
            Segment& segment = m_segments[i];
            if (!segment.sacked)
            {
                if (!segment.ever_retransmitted)
                {
                    m_reordering_seen |= segment.bytes.end < m_highest_sacked_before;
                    const int64_t rtt_ns = now_ns - segment.sent_ns;
                    outcome.oldest_rtt_ns = std::max(outcome.oldest_rtt_ns, rtt_ns);
                    outcome.rtt_ns = outcome.rtt_ns < 0 ? rtt_ns : std::min(outcome.rtt_ns, rtt_ns);
                }
                Delivered(segment, now_ns);
                segment.sacked = true;
                ++m_sacked_out;
                m_highest_sacked = std::max(m_highest_sacked, segment.bytes.end);
            }
            i = SkipKnown(i + 1);
        }
    }
    m_known_blocks.assign(blocks.begin(), blocks.end());
}

void
Scoreboard::RemoveAcknowledged(uint64_t una, int64_t now_ns, AckOutcome& outcome)
{
    const bool sacked_before = m_sacked_out > 0;
    bool retransmitted_data = false;
    int64_t newest_rtt_ns = -1;
    int64_t oldest_rtt_ns = -1;
    uint64_t bytes = 0;

    while (!m_segments.empty() && m_segments.front().bytes.end <= una)
    {
        Segment& segment = m_segments.front();
        retransmitted_data |= segment.ever_retransmitted;
        bytes += segment.bytes.end - segment.bytes.begin;
        if (segment.sacked)
        {
            --m_sacked_out;
        }
        else
        {
            if (!segment.ever_retransmitted)
            {
                m_reordering_seen |= segment.bytes.end < m_highest_sacked_before;
                newest_rtt_ns = now_ns - segment.sent_ns;
                oldest_rtt_ns = std::max(oldest_rtt_ns, newest_rtt_ns);
            }
            Delivered(segment, now_ns);
        }
        m_segments.pop_front();
        ++m_front_serial;
        ++outcome.removed_segments;
    }
    outcome.una_advanced = outcome.removed_segments > 0;
    // An ACK that also covers a retransmission cannot tell which transmission it answers (Karn).
    if (!retransmitted_data && newest_rtt_ns >= 0)
    {
        outcome.oldest_rtt_ns = oldest_rtt_ns;
        outcome.rtt_ns = outcome.rtt_ns < 0 ? newest_rtt_ns : outcome.rtt_ns;
        outcome.is_ack_delayed = outcome.removed_segments == 1 && !sacked_before && bytes < m_mss_bytes;
    }
}

void
Scoreboard::Delivered(Segment& segment, int64_t now_ns)
{
    if (segment.lost)
    {
        --m_lost_out;
        if (!segment.retransmitting)
        {
            --m_lost_waiting;
        }
    }
    if (segment.retransmitting)
    {
        --m_retrans_out;
    }
    segment.lost = false;
    segment.retransmitting = false;
    ++m_delivered_pkts;

    if (!m_has_newest ||
        SentAfter(segment.sent_ns, segment.bytes.end, m_newest.sent_ns, m_newest.bytes.end))
    {
        m_has_newest = true;
        m_newest = segment;
        m_first_tx_ns = segment.sent_ns;
        m_send_phase_ns = segment.sent_ns - segment.first_tx_ns;
    }

    // RFC 8985, 6.2 step 2: faster than any round trip, so it was the original that arrived.
    const int64_t rtt_ns = now_ns - segment.sent_ns;
    const bool answers_original = segment.ever_retransmitted && rtt_ns < m_min_rtt_ns;
    if (!answers_original && SentAfter(segment.sent_ns, segment.bytes.end, m_rack_sent_ns, m_rack_end))
    {
        m_rack_sent_ns = segment.sent_ns;
        m_rack_end = segment.bytes.end;
        m_rack_rtt_ns = rtt_ns;
    }
}

void
Scoreboard::MarkLost(Segment& segment, uint64_t serial)
{
    if (segment.lost && !segment.retransmitting)
    {
        return;
    }
    if (segment.retransmitting)
    {
        segment.retransmitting = false;
        --m_retrans_out;
    }
    else
    {
        ++m_lost_out;
    }
    segment.lost = true;
    ++m_lost_total;
    ++m_lost_waiting;
    m_retransmit_hint = std::min(m_retransmit_hint, serial);
}

std::size_t
Scoreboard::FirstAtOrAfter(uint64_t offset) const
{
    const auto at = std::partition_point(m_segments.begin(), m_segments.end(), [offset](const Segment& s) {
        return s.bytes.begin < offset;
    });
    return static_cast<std::size_t>(at - m_segments.begin());
}

/** Jumps over what the previous ACK's blocks covered: those segments are marked already. */
std::size_t
Scoreboard::SkipKnown(std::size_t index) const
{
    while (index < m_segments.size())
    {
        const uint64_t begin = m_segments[index].bytes.begin;
        const auto known = std::find_if(m_known_blocks.begin(), m_known_blocks.end(), [begin](ByteRange b) {
            return b.begin <= begin && begin < b.end;
        });
        if (known == m_known_blocks.end())
        {
            break;
        }
        const std::size_t after = FirstAtOrAfter(known->end);
        if (after <= index)
        {
            break;
        }
        index = after;
    }
    return index;
}

bool
Scoreboard::SentLaterThanNewestDelivered(const Segment& segment) const
{
    return !SentAfter(m_rack_sent_ns, m_rack_end, segment.sent_ns, segment.bytes.end);
}

/** RFC 8985, 6.2 step 4, as Linux has it (tcp_rack_reo_wnd), without its widening by DSACK. */
int64_t
Scoreboard::ReorderingWindowNs(bool patient, int64_t srtt_ns) const
{
    if (!m_reordering_seen && (!patient || m_sacked_out >= DUPLICATE_THRESHOLD_PKTS))
    {
        return 0;
    }
    return std::min(std::max<int64_t>(m_min_rtt_ns, 0) / 4, srtt_ns);
}

} // namespace bbrgym
