// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._linux: runs of scenarios on this machine's kernel, in real time.
#include "vector_binding.hpp"
#include "vector_of_one.hpp"

#include "run.hpp"

#include <optional>

namespace py = pybind11;
using namespace py::literals;
using namespace bbrgym;
using namespace bbrgym::binding;

namespace
{

/** Real time leaves no room for a second run in the same thread. */
class LinuxVector : public VectorOfOne<LinuxRun>
{
  public:
    static constexpr bool HAS_OWN_THREADS = true;
    static constexpr bool RESET_WAITS = true; // for the process that builds the network

    LinuxVector(std::size_t worlds, std::size_t) : VectorOfOne(worlds, "each runs in real time") {}

    void Choose(const HostOptions& options) { m_options = options; }

  private:
    std::unique_ptr<LinuxRun> Begin(std::shared_ptr<const Scenario> scenario, uint64_t seed,
                                    const WorldTables& rows) override
    {
        return std::make_unique<LinuxRun>(std::move(scenario), seed, rows, m_options);
    }

    void AdvanceRun(LinuxRun& run, const WorldTables& rows, double duration_s, StopCheck& stop) override
    {
        run.Advance(duration_s, rows, stop);
    }

    HostOptions m_options;
};

py::dict
LatenessOf(const PyVector<LinuxVector>& vector)
{
    const LinuxRun& run = vector.LaidOut(0).World(0);
    const Punctuality& lateness = run.Last().lateness;
    return py::dict("packets"_a = run.Last().delivered_packets, "p50_us"_a = lateness.late_p50_us,
                    "p99_us"_a = lateness.late_p99_us, "p999_us"_a = lateness.late_p999_us,
                    "share_above_1ms"_a = lateness.late_share, "is_fifo"_a = run.IsFifo());
}

/** The reason why the network of one flow cannot be built here; nothing if it can. */
std::optional<std::string>
TryNetwork(bool user_namespace)
{
    const py::gil_scoped_release release;
    NetworkPlan plan{.options = {.user_namespace = user_namespace}, .packet_bytes = 1500};
    plan.flows.push_back({.cc = "reno"}); // the one that every kernel has
    try
    {
        BuildNetwork(plan);
    }
    catch (const std::runtime_error& error)
    {
        return error.what();
    }
    return std::nullopt;
}

} // namespace

PYBIND11_MODULE(_linux, module)
{
    module.doc() = "Runs scenarios on this machine's TCP sockets, in real time.";
    DefineVector<LinuxVector>(module)
        .def(
            "choose",
            [](const PyVector<LinuxVector>& self, bool timestamps, bool user_namespace, const std::string& policy) {
                self.LaidOut(0).Choose({timestamps, user_namespace, policy});
            },
            py::arg("timestamps"), py::arg("user_namespace"), py::arg("policy"),
            "Chooses the hosts of the runs to come: TCP's timestamps, whether to act without privileges, and the BPF "
            "object\n"
            "with a policy, empty for none.")
        .def("lateness", &LatenessOf,
             "How late packets were written up to the last interval's end: `packets`, `p50_us`, `p99_us`, `p999_us`,\n"
             "`share_above_1ms`, and `is_fifo`: whether the threads went before others.");
    module.def("try_network", &TryNetwork, py::arg("user_namespace"),
               "Builds the network of one flow and removes it; returns why that fails, None if it does not.");
}
