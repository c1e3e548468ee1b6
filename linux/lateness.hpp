// SPDX-License-Identifier: GPL-2.0-only
//
// How late packets are written after the time at which they were due.
#ifndef BBRGYM_LINUX_LATENESS_HPP
#define BBRGYM_LINUX_LATENESS_HPP

#include "histogram.hpp"
#include "measurement.hpp"

#include <cstdint>

namespace bbrgym
{

class LatenessMeter
{
  public:
    static constexpr int64_t TOO_LATE_NS = 1'000'000; // of the order of a packet's transmission at 10 Mbit/s

    void Add(int64_t late_ns)
    {
        m_all.Add(late_ns);
        m_too_late += late_ns > TOO_LATE_NS;
    }

    uint64_t Count() const { return m_all.Count(); }
    Punctuality Get() const
    {
        if (m_all.Count() == 0)
        {
            return {};
        }
        return {.late_p50_us = 1e3 * m_all.PermilleMs(500),
                .late_p99_us = 1e3 * m_all.PermilleMs(990),
                .late_p999_us = 1e3 * m_all.PermilleMs(999),
                .late_share = static_cast<double>(m_too_late) / static_cast<double>(m_all.Count())};
    }

  private:
    Histogram m_all;
    uint64_t m_too_late = 0;
};

} // namespace bbrgym

#endif
