// SPDX-License-Identifier: GPL-2.0-only
#include "run-control.h"

#include "ns3-versions.h"

#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace bbrgym
{

using namespace ns3;

namespace
{

bool g_is_running = false;

/** Comes again, after everything else that is due now, until it is the only event that is due. */
void
PauseWhenInstantIsOver(uint64_t events_before)
{
    const uint64_t events = Simulator::GetEventCount();
    if (events == events_before + 1)
    {
        Simulator::Stop();
    }
    else
    {
        Simulator::ScheduleNow(&PauseWhenInstantIsOver, events);
    }
}

} // namespace

SimulatorLease::SimulatorLease(uint64_t seed)
{
    if (g_is_running)
    {
        throw std::runtime_error("a simulation is already alive in this process; ns-3 allows one, close it first");
    }
    g_is_running = true;
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(seed);
    ResetStreams();
}

SimulatorLease::~SimulatorLease()
{
    End();
}

void
SimulatorLease::End()
{
    if (m_is_alive)
    {
        Simulator::Destroy();
        m_is_alive = g_is_running = false;
    }
}

void
AdvanceSimulator(double duration_s, int64_t end_ns)
{
    if (!(duration_s >= 0))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) + ", expected >= 0 s");
    }
    const int64_t left_ns = end_ns - Simulator::Now().GetNanoSeconds();
    const int64_t step_ns = std::min<int64_t>(std::llround(std::min(duration_s * 1e9, 9e18)), left_ns);
    if (step_ns > 0)
    {
        Simulator::Schedule(NanoSeconds(step_ns), &PauseWhenInstantIsOver, uint64_t{0});
        Simulator::Run();
    }
}

} // namespace bbrgym
