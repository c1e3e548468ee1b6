// SPDX-License-Identifier: GPL-2.0-only
//
// When an application writes that is not bulk, and how much: a segment each period, without an end or in bursts, or a
// frame. The same in every world.
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

    /** Segments of what is written now; call before NextNs. What is left of a frame goes with the next one. */
    uint64_t Pkts()
    {
        const auto* frames = std::get_if<Frames>(&m_app);
        if (frames == nullptr)
        {
            return 1;
        }
        const bool is_key = m_burst_writes % frames->key_every == 0;
        const auto every = static_cast<double>(frames->key_every);
        const double usual_bytes = frames->rate_bps / 8 / frames->fps * every / (every - 1 + frames->key_ratio);
        m_owed_bytes +=
            usual_bytes * (is_key ? frames->key_ratio : 1) * (1 + frames->spread * (2 * m_random.Uniform() - 1));
        const auto pkts = static_cast<uint64_t>(m_owed_bytes / m_segment_bytes);
        m_owed_bytes -= static_cast<double>(pkts * m_segment_bytes);
        return pkts;
    }

    /** A segment or frame is written at this time, the flow's start or what was returned before; returns when the next
     * one is.
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
        const int64_t next_ns = m_burst_start_ns + std::llround(BeatNs(static_cast<double>(m_burst_writes)));
        return next_ns < m_burst_stop_ns ? next_ns : m_burst_stop_ns + DrawNs(*on_off, on_off->off_ns);
    }

  private:
    /** The time of so many writes. */
    double BeatNs(double writes) const
    {
        if (const auto* frames = std::get_if<Frames>(&m_app))
        {
            return writes * 1e9 / frames->fps;
        }
        const auto* cbr = std::get_if<Cbr>(&m_app);
        return writes * m_segment_bytes * 8e9 / (cbr != nullptr ? cbr->rate_bps : std::get<OnOff>(m_app).rate_bps);
    }

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
    double m_owed_bytes = 0; ///< of frames
};

} // namespace bbrgym

#endif
