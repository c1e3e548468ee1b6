// SPDX-License-Identifier: GPL-2.0-only
//
// The send buffer of a socket as Linux counts it: in bytes of memory (truesize), not of payload.
//
//   held = payload + heads of the packets' sk_buffs          (sk_wmem_queued)
//   a writer that finds no room waits until a third is free  (sk_stream_write_space)
//   an automatic buffer grows when the writer waits          (tcp_sndbuf_expand)
//
// The payload lies in page fragments, so each sk_buff costs its head beside it. Before it is sent, data waits in
// sk_buffs of 64 KB; it leaves in bursts (TcpSender::BurstPkts), in recovery a segment at a time; what is
// SACKed is merged with its neighbours (tcp_shift_skb_data), so its heads are free again.
//
// An ample buffer counts segments alone, and its writer goes on as soon as one is acknowledged.
//
// Simpler than Linux: a segment is written whole or not at all, so payload never exceeds the buffer by a part of an
// sk_buff; the merged sk_buffs of SACKed data have no head; memory pressure does not exist.
#ifndef BBRGYM_TCP_SEND_BUFFER_HPP
#define BBRGYM_TCP_SEND_BUFFER_HPP

#include "memory.hpp"
#include "stack.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bbrgym
{

/** The part of a sender's state that its buffer depends on. */
struct SendBufferLoad
{
    uint64_t unsent_pkts = 0;
    uint32_t out_pkts = 0;    ///< sent and not cumulatively acknowledged
    uint32_t sacked_pkts = 0; ///< of these
    uint32_t in_flight_pkts = 0;
    uint32_t cwnd_pkts = 0;
    uint32_t burst_pkts = 1; ///< that leave in one sk_buff
    bool in_recovery = false;
};

class SendBuffer
{
  public:
    static constexpr uint64_t UNLIMITED = std::numeric_limits<uint64_t>::max();

    /** `ample_pkts`: segments that an ample buffer holds. */
    void Reset(const SocketFacts& facts, uint32_t mss_bytes, bool is_bbr, uint64_t ample_pkts = UNLIMITED)
    {
        *this = SendBuffer();
        m_ample_pkts = ample_pkts;
        m_size = facts.send_buffer_bytes;
        m_head_bytes = static_cast<uint64_t>(facts.send_head_bytes);
        m_mss_bytes = mss_bytes;
        m_windows = is_bbr ? 3 : 2; // bbr_sndbuf_expand; TCP's own factor
        if (m_size == SIZE_auto)
        {
            m_limit_bytes = WMEM_DEFAULT_BYTES;
            Expand(INITIAL_WINDOW_PKTS);
        }
        else if (m_size != SIZE_ample)
        {
            m_limit_bytes = SetSockOptBytes(m_size);
        }
    }

    bool IsAmple() const { return m_size == SIZE_ample; }
    uint64_t LimitBytes() const { return m_limit_bytes; }
    /** The writer waits for room. */
    bool HasWaitingWriter() const { return m_writer_waits; }

    /** Memory that the data takes. */
    uint64_t HeldBytes(const SendBufferLoad& load) const
    {
        const uint64_t payload_bytes = (load.unsent_pkts + load.out_pkts) * m_mss_bytes;
        return payload_bytes + Heads(load) * m_head_bytes;
    }

    /** Segments of `wanted` that the buffer takes now; if it does not take all, the writer waits. */
    uint64_t Accept(uint64_t wanted, const SendBufferLoad& load)
    {
        const uint64_t taken = std::min(wanted, RoomPkts(load));
        m_writer_waits = taken < wanted;
        return taken;
    }

    /** Call after each ACK, when it was followed by sending. Returns whether a waiting writer is woken. */
    bool WakesWriter(const SendBufferLoad& load)
    {
        if (!m_writer_waits)
        {
            return false;
        }
        if (IsAmple())
        {
            m_writer_waits = RoomPkts(load) == 0;
            return !m_writer_waits;
        }
        if (m_size == SIZE_auto && load.in_flight_pkts < load.cwnd_pkts)
        {
            Expand(load.cwnd_pkts);
        }
        const uint64_t held_bytes = HeldBytes(load);
        m_writer_waits = held_bytes + held_bytes / 2 > m_limit_bytes;
        return !m_writer_waits;
    }

  private:
    static constexpr uint64_t UNSENT_PKTS = 44; ///< segments of an sk_buff of 64 KB
    static constexpr uint32_t INITIAL_WINDOW_PKTS = 10;

    /** Segments that a writer finds room for. */
    uint64_t RoomPkts(const SendBufferLoad& load) const
    {
        const uint64_t held_pkts = load.unsent_pkts + load.out_pkts;
        if (IsAmple())
        {
            return m_ample_pkts > held_pkts ? m_ample_pkts - held_pkts : 0;
        }
        const uint64_t held_bytes = HeldBytes(load);
        const uint64_t free_bytes = m_limit_bytes > held_bytes ? m_limit_bytes - held_bytes : 0;
        const uint64_t segment_bytes = m_mss_bytes + (m_head_bytes + UNSENT_PKTS - 1) / UNSENT_PKTS;
        // An empty buffer takes a segment, be it ever so small.
        const uint64_t least = held_pkts == 0;
        return std::max(free_bytes / segment_bytes, least);
    }

    uint64_t Heads(const SendBufferLoad& load) const
    {
        const uint64_t unsent = (load.unsent_pkts + UNSENT_PKTS - 1) / UNSENT_PKTS;
        const uint64_t unsacked = load.out_pkts - load.sacked_pkts;
        const uint64_t burst_pkts = load.in_recovery ? 1 : std::max<uint64_t>(load.burst_pkts, 1);
        return unsent + (unsacked + burst_pkts - 1) / burst_pkts;
    }

    void Expand(uint32_t cwnd_pkts)
    {
        const uint64_t window_bytes = uint64_t{std::max(cwnd_pkts, INITIAL_WINDOW_PKTS)} * SendTruesize(m_mss_bytes);
        m_limit_bytes = std::max(m_limit_bytes, std::min(m_windows * window_bytes, WMEM_MAX_BYTES));
    }

    int64_t m_size = SIZE_ample;
    uint64_t m_ample_pkts = UNLIMITED;
    uint64_t m_limit_bytes = UNLIMITED; ///< sk_sndbuf
    uint64_t m_head_bytes = 0;
    uint32_t m_mss_bytes = 1;
    uint64_t m_windows = 2; ///< that an automatic buffer holds
    bool m_writer_waits = false;
};

} // namespace bbrgym

#endif
