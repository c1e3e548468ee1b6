// SPDX-License-Identifier: GPL-2.0-only
//
// Delivery opportunities of a Mahimahi trace: at each listed time the link carries so many bytes. After its
// period the trace starts again: opportunity k of round n is at n * period + times[k].
#ifndef BBRGYM_WORLD_OPPORTUNITIES_HPP
#define BBRGYM_WORLD_OPPORTUNITIES_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

class Opportunities
{
  public:
    Opportunities() = default;

    /** `times_ns` ascending within [0, period_ns], repeats allowed; `counts`: opportunities at each, empty: one. */
    Opportunities(const std::vector<int64_t>& times_ns, int64_t period_ns, uint64_t bytes_each,
                  const std::vector<uint64_t>& counts = {})
        : m_period_ns(period_ns)
    {
        // Time 0 of a round is the end of the round before, so rounds are kept as (0, period].
        uint64_t bytes_at_zero = 0;
        for (std::size_t i = 0; i < times_ns.size(); ++i)
        {
            const uint64_t bytes = bytes_each * (counts.empty() ? 1 : counts[i]);
            if (times_ns[i] == 0)
            {
                bytes_at_zero += bytes;
                continue;
            }
            Add(times_ns[i], bytes);
        }
        if (bytes_at_zero > 0)
        {
            Add(m_period_ns, bytes_at_zero);
        }
    }

    struct Next
    {
        int64_t time_ns;
        uint64_t bytes; ///< of all opportunities at that time
    };

    /** The first opportunity strictly after `now_ns`. */
    Next After(int64_t now_ns) const
    {
        int64_t start_ns = now_ns / m_period_ns * m_period_ns;
        auto next = std::upper_bound(m_times_ns.begin(), m_times_ns.end(), now_ns - start_ns);
        if (next == m_times_ns.end())
        {
            start_ns += m_period_ns;
            next = m_times_ns.begin();
        }
        const auto index = static_cast<std::size_t>(next - m_times_ns.begin());
        return {start_ns + *next, m_bytes_until[index] - (index == 0 ? 0 : m_bytes_until[index - 1])};
    }

    /** Bytes of all opportunities at times in (0, now]. */
    uint64_t BytesUntil(int64_t now_ns) const
    {
        const int64_t rounds = now_ns / m_period_ns;
        const auto next = std::upper_bound(m_times_ns.begin(), m_times_ns.end(), now_ns - rounds * m_period_ns);
        const auto index = static_cast<std::size_t>(next - m_times_ns.begin());
        return static_cast<uint64_t>(rounds) * m_bytes_until.back() + (index == 0 ? 0 : m_bytes_until[index - 1]);
    }

  private:
    /** Call in the order of time. */
    void Add(int64_t time_ns, uint64_t bytes)
    {
        const uint64_t before = m_bytes_until.empty() ? 0 : m_bytes_until.back();
        if (m_times_ns.empty() || m_times_ns.back() != time_ns)
        {
            m_times_ns.push_back(time_ns);
            m_bytes_until.push_back(before);
        }
        m_bytes_until.back() = before + bytes;
    }

    int64_t m_period_ns = 1;
    std::vector<int64_t> m_times_ns;     ///< distinct, ascending, within (0, period]
    std::vector<uint64_t> m_bytes_until; ///< of a round, up to and with that time
};

} // namespace bbrgym

#endif
