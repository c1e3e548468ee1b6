// SPDX-License-Identifier: GPL-2.0-only
//
// Distribution of times with bounded memory and error: 128 equal buckets in each power of two, so a bucket
// is at most 1/128 = 0.8 % wide and its middle at most 0.4 % off. Integers only: the same on any machine.
#ifndef BBRGYM_WORLD_HISTOGRAM_HPP
#define BBRGYM_WORLD_HISTOGRAM_HPP

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace bbrgym
{

class Histogram
{
  public:
    void Add(int64_t value_ns)
    {
        const auto value = static_cast<uint64_t>(std::max<int64_t>(value_ns, 0));
        const std::size_t bucket = Bucket(value);
        if (bucket >= m_counts.size())
        {
            m_counts.resize(bucket + 1, 0);
        }
        ++m_counts[bucket];
        m_low = m_count == 0 ? bucket : std::min(m_low, bucket);
        m_high = m_count == 0 ? bucket : std::max(m_high, bucket);
        m_min_ns = m_count == 0 ? value : std::min(m_min_ns, value);
        m_sum_ns += value;
        ++m_count;
    }

    /** Empties it; costs the buckets between the smallest and the largest value seen. */
    void Clear()
    {
        if (m_count > 0)
        {
            std::fill(m_counts.begin() + static_cast<std::ptrdiff_t>(m_low),
                      m_counts.begin() + static_cast<std::ptrdiff_t>(m_high) + 1,
                      0);
        }
        m_count = m_sum_ns = m_min_ns = 0;
    }

    uint64_t Count() const { return m_count; }
    double MeanMs() const { return static_cast<double>(m_sum_ns) / static_cast<double>(m_count) / 1e6; }
    double MinMs() const { return static_cast<double>(m_min_ns) / 1e6; }

    /** Middle of the bucket that holds the ceil(count * percent / 100)-th smallest value. */
    double PercentileMs(uint64_t percent) const
    {
        const uint64_t rank = (m_count * percent + 99) / 100;
        uint64_t seen = 0;
        std::size_t bucket = m_low;
        while (bucket < m_high && (seen += m_counts[bucket]) < rank)
        {
            ++bucket;
        }
        return MiddleNs(bucket) / 1e6;
    }

  private:
    static constexpr int STEPS_LOG2 = 7;
    static constexpr uint64_t STEPS = uint64_t{1} << STEPS_LOG2;

    static std::size_t Bucket(uint64_t value)
    {
        if (value < STEPS)
        {
            return value;
        }
        const int shift = std::bit_width(value) - 1 - STEPS_LOG2;
        return static_cast<std::size_t>(static_cast<uint64_t>(shift) * STEPS + (value >> shift));
    }

    static double MiddleNs(std::size_t bucket)
    {
        if (bucket < STEPS)
        {
            return static_cast<double>(bucket);
        }
        const uint64_t shift = bucket / STEPS - 1;
        const uint64_t low = (bucket - shift * STEPS) << shift;
        return static_cast<double>(low) + static_cast<double>((uint64_t{1} << shift) - 1) / 2.0;
    }

    std::vector<uint64_t> m_counts;
    std::size_t m_low = 0;
    std::size_t m_high = 0;
    uint64_t m_count = 0;
    uint64_t m_sum_ns = 0;
    uint64_t m_min_ns = 0;
};

} // namespace bbrgym

#endif
