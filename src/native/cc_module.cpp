// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym._cc: the tables of tunables, variants, measured fields and a scenario's bounds, and a controller of cc/ that
// can be driven event by event.
#include "ack_record.hpp"
#include "bounds.hpp"
#include "cc_controller.hpp"
#include "fields.hpp"
#include "packet_log.hpp"
#include "params.hpp"
#include "plugin.hpp"
#include "sample_fields.hpp"
#include "scenario.hpp"
#include "stack.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace py = pybind11;
using namespace py::literals;
using namespace bbrgym;

namespace
{

int
RequireVariant(const std::string& name)
{
    if (const auto variant = FindVariant(name))
    {
        return *variant;
    }
    std::string known;
    for (const auto& v : Variants())
    {
        known += (known.empty() ? "" : ", ") + std::string(v.name);
    }
    throw py::value_error("variant = '" + name + "': expected one of " + known);
}

int
RequireTunable(const std::string& name, const cc_plugin* plugin)
{
    if (const auto tunable = FindTunable(name, plugin))
    {
        return *tunable;
    }
    throw py::value_error("no tunable is named '" + name + "'");
}

/** The stack of a preset with some facts' values changed, by name. */
Stack
RequireStack(const std::string& preset, const std::map<std::string, int64_t>& facts)
{
    const auto found = FindStackPreset(preset);
    if (!found)
    {
        throw py::value_error("stack = '" + preset + "': expected a preset's name");
    }
    Stack stack = StackOf(*found);
    for (const auto& [name, value] : facts)
    {
        const auto fact = std::ranges::find(StackFacts(), name, &StackFact::name);
        if (fact == StackFacts().end())
        {
            throw py::value_error("no fact of a stack is named '" + name + "'");
        }
        fact->set(stack, value);
    }
    return stack;
}

py::dict
TunableRow(const TunableInfo& t)
{
    return py::dict("name"_a = t.name, "symbol"_a = t.symbol, "unit"_a = t.unit, "default"_a = t.default_value,
                    "low"_a = t.low, "high"_a = t.high, "scale"_a = t.scale, "mechanism"_a = t.mechanism,
                    "source"_a = t.source);
}

py::list
TunableTable()
{
    py::list table;
    for (const auto& t : Tunables())
    {
        table.append(TunableRow(t));
    }
    return table;
}

/** Loads a plugin and returns its algorithm, the tunables that it has of BBR v1, and its own with their columns. */
py::tuple
LoadedPlugin(const std::string& name, const std::string& path)
{
    const int variant = LoadPlugin(name, path);
    py::list base;
    py::dict own;
    for (int t = 0; t < static_cast<int>(Tunables().size()); ++t)
    {
        const TunableInfo& row = RowOfTunable(PluginOf(variant), t);
        if (row.bit == 0 && &row == &Tunables()[static_cast<std::size_t>(t)] && VariantHasTunable(variant, t))
        {
            base.append(row.name);
        }
        else if (VariantHasTunable(variant, t))
        {
            own[py::int_(t)] = TunableRow(row);
        }
    }
    return py::make_tuple(PluginOf(variant)->paces ? "plugin-bbr" : "plugin", base, own);
}

py::list
VariantTable()
{
#define ALGORITHM_NAME(id, name, ...) name,
    constexpr const char* algorithms[] = {CC_ALGORITHMS(ALGORITHM_NAME)};
#undef ALGORITHM_NAME
    py::list table;
    for (int v = 0; v < static_cast<int>(Variants().size()); ++v)
    {
        const auto& info = Variants()[static_cast<std::size_t>(v)];
        const cc_params preset = Preset(v);
        py::list tunables;
        py::dict values;
        for (int t = 0; t < static_cast<int>(Tunables().size()); ++t)
        {
            const auto& tunable = Tunables()[static_cast<std::size_t>(t)];
            values[py::cast(tunable.name)] = GetTunable(preset, t);
            if (VariantHasTunable(v, t))
            {
                tunables.append(tunable.name);
            }
        }
        table.append(py::dict("name"_a = info.name, "algorithm"_a = algorithms[info.algorithm],
                              "source"_a = info.source, "tunables"_a = tunables, "preset"_a = values));
    }
    return table;
}

py::dict
ScenarioBounds()
{
    py::dict table;
    for (const Bound& bound : bounds::ALL)
    {
        table[py::cast(bound.name)] = py::make_tuple(bound.low, bound.high, bound.unit);
    }
    return table;
}

/** The value of a fact as a scenario writes it. */
py::object
FactValue(const StackFact& fact, int64_t value)
{
    switch (fact.kind)
    {
    case StackFactKind::FLAG: return py::bool_(value != 0);
    case StackFactKind::CHOICE: return py::str(fact.choices[static_cast<std::size_t>(value)]);
    case StackFactKind::SIZE:
        if (value <= 0)
        {
            return py::str(fact.choices[static_cast<std::size_t>(-value)]);
        }
        break;
    case StackFactKind::NUMBER: break;
    }
    return py::int_(value);
}

py::list
StackFactTable()
{
    const std::map<StackFactKind, const char*> kinds = {{StackFactKind::FLAG, "flag"},
                                                        {StackFactKind::CHOICE, "choice"},
                                                        {StackFactKind::NUMBER, "number"},
                                                        {StackFactKind::SIZE, "size"}};
    py::list table;
    for (const StackFact& fact : StackFacts())
    {
        py::dict presets;
        for (std::size_t i = 0; i < STACK_PRESETS.size(); ++i)
        {
            presets[py::cast(STACK_PRESETS[i])] = FactValue(fact, fact.values[i]);
        }
        table.append(py::dict("name"_a = fact.name, "layer"_a = fact.layer, "kind"_a = kinds.at(fact.kind),
                              "choices"_a = fact.choices, "unit"_a = fact.unit, "low"_a = fact.low,
                              "high"_a = fact.high, "presets"_a = presets, "meaning"_a = fact.meaning,
                              "source"_a = fact.source));
    }
    return table;
}

py::list
FieldTable(std::span<const Field> fields)
{
    py::list table;
    for (const Field& field : fields)
    {
        table.append(py::make_tuple(field.name, field.unit, field.visibility, field.meaning));
    }
    return table;
}

py::dict
FieldTables()
{
    return py::dict("flow_stats"_a = FieldTable(FLOW_STAT_FIELDS), "link_stats"_a = FieldTable(LINK_STAT_FIELDS),
                    "flow_summary"_a = FieldTable(FLOW_SUMMARY_FIELDS),
                    "link_summary"_a = FieldTable(LINK_SUMMARY_FIELDS), "ack_trace"_a = FieldTable(ACK_FIELDS));
}

// clang-format off
/** Fields that Python reads, under their own names. */
#define BBR_FIELDS(X)                                                                                   \
    X(round_start) X(next_round_delivered_pkts) X(pacing_gain_q16) X(cwnd_gain_q16) X(cycle_time_us)    \
    X(full_bw_reached) X(full_bw_count) X(full_bw_Bps) X(prior_cwnd_pkts) X(prev_ca_state)              \
    X(packet_conservation) X(idle_restart) X(has_seen_rtt) X(probe_rtt_done_us) X(probe_rtt_round_done) \
    X(probe_rtt_interval_us)
#define BBR3_FIELDS(X)                                                                               \
    X(inflight_hi_pkts) X(inflight_lo_pkts) X(inflight_latest_pkts) X(ack_phase) X(bw_probe_samples) \
    X(prev_probe_too_high) X(stopped_risky_probe) X(loss_in_round) X(loss_round_start)               \
    X(loss_round_delivered_pkts) X(full_bw_now) X(up_cnt) X(rounds_since_probe) X(probe_wait_us)     \
    X(probe_rtt_min_us) X(ecn_eligible) X(ecn_alpha_256th)
// clang-format on

/** A controller without a network: events in, window and pacing rate out. */
class Controller : public CcController
{
  public:
    Controller(const std::string& variant, uint64_t now_us, uint64_t srtt_us, uint64_t min_rtt_us, uint64_t rng_seed,
               uint32_t mss_bytes, uint32_t initial_cwnd_pkts, bool ecn_ok, const std::string& stack,
               const std::map<std::string, int64_t>& facts)
    {
        cc_params params = Preset(RequireVariant(variant));
        params.stack = RequireStack(stack, facts).algorithm;
        Init(params, rng_seed);
        Start({.now_us = now_us,
               .srtt_us = srtt_us,
               .min_rtt_us = min_rtt_us,
               .mss_bytes = mss_bytes,
               .initial_cwnd_pkts = initial_cwnd_pkts,
               .ecn_ok = ecn_ok});
    }

    void SetTunable(const std::string& name, double value)
    {
        bbrgym::SetTunable(m_params, RequireTunable(name, m_params.plugin), value);
    }

    double GetTunable(const std::string& name) const
    {
        return bbrgym::GetTunable(m_params, RequireTunable(name, m_params.plugin));
    }

    void SetPhaseDraws(uint64_t state) { m_state.bbr.phase_rng.state = state; }

    py::dict Shown() const
    {
        const bbr_state& b = m_state.bbr;
        const bbr3_state& b3 = m_state.bbr3;
        const cubic_state& cubic = m_state.cubic;
        const uint32_t algorithm = m_params.algorithm; // the three share their memory
        const bic_state bic = algorithm == CC_ALGORITHM_BIC ? m_state.bic : bic_state{};
        const vegas_state vegas = algorithm == CC_ALGORITHM_VEGAS ? m_state.vegas : vegas_state{};
        const westwood_state westwood = algorithm == CC_ALGORITHM_WESTWOOD ? m_state.westwood : westwood_state{};
#define BBR(name) #name##_a = b.name,
#define BBR3(name) #name##_a = b3.name,
        return py::dict(
            "cwnd_pkts"_a = m_state.cwnd_pkts, "ssthresh_pkts"_a = m_state.ssthresh_pkts,
            "pacing_Bps"_a = m_state.pacing_Bps, "pacing_overhead_bytes"_a = m_state.pacing_overhead_bytes,
            "mark_app_limited"_a = m_state.mark_app_limited, "phase"_a = cc_phase(&m_state, &m_params),
            "bw_Bps"_a = cc_bw_Bps(&m_state), "bw_window_rounds"_a = b.bw_window_rounds,
            "min_rtt_us"_a = cc_min_rtt_us(&m_state, &m_params), "min_rtt_stamp_us"_a = b.min_rtt_stamp_us,
            "round_count"_a = cc_round_count(&m_state, &m_params),
            BBR_FIELDS(BBR) "policer_sampling"_a = b.policer.is_sampling, "policer_in_use"_a = b.policer.in_use,
            "policer_bw_Bps"_a = b.policer.bw_Bps, "policer_rounds"_a = b.policer.rounds,
            "extra_acked_pkts"_a = py::make_tuple(b.aggregation.extra_pkts[0], b.aggregation.extra_pkts[1]),
            "phase_rng"_a = b.phase_rng.state, "trand_rng"_a = b.trand_rng.state,
            "plus_srtt_us"_a = b.plus_srtt_q16_us >> 16, "acd_same_count"_a = b.acd_same_count,
            "acd_congested"_a = b.acd_congested, "acd_capped"_a = b.acd_capped, "bbq_queue_seen"_a = b.bbq_queue_seen,
            "bbq_data_min_rtt_us"_a = b.bbq_data_min_rtt_us, "max_bw_Bps"_a = bbr3_bound_Bps(&b, bbr3_max_bw_q24(&b3)),
            "bw_lo_Bps"_a = bbr3_bound_Bps(&b, b3.bw_lo_q24), "bw_latest_Bps"_a = bbr3_bound_Bps(&b, b3.bw_latest_q24),
            BBR3_FIELDS(BBR3) "cubic_w_max_pkts"_a = cubic.w_max_pkts, "cubic_min_delay_us"_a = cubic.min_delay_us,
            "cubic_acks_per_pkt"_a = cubic.acks_per_pkt, "cubic_reno_cwnd_pkts"_a = cubic.reno_cwnd_pkts,
            "hystart_found"_a = cubic.hystart.found, "bic_w_max_pkts"_a = bic.w_max_pkts,
            "bic_acks_per_pkt"_a = bic.acks_per_pkt, "bic_ack_ratio"_a = bic.ack_ratio, "vegas_is_on"_a = vegas.is_on,
            "vegas_base_rtt_us"_a = vegas.base_rtt_us, "vegas_round_rtt_us"_a = vegas.round_rtt_us,
            "vegas_rtt_count"_a = vegas.rtt_count, "westwood_bw_Bpms"_a = westwood.bw_Bpms,
            "westwood_min_rtt_ms"_a = westwood.min_rtt_ms);
#undef BBR
#undef BBR3
    }
};

void
DeclareSample(py::module_& m)
{
    py::class_<cc_sample>(m, "Sample", "One ACK (cc/types.h); fields not given are 0.")
        .def(py::init([](const py::kwargs& fields) {
            py::object sample = py::cast(cc_sample{});
            for (const auto& [name, value] : fields)
            {
                py::setattr(sample, name, value);
            }
            return sample.cast<cc_sample>();
        }))
#define FIELD(name) .def_readwrite(#name, &cc_sample::name)
            SAMPLE_FIELDS(FIELD);
#undef FIELD
}

void
DeclareController(py::module_& m)
{
    py::class_<Controller>(m, "Controller", "A controller of cc/ without a network, driven event by event.")
        .def(py::init<const std::string&, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t, bool,
                      const std::string&, const std::map<std::string, int64_t>&>(),
             py::arg("variant"), py::kw_only(), py::arg("now_us") = 0, py::arg("srtt_us") = 0,
             py::arg("min_rtt_us") = CC_RTT_UNKNOWN_US, py::arg("rng_seed") = 1, py::arg("mss_bytes") = 1448,
             py::arg("initial_cwnd_pkts") = 10, py::arg("ecn_ok") = false, py::arg("stack") = "linux-6",
             py::arg("facts") = std::map<std::string, int64_t>{})
        .def("set_tunable", &Controller::SetTunable, py::arg("name"), py::arg("value"))
        .def("get_tunable", &Controller::GetTunable, py::arg("name"))
        .def("on_ack", &Controller::OnAck, py::arg("sample"))
        .def(
            "on_packet_lost",
            [](Controller& controller, uint64_t now_us, uint64_t delivered_pkts, uint64_t total_lost_pkts,
               uint64_t lost_at_send_pkts, uint32_t tx_in_flight_pkts, uint32_t size_pkts, bool is_app_limited) {
                controller.OnPacketLost({.now_us = now_us,
                                         .delivered_pkts = delivered_pkts,
                                         .total_lost_pkts = total_lost_pkts,
                                         .lost_at_send_pkts = lost_at_send_pkts,
                                         .tx_in_flight_pkts = tx_in_flight_pkts,
                                         .size_pkts = size_pkts,
                                         .is_app_limited = is_app_limited});
            },
            py::kw_only(), py::arg("now_us"), py::arg("delivered_pkts"), py::arg("total_lost_pkts"),
            py::arg("lost_at_send_pkts"), py::arg("tx_in_flight_pkts"), py::arg("size_pkts") = 1,
            py::arg("is_app_limited") = false)
        .def("on_probe_repair", &Controller::OnProbeRepair, py::arg("now_us"), py::arg("delivered_pkts"),
             py::arg("is_app_limited") = false)
        .def("set_phase_draws", &Controller::SetPhaseDraws, py::arg("state"),
             "Sets the generator that draws PROBE_BW's phases and waits (splitmix64), to follow another program's "
             "draws.")
        .def(
            "on_loss_state",
            [](Controller& controller, uint32_t state, uint32_t in_flight_pkts) {
                if (state >= CC_CA_LOSS)
                {
                    throw py::value_error("state = " + std::to_string(state) +
                                          ": expected 0 to 3 (a timeout is on_rto)");
                }
                controller.OnLossState(static_cast<cc_ca_state>(state), in_flight_pkts);
            },
            py::arg("state"), py::arg("in_flight_pkts"))
        .def(
            "on_rto",
            [](Controller& controller, uint32_t prior_in_flight_pkts, uint32_t in_flight_pkts, uint64_t total_lost_pkts,
               bool is_new_episode) {
                controller.OnRto(is_new_episode, prior_in_flight_pkts, in_flight_pkts, total_lost_pkts);
            },
            py::arg("prior_in_flight_pkts"), py::arg("in_flight_pkts"), py::arg("total_lost_pkts"),
            py::arg("is_new_episode") = true)
        .def("on_idle", &Controller::OnIdle, py::arg("idle_us"), py::arg("rto_us"))
        .def("on_cwnd_underused", &Controller::OnCwndUnderused, py::arg("used_pkts"))
        .def("on_restart", &Controller::OnRestart, py::arg("now_us"), py::arg("app_limited"))
        .def("on_undo", &Controller::OnUndo)
        .def_property_readonly(
            "cwnd_pkts", [](const Controller& controller) { return controller.State().cwnd_pkts; },
            "Of the state, for loops over many ACKs.")
        .def_property_readonly("ssthresh_pkts",
                               [](const Controller& controller) { return controller.State().ssthresh_pkts; })
        .def_property_readonly("state", &Controller::Shown);
}

/** The windowed maximum, to be held against a brute-force one. */
void
DeclareMaxFilter(py::module_& m)
{
    py::class_<cc_max_filter>(m, "MaxFilter", "Windowed maximum of cc/max_filter.h.")
        .def(py::init([] { return cc_max_filter{}; }))
        .def(
            "update",
            [](cc_max_filter& filter, uint64_t time, uint64_t window, uint64_t value) {
                return cc_max_filter_update(&filter, time, window, value);
            },
            py::arg("time"), py::arg("window"), py::arg("value"));
}

} // namespace

PYBIND11_MODULE(_cc, m)
{
    m.doc() = "The congestion control algorithms and their table of tunables.";
    m.def("tunables", &TunableTable, "The table of tunables, a dict a row (cc/tunables.def).");
    m.def(
        "load_plugin", &LoadedPlugin, py::arg("name"), py::arg("path"),
        "Loads a shared object (cc/plugin.h): its algorithm, tunables of BBR v1, and its own, a dict a row, by column. "
        "ValueError: it is none.");
    m.def("variants", &VariantTable, "The variants, their tunables and presets (cc/variants.def).");
    m.def("fields", &FieldTables,
          "The fields of each table that a world measures (world/fields.def, world/ack_record.def): lists of (name, "
          "unit,\n"
          "visibility, meaning) in the order of the columns, by table.");
    m.def(
        "packet_codes",
        [] {
            const auto listed = [](std::span<const PacketCode> codes) {
                py::list rows;
                for (const PacketCode& code : codes)
                {
                    rows.append(py::make_tuple(code.name, code.meaning));
                }
                return rows;
            };
            return py::make_tuple(listed(PACKET_EVENTS), listed(PACKET_FLAGS));
        },
        "The events of a log of packets by code, and its flags by bit (world/packet_log.def): lists of (name, "
        "meaning).");
    m.def("scenario_bounds", &ScenarioBounds,
          "The bounds of a scenario: name to (low, high, unit) (world/bounds.def).");
    m.def("stack_presets", [] { return STACK_PRESETS; }, "The names of the presets of a sender's stack.");
    m.def("stack_facts", &StackFactTable,
          "The facts of a sender's stack, a dict a row (cc/stack.def, world/socket.def).");
    m.def(
        "trace_rate_mbps",
        [](std::size_t opportunities, uint64_t opportunity_bytes, double period_ms) {
            return TraceRateBps(opportunities, opportunity_bytes, NanosecondsOfMs(period_ms)) / 1e6;
        },
        py::arg("opportunities"), py::arg("opportunity_bytes"), py::arg("period_ms"), "Mean rate of a trace.");
    m.def("nanoseconds", &NanosecondsOfS, py::arg("time_s"), "A time as every world counts it.");
    m.def(
        "stream_seed",
        [](uint64_t run_seed, const std::string& name) { return cc_stream_seed(run_seed, name.c_str()); },
        py::arg("run_seed"), py::arg("name"), "Seed of a named stream of a run.");
    m.def("mul_div", &cc_mul_div, py::arg("a"), py::arg("b"), py::arg("d"), "floor(a b / d), saturating.");
    m.def("mul_div_ceil", &cc_mul_div_ceil, py::arg("a"), py::arg("b"), py::arg("d"), "ceil(a b / d), saturating.");
    m.def("cube_root", &cc_cube_root, py::arg("x"), "floor(x^(1/3)).");
    m.def(
        "random_below",
        [](uint64_t seed, uint64_t n, int count) {
            cc_rng rng{seed};
            std::vector<uint64_t> draws(static_cast<std::size_t>(count));
            for (auto& draw : draws)
            {
                draw = cc_rng_below(&rng, n);
            }
            return draws;
        },
        py::arg("seed"), py::arg("n"), py::arg("count"), "`count` uniform draws from 0 to n - 1.");
    DeclareSample(m);
    DeclareController(m);
    DeclareMaxFilter(m);
}
