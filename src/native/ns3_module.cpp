// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._ns3: one run of a scenario on ns-3, driven from Python in control intervals.
#include "flow-sender.h"
#include "ns3-simulation.h"

#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace py = pybind11;
using namespace bbrgym;

namespace
{

using Table = py::array_t<double, py::array::c_style>;
using FieldTuple = std::tuple<std::string, std::string, std::string, std::string>;

std::vector<FieldTuple>
AsTuples(std::span<const Field> fields)
{
    std::vector<FieldTuple> tuples;
    for (const Field& field : fields)
    {
        tuples.emplace_back(field.name, field.unit, field.visibility, field.meaning);
    }
    return tuples;
}

/** The memory behind a caller's array, which must be of the right shape, writable and not a copy. */
std::span<double>
View(const py::object& object, const std::string& name, const std::vector<py::ssize_t>& shape)
{
    const bool is_table = py::isinstance<Table>(object);
    const py::array array = is_table ? py::array(object) : py::array();
    const std::vector<py::ssize_t> is_shape(array.shape(), array.shape() + array.ndim());
    if (!is_table || is_shape != shape || !array.writeable())
    {
        throw py::value_error(name + ": expected a writable C-contiguous float64 array of shape " +
                              std::string(py::str(py::cast(shape))) + ", got " + std::string(py::repr(object)));
    }
    return {static_cast<double*>(py::array(array).mutable_data()), static_cast<std::size_t>(array.size())};
}

class PySimulation
{
  public:
    PySimulation(const std::string& scenario_json,
                 uint64_t seed,
                 const py::object& tunables,
                 const py::object& flow_stats,
                 const py::object& link_stats)
        : m_scenario(ParseScenario(scenario_json)),
          m_keep_alive(py::make_tuple(tunables, flow_stats, link_stats))
    {
        const auto flows = static_cast<py::ssize_t>(m_scenario.flows.size());
        const Ns3Simulation::Tables tables{
            View(tunables, "tunables", {flows, std::ssize(Tunables())}),
            View(flow_stats, "flow_stats", {flows, std::ssize(FLOW_STAT_FIELDS)}),
            View(link_stats, "link_stats", {std::ssize(LINK_STAT_FIELDS)})};
        m_simulation = std::make_unique<Ns3Simulation>(m_scenario, seed, tables);
    }

    void Advance(double duration_s)
    {
        Ns3Simulation& simulation = Alive();
        const py::gil_scoped_release release;
        simulation.Advance(duration_s);
    }

    double NowS() const { return Alive().NowS(); }
    bool Done() const { return Alive().Done(); }

    void Summary(const py::object& flow_out, const py::object& link_out) const
    {
        const auto flows = static_cast<py::ssize_t>(m_scenario.flows.size());
        Alive().Summarise(View(flow_out, "flow_out", {flows, std::ssize(FLOW_SUMMARY_FIELDS)}),
                          View(link_out, "link_out", {std::ssize(LINK_SUMMARY_FIELDS)}));
    }

    void TraceAcks(std::size_t flow, std::size_t max_rows) { Alive().TraceAcks(flow, max_rows); }

    py::array_t<ns3::AckRecord> AckTrace(std::size_t flow) const
    {
        const auto& trace = Alive().AckTrace(flow);
        return py::array_t<ns3::AckRecord>(std::ssize(trace), trace.data());
    }

    void Close() { m_simulation.reset(); }

  private:
    Ns3Simulation& Alive() const
    {
        if (!m_simulation)
        {
            throw std::runtime_error("the simulation is closed");
        }
        return *m_simulation;
    }

    Scenario m_scenario;
    py::object m_keep_alive;
    std::unique_ptr<Ns3Simulation> m_simulation;
};

} // namespace

PYBIND11_MODULE(_ns3, module)
{
    module.doc() = "Runs scenarios on ns-3's TCP sockets; one simulation at a time per process.";

    PYBIND11_NUMPY_DTYPE(ns3::AckRecord,
                         time_us,
                         rtt_us,
                         srtt_us,
                         cwnd_pkts,
                         pacing_Bps,
                         bw_Bps,
                         in_flight_pkts,
                         delivered_pkts,
                         lost_pkts,
                         sample_pkts,
                         interval_us,
                         phase,
                         ca_state,
                         round_count);

    const char* fields_doc = "List of (name, unit, visibility, meaning), in the order of the columns.";
    module.def("flow_fields", [] { return AsTuples(FLOW_STAT_FIELDS); }, fields_doc);
    module.def("link_fields", [] { return AsTuples(LINK_STAT_FIELDS); }, fields_doc);
    module.def("flow_summary_fields", [] { return AsTuples(FLOW_SUMMARY_FIELDS); }, fields_doc);
    module.def("link_summary_fields", [] { return AsTuples(LINK_SUMMARY_FIELDS); }, fields_doc);
    module.def("stock_congestion_controls",
               &ns3::StockCongestionControls,
               "Names under which ns-3's own congestion controls run, uncured.");

    py::class_<PySimulation>(module, "Simulation", R"(One run of a resolved scenario.

The caller owns the float64 arrays `tunables` [flows, tunables], `flow_stats` [flows, fields] and `link_stats`
[fields]; they may lie in shared memory. The constructor fills them: each flow's initial tunables (NaN where its
algorithm has not that tunable) and the stats of an empty interval. A bad scenario or array raises ValueError, a
second simulation in the process RuntimeError.)")
        .def(py::init<const std::string&, uint64_t, const py::object&, const py::object&, const py::object&>(),
             py::arg("scenario_json"),
             py::arg("seed"),
             py::arg("tunables"),
             py::arg("flow_stats"),
             py::arg("link_stats"))
        .def("advance",
             &PySimulation::Advance,
             py::arg("duration_s"),
             "Applies changed rows of `tunables` (a bad one raises ValueError and nothing runs), runs, at most to the\n"
             "scenario's end, and writes the stats of that time. Releases the GIL.")
        .def_property_readonly("now_s", &PySimulation::NowS, "Simulated time in seconds.")
        .def_property_readonly("done", &PySimulation::Done, "Whether the scenario has reached its end.")
        .def("summary",
             &PySimulation::Summary,
             py::arg("flow_out"),
             py::arg("link_out"),
             "Fills `flow_out` [flows, fields] and `link_out` [fields], measured from warm-up to now.")
        .def("trace_acks",
             &PySimulation::TraceAcks,
             py::arg("flow"),
             py::arg("max_rows"),
             "Records the flow's ACKs from now on, up to `max_rows`; ValueError for ns-3's own controls.")
        .def("ack_trace",
             &PySimulation::AckTrace,
             py::arg("flow"),
             "What was recorded: a structured array, a row per ACK, units in the names; -1: not measured.")
        .def("close", &PySimulation::Close, "Ends the run; may be called again.");
}
