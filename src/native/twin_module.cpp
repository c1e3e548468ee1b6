// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._twin: runs of scenarios on the packet-level engine, one by one or many at once.
#include "simulation_binding.hpp"

#include "simulation.hpp"
#include "vector.hpp"

#include <unistd.h>

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

namespace
{

class PyVector
{
  public:
    PyVector(py::ssize_t flow_capacity,
             std::size_t threads,
             const py::object& tunables,
             const py::object& flow_stats,
             const py::object& link_stats,
             const py::object& now_s,
             const py::object& done)
        : m_keep_alive(py::make_tuple(tunables, flow_stats, link_stats, now_s, done)),
          m_owner_pid(getpid())
    {
        if (flow_capacity < 1 || threads < 1)
        {
            throw py::value_error("flow_capacity and threads: expected at least 1");
        }
        m_worlds = py::len(now_s);
        const VectorSimulation::Tables tables{
            View(tunables, "tunables", {Worlds(), flow_capacity, std::ssize(Tunables())}),
            View(flow_stats, "flow_stats", {Worlds(), flow_capacity, std::ssize(FLOW_STAT_FIELDS)}),
            View(link_stats, "link_stats", {Worlds(), std::ssize(LINK_STAT_FIELDS)}),
            View(now_s, "now_s", {Worlds()}),
            View<uint8_t>(done, "done", {Worlds()})};
        m_vector = std::make_unique<VectorSimulation>(flow_capacity, threads, tables);
    }

    ~PyVector() { Close(); }

    void Reset(std::size_t index, const std::string& scenario_json, uint64_t seed)
    {
        Alive(index).Reset(index, std::make_shared<const Scenario>(ParseScenario(scenario_json)), seed);
    }
    void ResetSeed(std::size_t index, uint64_t seed) { Alive(index).Reset(index, seed); }

    void Advance(double duration_s, const py::object& mask)
    {
        VectorSimulation& vector = Alive(0);
        const std::span<uint8_t> chosen = View<uint8_t>(mask, "mask", {Worlds()});
        const py::gil_scoped_release release;
        vector.Advance(duration_s, chosen);
    }

    void Summary(std::size_t index, const py::object& flow_out, const py::object& link_out) const
    {
        const Engine& engine = Alive(index).World(index);
        const auto flows = static_cast<py::ssize_t>(engine.GetScenario().flows.size());
        engine.Summarise(View(flow_out, "flow_out", {flows, std::ssize(FLOW_SUMMARY_FIELDS)}),
                         View(link_out, "link_out", {std::ssize(LINK_SUMMARY_FIELDS)}));
    }

    Snapshot Save(std::size_t index) const { return Alive(index).Save(index); }
    void Restore(std::size_t index, const Snapshot& snapshot) { Alive(index).Restore(index, snapshot); }

    void Close()
    {
        if (getpid() != m_owner_pid)
        {
            m_vector.release(); // a fork has no threads to end; its memory ends with it
        }
        m_vector.reset();
    }

  private:
    py::ssize_t Worlds() const { return static_cast<py::ssize_t>(m_worlds); }

    VectorSimulation& Alive(std::size_t index) const
    {
        if (!m_vector)
        {
            throw std::runtime_error("the vector is closed");
        }
        if (getpid() != m_owner_pid)
        {
            throw std::runtime_error("the vector belongs to process " + std::to_string(m_owner_pid) +
                                     ": its threads are not in a fork");
        }
        if (index >= m_worlds)
        {
            throw py::index_error("world " + std::to_string(index) + " of " + std::to_string(m_worlds));
        }
        return *m_vector;
    }

    py::object m_keep_alive;
    pid_t m_owner_pid;
    std::size_t m_worlds = 0;
    std::unique_ptr<VectorSimulation> m_vector;
};

} // namespace

PYBIND11_MODULE(_twin, module)
{
    module.doc() = "Runs scenarios on a packet-level engine of our own; as many as wanted in a process.";
    DefineFields(module);
    py::class_<Snapshot>(module, "Snapshot", "A run at one moment. Opaque; keeps its value whatever the run does.");

    using PyTwin = PySimulation<Simulation>;
    DefineSimulation<Simulation>(module)
        .def("save", [](const PyTwin& self) { return self.Alive().Save(); }, "The run as it is now.")
        .def("restore",
             [](const PyTwin& self, const Snapshot& snapshot) { self.Alive().Restore(snapshot); },
             py::arg("snapshot"),
             "Continues from a snapshot, of this run or another with as many flows, and fills the three arrays as they\n"
             "were then. ValueError otherwise.");

    py::class_<PyVector>(module, "Vector", R"(Many runs, stepped together in C++ threads.

The caller owns the float64 arrays `tunables` [worlds, flow_capacity, tunables], `flow_stats` [worlds,
flow_capacity, fields], `link_stats` [worlds, fields], `now_s` [worlds] and the uint8 array `done` [worlds]; rows
of flows that a world's scenario has not are NaN. `threads` includes the caller's.)")
        .def(py::init<py::ssize_t,
                      std::size_t,
                      const py::object&,
                      const py::object&,
                      const py::object&,
                      const py::object&,
                      const py::object&>(),
             py::arg("flow_capacity"),
             py::arg("threads"),
             py::arg("tunables"),
             py::arg("flow_stats"),
             py::arg("link_stats"),
             py::arg("now_s"),
             py::arg("done"))
        .def("reset",
             &PyVector::Reset,
             py::arg("index"),
             py::arg("scenario_json"),
             py::arg("seed"),
             "Begins a run of one world and fills its rows. ValueError: a bad scenario, or one with too many flows.")
        .def("reset_seed",
             &PyVector::ResetSeed,
             py::arg("index"),
             py::arg("seed"),
             "Begins again with the scenario that the world had, without reading it anew.")
        .def("advance",
             &PyVector::Advance,
             py::arg("duration_s"),
             py::arg("mask"),
             "Advances the worlds whose `mask` [worlds], uint8, is not 0, as Simulation.advance does. Releases the GIL. An\n"
             "error in one world is raised after the others have advanced.")
        .def("summary", &PyVector::Summary, py::arg("index"), py::arg("flow_out"), py::arg("link_out"))
        .def("save", &PyVector::Save, py::arg("index"), "One world as it is now.")
        .def("restore", &PyVector::Restore, py::arg("index"), py::arg("snapshot"), "One world from a snapshot.")
        .def("close", &PyVector::Close, "Ends runs and threads; may be called again.");
}
