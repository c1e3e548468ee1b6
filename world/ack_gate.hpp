// SPDX-License-Identifier: GPL-2.0-only
//
// The gate through which everything leaves the receivers on the return path. Open, it holds nothing. In slots it lets
// all it holds go at each multiple of a time; in bursts as soon as it holds so many, or when the first has waited too
// long. The host puts packets in and calls Release at DeadlineNs, or when Put says so.
#ifndef BBRGYM_WORLD_ACK_GATE_HPP
#define BBRGYM_WORLD_ACK_GATE_HPP

#include "ring.hpp"
#include "scenario.hpp"
#include "times.hpp"

#include <cstdint>
#include <utility>
#include <variant>

namespace bbrgym
{

template <class Packet> class AckGate
{
  public:
    /** Empties it; keeps its memory. */
    void Reset(const Acks& acks)
    {
        m_acks = acks;
        m_held.clear();
        m_deadline_ns = NEVER_NS;
    }

    bool IsOpen() const { return std::holds_alternative<AcksAtOnce>(m_acks); }

    /** Holds a packet. True: call Release now. */
    bool Put(const Packet& packet, int64_t now_ns)
    {
        m_held.push_back(packet);
        const auto* bursts = std::get_if<AckBursts>(&m_acks);
        if (m_held.size() == 1)
        {
            m_deadline_ns = bursts ? now_ns + bursts->timeout_ns : NextSlotNs(std::get<AckSlots>(m_acks), now_ns);
        }
        return bursts && m_held.size() >= bursts->packets;
    }

    /** The packet put in last is the only one: DeadlineNs is new. */
    bool HasOne() const { return m_held.size() == 1; }

    /** When all that is held leaves; NEVER_NS: nothing is held. */
    int64_t DeadlineNs() const { return m_deadline_ns; }

    template <class Look> void ForEach(Look&& look) const
    {
        for (std::size_t i = 0; i < m_held.size(); ++i)
        {
            look(m_held[i]);
        }
    }

    template <class Leave> void Release(Leave&& leave)
    {
        m_deadline_ns = NEVER_NS;
        for (; !m_held.empty(); m_held.pop_front())
        {
            leave(m_held.front());
        }
    }

  private:
    /** The present moment, if a slot begins. */
    static int64_t NextSlotNs(const AckSlots& slots, int64_t now_ns)
    {
        return (now_ns + slots.every_ns - 1) / slots.every_ns * slots.every_ns;
    }

    Acks m_acks;
    Ring<Packet> m_held;
    int64_t m_deadline_ns = NEVER_NS;
};

} // namespace bbrgym

#endif
