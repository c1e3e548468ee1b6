// SPDX-License-Identifier: GPL-2.0-only
//
// Bursts and their pacing. Linux hands data to segmentation offload (TSO, GSO) in bursts: their segments leave back to
// back, and pacing waits after the last of them.
//
//   size   the data of 1/1024 s at the pacing rate, more on a short path (tcp_tso_autosize), at most its sk_buff
//   gap    the burst's bytes at the pacing rate, less the time by which it left late, half of the gap at most
//          (tcp_update_skb_after_send)
#ifndef BBRGYM_TCP_BURST_PACING_HPP
#define BBRGYM_TCP_BURST_PACING_HPP

#include "scoreboard.hpp"
#include "stack.hpp"

extern "C"
{
#include "cc.h"
}

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace bbrgym
{

class BurstPacing
{
  public:
    static constexpr uint32_t FRAME_HEADER_BYTES = 54;    ///< Ethernet, IPv4 and TCP without options
    static constexpr int MS_SHIFT = 10;                   ///< sk_pacing_shift: a burst is 1/1024 s of data
    static constexpr uint64_t LONE_SEGMENT_Bps = 150'000; ///< bbr_min_tso_rate: 1.2 Mbit/s
    static constexpr int64_t RTT_LOG_US = 9;              ///< tcp_tso_rtt_log
    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();

    /** `may_send_singles`: the controller's bursts follow bbr_min_tso_segs instead of tcp_min_tso_segs. */
    void Start(const SocketFacts& facts, uint32_t mss_bytes, bool may_send_singles)
    {
        m_is_paced = facts.pacing != pacing_choice::none;
        m_paces_all = facts.pacing == pacing_choice::fq;
        m_has_credit = facts.pacing_credit;
        m_is_sized_by_rtt = facts.tso_by_rtt;
        Suit(facts, may_send_singles);
        m_max_pkts = static_cast<uint32_t>(facts.gso_max_segs);
        m_skb_pkts = facts.bursts_end_with_skb ? std::clamp(CC_GSO_MAX_BYTES / mss_bytes, 1U, m_max_pkts) : 0;
        m_header_bytes = m_paces_all ? FRAME_HEADER_BYTES : 0;
        m_unpaced_pkts = static_cast<uint32_t>(facts.unpaced_segments);
        m_mss_bytes = mss_bytes;
    }

    void Suit(const SocketFacts& facts, bool may_send_singles)
    {
        m_may_be_one = may_send_singles;
        m_min_pkts = may_send_singles ? 2 : static_cast<uint32_t>(facts.min_tso_segs);
    }

    bool IsPaced() const { return m_is_paced; }
    /** fq paces every controller, TCP itself those that ask for it, and from then on all of the connection. */
    bool PacesAll() const { return m_paces_all; }
    void PaceAll() { m_paces_all = true; }

    // ---- the size ---------------------------------------------------------------------------------------

    bool IsOfSingles() const { return m_max_pkts == 1; }

    /** Segments of a burst; `min_rtt_ns`: -1: not known. */
    uint32_t SizePkts(uint64_t pacing_Bps, int64_t min_rtt_ns) const
    {
        uint64_t bytes = pacing_Bps >> MS_SHIFT;
        if (m_is_sized_by_rtt && min_rtt_ns >= 0)
        {
            bytes += uint64_t{CC_GSO_MAX_BYTES} >> std::min<int64_t>(min_rtt_ns / 1000 >> RTT_LOG_US, 63);
        }
        const bool is_one = m_may_be_one && pacing_Bps < LONE_SEGMENT_Bps && bytes < 2 * uint64_t{m_mss_bytes};
        uint64_t pkts = is_one ? 1 : m_min_pkts;
        if (bytes >= 3 * uint64_t{m_mss_bytes}) // a division less where rates are low
        {
            pkts = std::max<uint64_t>(std::min<uint64_t>(bytes, CC_GSO_MAX_BYTES) / m_mss_bytes, pkts);
        }
        return static_cast<uint32_t>(std::min<uint64_t>(pkts, m_max_pkts));
    }

    /** Segments from the new segment `next` on in its sk_buff; all ones: bursts take no notice of it. */
    uint32_t LeftInSkbPkts(uint64_t next) const
    {
        return m_skb_pkts == 0 ? std::numeric_limits<uint32_t>::max()
                               : m_skb_pkts - static_cast<uint32_t>(next % m_skb_pkts);
    }

    // ---- the burst that leaves now ----------------------------------------------------------------------

    void BeginNew(uint32_t pkts)
    {
        m_retransmit = NONE;
        m_left_pkts = pkts;
    }
    /** `pkts` segments from `segment` on are retransmitted. */
    void BeginRetransmit(uint64_t segment, uint32_t pkts)
    {
        m_retransmit = segment;
        m_left_pkts = pkts;
    }
    /** The burst is a segment past pacing, which extends no gap that runs. */
    void PassPacing() { m_passes = true; }

    bool IsInBurst() const { return m_left_pkts > 0; }
    uint32_t LeftPkts() const { return m_left_pkts; }
    bool HasBegun() const { return m_sent_pkts > 0; }
    /** Number of the burst that leaves now or next, since the start, modulo 2^16: it is an sk_buff of the network. */
    uint16_t Number() const { return m_number; }
    /** The segment to retransmit next; NONE: the burst is of new ones. */
    uint64_t NextRetransmit() const { return m_retransmit == NONE ? NONE : m_retransmit + m_sent_pkts; }

    /** Segments of the burst leave, or a probe outside of bursts. True: the burst ends, call End. */
    bool OnSent(uint32_t payload_bytes, uint32_t pkts = 1)
    {
        m_sent_bytes += pkts * uint64_t{payload_bytes};
        m_sent_pkts += pkts;
        if (m_left_pkts <= pkts) // 0: a probe
        {
            return true;
        }
        m_left_pkts -= pkts;
        return false;
    }

    /**
     * Sets when the next burst may leave, where a rate is given; all ones: none. Pacing counts payload, before
     * Linux 4.20 headers too, `overhead_bytes` of a packet, and fq then Ethernet frames. `sent_pkts`: since the start.
     */
    void End(uint64_t pacing_Bps, uint32_t overhead_bytes, uint64_t sent_pkts, int64_t now_ns)
    {
        if (std::exchange(m_passes, false) && now_ns < m_next_send_ns)
        {
            Clear();
            return; // the gap that runs already is not extended
        }
        const int64_t late_ns = std::max<int64_t>(now_ns - m_next_send_ns, 0);
        m_next_send_ns = std::max(m_next_send_ns, now_ns);
        if (m_is_paced && pacing_Bps != UINT64_MAX && sent_pkts >= m_unpaced_pkts)
        {
            const uint64_t bytes = m_sent_bytes + m_sent_pkts * uint64_t{std::max(m_header_bytes, overhead_bytes)};
            auto gap_ns = static_cast<int64_t>(bytes * 1'000'000'000 / pacing_Bps);
            if (late_ns > 0 && m_has_credit)
            {
                gap_ns -= std::min(gap_ns / 2, late_ns);
            }
            m_next_send_ns += gap_ns;
        }
        Clear();
    }

    // ---- the gap ----------------------------------------------------------------------------------------

    /** When pacing allows the next burst, or when the last one left (tcp_wstamp_ns). */
    int64_t NextSendNs() const { return m_next_send_ns; }
    bool HoldsBack(int64_t now_ns) const { return now_ns < m_next_send_ns; }
    int64_t WaitNs(int64_t now_ns) const { return std::max<int64_t>(m_next_send_ns - now_ns, 0); }
    /** The next segment leaves regardless of pacing. */
    void Restart(int64_t now_ns) { m_next_send_ns = now_ns; }

    /** When the sender is to ask again for what pacing holds back; NEVER_NS: it holds nothing back. */
    int64_t DeadlineNs() const { return m_deadline_ns; }
    void Await() { m_deadline_ns = m_next_send_ns; }
    void AwaitNothing() { m_deadline_ns = NEVER_NS; }

  private:
    /** No burst leaves. */
    void Clear()
    {
        ++m_number;
        m_left_pkts = 0;
        m_sent_pkts = 0;
        m_sent_bytes = 0;
    }

    bool m_is_paced = true;
    bool m_paces_all = false;
    bool m_has_credit = false;
    bool m_is_sized_by_rtt = false;
    bool m_may_be_one = true; ///< a burst at a low rate
    bool m_passes = false;
    uint16_t m_number = 0;
    uint32_t m_left_pkts = 0;     ///< of the burst
    uint32_t m_sent_pkts = 0;     ///< of it
    uint64_t m_sent_bytes = 0;    ///< payload of these
    uint64_t m_retransmit = NONE; ///< its first segment, if it is retransmitted
    uint32_t m_header_bytes = 0;  ///< of a packet, counted by pacing
    uint32_t m_unpaced_pkts = 0;  ///< the first ones leave without gaps
    uint32_t m_max_pkts = 1;
    uint32_t m_skb_pkts = 0; ///< full segments of an sk_buff of the write queue; 0: bursts take no notice of it
    uint32_t m_mss_bytes = 1;
    uint32_t m_min_pkts = 2;
    int64_t m_next_send_ns = 0;
    int64_t m_deadline_ns = NEVER_NS;
};

} // namespace bbrgym

#endif
