// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._ns3: a run of a scenario on ns-3, driven from Python in control intervals.
#include "vector_binding.hpp"
#include "vector_of_one.hpp"

#include "policy.hpp"

#include "flow-sender.h"
#include "last-hop.h"
#include "ns3-simulation.h"
#include "run-control.h"

#include <optional>
#include <string>

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

namespace
{

/** ns-3 is one simulation per process. */
class Ns3Vector : public VectorOfOne<Ns3Simulation>
{
  public:
    static constexpr bool HAS_OWN_THREADS = false;

    Ns3Vector(std::size_t worlds, std::size_t) : VectorOfOne(worlds, "ns-3 is one simulation per process") {}

    /** Lets a policy set the tunables of tuned flows in the runs to come. std::invalid_argument: it cannot be loaded.
     */
    void UsePolicy(const std::string& path) { m_policy = std::make_shared<const Policy>(path); }

  private:
    std::unique_ptr<Ns3Simulation> Begin(std::shared_ptr<const Scenario> scenario, uint64_t seed,
                                         const WorldTables& rows) override
    {
        m_policy_run.reset();
        if (m_policy)
        {
            m_policy_run.emplace(m_policy, *scenario);
        }
        return std::make_unique<Ns3Simulation>(std::move(scenario), seed, rows);
    }

    void AdvanceRun(Ns3Simulation& run, const WorldTables& rows, double duration_s, StopCheck& stop) override
    {
        const SimulatorWatch watch(stop);
        const auto advance = [&run](double seconds) { run.Advance(seconds); };
        if (m_policy_run)
        {
            const auto now_ns = [&run] { return std::llround(run.NowS() * 1e9); };
            m_policy_run->Run(duration_s, run.GetScenario().duration_ns, rows, advance, now_ns);
        }
        else
        {
            advance(duration_s);
        }
    }

    void OnNewTables(Ns3Simulation& run, const WorldTables& rows) override { run.SetTables(rows); }

    std::shared_ptr<const Policy> m_policy; ///< null: the caller sets the tunables
    std::optional<PolicyRun> m_policy_run;
};

/** The arrival times in ns at the station of packets that saturate the scenario's last hop. */
std::vector<int64_t>
RecordLastHop(const std::string& scenario_json, uint64_t seed, double duration_s, uint32_t packet_bytes,
              double timeout_s)
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
    {}
    watch.Raise(0);
    return arrivals_ns;
}

} // namespace

PYBIND11_MODULE(_ns3, module)
{
    module.doc() =
        "Runs scenarios on ns-3's TCP sockets; one simulation at a time per process (RuntimeError otherwise).";
    DefineVector<Ns3Vector>(module);
    module.def("stock_congestion_controls", &ns3::StockCongestionControls,
               "Names under which ns-3's own congestion controls run, uncured.");
    module.def(
        "record_last_hop", &RecordLastHop, py::arg("scenario_json"), py::arg("seed"), py::arg("duration_s"),
        py::arg("packet_bytes"), py::arg("timeout_s"),
        "Saturates a scenario's last hop with UDP packets and returns their arrival times at the station in ns, from\n"
        "one second after the hop's start on. ValueError: the scenario has no hop, or this build lacks its kind.");
}
