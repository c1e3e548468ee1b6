// SPDX-License-Identifier: GPL-2.0-only
//
// A token-bucket policer: a packet passes if the bucket holds its bytes, and is dropped otherwise. So in any time t no
// more than burst + rate * t passes.
#ifndef BBRGYM_WORLD_POLICER_HPP
#define BBRGYM_WORLD_POLICER_HPP

#include "scenario.hpp"

#include <algorithm>
#include <cstdint>

namespace bbrgym
{

class TokenBucket
{
  public:
    /** Begins full. */
    explicit TokenBucket(const Policer& policer)
        : m_bytes_per_ns(policer.rate_bps / 8e9),
          m_burst_bytes(static_cast<double>(policer.burst_bytes)),
          m_bytes(m_burst_bytes)
    {}

    bool Passes(uint32_t ip_bytes, int64_t now_ns)
    {
        m_bytes = std::min(m_bytes + m_bytes_per_ns * static_cast<double>(now_ns - m_since_ns), m_burst_bytes);
        m_since_ns = now_ns;
        if (m_bytes < ip_bytes)
        {
            return false;
        }
        m_bytes -= ip_bytes;
        return true;
    }

  private:
    double m_bytes_per_ns;
    double m_burst_bytes;
    double m_bytes; ///< in the bucket at m_since_ns
    int64_t m_since_ns = 0;
};

} // namespace bbrgym

#endif
