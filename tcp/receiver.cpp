// SPDX-License-Identifier: GPL-2.0-only
#include "receiver.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bbrgym
{

namespace
{

constexpr uint64_t WORD_BITS = 64;
constexpr std::size_t MIN_WORDS = 4;

} // namespace

void
TcpReceiver::Reset(const SocketFacts& facts, uint32_t mss_bytes, double read_bps)
{
    std::vector<uint64_t> beyond = std::move(m_beyond);
    std::ranges::fill(beyond, 0);
    *this = TcpReceiver();
    m_beyond = std::move(beyond);
    m_window.Reset(facts, mss_bytes);
    m_rtt.SetFacts(facts);
    m_echo.Reset(facts);
    m_delayed_ack_pkts = static_cast<uint32_t>(facts.delayed_ack_segments);
    m_delayed_ack_ns = facts.delayed_ack_ms * 1'000'000;
    m_has_d_sack = facts.d_sack;
    m_has_timestamps = facts.timestamps;
    m_has_quick_acks = facts.quick_acks;
    m_read_gap_ns = read_bps > 0 ? std::max<int64_t>(std::llround(mss_bytes * 8e9 / read_bps), 1) : 0;
    m_ato_ns = m_delayed_ack_ns;
    m_is_adaptive = facts.adaptive_delayed_acks;
    m_max_compressed = static_cast<uint32_t>(facts.compressed_acks);
    m_compression_percent = facts.compressed_ack_rtt_percent;
    if (m_has_quick_acks)
    {
        m_quick_acks = QuickAcks();
    }
    else
    {
        m_unanswered_pkts = m_delayed_ack_pkts; // ns-3 answers the first segment at once
    }
}

TcpReceiver::Arrival
TcpReceiver::OnSegment(uint64_t seqno, int64_t now_ns, EcnBits ecn)
{
    Read(now_ns);
    const bool is_duplicate = seqno < m_next || (seqno > m_next && Has(seqno));
    bool reports_now = false;
    if (m_echo.IsOn() && !IsOutOfRange(seqno)) [[unlikely]]
    {
        const EcnEcho::Answer answer = m_echo.OnSegment(seqno, ecn, !is_duplicate);
        reports_now = answer.at_once;
        m_quick_acks = std::max(m_quick_acks, answer.quick_acks);
    }
    if (is_duplicate)
    {
        return OnDuplicate(seqno, now_ns);
    }
    if (seqno > m_next)
    {
        if (m_window.Follows())
        {
            m_quick_acks |= m_window.Grow(HeldPkts()); // the buffer is charged afterwards (tcp_data_queue_ofo)
        }
        Put(seqno);
        const std::size_t blocks_before = m_block_count;
        Report(seqno);
        const bool forgets = blocks_before == m_blocks.size() && m_block_count == m_blocks.size() &&
                             m_blocks[0].end - m_blocks[0].begin == 1;
        return {0, AnswersGap(now_ns) || forgets || reports_now};
    }
    const uint32_t readable_pkts = Advance();
    if (m_is_adaptive)
    {
        Adapt(now_ns);
    }
    if (ReadsSlowly()) [[unlikely]]
    {
        m_quick_acks |= m_window.Grow(HeldPkts());
        ReadSlowly(now_ns);
        m_window.NoteRead(m_read, now_ns);
    }
    else if (m_window.Follows())
    {
        m_quick_acks |= m_window.Grow(m_beyond_pkts + uint64_t{1});
        m_window.NoteRead(m_next, now_ns);
    }
    const bool is_gap = m_beyond_pkts > 0 || readable_pkts > 1;
    if (m_beyond_pkts > 0)
    {
        AnswersGap(now_ns); // counts as one of its gap's
    }
    if (is_gap || reports_now || m_quick_acks > 0 || ++m_unanswered_pkts >= m_delayed_ack_pkts)
    {
        return {readable_pkts, true};
    }
    m_deadline_ns = std::min(m_deadline_ns, now_ns + (m_ato_ns == m_delayed_ack_ns ? m_ato_ns : DelayNs()));
    return {readable_pkts, false};
}

/** The application reads what it had time for; idle, it reads what arrives at once. */
void
TcpReceiver::ReadSlowly(int64_t now_ns)
{
    if (m_read == m_next)
    {
        m_read_ns = std::max(m_read_ns, now_ns);
    }
    else if (m_read_ns <= now_ns)
    {
        const uint64_t had_time_for = static_cast<uint64_t>((now_ns - m_read_ns) / m_read_gap_ns) + 1;
        const uint64_t pkts = std::min(m_next - m_read, had_time_for);
        m_read += pkts;
        m_read_ns += static_cast<int64_t>(pkts) * m_read_gap_ns;
    }
}

/** When so much will have been read that an ACK tells it; NEVER_NS: not before more arrives. */
int64_t
TcpReceiver::WindowUpdateNs() const
{
    const uint64_t unread_pkts = m_next - m_read;
    if (unread_pkts == 0 || !m_window.Opens(m_next, m_beyond_pkts))
    {
        return NEVER_NS;
    }
    uint64_t too_few = 0;
    uint64_t enough = unread_pkts;
    while (enough - too_few > 1)
    {
        const uint64_t reads = (too_few + enough) / 2;
        (m_window.Opens(m_next, HeldPkts() - reads) ? enough : too_few) = reads;
    }
    return m_read_ns + static_cast<int64_t>(enough - 1) * m_read_gap_ns;
}

bool
TcpReceiver::RefusesOld(uint64_t seqno, int64_t sent_ms, int64_t now_ns)
{
    if (m_recent_ms - sent_ms > PAWS_WINDOW_MS)
    {
        if (seqno < m_next)
        {
            OnDuplicate(seqno, now_ns);
        }
        return true;
    }
    if (seqno <= m_acked_until && sent_ms >= m_recent_ms)
    {
        m_recent_ms = sent_ms;
    }
    return false;
}

/** Old data is answered at once; of data beyond a gap a report takes in its neighbours' (tcp_dsack_extend). */
TcpReceiver::Arrival
TcpReceiver::OnDuplicate(uint64_t seqno, int64_t now_ns)
{
    const bool is_old = seqno < m_next;
    if (m_has_quick_acks && is_old)
    {
        m_quick_acks = std::max(m_quick_acks, QuickAcks());
        m_ato_ns = m_delayed_ack_ns;
    }
    m_hides_echo = IsOutOfRange(seqno);
    if (m_has_d_sack)
    {
        const bool is_set = m_duplicate.begin < m_duplicate.end;
        if (is_old || !is_set)
        {
            m_duplicate = {seqno, seqno + 1};
        }
        else if (seqno <= m_duplicate.end && m_duplicate.begin <= seqno + 1)
        {
            m_duplicate = {std::min(seqno, m_duplicate.begin), std::max(seqno + 1, m_duplicate.end)};
        }
        if (!is_old)
        {
            Report(seqno); // RFC 2883, section 4: the block it lies in follows
        }
    }
    return {0, is_old || AnswersGap(now_ns)};
}

std::size_t
TcpReceiver::Acknowledge(std::span<SeqnoRange, MAX_SACK_BLOCKS> blocks)
{
    const std::size_t room = m_has_timestamps ? TIMESTAMPED_BLOCKS : blocks.size();
    std::size_t count = 0;
    if (m_duplicate.begin < m_duplicate.end)
    {
        blocks[count++] = m_duplicate;
    }
    for (std::size_t i = 0; i < m_block_count && count < room; ++i)
    {
        blocks[count++] = m_blocks[i];
    }
    m_duplicate = {};
    m_unanswered_pkts = 0;
    m_acked_until = m_next;
    m_quick_acks -= m_quick_acks > 0;
    m_deadline_ns = NEVER_NS;
    m_compressed = 0;
    m_compressed_until_ns = NEVER_NS;
    return count;
}

/** Linux's tcp_incr_quickack. */
uint32_t
TcpReceiver::QuickAcks() const
{
    const uint64_t window_pkts = m_window.ThresholdPkts();
    return window_pkts == 0 ? QUICK_ACKS : static_cast<uint32_t>(std::clamp<uint64_t>(window_pkts / 2, 2, QUICK_ACKS));
}

/** A segment arrived in order: the delay of ACKs follows the time since the one before (tcp_event_data_recv). */
void
TcpReceiver::Adapt(int64_t now_ns)
{
    const int64_t since_ns = now_ns - m_arrived_ns;
    const bool is_first = m_arrived_ns < 0;
    m_arrived_ns = now_ns;
    if (is_first || (since_ns <= m_delayed_ack_ns / 2 && m_ato_ns == m_delayed_ack_ns)) [[likely]]
    {
        return;
    }
    const int64_t rto_ns = m_rtt.TimeoutNs();
    if (since_ns <= m_delayed_ack_ns / 2)
    {
        m_ato_ns = m_ato_ns / 2 + m_delayed_ack_ns / 2;
    }
    else if (since_ns < m_ato_ns)
    {
        m_ato_ns = std::min(m_ato_ns / 2 + since_ns, rto_ns);
    }
    else if (since_ns > rto_ns && m_has_quick_acks)
    {
        m_quick_acks = std::max(m_quick_acks, QuickAcks());
    }
}

/** Linux's tcp_delack_timer_handler: an ACK that no second segment came for makes the next ones wait longer. */
void
TcpReceiver::OnTimer(int64_t now_ns)
{
    if (m_is_adaptive && m_deadline_ns <= now_ns)
    {
        m_ato_ns = std::min(2 * m_ato_ns, m_rtt.TimeoutNs());
    }
}

/** Linux's tcp_send_delayed_ack: not longer than a round trip, if one is known, or half a second. */
int64_t
TcpReceiver::DelayNs() const
{
    if (m_ato_ns <= m_delayed_ack_ns)
    {
        return m_ato_ns;
    }
    const int64_t limit_ns =
        m_rtt.HasSample() ? std::min(std::max(m_rtt.SmoothedNs(), m_delayed_ack_ns), MAX_DELAY_NS) : MAX_DELAY_NS;
    return std::min(m_ato_ns, limit_ns);
}

/** There is a gap: whether its ACK leaves now, or one for several of them later (__tcp_ack_snd_check). */
bool
TcpReceiver::AnswersGap(int64_t now_ns)
{
    if (m_max_compressed == 0 || m_quick_acks > 0 || m_compressed >= m_max_compressed)
    {
        return true;
    }
    if (m_gap != m_next)
    {
        m_gap = m_next;
        m_gap_acks = 0;
    }
    if (m_gap_acks < GAP_ACKS)
    {
        ++m_gap_acks;
        return true;
    }
    ++m_compressed;
    if (m_compressed_until_ns == NEVER_NS)
    {
        const int64_t rtt_ns = m_window.RttNs();
        const int64_t least_ns = m_rtt.HasSample() ? std::min(rtt_ns, m_rtt.SmoothedNs()) : rtt_ns;
        m_compressed_until_ns =
            now_ns + std::min(least_ns * m_compression_percent / 100, COMPRESSION_NS) + COMPRESSION_SLACK_NS;
    }
    return false;
}

bool
TcpReceiver::Has(uint64_t seqno) const
{
    const uint64_t bits = m_beyond.size() * WORD_BITS;
    return m_beyond_pkts > 0 && seqno - m_next < bits &&
           (m_beyond[(seqno & (bits - 1)) / WORD_BITS] >> (seqno % WORD_BITS) & 1) != 0;
}

void
TcpReceiver::Put(uint64_t seqno)
{
    if (seqno - m_next >= m_beyond.size() * WORD_BITS)
    {
        Grow(seqno);
    }
    m_beyond[(seqno & (m_beyond.size() * WORD_BITS - 1)) / WORD_BITS] |= uint64_t{1} << (seqno % WORD_BITS);
    ++m_beyond_pkts;
}

/** Extends the window of bits to `seqno`. */
void
TcpReceiver::Grow(uint64_t seqno)
{
    const std::vector<uint64_t> old = std::move(m_beyond);
    const uint64_t old_words = old.size();
    m_beyond.assign(std::max<std::size_t>(std::bit_ceil((seqno - m_next) / WORD_BITS + 2), MIN_WORDS), 0);
    // A word of the old window holds seqnos of one stretch only, but for the one that m_next lies in, which may
    // hold the window's end as well; so the bits move one by one.
    for (uint64_t s = m_next; s < m_next + old_words * WORD_BITS; ++s)
    {
        const uint64_t bit = old[s / WORD_BITS & (old_words - 1)] >> (s % WORD_BITS) & 1;
        m_beyond[s / WORD_BITS & (m_beyond.size() - 1)] |= bit << (s % WORD_BITS);
    }
}

/** RFC 2018, section 4: first the block with the newest segment, then those reported before. */
void
TcpReceiver::Report(uint64_t seqno)
{
    SeqnoRange newest{seqno, seqno + 1};
    std::size_t kept = m_block_count;
    for (std::size_t i = 0; i < kept;)
    {
        const SeqnoRange block = m_blocks[i];
        if (block.end < newest.begin || newest.end < block.begin)
        {
            ++i;
            continue;
        }
        newest = {std::min(block.begin, newest.begin), std::max(block.end, newest.end)};
        std::copy(m_blocks.begin() + i + 1, m_blocks.begin() + kept, m_blocks.begin() + i);
        --kept;
        i = 0; // the larger block may touch an earlier one
    }
    kept = std::min(kept, m_blocks.size() - 1);
    std::copy_backward(m_blocks.begin(), m_blocks.begin() + kept, m_blocks.begin() + kept + 1);
    m_blocks[0] = newest;
    m_block_count = kept + 1;
}

/** m_next has arrived: delivers it and the segments that follow it without a gap; returns their number. */
uint32_t
TcpReceiver::Advance()
{
    const uint64_t before = m_next++;
    while (m_beyond_pkts > 0 && Has(m_next))
    {
        m_beyond[(m_next & (m_beyond.size() * WORD_BITS - 1)) / WORD_BITS] &= ~(uint64_t{1} << (m_next % WORD_BITS));
        --m_beyond_pkts;
        ++m_next;
    }
    if (m_block_count > 0)
    {
        const auto known = std::remove_if(m_blocks.begin(), m_blocks.begin() + m_block_count,
                                          [this](const SeqnoRange& block) { return block.end <= m_next; });
        m_block_count = static_cast<std::size_t>(known - m_blocks.begin());
    }
    return static_cast<uint32_t>(m_next - before);
}

} // namespace bbrgym
