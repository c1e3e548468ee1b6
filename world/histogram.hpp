// SPDX-License-Identifier: GPL-2.0-only
//
// Distribution of times with bounded memory and error: 128 equal buckets in each power of two, so a bucket
// is at most 1/128 = 0.8 % wide and its middle at most 0.4 % off. Integers only: the same on any machine.
//
// An interval has few values, far apart: a bit for each block of buckets says where there are any, and only these
// blocks are looked at.
#ifndef BBRGYM_WORLD_HISTOGRAM_HPP
#define BBRGYM_WORLD_HISTOGRAM_HPP

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
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
        m_used[bucket / (BLOCK * WORD_BITS)] |= uint64_t{1} << (bucket / BLOCK % WORD_BITS);
        m_min_ns = std::min(m_min_ns, value);
        m_max_ns = std::max(m_max_ns, value);
        m_sum_ns += value;
        ++m_count;
    }

    /** Adds all values of another one. */
    void Add(const Histogram& other)
    {
        if (other.m_count == 0)
        {
            return;
        }
        for (const std::size_t bucket : {Bucket(other.m_min_ns), Bucket(other.m_max_ns)})
        {
            if (bucket - m_first >= m_size)
            {
                Cover(bucket);
            }
        }
        other.ForEachBlock([&](std::size_t first) {
            const uint64_t* const from = &other.m_counts[first - other.m_first];
            uint64_t* const to = &m_counts[first - m_first];
            std::transform(from, from + BLOCK, to, to, std::plus<>());
            return true;
        });
        std::ranges::transform(m_used, other.m_used, m_used.begin(), std::bit_or<>());
        m_min_ns = std::min(m_min_ns, other.m_min_ns);
        m_max_ns = std::max(m_max_ns, other.m_max_ns);
        m_sum_ns += other.m_sum_ns;
        m_count += other.m_count;
    }

    void Clear()
    {
        ForEachBlock([&](std::size_t first) {
            std::fill_n(&m_counts[first - m_first], BLOCK, 0);
            return true;
        });
        m_used.fill(0);
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
        const uint64_t rank = std::max<uint64_t>((m_count * permille + 999) / 1000, 1);
        uint64_t seen = 0;
        std::size_t bucket = NONE;
        ForEachBlock([&](std::size_t first) {
            const uint64_t* count = &m_counts[first - m_first];
            const uint64_t seen_after = std::accumulate(count, count + BLOCK, seen);
            if (seen_after < rank)
            {
                seen = seen_after;
                return true;
            }
            for (bucket = first; (seen += *count) < rank; ++count)
            {
                ++bucket;
            }
            return false;
        });
        return MiddleNs(bucket) / 1e6;
    }

  private:
    static constexpr int STEPS_LOG2 = 7;
    static constexpr uint64_t STEPS = uint64_t{1} << STEPS_LOG2;
    static constexpr uint64_t NONE = std::numeric_limits<uint64_t>::max();
    static constexpr std::size_t BUCKETS = (65 - STEPS_LOG2) * STEPS; ///< of all values
    static constexpr std::size_t BLOCK = 32;                          ///< buckets
    static constexpr std::size_t WORD_BITS = 64;

    static std::size_t Bucket(uint64_t value)
    {
        if (value < STEPS)
        {
            return value;
        }
        const int shift = std::bit_width(value) - 1 - STEPS_LOG2;
        return static_cast<std::size_t>(static_cast<uint64_t>(shift) * STEPS + (value >> shift));
    }

    /** Calls for the first bucket of each block with values, in order, while that returns true. */
    template <class Call> void ForEachBlock(Call&& call) const
    {
        for (std::size_t word = 0; word < m_used.size(); ++word)
        {
            for (uint64_t left = m_used[word]; left != 0; left &= left - 1)
            {
                if (!call((word * WORD_BITS + static_cast<std::size_t>(std::countr_zero(left))) * BLOCK))
                {
                    return;
                }
            }
        }
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

    /** Widens the buckets kept, which are whole blocks, to hold this one too, and some beyond it. */
    void Cover(std::size_t bucket)
    {
        const std::size_t low =
            std::min(m_counts.empty() ? bucket : m_first, bucket - std::min<std::size_t>(bucket, STEPS / 2));
        const std::size_t first = low / BLOCK * BLOCK;
        const std::size_t high = std::max(m_first + m_counts.size(), bucket + STEPS / 2);
        const std::size_t end = (high + BLOCK - 1) / BLOCK * BLOCK;
        std::vector<uint64_t> counts(end - first, 0);
        std::copy(m_counts.begin(), m_counts.end(), counts.begin() + static_cast<std::ptrdiff_t>(m_first - first));
        m_counts = std::move(counts);
        m_size = m_counts.size();
        m_first = first;
    }

    std::vector<uint64_t> m_counts; ///< of the buckets from m_first on
    std::size_t m_first = 0;
    std::size_t m_size = 0; ///< of m_counts, which would subtract and shift to know it
    /** A bit for each block, of the buckets from 0 on. */
    std::array<uint64_t, BUCKETS / (BLOCK * WORD_BITS) + 1> m_used{};
    uint64_t m_count = 0;
    uint64_t m_sum_ns = 0;
    uint64_t m_min_ns = NONE;
    uint64_t m_max_ns = 0;
};

} // namespace bbrgym

#endif
