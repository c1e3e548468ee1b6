// SPDX-License-Identifier: GPL-2.0-only
#include "flow_tap.hpp"

#include <algorithm>
#include <iterator>

namespace bbrgym
{

/** The 64-bit number that is nearest to another one, of a sequence number. */
uint64_t
FlowTap::Unwrapped(uint32_t sequence, uint64_t near) const
{
    const auto distance = static_cast<int32_t>(sequence - m_first.value_or(sequence) - static_cast<uint32_t>(near));
    return near + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

std::deque<FlowTap::Segment>::iterator
FlowTap::FirstFrom(uint64_t begin)
{
    return std::ranges::lower_bound(m_out, begin, {}, &Segment::begin);
}

bool
FlowTap::Sent(const WirePacket& packet, int64_t now_ns)
{
    if (!m_first)
    {
        m_first = packet.Sequence(); // nothing is sent before the first byte
    }
    const uint64_t begin = Unwrapped(packet.Sequence(), m_sent_end);
    const uint64_t end = begin + packet.PayloadBytes();
    if (begin >= m_sent_end)
    {
        m_out.push_back({begin, end, now_ns, false, false});
        m_sent_end = end;
        return false;
    }
    for (auto segment = FirstFrom(begin); segment != m_out.end() && segment->begin < end; ++segment)
    {
        segment->is_retransmitted = true;
    }
    m_sent_end = std::max(m_sent_end, end);
    return true;
}

uint64_t
FlowTap::Arrived(const WirePacket& packet)
{
    uint64_t begin = Unwrapped(packet.Sequence(), m_expected);
    uint64_t end = begin + packet.PayloadBytes();
    if (static_cast<int64_t>(end - m_expected) <= 0)
    {
        return 0;
    }
    if (static_cast<int64_t>(begin - m_expected) > 0)
    {
        auto next = m_behind_gap.lower_bound(begin);
        if (next != m_behind_gap.begin() && std::prev(next)->second >= begin)
        {
            begin = std::prev(next)->first;
            next = std::prev(next);
        }
        while (next != m_behind_gap.end() && next->first <= end)
        {
            end = std::max(end, next->second);
            next = m_behind_gap.erase(next);
        }
        m_behind_gap[begin] = end;
        return 0;
    }
    const uint64_t before = m_expected;
    m_expected = end;
    while (!m_behind_gap.empty() && m_behind_gap.begin()->first <= m_expected)
    {
        m_expected = std::max(m_expected, m_behind_gap.begin()->second);
        m_behind_gap.erase(m_behind_gap.begin());
    }
    return m_expected - before;
}

/** Linux takes the sample from the blocks if there is one, else from the cumulative number. */
std::optional<int64_t>
FlowTap::Acknowledged(const WirePacket& packet, int64_t now_ns)
{
    if (!m_first || !packet.IsAck())
    {
        return std::nullopt;
    }
    const uint64_t una = Unwrapped(packet.Acknowledged(), m_sent_end);
    std::optional<int64_t> sample = TakeCumulative(una, now_ns);
    std::array<SequenceRange, WirePacket::MAX_SACK_BLOCKS> blocks;
    const std::size_t count = packet.SackBlocks(blocks);
    std::optional<int64_t> newest;
    for (std::size_t i = 0; i < count; ++i)
    {
        const uint64_t begin = Unwrapped(blocks[i].begin, m_sent_end);
        const uint64_t end = Unwrapped(blocks[i].end, m_sent_end);
        if (begin < una || end <= begin)
        {
            continue; // a duplicate that is reported (RFC 2883)
        }
        if (const auto one = TakeSacked(begin, end, now_ns))
        {
            newest = std::min(newest.value_or(*one), *one);
        }
    }
    return newest ? newest : sample;
}

/** Of the newest segment; none if one of them was sent again (Karn). */
std::optional<int64_t>
FlowTap::TakeCumulative(uint64_t una, int64_t now_ns)
{
    std::optional<int64_t> sample;
    bool is_ambiguous = false;
    while (!m_out.empty() && static_cast<int64_t>(una - m_out.front().end) >= 0)
    {
        const Segment& segment = m_out.front();
        is_ambiguous |= segment.is_retransmitted && !segment.is_sacked;
        if (!segment.is_retransmitted && !segment.is_sacked)
        {
            sample = now_ns - segment.sent_ns;
        }
        m_out.pop_front();
    }
    return is_ambiguous ? std::nullopt : sample;
}

/** Of the newest segment in the block that was sent once and is reported for the first time. */
std::optional<int64_t>
FlowTap::TakeSacked(uint64_t begin, uint64_t end, int64_t now_ns)
{
    std::optional<int64_t> sample;
    for (auto segment = FirstFrom(begin); segment != m_out.end() && segment->end <= end; ++segment)
    {
        if (!segment->is_sacked && !segment->is_retransmitted)
        {
            sample = now_ns - segment->sent_ns;
        }
        segment->is_sacked = true;
    }
    return sample;
}

} // namespace bbrgym
