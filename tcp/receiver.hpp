// SPDX-License-Identifier: GPL-2.0-only
//
// The receiving end: what has arrived, when to acknowledge it, and with which SACK blocks (RFC 2018), in
// segments. Every second segment in order is acknowledged, a lone one after 40 ms (delayed_ack_segments,
// delayed_ack_ms); at once what leaves or fills a gap. Facts of the stack: it reports duplicates (D-SACK, RFC 2883), and it acknowledges the first
// segments one by one (TCP_MAX_QUICKACKS) or only the very first at once, as ns-3's.
// Not modelled: Linux's compression of SACKs.
#ifndef BBRGYM_TCP_RECEIVER_HPP
#define BBRGYM_TCP_RECEIVER_HPP

#include "ecn.hpp"
#include "receive_window.hpp"
#include "scoreboard.hpp"
#include "stack.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace bbrgym
{

class TcpReceiver
{
  public:
    static constexpr uint32_t QUICK_ACKS = 16;                  ///< Linux: TCP_MAX_QUICKACKS

    struct Arrival
    {
        uint32_t readable_pkts; ///< newly in order
        bool answer_at_once;
    };

    /** Clears the connection but keeps the memory. */
    void Reset(const SocketFacts& facts, uint32_t mss_bytes);

    Arrival Take(uint64_t serial, int64_t now_ns, EcnBits ecn = {});

    /** The time at which an ACK is due though nothing arrives; NEVER_NS: none is. */
    int64_t DelayedAckDeadlineNs() const { return m_deadline_ns; }

    /** An ACK leaves, of everything below Next() and with the blocks written to `blocks`; returns how many. */
    std::size_t Acknowledge(std::span<SerialRange, MAX_SACK_BLOCKS> blocks);

    /** An ACK leaves: returns the first segment beyond the window it announces. Only for a window that is not ample. */
    uint64_t Announce() { return m_window.Announce(m_next, m_beyond_pkts); }
    const ReceiveWindow& Window() const { return m_window; }

    /** An ACK leaves: returns whether it echoes a mark. */
    bool Echo() { return m_echo.IsOn() && m_echo.Acknowledge(); }

    uint64_t Next() const { return m_next; }

  private:
    bool Has(uint64_t serial) const;
    void Put(uint64_t serial);
    void Grow(uint64_t serial);
    void Report(uint64_t serial);
    uint32_t Advance();

    uint32_t m_delayed_ack_pkts = 2;
    int64_t m_delayed_ack_ns = 0;
    bool m_has_d_sack = true;
    bool m_has_quick_acks = true;
    uint64_t m_next = 0;            ///< first segment not yet received
    std::vector<uint64_t> m_beyond; ///< a bit for each segment after m_next, by serial modulo the size
    uint32_t m_beyond_pkts = 0;

    std::array<SerialRange, MAX_SACK_BLOCKS> m_blocks{}; ///< newest first
    std::size_t m_block_count = 0;
    SerialRange m_duplicate; ///< to report; empty: none

    uint32_t m_unanswered_pkts = 0;
    uint32_t m_quick_acks = 0;
    int64_t m_deadline_ns = NEVER_NS;

    ReceiveWindow m_window;
    EcnEcho m_echo;
};

} // namespace bbrgym

#endif
