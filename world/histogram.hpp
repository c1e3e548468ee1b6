// SPDX-License-Identifier: GPL-2.0-only
//
// Distribution of times with bounded memory and error: 128 equal buckets in each power of two, so a bucket
// is at most 1/128 = 0.8 % wide and its middle at most 0.4 % off. Integers only: the same on any machine.
#ifndef BBRGYM_WORLD_HISTOGRAM_HPP
#define BBRGYM_WORLD_HISTOGRAM_HPP

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
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
        if (bucket - m_first >= m_size) // also if it is below m_first
        {
            Cover(bucket);
        }
        ++m_counts[bucket - m_first];
        m_min_ns = std::min(m_min_ns, value);
        m_max_ns = std::max(m_max_ns, value);
        m_sum_ns += value;
        ++m_count;
    }

    /** Adds all values of another one; costs the buckets between its smallest and its largest. */
    void Add(const Histogram& other)
    {
        if (other.m_count == 0)
        {
            return;
        }
        const std::size_t low = other.Low();
        const std::size_t high = other.High();
        for (const std::size_t bucket : {low, high})
        {
            if (bucket - m_first >= m_size)
            {
                Cover(bucket);
            }
        }
        for (std::size_t bucket = low; bucket <= high; ++bucket)
        {
            m_counts[bucket - m_first] += other.m_counts[bucket - other.m_first];
        }
        m_min_ns = std::min(m_min_ns, other.m_min_ns);
        m_max_ns = std::max(m_max_ns, other.m_max_ns);
        m_sum_ns += other.m_sum_ns;
        m_count += other.m_count;
    }

    /** Empties it; costs the buckets between the smallest and the largest value seen. */
    void Clear()
    {
        if (m_count > 0)
        {
            std::fill(m_counts.begin() + static_cast<std::ptrdiff_t>(Low() - m_first),
                      m_counts.begin() + static_cast<std::ptrdiff_t>(High() - m_first) + 1, 0);
        }
        m_count = m_sum_ns = m_max_ns = 0;
        m_min_ns = NONE;
    }

    uint64_t Count() const { return m_count; }
    double MeanMs() const { return static_cast<double>(m_sum_ns) / static_cast<double>(m_count) / 1e6; }
    double MinMs() const { return static_cast<double>(m_min_ns) / 1e6; }

    /** Middle of the bucket that holds the ceil(count * percent / 100)-th smallest value. */
    double PercentileMs(uint64_t percent) const { return PermilleMs(10 * percent); }

    /** The same of thousandths. */
    double PermilleMs(uint64_t permille) const
    {
        const uint64_t rank = (m_count * permille + 999) / 1000;
        uint64_t seen = 0;
        const std::size_t high = High();
        std::size_t bucket = m_count == 0 ? NONE : Low();
        while (bucket < high && (seen += m_counts[bucket - m_first]) < rank)
        {
            ++bucket;
        }
        return MiddleNs(bucket) / 1e6;
    }

  private:
    static constexpr int STEPS_LOG2 = 7;
    static constexpr uint64_t STEPS = uint64_t{1} << STEPS_LOG2;
    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();

    static std::size_t Bucket(uint64_t value)
    {
        if (value < STEPS)
        {
            return value;
        }
        const int shift = std::bit_width(value) - 1 - STEPS_LOG2;
        return static_cast<std::size_t>(static_cast<uint64_t>(shift) * STEPS + (value >> shift));
    }

    std::size_t Low() const { return Bucket(m_min_ns); }  ///< bucket of the smallest value
    std::size_t High() const { return Bucket(m_max_ns); } ///< of the largest

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

    /** Widens the buckets kept to hold this one too, and some beyond it. */
    void Cover(std::size_t bucket)
    {
        const std::size_t first =
            std::min(m_counts.empty() ? bucket : m_first, bucket - std::min<std::size_t>(bucket, STEPS / 2));
        const std::size_t end = std::max(m_first + m_counts.size(), bucket + STEPS / 2);
        std::vector<uint64_t> counts(end - first, 0);
        std::copy(m_counts.begin(), m_counts.end(), counts.begin() + static_cast<std::ptrdiff_t>(m_first - first));
        m_counts = std::move(counts);
        m_size = m_counts.size();
        m_first = first;
    }

    std::vector<uint64_t> m_counts; ///< of the buckets from m_first on
    std::size_t m_first = 0;
    std::size_t m_size = 0; ///< of m_counts, which would subtract and shift to know it
    uint64_t m_count = 0;
    uint64_t m_sum_ns = 0;
    uint64_t m_min_ns = NONE;
    uint64_t m_max_ns = 0;
};

} // namespace bbrgym

#endif
