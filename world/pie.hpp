// SPDX-License-Identifier: GPL-2.0-only
//
// Proportional integral controller enhanced (RFC 8033): arriving packets are dropped at random, with a probability that
// follows the waiting time and its trend,
//
//   p += scale(p) (ALPHA (wait - target) + BETA (wait - last wait)), each 15 ms
//
// in the arrangement of Linux's sch_pie: the wait is that of the packet that left last, 0 if it left the queue empty; a
// burst allowance runs out while packets leave. As the RFC and unlike sch_pie, p is at most 1.
#ifndef BBRGYM_WORLD_PIE_HPP
#define BBRGYM_WORLD_PIE_HPP

#include "random.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace bbrgym
{

class PieState
{
  public:
    /** In a queue shorter than `min_bytes` no packet is dropped early. */
    PieState(const Pie& pie, uint64_t min_bytes, uint64_t run_seed, const std::string& link)
        : m_target_ns(pie.target_ns),
          m_min_bytes(min_bytes),
          m_random(run_seed, link + ".queue")
    {}

    /** Updates the probability for each period until now; call before the queue changes. */
    void RunUntil(int64_t now_ns, uint64_t queued_bytes)
    {
        for (; m_update_ns <= now_ns; m_update_ns += PERIOD_NS)
        {
            Update(queued_bytes > 0);
        }
    }

    /** Whether a packet that arrives at so long a queue is dropped, or marked. */
    bool DropsEarly(uint64_t queued_bytes)
    {
        const bool is_idle = m_wait_ns < m_target_ns / 2 && m_probability < 0.2;
        if (m_burst_ns > 0 || is_idle || queued_bytes < m_min_bytes)
        {
            return false;
        }
        m_accumulated = m_probability == 0 ? 0 : m_accumulated + m_probability;
        if (m_accumulated < 0.85 || m_accumulated >= 8.5) // drops come neither soon after one another nor late
        {
            return m_accumulated >= 8.5;
        }
        const bool drops = m_random.Chance(m_probability);
        m_accumulated = drops ? 0 : m_accumulated;
        return drops;
    }
    /** Whether a mark may stand for a drop. */
    bool MayMark() const { return m_probability <= 0.1; }
    void NoteDrop() { m_accumulated = 0; }

    /** A packet that waited so long left, and `queued_bytes` behind it. */
    void NoteDeparture(int64_t waited_ns, uint64_t queued_bytes, int64_t now_ns)
    {
        m_wait_ns = queued_bytes == 0 ? 0 : waited_ns;
        if (m_departed_ns >= 0)
        {
            m_burst_ns = std::max<int64_t>(m_burst_ns - (now_ns - m_departed_ns), 0);
        }
        m_departed_ns = now_ns;
    }

    double Probability() const { return m_probability; }

  private:
    static constexpr double ALPHA = 0.125; // 1/s
    static constexpr double BETA = 1.25;   // 1/s
    static constexpr int64_t PERIOD_NS = 15'000'000;
    static constexpr int64_t BURST_NS = 150'000'000;
    static constexpr int64_t LONG_WAIT_NS = 250'000'000;
    static constexpr double MAX_STEP = 0.02;
    static constexpr double SCALED_BELOW[] = {0.01, 0.001, 0.0001, 0.00001, 0.000001};

    void Update(bool has_backlog)
    {
        double scale = m_probability < 0.1 ? 0.5 : 1.0;
        for (const double limit : SCALED_BELOW)
        {
            scale *= m_probability < limit ? 0.25 : 1.0;
        }
        const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
        double step = scale * (ALPHA * seconds(m_wait_ns - m_target_ns) + BETA * seconds(m_wait_ns - m_last_wait_ns));
        step = m_probability >= 0.1 ? std::min(step, MAX_STEP) : step;
        step += m_wait_ns > LONG_WAIT_NS ? MAX_STEP : 0;
        m_probability = std::clamp(m_probability + step, 0.0, 1.0);
        if (m_wait_ns == 0 && m_last_wait_ns == 0 && !has_backlog)
        {
            m_probability -= m_probability / 64;
        }
        if (m_wait_ns < m_target_ns / 2 && m_last_wait_ns < m_target_ns / 2 && m_probability == 0)
        {
            m_burst_ns = BURST_NS;
            m_accumulated = 0;
            m_departed_ns = -1;
        }
        m_last_wait_ns = m_wait_ns;
    }

    int64_t m_target_ns;
    uint64_t m_min_bytes;
    Random m_random;
    double m_probability = 0;
    double m_accumulated = 0; ///< probabilities since the last drop
    int64_t m_wait_ns = 0;
    int64_t m_last_wait_ns = 0; ///< at the last update
    int64_t m_burst_ns = BURST_NS;
    int64_t m_departed_ns = -1; ///< -1: no packet has since the allowance is whole
    int64_t m_update_ns = PERIOD_NS;
};

} // namespace bbrgym

#endif
