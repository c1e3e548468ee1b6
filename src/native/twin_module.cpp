// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._twin: runs of scenarios on the packet-level engine.
#include "python_controllers.hpp"
#include "python_stack.hpp"
#include "vector_binding.hpp"

#include "vector.hpp"

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

PYBIND11_MODULE(_twin, module)
{
    module.doc() = "Runs scenarios on a packet-level engine of our own, any number in a process.";
    py::class_<Snapshot>(module, "Snapshot", "A run at one moment. Opaque; keeps its value whatever the run does.")
        .def(
            "history",
            [](const Snapshot& self) { return py::array_t<double>(std::ssize(self.history), self.history.data()); },
            "All that was asked of the run: of each advance its seconds, a number of tunables, and of each of these "
            "its\n"
            "place in the world's table and its new value.");

    module.def("load_class", &PythonControllers::Load, py::arg("name"), py::arg("type"),
               "Makes a class (bbrgym.Controller) a congestion control of the runs to come.");
    TwinVector::run_own = &PythonControllers::RunWorlds;

    DefinePort(module);
    using Vector = PyVector<TwinVector>;
    DefineVector<TwinVector>(module)
        .def(
            "save", [](const Vector& self, std::size_t index) { return self.LaidOut(index).Save(index); },
            py::arg("index"), "One world as it is now.")
        .def(
            "restore",
            [](const Vector& self, std::size_t index, const Snapshot& snapshot) {
                self.LaidOut(index).Restore(index, snapshot);
            },
            py::arg("index"), py::arg("snapshot"),
            "Continues one world from a snapshot of any, and fills its rows as they were then.");
}
