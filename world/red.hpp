// SPDX-License-Identifier: GPL-2.0-only
//
// Random early detection (Floyd and Jacobson 1993), with a hard drop above max, counted as ns-3's queue counts.
// Red::gaps says how early drops are spread: as ns-3 does, or as Linux's sch_red.
#ifndef BBRGYM_WORLD_RED_HPP
#define BBRGYM_WORLD_RED_HPP

#include "random.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <optional>

namespace bbrgym
{

/** State of RED. The average is in bytes; while the queue is empty it decays as if small packets arrived. */
class RedState
{
  public:
    enum class Verdict
    {
        PASS,
        EARLY, ///< a drop at random, which a mark may replace
        HARD   ///< the average is above max
    };

    RedState(const Red& red, double rate_bps, uint32_t packet_bytes, uint64_t run_seed,
             const std::string& link = "link");

    /** Judges an arriving packet. */
    Verdict Judge(uint32_t ip_bytes, uint64_t queued_bytes, int64_t now_ns);
    void FoundEmpty(int64_t now_ns) { m_idle_since_ns = now_ns; }

  private:
    void Average(uint64_t queued_bytes, int64_t now_ns);
    bool DropsByChance(uint32_t ip_bytes);

    Red m_red;
    double m_packets_per_s;
    double m_packet_bytes;
    Random m_random;
    double m_average_bytes = 0;
    uint64_t m_bytes_since_drop = 0;
    bool m_was_below = true; ///< the average was below min when last seen
    std::optional<int64_t> m_idle_since_ns = 0;
};

} // namespace bbrgym

#endif
