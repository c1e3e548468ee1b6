// SPDX-License-Identifier: GPL-2.0-only
//
// The delay behind the bottleneck. Packets keep their order, also when the delay falls; with jitter a share of them is
// late, chosen one by one in the order of departure from the stream "link.jitter". Late packets hold back those behind
// them, or are overtaken if the jitter reorders; among themselves they keep their order.
#ifndef BBRGYM_WORLD_LINK_DELAY_HPP
#define BBRGYM_WORLD_LINK_DELAY_HPP

#include "random.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace bbrgym
{

class LinkDelay
{
  public:
    struct Arrival
    {
        int64_t at_ns;
        bool is_overtaken; ///< on the way of late packets: those on the other way may arrive first
    };

    LinkDelay() = default;
    LinkDelay(const Link& link, uint64_t run_seed) : m_delay_ns(link.delay_ns)
    {
        if (link.jitter)
        {
            m_jitter.emplace(Jittering{*link.jitter, Random(run_seed, link.name + ".jitter")});
        }
    }

    void Set(int64_t delay_ns) { m_delay_ns = delay_ns; }

    /** The arrival of a packet that departs now. */
    Arrival Send(int64_t now_ns)
    {
        if (m_jitter && m_jitter->random.Chance(m_jitter->law.share)) [[unlikely]]
        {
            const bool is_overtaken = m_jitter->law.reorders;
            return {InOrder(now_ns + m_delay_ns + m_jitter->law.delay_ns, is_overtaken ? m_last_late_ns : m_last_ns),
                    is_overtaken};
        }
        return {InOrder(now_ns + m_delay_ns, m_last_ns), false};
    }

  private:
    struct Jittering
    {
        Jitter law;
        Random random;
    };

    static int64_t InOrder(int64_t arrival_ns, int64_t& last_ns) { return last_ns = std::max(last_ns, arrival_ns); }

    int64_t m_delay_ns = 0;
    int64_t m_last_ns = 0; ///< arrival of the last packet
    int64_t m_last_late_ns = 0;
    std::optional<Jittering> m_jitter;
};

} // namespace bbrgym

#endif
