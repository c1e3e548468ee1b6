// SPDX-License-Identifier: GPL-2.0-only
//
// When an application writes that is not bulk: a segment each period, without an end or in bursts. The same times in
// every world.
#ifndef BBRGYM_WORLD_WRITE_TIMES_HPP
#define BBRGYM_WORLD_WRITE_TIMES_HPP

#include "random.hpp"
#include "scenario.hpp"
#include "times.hpp"

#include <cmath>
#include <cstdint>
#include <variant>

namespace bbrgym
{

class WriteTimes
{
  public:
    WriteTimes(const Flow& flow, uint32_t segment_bytes, uint64_t run_seed)
        : m_app(flow.app),
          m_segment_bytes(segment_bytes),
          m_random(run_seed, "flow." + flow.name + ".app")
    {}

    /** A segment is written at this time, the flow's start or what was returned before; returns when the next one is.
     */
    int64_t NextNs(int64_t now_ns)
    {
        const auto* on_off = std::get_if<OnOff>(&m_app);
        if (now_ns >= m_burst_stop_ns)
        {
            m_burst_start_ns = now_ns;
            m_burst_stop_ns = on_off != nullptr ? now_ns + DrawNs(*on_off, on_off->on_ns) : NEVER_NS;
            m_burst_writes = 0;
        }
        ++m_burst_writes;
        // Computed from the burst's start, so that rounding errors do not accumulate.
        const double rate_bps = on_off != nullptr ? on_off->rate_bps : std::get<Cbr>(m_app).rate_bps;
        const double beat_ns = static_cast<double>(m_burst_writes) * m_segment_bytes * 8e9 / rate_bps;
        const int64_t next_ns = m_burst_start_ns + std::llround(beat_ns);
        return next_ns < m_burst_stop_ns ? next_ns : m_burst_stop_ns + DrawNs(*on_off, on_off->off_ns);
    }

  private:
    int64_t DrawNs(const OnOff& app, int64_t mean_ns)
    {
        return app.random ? std::llround(static_cast<double>(mean_ns) * m_random.Exponential()) : mean_ns;
    }

    App m_app;
    uint32_t m_segment_bytes;
    Random m_random;
    int64_t m_burst_start_ns = 0;
    int64_t m_burst_stop_ns = 0; ///< the first write begins a burst
    uint64_t m_burst_writes = 0;
};

} // namespace bbrgym

#endif
