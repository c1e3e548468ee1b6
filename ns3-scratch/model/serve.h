// SPDX-License-Identifier: GPL-2.0-only
//
// A program as the worker of bbrgym's world `ns3gym`: the rest of main() for a network of your own.
//
// The standard input is a socket to the owner of the worlds (src/bbrgym/worlds/ns3gym_engine.py). Its first message
// brings two descriptors: a mailbox, which holds a request or its answer, and the arrays that all worlds share. 8 bytes
// are a request that lies in the mailbox, 8 bytes back say that it is done. The end of the socket ends the program.
#ifndef BBRGYM_SERVE_H
#define BBRGYM_SERVE_H

#include "world.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace bbrgym
{

/** Makes the world that a scenario and a seed describe. */
using WorldFactory = std::function<std::unique_ptr<World>(std::shared_ptr<const Scenario> scenario, uint64_t seed)>;

/**
 * Serves one run after the other, each in a fork of this process: so none sees what an earlier one left in ns-3's
 * static state. Returns the exit code: 1 and a line on the error output if bbrgym has not started the program.
 */
int ServeMain(const WorldFactory& make_world);

} // namespace bbrgym

#endif
