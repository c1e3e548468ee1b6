// SPDX-License-Identifier: GPL-2.0-only
//
// A world as an ns3-gym simulation, for bbrgym's world `ns3gym` and for any agent that speaks ns3-gym's protocol.
//
//   observation  Dict of the tables of fields.def, float64, NaN where nothing was measured:
//                flow_stats [flows, FLOW_STAT]      link_stats [LINK_STAT]       of the last interval
//                flow_summary [flows, FLOW_SUMMARY] link_summary [LINK_SUMMARY]  from the warm-up's end to now
//   action       Dict: tunables [flows, tunables], float64, in natural units and in the order of tunables.def, NaN where a
//                flow does not have a tunable; seconds [1], float64, the length of the next interval
//   reward       IntervalScore (score.h), 0 where no flow counts; float32 on the wire
//   info         JSON: now_s, done; and in the first state scenario, seed, flows (names), fields (of each table: name and
//                unit), tunables (name and unit), initial_tunables (of each flow: name and value)
//   end          SimulationEnd at the scenario's end
#ifndef BBRGYM_GYM_SERVE_H
#define BBRGYM_GYM_SERVE_H

#include "world.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace bbrgym
{

/**
 * Serves one run to the agent that listens at `port` of this machine, to the run's end or until the agent stops it.
 * `timeout_s` is the longest wait for the agent and for each of its answers. Throws AgentError if the agent fails and
 * std::invalid_argument if its action is not valid.
 */
void Serve(World& world, uint16_t port, double timeout_s);

/** Makes the world that a scenario and a seed describe. */
using WorldFactory = std::function<std::unique_ptr<World>(std::shared_ptr<const Scenario> scenario, uint64_t seed)>;

/**
 * The whole of a program's main(): reads --scenario=FILE (resolved, as `bbrgym scenario` prints it), --openGymPort=5555,
 * --simSeed=1 and --timeout=3600 (s), makes the world and serves it. Returns the exit code: 2 and one line on the error
 * output if something is wrong with arguments, scenario or action, 1 if the agent fails.
 */
int ServeMain(int argc, char** argv, const WorldFactory& make_world);

} // namespace bbrgym

#endif
