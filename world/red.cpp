// SPDX-License-Identifier: GPL-2.0-only
#include "red.hpp"

#include <algorithm>

namespace bbrgym
{

namespace
{

constexpr double RED_WEIGHT = 0.002; // of a new queue length in the average (Floyd and Jacobson 1993)

/** base^exponent by squaring: the same on every machine, which pow() does not guarantee. */
double
Power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent > 0; exponent >>= 1, base *= base)
    {
        if (exponent & 1)
        {
            result *= base;
        }
    }
    return result;
}

/** The gap is uniform between one and two times 1/base packets, of which `passed` have passed: no drop in the first. */
double
ChanceAfterWait(double base, double passed)
{
    return passed < 1 ? 0 : passed < 2 ? base / (2 - passed) : 1;
}

/** The gap is uniform up to 1/base packets. */
double
ChanceAtOnce(double base, double passed)
{
    const double before = passed - base;
    return before + base < 1 ? base / (1 - before) : 1;
}

} // namespace

RedState::RedState(const Red& red, double rate_bps, uint32_t packet_bytes, uint64_t run_seed, const std::string& link)
    : m_red(red),
      m_packets_per_s(static_cast<double>(static_cast<uint64_t>(rate_bps)) / (8.0 * packet_bytes)),
      m_packet_bytes(packet_bytes),
      m_random(run_seed, link + ".queue")
{}

RedState::Verdict
RedState::Judge(uint32_t ip_bytes, uint64_t queued_bytes, int64_t now_ns)
{
    Average(queued_bytes, now_ns);
    m_bytes_since_drop += ip_bytes;
    if (m_average_bytes < static_cast<double>(m_red.min_bytes) || queued_bytes <= 1)
    {
        m_was_below = true;
        return Verdict::PASS;
    }
    if (m_average_bytes >= static_cast<double>(m_red.max_bytes))
    {
        m_was_below = m_was_below || m_red.gaps == Red::Gaps::LINUX; // draws the next gap again (qcount = -1)
        return Verdict::HARD;
    }
    if (m_was_below)
    {
        m_was_below = false;
        m_bytes_since_drop = ip_bytes;
        return Verdict::PASS;
    }
    return DropsByChance(ip_bytes) ? Verdict::EARLY : Verdict::PASS;
}

void
RedState::Average(uint64_t queued_bytes, int64_t now_ns)
{
    uint64_t missed_packets = 0;
    if (m_idle_since_ns)
    {
        const double idle_s = static_cast<double>(now_ns - *m_idle_since_ns) / 1e9;
        missed_packets = static_cast<uint64_t>(m_packets_per_s * idle_s);
        m_idle_since_ns.reset();
    }
    m_average_bytes =
        m_average_bytes * Power(1 - RED_WEIGHT, missed_packets + 1) + RED_WEIGHT * static_cast<double>(queued_bytes);
}

/** Drops are spread evenly: the chance grows with the bytes that passed since the last one. */
bool
RedState::DropsByChance(uint32_t ip_bytes)
{
    const double low = static_cast<double>(m_red.min_bytes);
    const double high = static_cast<double>(m_red.max_bytes);
    const double base = m_red.max_probability * (m_average_bytes - low) / (high > low ? high - low : 1.0);
    const double passed = static_cast<double>(m_bytes_since_drop / static_cast<uint64_t>(m_packet_bytes)) * base;
    double chance = m_red.gaps == Red::Gaps::LINUX ? ChanceAtOnce(base, passed) : ChanceAfterWait(base, passed);
    if (chance < 1)
    {
        chance = std::min(chance * ip_bytes / m_packet_bytes, 1.0);
    }
    if (m_random.Uniform() > chance)
    {
        return false;
    }
    m_bytes_since_drop = 0;
    return true;
}

} // namespace bbrgym
