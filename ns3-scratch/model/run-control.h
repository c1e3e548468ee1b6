// SPDX-License-Identifier: GPL-2.0-only
//
// ns-3's simulator is global to the process: who holds it, and how it advances by control intervals.
#ifndef BBRGYM_RUN_CONTROL_H
#define BBRGYM_RUN_CONTROL_H

#include "stop.hpp"

#include "ns3/simulator.h"

#include <cstdint>

namespace bbrgym
{

/** Simulated time. */
inline int64_t
NowNs()
{
    return ns3::Simulator::Now().GetNanoSeconds();
}

/** The process's one simulation. The simulator begins at 0 s, with ns-3's own random streams of `seed`. */
class SimulatorLease
{
  public:
    /** Throws std::runtime_error while another one is alive. */
    explicit SimulatorLease(uint64_t seed);
    ~SimulatorLease();
    SimulatorLease(const SimulatorLease&) = delete;
    SimulatorLease& operator=(const SimulatorLease&) = delete;

    /** Destroys what the simulator holds: its events and nodes. May be called again. */
    void End();

  private:
    bool m_is_alive = true;
};

/** While it is alive, advances of the simulator ask `stop` every few hundred events whether to stop. */
class SimulatorWatch
{
  public:
    explicit SimulatorWatch(StopCheck& stop);
    ~SimulatorWatch();
    SimulatorWatch(const SimulatorWatch&) = delete;
    SimulatorWatch& operator=(const SimulatorWatch&) = delete;
};

/**
 * Runs for `duration_s`, at most to `end_ns`, with all events of the last instant, so that the size of the steps
 * changes nothing. Throws std::invalid_argument unless the duration is at least 0, and Stopped if a SimulatorWatch says
 * so: then the simulation must be ended.
 */
void AdvanceSimulator(double duration_s, int64_t end_ns);

} // namespace bbrgym

#endif
