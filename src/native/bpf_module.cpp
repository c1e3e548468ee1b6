// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._bpf: cc/ as a congestion control of the running kernel, for sockets of this process.
#include "comparison.hpp"
#include "congestion_control.hpp"
#include "params.hpp"
#include "plugin.hpp"
#include "pins.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>

namespace py = pybind11;
using namespace py::literals;
using namespace bbrgym;

namespace
{

using TunableValues = std::map<std::string, double>;

constexpr double Q16 = 65536;
constexpr double US_PER_S = 1e6;

bpf_flow_settings
Settings(const std::string& variant, const TunableValues& tunables, uint64_t rng_seed)
{
    const auto found = FindVariant(variant);
    if (!found)
    {
        throw py::value_error("variant = '" + variant + "': expected one of cc/'s");
    }
    bpf_flow_settings settings = PresetSettings(CC_VARIANT_BBR, rng_seed);
    settings.params = Preset(*found);
    for (const auto& [name, value] : tunables)
    {
        const auto tunable = FindTunable(name, settings.params.plugin);
        if (!tunable)
        {
            throw py::value_error("no tunable is named '" + name + "'");
        }
        SetTunable(settings.params, *tunable, value);
    }
    return settings;
}

py::object
FlowState(const std::optional<bpf_flow>& flow)
{
    if (!flow)
    {
        return py::none();
    }
    const cc_state& state = flow->state;
    const cc_params bbr{.algorithm = CC_ALGORITHM_BBR}; // v2 and v3 keep mode, rounds and min_rtt in the same place
    return py::dict("cwnd_pkts"_a = state.cwnd_pkts, "ssthresh_pkts"_a = state.ssthresh_pkts,
                    "pacing_Bps"_a = state.pacing_Bps, "bw_Bps"_a = cc_bw_Bps(&state),
                    "min_rtt_us"_a = cc_min_rtt_us(&state, &bbr), "phase"_a = cc_phase(&state, &bbr),
                    "round_count"_a = cc_round_count(&state, &bbr), "events"_a = flow->events, "acks"_a = flow->acks,
                    "total_lost_pkts"_a = flow->total_lost_pkts);
}

/** Bytes of a struct that is shared with a program. */
template <typename Struct>
Struct
FromBytes(const std::string& bytes)
{
    if (bytes.size() != sizeof(Struct))
    {
        throw py::value_error(std::to_string(bytes.size()) + " bytes, expected " + std::to_string(sizeof(Struct)));
    }
    Struct made{};
    std::memcpy(&made, bytes.data(), sizeof(made));
    return made;
}

TunableValues
TunablesOf(cc_params params)
{
    params.plugin = nullptr; // of the process that wrote them
    TunableValues values;
    for (std::size_t i = 0; i < Tunables().size(); ++i)
    {
        values[std::string(Tunables()[i].name)] = GetTunable(params, static_cast<int>(i));
    }
    return values;
}

/** Of a floor: share of the bandwidth and seconds below it, times the minimum RTT and seconds above it. */
using FloorValues = std::array<double, 4>;

bpf_floor
FloorFrom(const FloorValues& values)
{
    return {.goodput_q16 = static_cast<uint32_t>(std::lround(values[0] * Q16)),
            .rtt_q16 = static_cast<uint32_t>(std::lround(values[2] * Q16)),
            .goodput_us = static_cast<uint64_t>(std::llround(values[1] * US_PER_S)),
            .rtt_us = static_cast<uint64_t>(std::llround(values[3] * US_PER_S))};
}

FloorValues
ValuesOf(const bpf_floor& floor)
{
    return {floor.goodput_q16 / Q16, static_cast<double>(floor.goodput_us) / US_PER_S, floor.rtt_q16 / Q16,
            static_cast<double>(floor.rtt_us) / US_PER_S};
}

const char*
PolicyOf(const bpf_flow_row& row)
{
    if (!row.settings.has_policy)
    {
        return "";
    }
    return row.flow.fallen == BPF_FALLEN_NOT   ? "acts"
           : row.flow.fallen == BPF_FALLEN_RTT ? "fell back: RTT"
                                               : "fell back: goodput";
}

/** A new generation of the defaults: first the parameters, then its number, as bbrgym.bpf.c wants it. */
void
SetDefaults(const std::string& file, const std::string& variant, const TunableValues& tunables,
            const FloorValues& floor)
{
    auto settings = FromBytes<bpf_flow_settings>(ReadPinned(file));
    settings.params = Settings(variant, tunables, 0).params;
    settings.floor = FloorFrom(floor);
    for (int step = 0; step < 2; ++step)
    {
        WritePinned(file, {reinterpret_cast<const char*>(&settings), sizeof(settings)});
        settings.generation += step == 0 ? 1 : 0;
    }
}

py::list
FlowRows(const std::string& bytes)
{
    py::list rows;
    for (std::size_t at = 0; at + sizeof(bpf_flow_row) <= bytes.size(); at += sizeof(bpf_flow_row))
    {
        const auto row = FromBytes<bpf_flow_row>(bytes.substr(at, sizeof(bpf_flow_row)));
        const bpf_connection& is = row.connection;
        py::dict fields = FlowState(row.flow);
        fields.attr("update")(py::dict(
            "control"_a = std::string(is.control, strnlen(is.control, sizeof(is.control))), "cookie"_a = is.cookie,
            "now_us"_a = is.now_us, "age_us"_a = is.now_us - row.flow.start_us, "acked_bytes"_a = is.acked_bytes,
            "local"_a = py::bytes(reinterpret_cast<const char*>(is.local), sizeof(is.local)),
            "remote"_a = py::bytes(reinterpret_cast<const char*>(is.remote), sizeof(is.remote)), "family"_a = is.family,
            "local_port"_a = is.local_port, "remote_port"_a = is.remote_port, "mss_bytes"_a = is.mss_bytes,
            "cwnd_pkts"_a = is.cwnd_pkts, "in_flight_pkts"_a = is.in_flight_pkts,
            "retransmitted_pkts"_a = is.retransmitted_pkts, "lost_pkts"_a = is.lost_pkts,
            "delivered_pkts"_a = is.delivered_pkts, "srtt_us"_a = is.srtt_us,
            "is_app_limited"_a = is.is_app_limited != 0, "sacked_pkts"_a = is.sacked_pkts, "policy"_a = PolicyOf(row),
            "tunables"_a = TunablesOf(row.settings.params)));
        rows.append(fields);
    }
    return rows;
}

bpf_comparison
ComparisonOf(const std::array<std::string, 2>& names, double share, uint64_t seed, const std::vector<uint32_t>& ports)
{
    bpf_comparison request{.names = {},
                           .seed = seed,
                           .b_below = static_cast<uint32_t>(std::ldexp(share, 32)),
                           .port_count = static_cast<uint32_t>(ports.size()),
                           .ports = {}};
    if (!(share > 0 && share < 1) || ports.size() > BPF_COMPARED_PORTS)
    {
        throw py::value_error("expected a share between 0 and 1 and at most 16 ports");
    }
    for (std::size_t arm = 0; arm < names.size(); ++arm)
    {
        names[arm].copy(request.names[arm], sizeof(request.names[arm]) - 1);
    }
    std::copy(ports.begin(), ports.end(), request.ports);
    return request;
}

py::dict
ComparedRow(const bpf_compared& is)
{
    return py::dict("cookie"_a = is.cookie, "arm"_a = is.arm, "start_us"_a = is.start_us, "finish_us"_a = is.finish_us,
                    "end_us"_a = is.end_us, "acked_bytes"_a = is.acked_bytes, "rtt_sum_us"_a = is.rtt_sum_us,
                    "rtt_samples"_a = is.rtt_samples, "min_rtt_us"_a = is.min_rtt_us, "sent_pkts"_a = is.sent_pkts,
                    "retransmitted_pkts"_a = is.retransmitted_pkts, "is_whole"_a = is.is_whole != 0,
                    "family"_a = is.family,
                    "remote"_a = py::bytes(reinterpret_cast<const char*>(is.remote), sizeof(is.remote)),
                    "port"_a = is.port, "is_changed"_a = is.is_changed != 0,
                    "control"_a = std::string(is.control, strnlen(is.control, sizeof(is.control))));
}

py::dict
CostRow(const ProgramCost& cost)
{
    return py::dict("name"_a = cost.name, "instructions"_a = cost.instructions, "verified"_a = cost.verified,
                    "runs"_a = cost.runs, "run_time_ns"_a = cost.run_time_ns);
}

/** Takes the records of a flow and lets the native cc/ go through the same events. */
class Replay
{
  public:
    void Feed(const bpf_record& record)
    {
        m_lost += record.number - m_next;
        m_next = record.number + 1;
        ++m_kinds[record.event.kind];
        bpf_event_apply(&m_state, &record.params, &record.event);
        if (std::memcmp(&m_state, &record.after, sizeof(m_state)) != 0)
        {
            ++m_different;
            m_state = record.after;
        }
    }

    py::dict Result() const { return py::dict("events"_a = m_kinds, "lost"_a = m_lost, "different"_a = m_different); }

  private:
    cc_state m_state{};
    uint64_t m_next = 0;
    uint64_t m_lost = 0;
    uint64_t m_different = 0;
    std::map<uint32_t, uint64_t> m_kinds;
};

} // namespace

PYBIND11_MODULE(_bpf, module)
{
    module.doc() = "cc/ as a TCP congestion control of the running kernel.";
    py::register_exception<CongestionControlError>(module, "CongestionControlError", PyExc_RuntimeError);
    module.def("why_not", &CongestionControl::WhyNot, py::arg("named") = false,
               "Why this build or machine cannot have it, or not one with a name; empty: it can.");

    module.def("compiler", &CongestionControl::Compiler,
               "Which compiled the program that the package carries; empty: it has none.");

    module.def("load_plugin", &LoadPlugin, py::arg("name"), py::arg("path"),
               "Makes a shared object a variant; ValueError: it is none.");
    module.def("layout_hash", &LayoutHash, "Names what programs of this build share with user space.");
    module.def("policy_variant_of", &CongestionControl::PolicyVariantOf, py::arg("program"),
               "The variant whose tunables a program's policy sets; empty: it has none.");
    module.def(
        "pin_value", [](const std::string& file, const py::bytes& value) { PinValue(file, value); }, py::arg("file"),
        py::arg("value"), "Pins a new map with one value.");
    module.def(
        "write_pinned", [](const std::string& file, const py::bytes& value) { WritePinned(file, value); },
        py::arg("file"), py::arg("value"), "Writes the only value of a pinned map.");
    module.def("held_controls", &HeldControls,
               "Names of the controls that the kernel holds, registered or still used; of each program one.");
    module.def(
        "read_pinned", [](const std::string& file) { return py::bytes(ReadPinned(file)); }, py::arg("file"),
        "The only value of a pinned map.");
    module.def(
        "move_sockets",
        [](const std::string& folder, const std::string& from, const std::string& to,
           const std::string& net_namespace) {
            bpf_move move{};
            from.copy(move.from, sizeof(move.from) - 1);
            to.copy(move.to, sizeof(move.to) - 1);
            WritePinned(folder + "/move", {reinterpret_cast<const char*>(&move), sizeof(move)});
            return py::bytes(ReadIterator(folder + "/sockets", net_namespace));
        },
        py::arg("folder"), py::arg("from_name"), py::arg("to_name"), py::arg("net_namespace"),
        "Gives the sockets of a network namespace another congestion control; a byte for each that has the first, 1 if "
        "it was moved. An empty second name moves none.");
    module.def("set_defaults", &SetDefaults, py::arg("file"), py::arg("variant"), py::arg("tunables"), py::arg("floor"),
               "Changes the pinned settings of all sockets.");
    module.def(
        "floor", [](const std::string& file) { return ValuesOf(FromBytes<bpf_flow_settings>(ReadPinned(file)).floor); },
        py::arg("file"), "The floor in pinned settings.");
    module.def(
        "defaults",
        [](const std::string& file) { return TunablesOf(FromBytes<bpf_flow_settings>(ReadPinned(file)).params); },
        py::arg("file"), "The tunables in pinned settings.");
    module.def(
        "flow_rows", [](const std::string& file) { return FlowRows(ReadIterator(file, "")); }, py::arg("file"),
        "Connections of a pinned iterator.");

    py::class_<Replay>(module, "Replay", "Holds the native cc/ against the events that the kernel went through.")
        .def(py::init())
        .def("result", &Replay::Result, "Events by kind, records lost, and events after which the states differ.");

    py::class_<CongestionControl>(module, "CongestionControl", "Registered in the kernel until it is closed.")
        .def(
            py::init([](const std::string& variant, std::size_t records, bool slow, const std::string& object,
                        const std::string& name, const TunableValues& tunables, const FloorValues& floor) {
                bpf_flow_settings defaults = Settings(variant, tunables, 0);
                defaults.floor = FloorFrom(floor);
                defaults.has_policy = !name.empty() && !CongestionControl::PolicyVariantOf(object).empty();
                return std::make_unique<CongestionControl>(defaults, records, slow, object, name);
            }),
            py::arg("variant") = "bbr", py::arg("records") = 0, py::arg("slow") = false, py::arg("program") = "",
            py::arg("name") = "", py::arg("tunables") = TunableValues{}, py::arg("floor") = FloorValues{},
            "`slow`: below 1.2 Mbit/s segments leave one by one. `program`: file of one compiled with a policy, which\n"
            "then sets the tunables of its sockets. `name`: for any program of the machine, with these tunables and "
            "the policy,\n"
            "which falls back to them below `floor`: the share of the bandwidth, s below it, times the minimum RTT, s "
            "above it.")
        .def_property_readonly("name", &CongestionControl::Name)
        .def("pin_to", &CongestionControl::PinTo, py::arg("folder"),
             "Pins one with a name, so that it outlives this object.")
        .def(
            "attach",
            [](CongestionControl& self, int socket, const std::string& variant, const TunableValues& tunables,
               uint64_t seed, bool recorded) {
                bpf_flow_settings settings = Settings(variant, tunables, seed);
                settings.is_recorded = recorded;
                settings.has_policy = self.PolicyVariant() == variant;
                self.Attach(socket, settings);
            },
            py::arg("socket"), py::arg("variant"), py::arg("tunables") = TunableValues{}, py::arg("seed") = 0,
            py::arg("recorded") = false, "Gives a socket this congestion control.")
        .def(
            "set_tunables",
            [](CongestionControl& self, int socket, const std::string& variant, const TunableValues& tunables,
               bool recorded) {
                bpf_flow_settings settings = Settings(variant, tunables, 0);
                settings.is_recorded = recorded;
                self.SetSettings(socket, settings);
            },
            py::arg("socket"), py::arg("variant"), py::arg("tunables"), py::arg("recorded") = false,
            "Changes a socket's tunables from its next event on; those not named have the variant's preset.")
        .def(
            "read", [](const CongestionControl& self, int socket) { return FlowState(self.Read(socket)); },
            py::arg("socket"), "The flow's state; None before its connection stands.")
        .def(
            "policy",
            [](const CongestionControl& self, int socket) -> py::object {
                const auto report = self.ReadPolicy(socket);
                if (!report)
                {
                    return py::none();
                }
                return py::make_tuple(report->decisions, report->decision_ns, py::bytes(report->state));
            },
            py::arg("socket"),
            "Decisions of the flow's policy, the ns that they took, and its state (struct policy_state of its header); "
            "None\n"
            "without one.")
        .def(
            "replay",
            [](CongestionControl& self, Replay& replay) {
                for (const bpf_record& record : self.TakeRecords())
                {
                    replay.Feed(record);
                }
            },
            py::arg("replay"), "Takes the records that wait, of one flow, and feeds them to a replay.")
        .def("measure_cost", &CongestionControl::MeasureCost, "Counts runs and time from now on.")
        .def(
            "costs",
            [](const CongestionControl& self) {
                py::list rows;
                for (const ProgramCost& cost : self.Costs())
                {
                    rows.append(CostRow(cost));
                }
                return rows;
            },
            "Instructions, verified instructions, runs and their time (ns) of each hook.");

    py::class_<Comparison>(module, "Comparison",
                           "Gives new connections of a cgroup one of two congestion controls, until it is detached.")
        .def(py::init([](const std::array<std::string, 2>& names, double share, uint64_t seed,
                         const std::vector<uint32_t>& ports, const std::string& cgroup) {
                 return std::make_unique<Comparison>(ComparisonOf(names, share, seed, ports), cgroup);
             }),
             py::arg("names"), py::arg("share"), py::arg("seed"), py::arg("ports"), py::arg("cgroup"),
             "`share`: of the connections that get the second. `seed`: of the draws. `ports`: of services; none: all.\n"
             "`cgroup`: its folder.")
        .def("detach", &Comparison::Detach, "Ends it; rows can still be taken.")
        .def(
            "take",
            [](Comparison& self) {
                py::list rows;
                for (const bpf_compared& row : self.Take())
                {
                    rows.append(ComparedRow(row));
                }
                return rows;
            },
            "Rows of the connections that ended.")
        .def(
            "counts",
            [](const Comparison& self) {
                const bpf_comparison_counts counts = self.Counts();
                return py::dict("given"_a = py::make_tuple(counts.given[0], counts.given[1]),
                                "refused"_a = counts.refused, "lost"_a = counts.lost);
            },
            "Connections so far: given each control, refused one, and rows lost.");
}
