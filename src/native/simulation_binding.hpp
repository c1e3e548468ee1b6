// SPDX-License-Identifier: GPL-2.0-only
//
// What every world's module shows to Python: the lists of fields, and a class Simulation over the caller's arrays.
#ifndef BBRGYM_SIMULATION_BINDING_HPP
#define BBRGYM_SIMULATION_BINDING_HPP

#include "ack_record.hpp"
#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace bbrgym::binding
{

namespace py = pybind11;

using FieldTuple = std::tuple<std::string, std::string, std::string, std::string>;

inline std::vector<FieldTuple>
AsTuples(std::span<const Field> fields)
{
    std::vector<FieldTuple> tuples;
    for (const Field& field : fields)
    {
        tuples.emplace_back(field.name, field.unit, field.visibility, field.meaning);
    }
    return tuples;
}

/** The memory behind a caller's array, which must be of the right type and shape, writable and not a copy. */
template <class Number = double>
std::span<Number>
View(const py::object& object, const std::string& name, const std::vector<py::ssize_t>& shape)
{
    using Table = py::array_t<Number, py::array::c_style>;
    const bool is_table = py::isinstance<Table>(object);
    const py::array array = is_table ? py::array(object) : py::array();
    const std::vector<py::ssize_t> is_shape(array.shape(), array.shape() + array.ndim());
    if (!is_table || is_shape != shape || !array.writeable())
    {
        throw py::value_error(name + ": expected a writable C-contiguous " +
                              std::string(py::str(py::dtype::of<Number>())) + " array of shape " +
                              std::string(py::str(py::cast(shape))) + ", got " + std::string(py::repr(object)));
    }
    return {static_cast<Number*>(py::array(array).mutable_data()), static_cast<std::size_t>(array.size())};
}

/** Of an AckRecord; described here because pybind11 lets only one module of a process register a C++ struct. */
inline py::dtype
AckRecordDtype()
{
    const std::vector<std::string> names = {"time_us",        "rtt_us",         "srtt_us",   "cwnd_pkts",   "pacing_Bps",
                                            "bw_Bps",         "in_flight_pkts", "delivered_pkts", "lost_pkts",
                                            "sample_pkts",    "interval_us",    "phase",     "ca_state",    "round_count"};
    py::list formats;
    py::list offsets;
    for (std::size_t i = 0; i < names.size(); ++i)
    {
        formats.append(names[i].ends_with("_Bps") ? "u8" : "i8");
        offsets.append(i * sizeof(int64_t));
    }
    static_assert(sizeof(AckRecord) == 14 * sizeof(int64_t));
    return py::dtype(py::cast(names), formats, offsets, sizeof(AckRecord));
}

/** A world's simulation; Implementation has a constructor from (scenario, seed, Tables) and Tables of three spans. */
template <class Implementation>
class PySimulation
{
  public:
    PySimulation(const std::string& scenario_json,
                 uint64_t seed,
                 const py::object& tunables,
                 const py::object& flow_stats,
                 const py::object& link_stats)
        : m_keep_alive(py::make_tuple(tunables, flow_stats, link_stats))
    {
        auto scenario = std::make_shared<const Scenario>(ParseScenario(scenario_json));
        m_flows = static_cast<py::ssize_t>(scenario->flows.size());
        const typename Implementation::Tables tables{
            View(tunables, "tunables", {m_flows, std::ssize(Tunables())}),
            View(flow_stats, "flow_stats", {m_flows, std::ssize(FLOW_STAT_FIELDS)}),
            View(link_stats, "link_stats", {std::ssize(LINK_STAT_FIELDS)})};
        m_simulation = std::make_unique<Implementation>(std::move(scenario), seed, tables);
    }

    Implementation& Alive() const
    {
        if (!m_simulation)
        {
            throw std::runtime_error("the simulation is closed");
        }
        return *m_simulation;
    }

    void Advance(double duration_s)
    {
        Implementation& simulation = Alive();
        const py::gil_scoped_release release;
        simulation.Advance(duration_s);
    }

    void Summary(const py::object& flow_out, const py::object& link_out) const
    {
        Alive().Summarise(View(flow_out, "flow_out", {m_flows, std::ssize(FLOW_SUMMARY_FIELDS)}),
                          View(link_out, "link_out", {std::ssize(LINK_SUMMARY_FIELDS)}));
    }

    py::array AckTrace(std::size_t flow) const
    {
        const auto& trace = Alive().AckTrace(flow);
        return py::array(AckRecordDtype(), std::ssize(trace), trace.data());
    }

    void Close() { m_simulation.reset(); }

  private:
    py::ssize_t m_flows = 0;
    py::object m_keep_alive;
    std::unique_ptr<Implementation> m_simulation;
};

inline void
DefineFields(py::module_& module)
{
    const char* doc = "List of (name, unit, visibility, meaning), in the order of the columns.";
    module.def("flow_fields", [] { return AsTuples(FLOW_STAT_FIELDS); }, doc);
    module.def("link_fields", [] { return AsTuples(LINK_STAT_FIELDS); }, doc);
    module.def("flow_summary_fields", [] { return AsTuples(FLOW_SUMMARY_FIELDS); }, doc);
    module.def("link_summary_fields", [] { return AsTuples(LINK_SUMMARY_FIELDS); }, doc);
}

/** Defines the class; a world may add methods of its own to what is returned. */
template <class Implementation>
py::class_<PySimulation<Implementation>>
DefineSimulation(py::module_& module)
{
    using Simulation = PySimulation<Implementation>;
    py::class_<Simulation> simulation(module, "Simulation", R"(One run of a resolved scenario.

The caller owns the float64 arrays `tunables` [flows, tunables], `flow_stats` [flows, fields] and `link_stats`
[fields]; they may lie in shared memory. The constructor fills them: each flow's initial tunables (NaN where its
algorithm has not that tunable) and the stats of an empty interval. A bad scenario or array raises ValueError.)");
    simulation
        .def(py::init<const std::string&, uint64_t, const py::object&, const py::object&, const py::object&>(),
             py::arg("scenario_json"),
             py::arg("seed"),
             py::arg("tunables"),
             py::arg("flow_stats"),
             py::arg("link_stats"))
        .def("advance",
             &Simulation::Advance,
             py::arg("duration_s"),
             "Applies changed rows of `tunables` (a bad one raises ValueError and nothing runs), runs, at most to the\n"
             "scenario's end, and writes the stats of that time. Releases the GIL.")
        .def_property_readonly("now_s", [](const Simulation& self) { return self.Alive().NowS(); }, "Simulated seconds.")
        .def_property_readonly(
            "done", [](const Simulation& self) { return self.Alive().Done(); }, "Whether the scenario has reached its end.")
        .def("summary",
             &Simulation::Summary,
             py::arg("flow_out"),
             py::arg("link_out"),
             "Fills `flow_out` [flows, fields] and `link_out` [fields], measured from warm-up to now.")
        .def("trace_acks",
             [](const Simulation& self, std::size_t flow, std::size_t max_rows) { self.Alive().TraceAcks(flow, max_rows); },
             py::arg("flow"),
             py::arg("max_rows"),
             "Records the flow's ACKs from now on, up to `max_rows`; ValueError for ns-3's own controls.")
        .def("ack_trace",
             &Simulation::AckTrace,
             py::arg("flow"),
             "What was recorded: a structured array, a row per ACK, units in the names; -1: not measured.")
        .def("close", &Simulation::Close, "Ends the run; may be called again.");
    return simulation;
}

} // namespace bbrgym::binding

#endif
