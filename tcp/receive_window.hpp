// SPDX-License-Identifier: GPL-2.0-only
//
// The receive window as Linux announces it (__tcp_select_window). Where the application reads at once only data behind
// a gap stays in the buffer.
//
//   free   = (receive buffer - truesize of the data held) x share of payload
//   window = free, up to the clamp; its right edge never moves back
//
// The share is a half (tcp_adv_win_scale 1), from Linux 6.6 on payload over truesize of the segments received
// (scaling_ratio). An automatic buffer follows what the application reads in a round trip (dynamic right-sizing,
// tcp_rcv_space_adjust), with the round trip measured without timestamps: the time in which a window arrives.
//
// The window starts small and grows by two segments for each that arrives, in order or behind a gap (rcv_ssthresh); a
// segment by which it grows is acknowledged at once. That is so for an ample buffer too, which grows as an automatic
// one but never limits.
//
// Not modelled: memory pressure, and that a buffer overfull with small segments is pruned.
#ifndef BBRGYM_TCP_RECEIVE_WINDOW_HPP
#define BBRGYM_TCP_RECEIVE_WINDOW_HPP

#include "memory.hpp"
#include "stack.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bbrgym
{

class ReceiveWindow
{
  public:
    void Reset(const SocketFacts& facts, uint32_t mss_bytes)
    {
        *this = ReceiveWindow();
        m_size = facts.receive_buffer_bytes;
        m_grows = facts.window_growth_acks;
        m_follows = m_size != SIZE_ample || m_grows || facts.compressed_acks > 0;
        if (!m_follows)
        {
            return;
        }
        const bool by_ratio = facts.window_share == window_share_choice::scaling_ratio;
        m_mss_bytes = mss_bytes;
        m_truesize_bytes = ReceivedTruesize(mss_bytes);
        m_share_q8 = by_ratio ? (uint64_t{mss_bytes} << 8) / m_truesize_bytes : 128;
        m_buffer_bytes =
            m_size > 0 ? SetSockOptBytes(m_size) : static_cast<uint64_t>(facts.initial_receive_buffer_bytes);
        m_clamp_bytes = Payload(m_buffer_bytes);
        m_scale = ScaleOf(ScaledBytes());
        m_read_bytes_last = INITIAL_WINDOW_PKTS * mss_bytes;
        const uint64_t first_bytes =
            std::min<uint64_t>(static_cast<uint64_t>(facts.initial_window_segments) * mss_bytes, MAX_UNSCALED_BYTES);
        m_threshold_bytes = m_grows ? std::min(first_bytes / mss_bytes * mss_bytes, m_clamp_bytes)
                                    : std::numeric_limits<uint64_t>::max();
        SetCeiling();
        Announce(0, 0);
    }

    bool IsAmple() const { return m_size == SIZE_ample; }
    /** The largest that the buffer can become. */
    uint64_t MaxBufferBytes() const { return m_size > 0 ? m_buffer_bytes : RMEM_MAX_BYTES; }
    /** What the window scale of the handshake provides for, in which a half counts as payload
     * (tcp_select_initial_window). */
    uint64_t ScaledBytes() const { return m_size > 0 ? m_buffer_bytes / 2 : RMEM_MAX_BYTES; }
    uint64_t BufferBytes() const { return m_buffer_bytes; }

    /** An ACK of everything below segment `next` leaves, with `beyond_pkts` behind gaps. Returns the first segment
     * outside the window. */
    uint64_t Announce(uint64_t next, uint64_t held_pkts)
    {
        const uint64_t next_bytes = next * m_mss_bytes;
        const uint64_t left_bytes = m_edge_bytes > next_bytes ? m_edge_bytes - next_bytes : 0;
        m_edge_bytes = next_bytes + Scaled(std::max(left_bytes, WindowBytes(held_pkts)));
        return m_edge_bytes / m_mss_bytes;
    }

    /** The window's size in bytes at the last ACK, of everything below `next`. */
    uint64_t AnnouncedBytes(uint64_t next) const { return m_edge_bytes - next * m_mss_bytes; }

    /** Whether what is read is told by an ACK: the window would be twice as large (tcp_cleanup_rbuf), or a segment fits
     * again. */
    bool Opens(uint64_t next, uint64_t held_pkts) const
    {
        const uint64_t now_bytes = AnnouncedBytes(next);
        const uint64_t window_bytes = WindowBytes(held_pkts);
        const bool fits_again = now_bytes < m_mss_bytes && window_bytes >= m_mss_bytes;
        return fits_again || (2 * now_bytes <= m_clamp_bytes && window_bytes >= std::max<uint64_t>(2 * now_bytes, 1));
    }

    /** Whether arrivals have to be told, by Grow and NoteRead. */
    bool Follows() const { return m_follows; }

    /** Segments that the window holds; 0: it is not known. */
    uint64_t ThresholdPkts() const { return m_grows ? m_threshold_bytes / m_mss_bytes : 0; }

    /** A segment arrived; `held_pkts` count against the buffer by now. Returns whether the window grows
     * (tcp_grow_window). */
    bool Grow(uint64_t held_pkts)
    {
        uint64_t ceiling_bytes = m_ceiling_bytes;
        if (held_pkts != 1)
        {
            const uint64_t held_bytes = held_pkts * m_truesize_bytes;
            ceiling_bytes =
                held_bytes < m_buffer_bytes ? std::min(m_clamp_bytes, Payload(m_buffer_bytes - held_bytes)) : 0;
        }
        if (m_threshold_bytes >= ceiling_bytes)
        {
            return false;
        }
        m_threshold_bytes = std::min(m_threshold_bytes + 2 * uint64_t{m_mss_bytes}, ceiling_bytes);
        return true;
    }

    /** Shortest time in which a window arrived; 0: none did yet. */
    int64_t RttNs() const { return m_rtt_ns; }

    /** The application has read everything below segment `next`. */
    void NoteRead(uint64_t next, int64_t now_ns)
    {
        const uint64_t read_bytes = next * m_mss_bytes;
        MeasureRtt(read_bytes, now_ns);
        if (m_size > 0 || m_rtt_ns == 0 || now_ns - m_period_start_ns < m_rtt_ns)
        {
            return;
        }
        const uint64_t copied_bytes = read_bytes - m_period_read_bytes;
        if (copied_bytes > m_read_bytes_last)
        {
            Enlarge(copied_bytes);
            m_read_bytes_last = copied_bytes;
        }
        m_period_read_bytes = read_bytes;
        m_period_start_ns = now_ns;
    }

  private:
    static constexpr uint64_t INITIAL_WINDOW_PKTS = 10;
    static constexpr uint32_t MAX_SCALE = 14;
    static constexpr uint64_t MAX_UNSCALED_BYTES = 65'535;

    static uint32_t ScaleOf(uint64_t bytes)
    {
        uint32_t scale = 0;
        while (bytes > MAX_UNSCALED_BYTES && scale < MAX_SCALE)
        {
            bytes >>= 1;
            ++scale;
        }
        return scale;
    }

    uint64_t Payload(uint64_t memory_bytes) const { return memory_bytes * m_share_q8 >> 8; }

    uint64_t WindowBytes(uint64_t held_pkts) const
    {
        const uint64_t held_bytes = held_pkts * m_truesize_bytes;
        const uint64_t free_bytes = held_bytes < m_buffer_bytes ? Payload(m_buffer_bytes - held_bytes) : 0;
        const uint64_t all_bytes = Payload(m_buffer_bytes);
        if (held_pkts > 0 && free_bytes < std::min(m_clamp_bytes, all_bytes) / 2 &&
            (free_bytes < all_bytes / 16 || free_bytes < m_mss_bytes))
        {
            return 0;
        }
        return std::max<uint64_t>(std::min({free_bytes, m_clamp_bytes, m_threshold_bytes}), m_mss_bytes);
    }

    /** Rounded up to what the header can say, and no more than it can. */
    uint64_t Scaled(uint64_t bytes) const
    {
        const uint64_t units = (bytes + (uint64_t{1} << m_scale) - 1) >> m_scale;
        return std::min(units, MAX_UNSCALED_BYTES) << m_scale;
    }

    void MeasureRtt(uint64_t read_bytes, int64_t now_ns)
    {
        if (read_bytes < m_rtt_mark_bytes)
        {
            return;
        }
        if (m_rtt_mark_bytes > 0)
        {
            const int64_t sample_ns = std::max<int64_t>(now_ns - m_rtt_mark_ns, 1);
            m_rtt_ns = m_rtt_ns == 0 ? sample_ns : std::min(m_rtt_ns, sample_ns);
        }
        const uint64_t edge_bytes =
            m_size == SIZE_ample ? read_bytes + std::min(m_threshold_bytes, m_clamp_bytes) : m_edge_bytes;
        m_rtt_mark_bytes = std::max(edge_bytes, read_bytes + 1);
        m_rtt_mark_ns = now_ns;
    }

    void Enlarge(uint64_t copied_bytes)
    {
        uint64_t window_bytes = 2 * copied_bytes + 16 * m_mss_bytes;
        window_bytes += 2 * (window_bytes * (copied_bytes - m_read_bytes_last) / m_read_bytes_last);
        const uint64_t buffer_bytes = std::min((window_bytes << 8) / m_share_q8, RMEM_MAX_BYTES);
        if (buffer_bytes > m_buffer_bytes)
        {
            m_buffer_bytes = buffer_bytes;
            m_clamp_bytes = window_bytes;
            SetCeiling();
        }
    }

    /** The window grows while it is below the buffer, less the segment that has just arrived. */
    void SetCeiling()
    {
        const uint64_t free_bytes = m_buffer_bytes > m_truesize_bytes ? Payload(m_buffer_bytes - m_truesize_bytes) : 0;
        m_ceiling_bytes = std::min(m_clamp_bytes, free_bytes);
    }

    int64_t m_size = SIZE_ample;
    bool m_grows = false;
    bool m_follows = false;
    uint64_t m_threshold_bytes = 0; ///< rcv_ssthresh
    uint64_t m_ceiling_bytes = 0;   ///< that it grows to
    uint32_t m_mss_bytes = 1;
    uint32_t m_scale = 0;
    uint64_t m_truesize_bytes = 0;
    uint64_t m_share_q8 = 128;
    uint64_t m_buffer_bytes = 0;
    uint64_t m_clamp_bytes = 0;
    uint64_t m_edge_bytes = 0; ///< right edge of the window, from the first byte of the stream

    int64_t m_rtt_ns = 0; ///< 0: not measured yet
    uint64_t m_rtt_mark_bytes = 0;
    int64_t m_rtt_mark_ns = 0;
    uint64_t m_read_bytes_last = 1; ///< in the best round trip so far
    uint64_t m_period_read_bytes = 0;
    int64_t m_period_start_ns = 0;
};

} // namespace bbrgym

#endif
