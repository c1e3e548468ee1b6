// SPDX-License-Identifier: GPL-2.0-only
#include "run-control.h"

#include "ns3-versions.h"
#include "times.hpp"

#include "ns3/map-scheduler.h"
#include "ns3/object-factory.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/simulator.h"

#include <stdexcept>

namespace bbrgym
{

using namespace ns3;

namespace
{

constexpr uint64_t EVENTS_BETWEEN_LOOKS = 256; // some tenths of a millisecond

bool g_is_running = false;
bool g_is_watched = false;   // the simulator's events are in a WatchedScheduler
StopCheck* g_stop = nullptr; // of the SimulatorWatch that is alive

/** ns-3's default scheduler, from which the simulator takes each event. It adds no event and changes no order. */
class WatchedScheduler : public MapScheduler
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId id = TypeId("bbrgym::WatchedScheduler")
                                     .SetParent<MapScheduler>()
                                     .SetGroupName("Bbrgym")
                                     .AddConstructor<WatchedScheduler>();
        return id;
    }
    TypeId GetInstanceTypeId() const override { return GetTypeId(); }

    Event RemoveNext() override
    {
        if (++m_event_count % EVENTS_BETWEEN_LOOKS == 0 && g_stop && g_stop->ShouldStop())
        {
            Simulator::Stop(); // after this event
        }
        return MapScheduler::RemoveNext();
    }

  private:
    uint64_t m_event_count = 0;
};

void
RunWatched()
{
    if (!g_is_watched)
    {
        ObjectFactory scheduler;
        scheduler.SetTypeId(WatchedScheduler::GetTypeId());
        Simulator::SetScheduler(scheduler); // which takes the events over
        g_is_watched = true;
    }
    Simulator::Run();
    if (g_stop->IsRequested())
    {
        throw Stopped();
    }
}

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
        m_is_alive = g_is_running = g_is_watched = false;
    }
}

SimulatorWatch::SimulatorWatch(StopCheck& stop)
{
    g_stop = &stop;
}

SimulatorWatch::~SimulatorWatch()
{
    g_stop = nullptr;
}

void
AdvanceSimulator(double duration_s, int64_t end_ns)
{
    const int64_t step_ns = bbrgym::StepNs(duration_s, end_ns - Simulator::Now().GetNanoSeconds());
    if (step_ns > 0)
    {
        Simulator::Schedule(NanoSeconds(step_ns), &PauseWhenInstantIsOver, uint64_t{0});
        g_stop ? RunWatched() : Simulator::Run();
    }
}

} // namespace bbrgym
