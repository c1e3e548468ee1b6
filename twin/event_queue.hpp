// SPDX-License-Identifier: GPL-2.0-only
//
// The queue of events. An entry is a source of events (a pipe, a timer), not a packet: a pipe of a thousand packets
// has one entry, with its first packet's time. Events at the same time happen in the order in which they were
// scheduled.
//
// Busy sources have a leaf each in a tournament: every inner node holds the earlier of its two children, so a
// change costs one comparison per level, without a branch to predict. Sources that seldom have an event share one leaf
// through a heap.
#ifndef BBRGYM_TWIN_EVENT_QUEUE_HPP
#define BBRGYM_TWIN_EVENT_QUEUE_HPP

#include "scoreboard.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace bbrgym
{

/** An event; `order` holds its sequence number, then its source. */
struct Event
{
    static constexpr int SOURCE_BITS = 16; // the rest holds the nanoseconds of three days

    int64_t time_ns;
    uint64_t order;

    uint32_t Source() const { return static_cast<uint32_t>(order & ((uint64_t{1} << SOURCE_BITS) - 1)); }
    bool operator>(const Event& other) const { return other < *this; }
    bool operator<(const Event& other) const { return Rank() < other.Rank(); }

    /** As one number, which compilers compare without a branch. */
    unsigned __int128 Rank() const
    {
        return static_cast<unsigned __int128>(static_cast<uint64_t>(time_ns)) << 64 | order;
    }
};

class EventQueue
{
  public:
    /** Empties it and makes `leaves` for busy sources, numbered from 0. */
    void Reset(std::size_t leaves)
    {
        m_leaves = leaves + 1;
        m_tree.assign(std::max<std::size_t>(2 * m_leaves, ROOT + 1), NOTHING);
        m_seldom.clear();
    }

    /** The earliest event; its time is NEVER_NS if there is none. */
    const Event& First() const { return m_tree[ROOT]; }

    /** The next event of a busy source, in place of the one it had. */
    void Set(std::size_t leaf, Event event) { Place(m_leaves + leaf, event); }
    /** The same of an event that is earlier than the one it had, if it had any. */
    void SetEarlier(std::size_t leaf, Event event) { Raise(m_leaves + leaf, event); }
    /** The same of an event that may be earlier or later. */
    void Move(std::size_t leaf, Event event)
    {
        event < m_tree[m_leaves + leaf] ? SetEarlier(leaf, event) : Set(leaf, event);
    }
    void Clear(std::size_t leaf) { Set(leaf, NOTHING); }

    /** An event of another source; it may have several. */
    void AddSeldom(Event event)
    {
        m_seldom.push_back(event);
        std::ranges::push_heap(m_seldom, std::greater<>());
        Raise(SeldomLeaf(), m_seldom.front());
    }

    /** Removes First(), which must be such an event. */
    void RemoveSeldom()
    {
        std::ranges::pop_heap(m_seldom, std::greater<>());
        m_seldom.pop_back();
        Place(SeldomLeaf(), m_seldom.empty() ? NOTHING : m_seldom.front());
    }

  private:
    static constexpr Event NOTHING{NEVER_NS, 0};

    static constexpr std::size_t ROOT = 1;

    /** The last one: where the tree is not full, the last leaves are the farthest from the root. */
    std::size_t SeldomLeaf() const { return 2 * m_leaves - 1; }

    /** For an event that is earlier than the leaf's: the nodes that it wins are the first ones on its way up. */
    void Raise(std::size_t at, Event event)
    {
        m_tree[at] = event;
        for (; at > ROOT && event < m_tree[at / 2]; at /= 2)
        {
            m_tree[at / 2] = event;
        }
    }

    void Place(std::size_t at, Event event)
    {
        m_tree[at] = event;
        for (; at > ROOT; at /= 2)
        {
            const Event rival = m_tree[at ^ 1];
            const bool rival_wins = rival < event;
            event.time_ns = rival_wins ? rival.time_ns : event.time_ns;
            event.order = rival_wins ? rival.order : event.order;
            m_tree[at / 2] = event;
        }
    }

    std::vector<Event>
        m_tree; ///< the children of i at 2i and 2i + 1, the leaves at m_leaves and on, the last for m_seldom
    std::size_t m_leaves = 1;
    std::vector<Event> m_seldom; ///< a heap, the earliest in front
};

} // namespace bbrgym

#endif
