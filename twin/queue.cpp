// SPDX-License-Identifier: GPL-2.0-only
#include "queue.hpp"

#include <algorithm>
#include <limits>

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

bool
IsAfter(uint32_t a, uint32_t b)
{
    return a > b;
}

} // namespace

// ---- RED ------------------------------------------------------------------------------------------------

RedState::RedState(const Red& red, double rate_bps, uint32_t packet_bytes, uint64_t run_seed)
    : m_red(red),
      m_packets_per_s(static_cast<double>(static_cast<uint64_t>(rate_bps)) / (8.0 * packet_bytes)),
      m_packet_bytes(packet_bytes),
      m_random(run_seed, "link.queue")
{
}

bool
RedState::Drops(uint32_t ip_bytes, uint64_t queued_bytes, int64_t now_ns)
{
    Average(queued_bytes, now_ns);
    m_bytes_since_drop += ip_bytes;
    if (m_average_bytes < static_cast<double>(m_red.min_bytes) || queued_bytes <= 1)
    {
        m_was_below = true;
        return false;
    }
    if (m_average_bytes >= static_cast<double>(m_red.max_bytes))
    {
        return true;
    }
    if (m_was_below)
    {
        m_was_below = false;
        m_bytes_since_drop = ip_bytes;
        return false;
    }
    return DropsByChance(ip_bytes);
}

void
RedState::FoundEmpty(int64_t now_ns)
{
    m_idle_since_ns = now_ns;
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
    m_average_bytes = m_average_bytes * Power(1 - RED_WEIGHT, missed_packets + 1) +
                      RED_WEIGHT * static_cast<double>(queued_bytes);
}

/** Drops are spread evenly: the chance grows with the bytes that passed since the last one. */
bool
RedState::DropsByChance(uint32_t ip_bytes)
{
    const double low = static_cast<double>(m_red.min_bytes);
    const double high = static_cast<double>(m_red.max_bytes);
    const double base = m_red.max_probability * (m_average_bytes - low) / (high > low ? high - low : 1.0);
    const double passed = static_cast<double>(m_bytes_since_drop / static_cast<uint64_t>(m_packet_bytes)) * base;
    // Waits for 1/base packets, then rises so that the gap is uniform between one and two of these.
    double chance = passed < 1 ? 0 : passed < 2 ? base / (2 - passed) : 1;
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

// ---- CoDel ----------------------------------------------------------------------------------------------

CoDelState::CoDelState(const CoDel& codel, uint32_t packet_bytes)
    : m_target(Ticks(codel.target_ns)),
      m_interval(Ticks(codel.interval_ns)),
      m_packet_bytes(packet_bytes)
{
}

bool
CoDelState::MayDrop(int64_t waited_ns, uint64_t queued_bytes, int64_t now_ns)
{
    const uint32_t now = Ticks(now_ns);
    if (Ticks(waited_ns) < m_target || queued_bytes < m_packet_bytes)
    {
        m_first_above = 0;
        return false;
    }
    if (m_first_above == 0)
    {
        m_first_above = now + m_interval;
        return false;
    }
    return IsAfter(now, m_first_above);
}

bool
CoDelState::DropIsDue(int64_t now_ns) const
{
    return !IsAfter(m_drop_next, Ticks(now_ns));
}

/** One more drop, and a Newton step towards 1 / sqrt(count): y (3 - count y^2) / 2, in 0.32 bits. */
void
CoDelState::CountDrop()
{
    ++m_count;
    const uint64_t y = uint64_t{m_inverse_sqrt} << 16;
    const uint64_t y_squared = static_cast<uint32_t>(y * y >> 32);
    const uint64_t factor = ((uint64_t{3} << 32) - m_count * y_squared) >> 2; // so that the product fits
    m_inverse_sqrt = static_cast<uint16_t>(factor * y >> 31 >> 16);
}

void
CoDelState::ScheduleNextDrop()
{
    m_drop_next = After(m_drop_next);
}

void
CoDelState::StartDropping(int64_t now_ns)
{
    const uint32_t now = Ticks(now_ns);
    m_is_dropping = true;
    const uint32_t drops = m_count - m_last_count;
    if (static_cast<int32_t>(drops) > 1 && now - m_drop_next < 16 * m_interval)
    {
        // It dropped recently: that rate is a good start.
        m_count = drops - 1;
        CountDrop();
    }
    else
    {
        m_count = 1;
        m_inverse_sqrt = UINT16_MAX;
    }
    m_last_count = m_count;
    m_drop_next = After(now);
}

uint32_t
CoDelState::After(uint32_t ticks) const
{
    return ticks + static_cast<uint32_t>(uint64_t{m_interval} * (uint32_t{m_inverse_sqrt} << 16) >> 32);
}

// ---- the queue ------------------------------------------------------------------------------------------

void
PacketQueue::Reset(const Link& link, uint32_t packet_bytes, uint64_t run_seed)
{
    m_packets.clear();
    m_full_packet_bytes = packet_bytes;
    m_bytes = 0;
    m_max_bytes = link.queue.size_bytes.value_or(std::numeric_limits<uint64_t>::max());
    m_max_packets = link.queue.size_packets.value_or(std::numeric_limits<uint64_t>::max());
    m_discipline = DropTail{};
    if (const auto* red = std::get_if<Red>(&link.queue.discipline))
    {
        m_discipline.emplace<RedState>(*red, MeanRateBps(link), packet_bytes, run_seed);
        if (link.queue.size_packets)
        {
            m_max_bytes = *link.queue.size_packets * packet_bytes; // RED counts in bytes
            m_max_packets = std::numeric_limits<uint64_t>::max();
        }
    }
    else if (const auto* codel = std::get_if<CoDel>(&link.queue.discipline))
    {
        m_discipline.emplace<CoDelState>(*codel, packet_bytes);
    }
}

bool
PacketQueue::Put(const QueuedPacket& packet, int64_t now_ns)
{
    const uint32_t ip_bytes = BytesOf(packet.name);
    auto* red = std::get_if<RedState>(&m_discipline);
    if (red != nullptr && red->Drops(ip_bytes, m_bytes, now_ns))
    {
        return false;
    }
    if (m_bytes + ip_bytes > m_max_bytes || m_packets.size() >= m_max_packets)
    {
        return false;
    }
    m_packets.push_back(packet);
    m_bytes += ip_bytes;
    return true;
}

bool
PacketQueue::MayDrop(CoDelState& codel, const QueuedPacket& packet, bool is_there, int64_t now_ns) const
{
    if (!is_there)
    {
        codel.NothingBehind();
        return false;
    }
    return codel.MayDrop(now_ns - packet.queued_ns, m_bytes, now_ns);
}

} // namespace bbrgym
