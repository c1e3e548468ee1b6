// SPDX-License-Identifier: GPL-2.0-only
//
// Transmissions in the order of time, oldest first, as RACK looks at them (Linux: tsorted_sent_queue). One is stale
// once its segment was retransmitted, delivered or lost.
#ifndef BBRGYM_TCP_TRANSMISSION_ORDER_HPP
#define BBRGYM_TCP_TRANSMISSION_ORDER_HPP

#include "segment.hpp"

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

class TransmissionOrder
{
  public:
    bool Empty(const SegmentsOut& out) const { return m_stored.empty() && m_originals_from >= out.Next(); }

    Transmission Oldest(const SegmentsOut& out) const
    {
        return m_stored.empty() ? Original(m_originals_from, out) : m_stored.front();
    }

    /** Whether the transmission is its segment's latest one, and neither delivered nor found lost. */
    static bool IsOut(const Transmission& transmission, const SegmentsOut& out)
    {
        if (transmission.seqno < out.una)
        {
            return false;
        }
        const Segment& segment = out.At(transmission.seqno);
        const bool waits = segment.lost && !segment.retransmitting;
        return !segment.sacked && !waits && segment.sent_ns == transmission.sent_ns;
    }

    /** False: none was overtaken by the newest one delivered. Stored ones may be stale, so they have to be examined. */
    bool MayBeOvertaken(const Transmission& newest, const SegmentsOut& out) const
    {
        if (!m_stored.empty() || m_originals_from == out.Next())
        {
            return !m_stored.empty();
        }
        return newest.IsAfter(Original(m_originals_from, out));
    }

    /** Returns when the last transmission left that the newest one delivered has overtaken. */
    int64_t LatestOvertakenNs(const Transmission& newest, const SegmentsOut& out) const
    {
        int64_t latest_ns = Oldest(out).sent_ns;
        const auto is_overtaken = [&](const Transmission& transmission) {
            const bool is = newest.IsAfter(transmission);
            latest_ns = is && IsOut(transmission, out) ? transmission.sent_ns : latest_ns;
            return is;
        };
        for (std::size_t i = 0; i < m_stored.size(); ++i)
        {
            if (!is_overtaken(m_stored[i]))
            {
                return latest_ns;
            }
        }
        for (uint64_t seqno = m_originals_from; seqno < out.Next() && is_overtaken(Original(seqno, out)); ++seqno)
        {
        }
        return latest_ns;
    }

    /** Adds a transmission after all others. */
    void Put(const Transmission& transmission) { m_stored.push_back(transmission); }

    /** Call before a segment is retransmitted: stores the times at which all of them left first. */
    void PutOriginals(const SegmentsOut& out)
    {
        for (; m_originals_from < out.Next(); ++m_originals_from)
        {
            Put(Original(m_originals_from, out));
        }
    }

    void ForgetOldest() { m_stored.empty() ? static_cast<void>(++m_originals_from) : m_stored.pop_front(); }

    void ForgetAll(const SegmentsOut& out)
    {
        m_stored.clear();
        m_originals_from = out.Next();
    }

    void OnAcknowledged(uint64_t una) { m_originals_from = std::max(m_originals_from, una); }

    /** Call if they were put in another order since ForgetAll, and none was forgotten. */
    void Sort()
    {
        std::ranges::sort(m_stored.in_one_piece(),
                          [](const Transmission& a, const Transmission& b) { return b.IsAfter(a); });
    }

    void TakeMemory(TransmissionOrder& other) { m_stored.TakeMemory(other.m_stored); }

  private:
    static Transmission Original(uint64_t seqno, const SegmentsOut& out) { return {seqno, out.At(seqno).sent_ns}; }

    Ring<Transmission> m_stored;   ///< first these, then
    uint64_t m_originals_from = 0; ///< the only ones of the segments from it on, which are not stored a second time
};

} // namespace bbrgym

#endif
