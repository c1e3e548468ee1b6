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
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

template <class T> class Ring
{
  public:
    Ring() = default;
    Ring(const Ring& other) { *this = other; }
    Ring(Ring&& other) noexcept { swap(other); }
    ~Ring() = default;
    Ring& operator=(const Ring& other)
    {
        m_slots = other.m_slots;
        m_size = other.m_size;
        Place(other.m_front - other.m_slots.data(), other.m_back - other.m_slots.data());
        return *this;
    }
    Ring& operator=(Ring&& other) noexcept
    {
        swap(other);
        return *this;
    }
    void swap(Ring& other) noexcept
    {
        std::swap(m_slots, other.m_slots);
        std::swap(m_front, other.m_front);
        std::swap(m_back, other.m_back);
        std::swap(m_capacity, other.m_capacity);
        std::swap(m_size, other.m_size);
    }

    /** Becomes empty, in the memory of another one. */
    void TakeMemory(Ring& other) noexcept
    {
        swap(other);
        clear();
    }

    bool empty() const { return m_size == 0; }
    std::size_t size() const { return m_size; }

    T& operator[](std::size_t index) { return *At(index); }
    const T& operator[](std::size_t index) const { return *At(index); }
    T& front() { return *m_front; }
    const T& front() const { return *m_front; }
    T& back() { return (*this)[m_size - 1]; }
    const T& back() const { return (*this)[m_size - 1]; }

    void push_back(const T& value)
    {
        if (m_size == m_capacity) [[unlikely]]
        {
            Grow();
        }
        *m_back = value;
        m_back = m_back + 1 == End() ? m_slots.data() : m_back + 1;
        ++m_size;
    }

    void pop_front()
    {
        m_front = m_front + 1 == End() ? m_slots.data() : m_front + 1;
        --m_size;
    }
    void pop_front(std::size_t count)
    {
        m_front = At(count);
        m_size -= count;
    }

    /** All of it; to be asked only if nothing was taken since it was empty. */
    std::span<T> in_one_piece() { return {m_slots.data(), m_size}; }

    void clear()
    {
        m_size = 0;
        Place(0, 0);
    }

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

    const T* End() const { return std::to_address(m_slots.end()); }

    T* At(std::size_t index) const
    {
        const auto ahead = static_cast<std::ptrdiff_t>(index);
        return m_front + (ahead < End() - m_front ? ahead : ahead - static_cast<std::ptrdiff_t>(m_capacity));
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
        Place(0, m_size);
    }

    /** Points to the slots, which may be others now. */
    void Place(std::ptrdiff_t front, std::ptrdiff_t back)
    {
        m_capacity = m_slots.size();
        m_front = m_slots.data() + front;
        m_back = m_slots.data() + back;
    }

    std::vector<T, PageAllocator<T>> m_slots;
    T* m_front = nullptr;
    T* m_back = nullptr;        ///< the slot of the next element
    std::size_t m_capacity = 0; ///< slots; a vector would divide by the size of T to know it
    std::size_t m_size = 0;
};

} // namespace bbrgym

#endif
