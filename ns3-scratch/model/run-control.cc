// SPDX-License-Identifier: GPL-2.0-only
#include "run-control.h"

#include "ns3-versions.h"
#include "times.hpp"

#include "ns3/object-factory.h"
#include "ns3/rng-seed-manager.h"
#include "ns3/scheduler.h"
#include "ns3/simulator.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace bbrgym
{

using namespace ns3;

namespace
{

constexpr uint64_t EVENTS_BETWEEN_LOOKS = 256; // some tenths of a millisecond

bool g_is_running = false;
StopCheck* g_stop = nullptr; // of the SimulatorWatch that is alive

/** A binary heap, from which the simulator takes each event, in ns-3's order. It adds no event. */
class WatchedScheduler : public Scheduler
{
  public:
    static TypeId GetTypeId()
    {
        static const TypeId id = TypeId("bbrgym::WatchedScheduler")
                                     .SetParent<Scheduler>()
                                     .SetGroupName("Bbrgym")
                                     .AddConstructor<WatchedScheduler>();
        return id;
    }
    TypeId GetInstanceTypeId() const override { return GetTypeId(); }

    void Insert(const Event& event) override
    {
        m_events.push_back(event);
        std::ranges::push_heap(m_events, IsLater);
    }
    bool IsEmpty() const override { return m_events.empty(); }
    Event PeekNext() const override { return m_events.front(); }
    void Remove(const Event& event) override
    {
        std::erase_if(m_events, [&event](const Event& other) { return other.key.m_uid == event.key.m_uid; });
        std::ranges::make_heap(m_events, IsLater);
    }

    Event RemoveNext() override
    {
        if (++m_event_count % EVENTS_BETWEEN_LOOKS == 0 && g_stop && g_stop->ShouldStop())
        {
            Simulator::Stop(); // after this event
        }
        std::ranges::pop_heap(m_events, IsLater);
        const Event next = m_events.back();
        m_events.pop_back();
        return next;
    }

  private:
    static bool IsLater(const Event& one, const Event& other) { return other.key < one.key; }

    std::vector<Event> m_events;
    uint64_t m_event_count = 0;
};

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
    ObjectFactory scheduler;
    scheduler.SetTypeId(WatchedScheduler::GetTypeId());
    Simulator::SetScheduler(scheduler); // which takes over the events that there are
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
        Simulator::Run();
        if (g_stop && g_stop->IsRequested())
        {
            throw Stopped();
        }
    }
}

} // namespace bbrgym
