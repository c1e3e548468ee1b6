// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._linux: runs of scenarios on this machine's kernel, in real time.
#include "vector_binding.hpp"

#include "run.hpp"

#include <optional>

namespace py = pybind11;
using namespace bbrgym;
using namespace bbrgym::binding;

namespace
{

/** A vector of one world: real time leaves no room for a second one in the same thread. */
class LinuxVector
{
  public:
    LinuxVector(std::size_t worlds, std::size_t)
    {
        if (worlds != 1)
        {
            throw std::invalid_argument("num_worlds is " + std::to_string(worlds) + ", expected 1: each runs in real time");
        }
    }

    void Choose(const HostOptions& options) { m_options = options; }
    void LayOut(const VectorTables& tables) { m_tables = tables; }

    void Reset(std::size_t world, std::shared_ptr<const Scenario> scenario, uint64_t seed)
    {
        const WorldTables rows = m_tables.Begin(world, scenario->flows.size(), "scenario '" + scenario->name + "'");
        m_run.reset();
        m_scenario = std::move(scenario);
        m_run = std::make_unique<LinuxRun>(m_scenario, seed, rows, m_options);
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
            World(0).Advance(duration_s, m_tables.Of(0, m_scenario->flows.size()), stop);
        }
        catch (const Stopped&)
        {
            ShowTime();
            m_run.reset();
            throw;
        }
        ShowTime();
    }

    LinuxRun& World(std::size_t)
    {
        if (!m_run)
        {
            throw std::logic_error("world 0 does not run: reset it first");
        }
        return *m_run;
    }

  private:
    void ShowTime() { m_tables.ShowTime(0, static_cast<double>(m_run->NowNs()) / 1e9, m_run->Done()); }

    HostOptions m_options;
    VectorTables m_tables;
    std::shared_ptr<const Scenario> m_scenario;
    std::unique_ptr<LinuxRun> m_run;
};

py::dict
LatenessOf(const PyVector<LinuxVector>& vector)
{
    const LinuxRun& run = vector.LaidOut(0).World(0);
    const Punctuality& lateness = run.Last().lateness;
    py::dict row;
    row["packets"] = run.Last().delivered_packets;
    row["p50_us"] = lateness.late_p50_us;
    row["p99_us"] = lateness.late_p99_us;
    row["p999_us"] = lateness.late_p999_us;
    row["share_above_1ms"] = lateness.late_share;
    row["is_fifo"] = run.IsFifo();
    return row;
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
            [](const PyVector<LinuxVector>& self, bool timestamps, bool user_namespace) {
                self.LaidOut(0).Choose({timestamps, user_namespace});
            },
            py::arg("timestamps"),
            py::arg("user_namespace"),
            "Chooses the hosts of the runs to come: TCP's timestamps, and whether to act without privileges.")
        .def("lateness",
             &LatenessOf,
             "How late packets were written up to the last interval's end: `packets`, `p50_us`, `p99_us`, `p999_us`,\n"
             "`share_above_1ms`, and `is_fifo`: whether the threads went before others.");
    module.def("try_network",
               &TryNetwork,
               py::arg("user_namespace"),
               "Builds the network of one flow and removes it; returns why that fails, None if it does not.");
}
