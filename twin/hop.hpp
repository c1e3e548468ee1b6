// SPDX-License-Identifier: GPL-2.0-only
//
// A link of the network, one of those that packets take one after the other: its bottleneck, what is on the way behind
// it, and its measurement. Plain data; the engine holds the logic.
#ifndef BBRGYM_TWIN_HOP_HPP
#define BBRGYM_TWIN_HOP_HPP

#include "packet.hpp"

#include "bottleneck.hpp"
#include "measurement.hpp"
#include "ring.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace bbrgym
{

struct Hop
{
    static constexpr uint32_t NONE = std::numeric_limits<uint32_t>::max();

    Bottleneck<QueuedPacket> bottleneck;
    Ring<PacketOnLink> link;
    Ring<PacketOnLink> late;   ///< on the link, but may be overtaken or overtake; by arrival
    uint64_t server_order = 0; ///< of the bottleneck's next service
    Measurement measurement;
    std::vector<uint32_t> next; ///< of each flow: the hop behind this one; NONE: the path's end

    /** Empties it and takes a link's settings; keeps its memory. */
    void Reset(const Scenario& scenario, const Link& settings, uint64_t run_seed)
    {
        bottleneck.Reset(settings, scenario.flows.size(), scenario.mss_bytes + HEADER_BYTES, run_seed);
        link.clear();
        late.clear();
        server_order = 0;
        measurement.Reset(scenario);
        next.assign(scenario.flows.size(), NONE);
    }
};

} // namespace bbrgym

#endif
