// SPDX-License-Identifier: GPL-2.0-only
//
// The radio between a wired network and its one station: IP packets in at either end come out at the other, later or
// never. ns-3's own modules carry them; each kind of hop is a library of its own, loaded when a run asks for it, so
// that runs without a hop load no radio.
//
//   wired network --Down()--> [ access point ~~~ radio ~~~ station ] --ends.down()--> receiver
//   wired network <--ends.up()-- [         the same         ] <--Up()-- receiver
#ifndef BBRGYM_LAST_HOP_H
#define BBRGYM_LAST_HOP_H

#include "scenario.hpp"

#include "ns3/packet.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace bbrgym
{

class RadioHop
{
  public:
    using Sink = std::function<void(ns3::Ptr<ns3::Packet>)>;

    /** Whoever takes the packets that have crossed. */
    struct Ends
    {
        Sink down;
        Sink up;
    };

    virtual ~RadioHop() = default;

    /** Sends an IP packet to the station. Until the station is connected packets wait, as many as the queue holds. */
    virtual void Down(ns3::Ptr<ns3::Packet> packet) = 0;
    /** Sends an IP packet from the station. */
    virtual void Up(ns3::Ptr<ns3::Packet> packet) = 0;
};

/**
 * Builds a hop in the running simulation; its random streams are those of the simulation's seed.
 * Throws ScenarioError if this build has no hop of that kind.
 */
std::unique_ptr<RadioHop> MakeRadioHop(const LastHop& spec, RadioHop::Ends ends);

/** How long the station may take to connect before a recording begins. */
inline constexpr int64_t HOP_CONNECTS_WITHIN_NS = 1'000'000'000;

/**
 * Saturates a hop downwards with UDP packets of `packet_bytes` and returns the times at which they arrive, from a
 * second after the hop's start to `duration_ns` later. Throws as MakeRadioHop, and std::runtime_error while a
 * simulation is alive.
 */
std::vector<int64_t> RecordArrivals(const LastHop& spec, uint64_t seed, int64_t duration_ns, uint32_t packet_bytes);

/** The one symbol of a hop's library. */
using MakeRadioHopFunction = RadioHop* (*)(const LastHop&, RadioHop::Ends*);
#define BBRGYM_MAKE_RADIO_HOP BbrgymMakeRadioHop

} // namespace bbrgym

#endif
