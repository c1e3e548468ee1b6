// SPDX-License-Identifier: GPL-2.0-only
//
// What happens next. Events are not packets but sources of events (a pipe, a timer): a pipe of a thousand
// packets stands in here once, with its first packet's time. Events of the same time happen in the order in
// which they were ordered, as in any honest simulator.
#ifndef BBRGYM_TWIN_EVENT_QUEUE_HPP
#define BBRGYM_TWIN_EVENT_QUEUE_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bbrgym
{

/** An event; `order` is the number of its ordering, then its source. */
struct Event
{
    static constexpr int SOURCE_BITS = 20;

    int64_t time_ns;
    uint64_t order;

    uint32_t Source() const { return static_cast<uint32_t>(order & ((uint64_t{1} << SOURCE_BITS) - 1)); }
    bool operator<(const Event& other) const
    {
        return time_ns < other.time_ns || (time_ns == other.time_ns && order < other.order);
    }
};

/** A heap of four children a node. What is taken leaves a hole, which the next event put in fills cheaply. */
class EventQueue
{
  public:
    void Clear()
    {
        m_heap.clear();
        m_has_hole = false;
    }

    void Reserve(std::size_t events) { m_heap.reserve(events); }

    /** The earliest event; to be asked only if there is one. */
    bool Empty()
    {
        FillHole();
        return m_heap.empty();
    }

    const Event& First() const { return m_heap.front(); }

    void RemoveFirst() { m_has_hole = true; }

    void Put(Event event)
    {
        if (m_has_hole)
        {
            m_has_hole = false;
            SiftDown(event);
            return;
        }
        m_heap.push_back(event);
        std::size_t at = m_heap.size() - 1;
        while (at > 0 && event < m_heap[(at - 1) / WIDTH])
        {
            m_heap[at] = m_heap[(at - 1) / WIDTH];
            at = (at - 1) / WIDTH;
        }
        m_heap[at] = event;
    }


  private:
    static constexpr std::size_t WIDTH = 4;

    void FillHole()
    {
        if (!m_has_hole)
        {
            return;
        }
        m_has_hole = false;
        const Event last = m_heap.back();
        m_heap.pop_back();
        if (!m_heap.empty())
        {
            SiftDown(last);
        }
    }

    /** Puts an event in the root's place and lets it sink. */
    void SiftDown(Event event)
    {
        const std::size_t size = m_heap.size();
        std::size_t at = 0;
        for (;;)
        {
            const std::size_t first = at * WIDTH + 1;
            if (first >= size)
            {
                break;
            }
            const std::size_t end = first + WIDTH < size ? first + WIDTH : size;
            std::size_t least = first;
            for (std::size_t child = first + 1; child < end; ++child)
            {
                least = m_heap[child] < m_heap[least] ? child : least;
            }
            if (!(m_heap[least] < event))
            {
                break;
            }
            m_heap[at] = m_heap[least];
            at = least;
        }
        m_heap[at] = event;
    }

    std::vector<Event> m_heap;
    bool m_has_hole = false;
};

} // namespace bbrgym

#endif
