// SPDX-License-Identifier: GPL-2.0-only
//
// A queue in one block of memory, indexed from its front. It grows by doubling, a large one by an eighth, and never
// shrinks, so it stops allocating once it has reached its largest size. Copied by value.
#ifndef BBRGYM_WORLD_RING_HPP
#define BBRGYM_WORLD_RING_HPP

#include "page_allocator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

template <class T>
class Ring
{
  public:
    bool empty() const { return m_size == 0; }
    std::size_t size() const { return m_size; }

    T& operator[](std::size_t index) { return m_slots[SlotOf(index)]; }
    const T& operator[](std::size_t index) const { return m_slots[SlotOf(index)]; }
    T& front() { return m_slots[m_front]; }
    const T& front() const { return m_slots[m_front]; }
    T& back() { return (*this)[m_size - 1]; }
    const T& back() const { return (*this)[m_size - 1]; }

    void push_back(const T& value)
    {
        if (m_size == m_capacity) [[unlikely]]
        {
            Grow();
        }
        m_slots[SlotOf(m_size)] = value;
        ++m_size;
    }

    void pop_front(std::size_t count = 1)
    {
        m_front = SlotOf(count);
        m_size -= count;
    }

    /** All of it; to be asked only if nothing was taken since it was empty. */
    std::span<T> in_one_piece() { return {m_slots.data(), m_size}; }

    void clear() { m_front = m_size = 0; }

    /** Reserves room for so many elements. */
    void reserve(std::size_t size)
    {
        if (size > m_capacity)
        {
            MoveTo(std::bit_ceil(size));
        }
    }

  private:
    /** From here on doubling would cost more memory than it saves copies. */
    static constexpr std::size_t LARGE = 4096;
    static constexpr std::size_t LARGE_STEPS = 8; ///< in which a large one doubles

    std::size_t SlotOf(std::size_t index) const
    {
        const std::size_t slot = m_front + index;
        return slot >= m_capacity ? slot - m_capacity : slot;
    }

    /** Not in line: it is seldom called and would keep push_back from being. */
    [[gnu::noinline]] void Grow()
    {
        MoveTo(m_capacity < LARGE ? std::max<std::size_t>(2 * m_capacity, 1) : m_capacity + m_capacity / LARGE_STEPS);
    }

    [[gnu::noinline]] void MoveTo(std::size_t capacity)
    {
        std::vector<T, PageAllocator<T>> slots(capacity);
        for (std::size_t i = 0; i < m_size; ++i)
        {
            slots[i] = (*this)[i];
        }
        m_slots = std::move(slots);
        m_capacity = capacity;
        m_front = 0;
    }

    std::vector<T, PageAllocator<T>> m_slots;
    std::size_t m_capacity = 0; ///< slots; a vector would divide by the size of T to know it
    std::size_t m_front = 0;
    std::size_t m_size = 0;
};

} // namespace bbrgym

#endif
