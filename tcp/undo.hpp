// SPDX-License-Identifier: GPL-2.0-only
//
// What shows that a recovery was not needed: of the episode that began with it (Linux tcp_init_undo, tcp_may_undo)
//
//   D-SACK   each retransmission was reported as a duplicate (RFC 2883)
//   Eifel    the ACK answers a segment that left before the first retransmission (RFC 3522): by the echo of its
//            timestamp, or because nothing was retransmitted yet
#ifndef BBRGYM_TCP_UNDO_HPP
#define BBRGYM_TCP_UNDO_HPP

#include "timestamp.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace bbrgym
{

class UndoState
{
  public:
    /** An episode begins at `una`; of what was retransmitted before, `out_pkts` may still be reported as duplicates. */
    void Begin(uint64_t una, uint32_t out_pkts)
    {
        m_marker = una;
        m_retransmissions = out_pkts > 0 ? int64_t{out_pkts} : -1;
    }
    void End() { m_marker = NONE; }
    /** Whether an undo restores the window; not if it was reduced for an echo, which is not undone. */
    void SetRestoresWindow(bool restores) { m_restores_window = restores; }
    bool RestoresWindow() const { return m_restores_window; }
    bool IsOn() const { return m_marker != NONE; }

    void OnRetransmitted(int64_t now_ns)
    {
        m_retransmissions = std::max<int64_t>(m_retransmissions, 0) + 1;
        if (m_first_ms == NO_TIMESTAMP)
        {
            m_first_ms = TimestampMs(now_ns);
        }
    }
    /** No retransmission is on the scoreboard any more. */
    void ForgetRetransmissions() { m_first_ms = NO_TIMESTAMP; }

    /** The segments before `end` arrived twice, `pkts` of them. */
    void OnDuplicateReport(uint64_t end, uint32_t pkts)
    {
        if (IsOn() && m_retransmissions > 0 && end > m_marker)
        {
            m_retransmissions = std::max<int64_t>(m_retransmissions - pkts, 0);
        }
    }

    /** By D-SACKs. */
    bool AllWereDuplicates() const { return IsOn() && m_retransmissions == 0; }
    /** By Eifel detection; `echo_ms`: of the ACK, or NO_TIMESTAMP. */
    bool WasDelayed(int64_t echo_ms) const
    {
        return IsOn() && (m_first_ms == NO_TIMESTAMP || (echo_ms != NO_TIMESTAMP && echo_ms < m_first_ms));
    }
    bool IsProven(int64_t echo_ms) const { return AllWereDuplicates() || WasDelayed(echo_ms); }

  private:
    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();

    uint64_t m_marker = NONE; ///< what was unacknowledged when the episode began (undo_marker); NONE: nothing to undo
    int64_t m_retransmissions = 0; ///< of the episode, not yet reported as duplicates; -1: none was made (undo_retrans)
    int64_t m_first_ms = NO_TIMESTAMP; ///< when the first one left that is still on the scoreboard (retrans_stamp)
    bool m_restores_window = true;
};

} // namespace bbrgym

#endif
