// SPDX-License-Identifier: GPL-2.0-only
//
// The receiving end: what has arrived, when to acknowledge it, and with which SACK blocks (RFC 2018), in
// segments. Every second segment in order is acknowledged, a lone one after 40 ms (delayed_ack_segments,
// delayed_ack_ms); at once what leaves or fills a gap. Facts of the stack: it reports duplicates (D-SACK, RFC 2883),
// and it acknowledges the first segments one by one (TCP_MAX_QUICKACKS) or only the very first at once, as ns-3's.
// Linux's receiver also acknowledges at once while its window grows, adapts the delay of an ACK to the pace of the
// segments, and compresses the ACKs of a gap: from the fourth on, one stands for those of up to a millisecond.
// An application may read slowly: what it has not read takes the window's room, and an ACK tells when there is more.
//
// Not modelled: a segment that ends what the application wrote (PSH) is not acknowledged sooner.
#ifndef BBRGYM_TCP_RECEIVER_HPP
#define BBRGYM_TCP_RECEIVER_HPP

#include "ecn.hpp"
#include "receive_window.hpp"
#include "rtt_estimator.hpp"
#include "scoreboard.hpp"
#include "stack.hpp"
#include "timestamp.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

class TcpReceiver
{
  public:
    static constexpr uint32_t QUICK_ACKS = 16; ///< Linux: TCP_MAX_QUICKACKS

    struct Arrival
    {
        uint32_t readable_pkts; ///< newly in order
        bool answer_at_once;
    };

    /** Clears the connection but keeps the memory. `read_bps`: of payload; 0: the application reads at once. */
    void Reset(const SocketFacts& facts, uint32_t mss_bytes, double read_bps = 0);

    /** Whether an ACK has to leave before a segment is taken: it tells of the marks until then (ecn_precise). */
    bool AnswersBefore(EcnBits ecn) const { return m_echo.IsOn() && m_unanswered_pkts > 0 && m_echo.Changes(ecn); }
    Arrival OnSegment(uint64_t seqno, int64_t now_ns, EcnBits ecn = {});
    /**
     * Call before OnSegment if the stack has timestamps; `sent_ms`: of the segment. True: it is refused for its age
     * (PAWS), and answered at once; it is not to be taken.
     */
    bool RefusesOld(uint64_t seqno, int64_t sent_ms, int64_t now_ns);

    /** The time at which an ACK is due though nothing arrives; NEVER_NS: none is. */
    int64_t DelayedAckDeadlineNs() const
    {
        const int64_t deadline_ns = std::min(m_deadline_ns, m_compressed_until_ns);
        return ReadsSlowly() ? std::min(deadline_ns, WindowUpdateNs()) : deadline_ns;
    }
    /** Whether that time may move away, and is another after an ACK. */
    bool ReadsSlowly() const { return m_read_gap_ns > 0; }

    /** Call when that time has come, before the ACK leaves. */
    void OnTimer(int64_t now_ns);

    /** A SYN-ACK leaves. */
    void NoteSynAck(int64_t now_ns)
    {
        m_syn_ack_ns = m_syn_ack_count++ == 0 ? now_ns : -1; // Karn
    }
    /** The first packet after the SYN: it ends the handshake, and measures its round trip. */
    void NoteEstablished(int64_t now_ns)
    {
        if (m_syn_ack_ns >= 0)
        {
            m_rtt.AddSample(now_ns - m_syn_ack_ns, 0, 0);
        }
    }

    /** An ACK leaves, of everything below Next() and with the blocks written to `blocks`; returns how many. */
    std::size_t Acknowledge(std::span<SeqnoRange, MAX_SACK_BLOCKS> blocks);

    /** An ACK leaves: returns the first segment beyond the window it announces. Only for a window that is not ample. */
    uint64_t Announce(int64_t now_ns)
    {
        Read(now_ns);
        return m_window.Announce(m_next, HeldPkts());
    }
    const ReceiveWindow& Window() const { return m_window; }

    /** An ACK leaves: returns whether it echoes a mark. */
    bool Echo() { return m_echo.IsOn() && EchoOnce(); }

    uint64_t Next() const { return m_next; }
    /** The timestamp that an ACK echoes (RFC 7323: TS.Recent). */
    int64_t RecentMs() const { return m_recent_ms; }

  private:
    bool EchoOnce() { return !std::exchange(m_hides_echo, false) && m_echo.Acknowledge(); }

    /** ns-3, without D-SACK, answers all old data but the newest before it looks at marks
     * (TcpSocketBase::IsValidTcpSegment). */
    bool IsOutOfRange(uint64_t seqno) const { return !m_has_d_sack && seqno + 1 < m_next; }

    uint64_t HeldPkts() const { return m_beyond_pkts + (ReadsSlowly() ? m_next - m_read : 0); }
    void Read(int64_t now_ns)
    {
        if (ReadsSlowly()) [[unlikely]]
        {
            ReadSlowly(now_ns);
        }
    }
    void ReadSlowly(int64_t now_ns);
    int64_t WindowUpdateNs() const;
    Arrival OnDuplicate(uint64_t seqno, int64_t now_ns);
    bool Has(uint64_t seqno) const;
    void Put(uint64_t seqno);
    void Grow(uint64_t seqno);
    void Report(uint64_t seqno);
    uint32_t Advance();
    void Adapt(int64_t now_ns);
    bool AnswersGap(int64_t now_ns);
    uint32_t QuickAcks() const;
    int64_t DelayNs() const;

    static constexpr uint32_t GAP_ACKS = 3;                  ///< TCP_FASTRETRANS_THRESH: at once, for each gap
    static constexpr int64_t COMPRESSION_NS = 1'000'000;     ///< tcp_comp_sack_delay_ns
    static constexpr int64_t COMPRESSION_SLACK_NS = 100'000; ///< tcp_comp_sack_slack_ns
    static constexpr int64_t MAX_DELAY_NS = 500'000'000;     ///< tcp_send_delayed_ack
    static constexpr int64_t PAWS_WINDOW_MS = 1;             ///< TCP_PAWS_WINDOW
    static constexpr std::size_t TIMESTAMPED_BLOCKS = 3;     ///< SACK blocks that fit beside timestamps

    uint32_t m_delayed_ack_pkts = 2;
    int64_t m_delayed_ack_ns = 0;
    bool m_has_d_sack = true;
    bool m_has_timestamps = false;
    int64_t m_recent_ms = NO_TIMESTAMP;
    uint64_t m_acked_until = 0; ///< what the latest ACK acknowledged (rcv_wup)
    bool m_has_quick_acks = true;
    bool m_is_adaptive = false;
    uint32_t m_max_compressed = 0;
    int64_t m_compression_percent = 0;
    uint64_t m_next = 0;            ///< first segment not yet received
    std::vector<uint64_t> m_beyond; ///< a bit for each segment after m_next, by seqno modulo the size
    uint32_t m_beyond_pkts = 0;

    std::array<SeqnoRange, MAX_SACK_BLOCKS> m_blocks{}; ///< newest first
    std::size_t m_block_count = 0;
    SeqnoRange m_duplicate; ///< to report; empty: none

    int64_t m_read_gap_ns = 0; ///< from one segment read to the next; 0: the application reads at once
    uint64_t m_read = 0;       ///< first segment not read
    int64_t m_read_ns = 0;     ///< when the next one is, once it has arrived

    uint32_t m_unanswered_pkts = 0;
    uint32_t m_quick_acks = 0;
    int64_t m_deadline_ns = NEVER_NS;
    int64_t m_ato_ns = 0;      ///< of the next delayed ACK (icsk_ack.ato)
    int64_t m_arrived_ns = -1; ///< the latest segment in order; -1: none yet
    RttEstimator m_rtt;        ///< of the handshake alone
    int64_t m_syn_ack_ns = -1;
    uint32_t m_syn_ack_count = 0;
    uint64_t m_gap = 0; ///< that m_gap_acks are of: the segment missing
    uint32_t m_gap_acks = 0;
    uint32_t m_compressed = 0; ///< ACKs held back since the last one left
    int64_t m_compressed_until_ns = NEVER_NS;

    ReceiveWindow m_window;
    EcnEcho m_echo;
    bool m_hides_echo = false; ///< the next ACK is of what is out of range, which is answered without the echo
};

} // namespace bbrgym

#endif
