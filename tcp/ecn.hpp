// SPDX-License-Identifier: GPL-2.0-only
//
// Explicit congestion notification (RFC 3168) as the two ends of a connection see it. The sender's data are
// ECN-capable, retransmissions are not. The receiver echoes a mark in every ACK until the sender reports that it has
// reduced its window, which it does once per window, in the first new segment. Where it is precise (ecn_precise; RFC
// 8257, section 3.2) an ACK tells instead whether the segments it covers were marked, and one leaves before the marks
// change.
#ifndef BBRGYM_TCP_ECN_HPP
#define BBRGYM_TCP_ECN_HPP

#include "stack.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bbrgym
{

/** The bits of a data segment. */
struct EcnBits
{
    bool ect = false; ///< ECN-capable: ECT or CE in the IP header
    bool ce = false;  ///< congestion experienced
    bool cwr = false; ///< the sender has reduced its window
};

/** The receiver's echo. */
class EcnEcho
{
  public:
    void Reset(const SocketFacts& facts)
    {
        *this = EcnEcho();
        m_is_on = facts.ecn;
        m_is_linux = facts.quick_acks;
        m_is_precise = facts.ecn && facts.ecn_precise;
    }

    bool IsOn() const { return m_is_on; }

    /** Whether a segment ends what the next ACK can tell of those before it. */
    bool Changes(EcnBits bits) const { return m_is_precise && bits.ce != m_echoes; }

    /** What a segment asks of the next ACKs. */
    struct Answer
    {
        bool at_once = false;
        uint32_t quick_acks = 0; ///< so many of them, at least
    };

    /** A segment arrives; `is_new`: it was not there before. */
    Answer OnSegment(uint64_t seqno, EcnBits bits, bool is_new)
    {
        if (m_is_precise)
        {
            const bool at_once = Changes(bits); // dctcp_ece_ack_update: the sender learns of the change without delay
            m_echoes = bits.ce;
            return {.at_once = at_once};
        }
        return m_is_linux ? OnSegmentAsLinux(bits, is_new) : OnSegmentAsNs3(seqno, bits);
    }

    /** An ACK leaves; returns whether it has the echo (ECE). */
    bool Acknowledge()
    {
        m_is_unsent = false;
        return m_echoes;
    }

  private:
    static constexpr uint32_t QUICK_ACKS = 2; // tcp_enter_quickack_mode: the sender's window may be small

    /** tcp_ecn_accept_cwr, then __tcp_ecn_check_ce. */
    Answer OnSegmentAsLinux(EcnBits bits, bool is_new)
    {
        Answer answer;
        answer.at_once = bits.cwr;
        m_echoes = m_echoes && !bits.cwr;
        if (is_new)
        {
            const bool is_retransmission = m_has_seen_ect && !bits.ect;
            answer.quick_acks = (bits.ce && !m_echoes) || is_retransmission ? QUICK_ACKS : 0;
            m_echoes |= bits.ce;
            m_has_seen_ect |= bits.ect;
        }
        return answer;
    }

    /** Marks in the order of the sequence only; CWR does not end an echo that was not sent yet. */
    Answer OnSegmentAsNs3(uint64_t seqno, EcnBits bits)
    {
        if (bits.ce && (m_last_marked == NONE || seqno > m_last_marked))
        {
            m_last_marked = seqno;
            m_echoes = m_is_unsent = true;
        }
        m_echoes = m_echoes && (m_is_unsent || !bits.cwr);
        return {};
    }

    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();

    bool m_is_on = false;
    bool m_is_linux = true;
    bool m_is_precise = false;
    bool m_echoes = false;
    bool m_is_unsent = false; ///< no ACK has had the echo yet
    bool m_has_seen_ect = false;
    uint64_t m_last_marked = NONE;
};

} // namespace bbrgym

#endif
