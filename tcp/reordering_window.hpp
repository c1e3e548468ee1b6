// SPDX-License-Identifier: GPL-2.0-only
//
// How long RACK waits for a segment that may only be late, in steps of a quarter of the smallest RTT (RFC 8985, section
// 6.2, step 4; Linux tcp_rack_update_reo_wnd). A D-SACK tells of a retransmission that was not needed: the window
// widens by a step, once in a round trip. It falls back to one step after 16 recoveries without a D-SACK.
#ifndef BBRGYM_TCP_REORDERING_WINDOW_HPP
#define BBRGYM_TCP_REORDERING_WINDOW_HPP

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

class ReorderingWindow
{
  public:
    static constexpr uint32_t MAX_STEPS = 255;             ///< rack.reo_wnd_steps has eight bits
    static constexpr uint32_t PERSISTENCE_RECOVERIES = 16; ///< Linux: TCP_RACK_RECOVERY_THRESH

    /** A D-SACK came, not of a tail loss probe, and reordering has been seen (tcp_dsack_seen). */
    void OnDuplicateReport() { m_widens = true; }

    /** An ACK delivered segments: what was delivered by now, and when the newest of them left. */
    void OnDelivered(uint64_t prior_delivered_pkts, uint64_t delivered_pkts)
    {
        if (prior_delivered_pkts < m_widened_at_pkts)
        {
            m_widens = false; // not a round trip since it widened last
        }
        if (m_widens)
        {
            m_steps = std::min(m_steps + 1, MAX_STEPS);
            m_widens = false;
            m_widened_at_pkts = delivered_pkts;
            m_recoveries_left = PERSISTENCE_RECOVERIES;
        }
        else if (m_recoveries_left == 0)
        {
            m_steps = 1;
        }
    }

    /** A recovery ended that was needed (tcp_try_undo_recovery). */
    void OnRecovered() { m_recoveries_left -= m_recoveries_left > 0; }

    /** D-SACKs undid a recovery (tcp_try_undo_dsack). */
    void OnUndone() { m_recoveries_left = std::min(m_recoveries_left + 1, PERSISTENCE_RECOVERIES); }

    uint32_t Steps() const { return m_steps; }

  private:
    uint32_t m_steps = 1;           ///< rack.reo_wnd_steps
    uint32_t m_recoveries_left = 0; ///< rack.reo_wnd_persist
    bool m_widens = false;          ///< rack.dsack_seen
    uint64_t m_widened_at_pkts = 0; ///< rack.last_delivered
};

} // namespace bbrgym

#endif
