// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._ns3: a run of a scenario on ns-3, driven from Python in control intervals.
#include "vector_binding.hpp"

#include "flow-sender.h"
#include "last-hop.h"
#include "ns3-simulation.h"
#include "run-control.h"

#include <optional>

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

namespace
{

/** A vector of one world: ns-3 is one simulation per process. */
class Ns3Vector
{
  public:
    Ns3Vector(std::size_t worlds, std::size_t)
    {
        if (worlds != 1)
        {
            throw std::invalid_argument("num_worlds is " + std::to_string(worlds) + ", expected 1: ns-3 is one simulation per process");
        }
    }

    void LayOut(const VectorTables& tables)
    {
        m_tables = tables;
        if (m_simulation)
        {
            m_simulation->SetTables(m_tables.Of(0, m_scenario->flows.size()));
        }
    }

    void Reset(std::size_t world, std::shared_ptr<const Scenario> scenario, uint64_t seed)
    {
        const WorldTables rows = m_tables.Begin(world, scenario->flows.size(), "scenario '" + scenario->name + "'");
        m_simulation.reset(); // ns-3 allows one at a time
        m_scenario = std::move(scenario);
        m_simulation.emplace(m_scenario, seed, rows);
        ShowTime();
    }

    void Reset(std::size_t world, uint64_t seed)
    {
        World(world);
        Reset(world, m_scenario, seed);
    }

    void Advance(double duration_s, std::span<const bool> mask, StopCheck& stop)
    {
        if (!mask[0])
        {
            return;
        }
        try
        {
            const SimulatorWatch watch(stop);
            World(0).Advance(duration_s);
        }
        catch (const Stopped&)
        {
            ShowTime();
            m_simulation.reset();
            throw;
        }
        ShowTime();
    }

    Ns3Simulation& World(std::size_t)
    {
        if (!m_simulation)
        {
            throw std::logic_error("world 0 does not run: reset it first");
        }
        return *m_simulation;
    }

  private:
    void ShowTime() { m_tables.ShowTime(0, m_simulation->NowS(), m_simulation->Done()); }

    VectorTables m_tables;
    std::shared_ptr<const Scenario> m_scenario;
    std::optional<Ns3Simulation> m_simulation;
};

/** The arrival times in ns at the station of packets that saturate the scenario's last hop. */
std::vector<int64_t>
RecordLastHop(const std::string& scenario_json, uint64_t seed, double duration_s, uint32_t packet_bytes, double timeout_s)
{
    const Scenario scenario = ParseScenario(scenario_json);
    if (!scenario.link.last_hop)
    {
        throw ScenarioError("link.last_hop", "is null, expected the hop to record");
    }
    AdvanceWatch watch(timeout_s);
    std::vector<int64_t> arrivals_ns;
    try
    {
        const py::gil_scoped_release release;
        const SimulatorWatch simulator_watch(watch.Stop());
        arrivals_ns = RecordArrivals(*scenario.link.last_hop, seed, NanosecondsOfS(duration_s), packet_bytes);
    }
    catch (const Stopped&)
    {
    }
    watch.Raise(0);
    return arrivals_ns;
}

} // namespace

PYBIND11_MODULE(_ns3, module)
{
    module.doc() = "Runs scenarios on ns-3's TCP sockets; one simulation at a time per process (RuntimeError otherwise).";
    DefineVector<Ns3Vector>(module);
    module.def("stock_congestion_controls",
               &ns3::StockCongestionControls,
               "Names under which ns-3's own congestion controls run, uncured.");
    module.def("record_last_hop",
               &RecordLastHop,
               py::arg("scenario_json"),
               py::arg("seed"),
               py::arg("duration_s"),
               py::arg("packet_bytes"),
               py::arg("timeout_s"),
               "Saturates a scenario's last hop with UDP packets and returns their arrival times at the station in ns, from\n"
               "one second after the hop's start on. ValueError: the scenario has no hop, or this build lacks its kind.");
}
