// SPDX-License-Identifier: GPL-2.0-only
#include "codel.hpp"

namespace bbrgym
{

namespace
{

/** The clock wraps every 73 minutes. */
bool
IsAfter(uint32_t a, uint32_t b)
{
    return static_cast<int32_t>(a - b) > 0;
}

} // namespace

CoDelState::CoDelState(const CoDel& codel, uint64_t min_bytes)
    : m_target(Ticks(codel.target_ns)),
      m_interval(Ticks(codel.interval_ns)),
      m_min_bytes(min_bytes)
{}

bool
CoDelState::MayDrop(int64_t waited_ns, uint64_t queued_bytes, int64_t now_ns)
{
    const uint32_t now = Ticks(now_ns);
    if (Ticks(waited_ns) < m_target || queued_bytes < m_min_bytes)
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

} // namespace bbrgym
