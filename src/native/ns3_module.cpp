// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._ns3: one run of a scenario on ns-3, driven from Python in control intervals.
#include "simulation_binding.hpp"

#include "flow-sender.h"
#include "ns3-simulation.h"

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

PYBIND11_MODULE(_ns3, module)
{
    module.doc() = "Runs scenarios on ns-3's TCP sockets; one simulation at a time per process (RuntimeError otherwise).";
    DefineFields(module);
    DefineSimulation<Ns3Simulation>(module);
    module.def("stock_congestion_controls",
               &ns3::StockCongestionControls,
               "Names under which ns-3's own congestion controls run, uncured.");
}
