// SPDX-License-Identifier: GPL-2.0-only
//
// The delay behind the bottleneck, that of the link and of its trace at the packet's departure. Packets keep their
// order, also when the delay falls, unless the link reorders: then each fall begins a path of its own, on which packets
// overtake those of the one before. With jitter a share of them is late, chosen one by one in the order of departure
// from the stream "link.jitter". Late packets hold back those behind them, or are overtaken if the jitter reorders;
// among themselves they keep their order.
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
        bool is_apart; ///< not behind all that left before: it may be overtaken, or overtakes
    };

    LinkDelay() = default;
    LinkDelay(const Link& link, uint64_t run_seed) : m_delay_ns(link.delay_ns)
    {
        if (link.jitter || link.delay_trace || link.reorders)
        {
            m_special.emplace(Special{link.jitter.value_or(Jitter()), Random(run_seed, link.name + ".jitter"),
                                      link.delay_trace, link.reorders});
        }
    }

    void Set(int64_t delay_ns) { m_delay_ns = delay_ns; }

    /** The arrival of a packet that departs now. */
    Arrival Send(int64_t now_ns)
    {
        return m_special ? SendSpecially(now_ns) : Arrival{InOrder(now_ns + m_delay_ns, m_last_ns), false};
    }

  private:
    /** What most links do not have. */
    struct Special
    {
        Jitter jitter;
        Random random;
        std::optional<DelayTrace> trace;
        bool reorders;
        int64_t delay_ns = 0;         ///< of the last packet, without jitter
        int64_t last_late_ns = 0;     ///< arrival of the last one that jitter made late and lets others overtake
        int64_t last_of_queue_ns = 0; ///< of the last one that was not apart
    };

    [[gnu::noinline]] Arrival SendSpecially(int64_t now_ns)
    {
        Special& special = *m_special;
        const int64_t delay_ns = m_delay_ns + (special.trace ? special.trace->At(now_ns) : 0);
        if (special.reorders && delay_ns < special.delay_ns)
        {
            m_last_ns = special.last_late_ns = 0;
        }
        special.delay_ns = delay_ns;
        const bool is_late = special.random.Chance(special.jitter.share);
        const bool is_overtaken = is_late && special.jitter.reorders;
        const int64_t at_ns = InOrder(now_ns + delay_ns + (is_late ? special.jitter.delay_ns : 0),
                                      is_overtaken ? special.last_late_ns : m_last_ns);
        if (is_overtaken || at_ns < special.last_of_queue_ns)
        {
            return {at_ns, true};
        }
        special.last_of_queue_ns = at_ns;
        return {at_ns, false};
    }

    static int64_t InOrder(int64_t arrival_ns, int64_t& last_ns) { return last_ns = std::max(last_ns, arrival_ns); }

    int64_t m_delay_ns = 0;
    int64_t m_last_ns = 0; ///< arrival of the last packet
    std::optional<Special> m_special;
};

} // namespace bbrgym

#endif
