// SPDX-License-Identifier: GPL-2.0-only
//
// The smoothed round trip of a connection, how much it varies, and the time after which a segment has timed out.
//
// RFC 6298 keeps a mean deviation. Linux (tcp_rtt_estimator) waits for the largest that it had in a round trip: it
// rises at once and falls by a quarter of the difference once per round trip. And its mean deviation takes an RTT that
// is smaller than all it expects for an eighth only. So where ACKs come in bursts, the many small RTTs at the end of a
// burst do not hide the large one that the next begins with.
#ifndef BBRGYM_TCP_RTT_ESTIMATOR_HPP
#define BBRGYM_TCP_RTT_ESTIMATOR_HPP

#include "stack.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace bbrgym
{

class RttEstimator
{
  public:
    static constexpr int64_t RTO_CLOCK_NS = 1'000'000;       ///< ns-3's attribute ClockGranularity
    static constexpr int64_t RTO_INITIAL_NS = 1'000'000'000; ///< RFC 6298, 2.1
    static constexpr int64_t RTO_MAX_NS = 120'000'000'000;   ///< Linux: TCP_RTO_MAX
    static constexpr uint32_t MAX_BACKOFF = 16;

    void SetFacts(const SocketFacts& facts)
    {
        m_least_ns = facts.min_rto_ms * 1'000'000;
        m_keeps_largest = facts.rtt_variation == rtt_variation_choice::largest;
        m_bounds_whole = facts.min_rto_of == min_rto_of_choice::timeout;
    }

    bool HasSample() const { return m_srtt_ns >= 0; }
    int64_t SmoothedNs() const { return m_srtt_ns; }            ///< -1: no sample yet
    int64_t DeviationNs() const { return m_deviation4_ns / 4; } ///< the mean one

    /** An RTT; `una`, `next`: the segments that it leaves unacknowledged. */
    void AddSample(int64_t rtt_ns, uint64_t una, uint64_t next)
    {
        if (m_srtt_ns < 0)
        {
            m_srtt_ns = rtt_ns;
            m_deviation4_ns = 2 * rtt_ns;
            m_largest_ns = m_variation_ns = std::max(m_deviation4_ns, m_least_ns);
            m_round_end = next;
            return;
        }
        const int64_t error_ns = rtt_ns - m_srtt_ns;
        const int64_t excess_ns = std::abs(error_ns) - m_deviation4_ns / 4;
        const bool is_early = m_keeps_largest && error_ns < 0 && excess_ns > 0;
        m_deviation4_ns += is_early ? excess_ns / 8 : excess_ns;
        m_srtt_ns += error_ns / 8;
        if (m_deviation4_ns > m_largest_ns)
        {
            m_largest_ns = m_deviation4_ns;
            m_variation_ns = std::max(m_variation_ns, m_largest_ns);
        }
        if (una > m_round_end)
        {
            m_variation_ns -= std::max<int64_t>(m_variation_ns - m_largest_ns, 0) / 4;
            m_largest_ns = m_least_ns;
            m_round_end = next;
        }
    }

    /** Doubled for each timeout since the last EndBackoff (tcp_bound_rto). */
    int64_t TimeoutNs() const { return std::min(TimeoutOfOneNs() << m_backoff, RTO_MAX_NS); }

    void BackOff() { m_backoff = std::min(m_backoff + 1, MAX_BACKOFF); }
    void EndBackoff() { m_backoff = 0; }
    uint32_t Backoff() const { return m_backoff; } ///< doublings (icsk_backoff)

  private:
    /** srtt + max(4 deviations, least), or max(srtt + 4 deviations, least) (tcp_set_rto). */
    int64_t TimeoutOfOneNs() const
    {
        if (m_srtt_ns < 0)
        {
            return RTO_INITIAL_NS;
        }
        if (m_bounds_whole)
        {
            return std::max(m_srtt_ns + std::max(m_deviation4_ns, RTO_CLOCK_NS), m_least_ns);
        }
        return m_srtt_ns + (m_keeps_largest ? m_variation_ns : std::max(m_deviation4_ns, m_least_ns));
    }

    int64_t m_srtt_ns = -1;
    int64_t m_deviation4_ns = 0; ///< four mean deviations (mdev_us)
    int64_t m_variation_ns = 0;  ///< what Linux waits for beside the smoothed RTT (rttvar_us)
    int64_t m_largest_ns = 0;    ///< m_deviation4_ns of this round trip (mdev_max_us)
    uint64_t m_round_end = 0;    ///< a segment beyond it is unacknowledged: the round trip is over (rtt_seq)
    int64_t m_least_ns = 0;
    uint32_t m_backoff = 0;
    bool m_keeps_largest = true;
    bool m_bounds_whole = false;
};

} // namespace bbrgym

#endif
