// SPDX-License-Identifier: GPL-2.0-only
//
// Proportional rate reduction (RFC 6937, Linux's tcp_cwnd_reduction): in CWR and Recovery a loss-based window falls in
// step with what is delivered, instead of at once.
//
//   above ssthresh  sent since the reduction began = delivered since then * ssthresh / window before
//   below it        a packet for each delivered; one more on an ACK that shows progress, which also makes up for
//                   packets that were delivered and not replaced: from Linux 6.0 on each ACK does
#ifndef BBRGYM_TCP_RATE_REDUCTION_HPP
#define BBRGYM_TCP_RATE_REDUCTION_HPP

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

class RateReduction
{
  public:
    bool IsActive() const { return m_is_active; }
    uint32_t WindowPkts() const { return m_window_pkts; }

    void Begin(uint32_t cwnd_pkts)
    {
        *this = RateReduction();
        m_is_active = cwnd_pkts > 0;
        m_prior_cwnd_pkts = cwnd_pkts;
        m_window_pkts = cwnd_pkts;
    }

    void End() { m_is_active = false; }
    void NoteSent(uint32_t pkts) { m_sent_pkts += m_is_active ? pkts : 0; }

    /**
     * `makes_progress`: the ACK allows a packet more than it delivers while the window is below `ssthresh_pkts`.
     * `makes_up`: it makes up for earlier ones though it makes no progress.
     */
    void OnAck(uint32_t acked_pkts, uint32_t in_flight_pkts, uint32_t ssthresh_pkts, bool makes_progress, bool makes_up)
    {
        if (acked_pkts == 0)
        {
            return;
        }
        m_delivered_pkts += acked_pkts;
        int64_t count = 0;
        if (in_flight_pkts > ssthresh_pkts)
        {
            const uint64_t scaled = ssthresh_pkts * m_delivered_pkts;
            count = static_cast<int64_t>((scaled + m_prior_cwnd_pkts - 1) / m_prior_cwnd_pkts) - m_sent_pkts;
        }
        else
        {
            const int64_t behind = static_cast<int64_t>(m_delivered_pkts) - m_sent_pkts;
            const int64_t least =
                (makes_progress || makes_up ? std::max<int64_t>(behind, acked_pkts) : acked_pkts) + makes_progress;
            count = std::min<int64_t>(ssthresh_pkts - in_flight_pkts, least);
        }
        // The first packet of a recovery leaves in any case.
        count = std::max<int64_t>(count, m_sent_pkts == 0 ? 1 : 0);
        m_window_pkts = in_flight_pkts + static_cast<uint32_t>(count);
    }

  private:
    bool m_is_active = false;
    uint32_t m_window_pkts = 0;
    uint64_t m_prior_cwnd_pkts = 0;
    uint64_t m_delivered_pkts = 0;
    int64_t m_sent_pkts = 0;
};

} // namespace bbrgym

#endif
