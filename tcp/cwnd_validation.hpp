// SPDX-License-Identifier: GPL-2.0-only
//
// Whether the congestion window holds the sender back (Linux tcp_cwnd_validate; RFC 2861): only then may ACKs raise it,
// and one that is not used for a timeout falls halfway to what was in flight.
//
// The window was used if it held back what left since the last look, or the largest flight of the round trip. Until
// Linux 5.10 the largest flight alone told, and only when it left.
#ifndef BBRGYM_TCP_CWND_VALIDATION_HPP
#define BBRGYM_TCP_CWND_VALIDATION_HPP

#include "stack.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace bbrgym
{

class CwndValidation
{
  public:
    void Start(const SocketFacts& facts, bool is_loss_based, int64_t now_ns)
    {
        m_by_largest = facts.window_use == window_use_choice::largest;
        m_falls_unused = facts.slow_start_after_idle;
        m_rises_by_flight = facts.slow_start_by_flight;
        m_measures_use = m_rises_by_flight && is_loss_based;
        m_stamp_ns = now_ns;
    }

    /** The segments out. */
    struct Out
    {
        uint64_t una;
        uint64_t next;
        uint32_t packets;
    };

    /**
     * Nothing more leaves now; `has_unsent`: data waits; `is_full`: the window is. False: there was nothing to find the
     * window's use by.
     */
    bool Validate(const Out& out, bool has_unsent, bool is_full)
    {
        const bool has_sent = out.next != m_validated_until;
        const bool is_held = is_full && (has_unsent || has_sent);
        m_validated_until = out.next;
        if (is_held && !m_by_largest)
        {
            m_is_cwnd_limited = true;
        }
        else if (!has_sent)
        {
            return false;
        }
        else if (out.una >= m_flight_until || (out.packets > m_flight_pkts && (!m_is_cwnd_limited || m_by_largest)))
        {
            m_is_cwnd_limited = is_held;
        }
        else
        {
            return true;
        }
        m_flight_pkts = out.packets;
        m_flight_until = out.next;
        return true;
    }

    /** The window has no room; `next`: the next new segment. */
    void OnFull(uint64_t next) { m_full_until = next; }

    /** Whether an ACK of everything below `una` may raise the window (ns-3: it held back what was sent below). */
    bool MayRise(uint64_t una, uint32_t cwnd_pkts, uint32_t ssthresh_pkts) const
    {
        return m_rises_by_flight ? IsUsed(cwnd_pkts, ssthresh_pkts) : una <= m_full_until;
    }

    /** Whether ACKs may raise the window: in slow start to twice the largest flight (tcp_is_cwnd_limited). */
    bool IsUsed(uint32_t cwnd_pkts, uint32_t ssthresh_pkts) const
    {
        if (m_is_cwnd_limited && !m_by_largest)
        {
            return true;
        }
        const bool is_slow_start = cwnd_pkts < ssthresh_pkts;
        return is_slow_start ? cwnd_pkts < 2 * uint64_t{m_flight_pkts} : m_is_cwnd_limited;
    }

    /** Whether an unused window falls at all: a loss-based one, on Linux. */
    bool MeasuresUse() const { return m_measures_use; }
    void OnUsed(int64_t now_ns)
    {
        m_used_pkts = 0;
        m_stamp_ns = now_ns;
    }
    /** An ACK might have raised the window, or a timeout has cut it. */
    void OnCwndChanged(int64_t now_ns) { m_stamp_ns = now_ns; }
    /** The window was not used: what was of it, if it now falls to that (tcp_cwnd_application_limited). */
    std::optional<uint32_t> OnCwndUnderused(uint32_t packets_out, bool may_fall, int64_t rto_ns, int64_t now_ns)
    {
        m_used_pkts = std::max(m_used_pkts, packets_out);
        if (!m_falls_unused || now_ns - m_stamp_ns < rto_ns)
        {
            return std::nullopt;
        }
        m_stamp_ns = now_ns;
        if (!may_fall)
        {
            return std::nullopt;
        }
        const uint32_t used_pkts = m_used_pkts;
        m_used_pkts = 0;
        return used_pkts;
    }

  private:
    bool m_by_largest = false;
    bool m_falls_unused = false;
    bool m_rises_by_flight = false;
    bool m_measures_use = false;
    bool m_is_cwnd_limited = false; ///< the window held back the latest flight (tp->is_cwnd_limited)
    uint32_t m_flight_pkts = 0;     ///< the largest that it did not hold back, of the segments below m_flight_until
    uint32_t m_used_pkts = 0;       ///< the largest flight since the window was used (snd_cwnd_used)
    uint64_t m_flight_until = 0;
    uint64_t m_validated_until = 0; ///< the next new segment at the latest call
    uint64_t m_full_until = 0;
    int64_t m_stamp_ns = 0; ///< when it last was, or changed (snd_cwnd_stamp)
};

} // namespace bbrgym

#endif
