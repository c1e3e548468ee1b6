// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym-opengym --scenario=FILE --openGymPort=5555 --simSeed=1
//
// A scenario on ns-3 as an ns3-gym simulation: raw measurements out, raw tunables in; see gym/serve.h.
#include "ns3-simulation.h"
#include "serve.h"

namespace
{

/** A scenario's own network, with tables of its own. */
class ScenarioWorld : private bbrgym::OwnTables, public bbrgym::Ns3Simulation
{
  public:
    ScenarioWorld(const std::shared_ptr<const bbrgym::Scenario>& scenario, uint64_t seed)
        : OwnTables(scenario->flows.size()),
          Ns3Simulation(scenario, seed, OwnTables::Get())
    {
    }
};

} // namespace

int
main(int argc, char** argv)
{
    return bbrgym::ServeMain(argc, argv, [](auto scenario, uint64_t seed) {
        return std::make_unique<ScenarioWorld>(scenario, seed);
    });
}
