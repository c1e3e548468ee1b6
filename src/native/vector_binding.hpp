// SPDX-License-Identifier: GPL-2.0-only
//
// The class Vector of a C++ world's module: runs on the caller's arrays, advanced together. Its interface is that of
// bbrgym/worlds/engine.py.
#ifndef BBRGYM_VECTOR_BINDING_HPP
#define BBRGYM_VECTOR_BINDING_HPP

#include "advance_watch.hpp"
#include "struct_type.hpp"

#include "ack_record.hpp"
#include "fields.hpp"
#include "packet_log.hpp"
#include "params.hpp"
#include "plugin.hpp"
#include "scenario.hpp"
#include "tables.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace bbrgym::binding
{

namespace py = pybind11;

/** The memory behind a caller's array, which must be of the right type and shape, writable and not a copy. */
template <class Number = double>
std::span<Number>
View(const py::object& object, const char* name, std::initializer_list<py::ssize_t> shape)
{
    using Array = py::array_t<Number, py::array::c_style>;
    if (py::isinstance<Array>(object))
    {
        auto array = py::reinterpret_borrow<Array>(object);
        if (array.writeable() && std::equal(shape.begin(), shape.end(), array.shape(), array.shape() + array.ndim()))
        {
            return {array.mutable_data(), static_cast<std::size_t>(array.size())};
        }
    }
    throw py::value_error(std::string(name) + ": expected a writable C-contiguous " +
                          std::string(py::str(py::dtype::of<Number>())) + " array of shape " +
                          std::string(py::str(py::cast(std::vector<py::ssize_t>(shape)))) + ", got " +
                          std::string(py::repr(object)));
}

/** Of an AckRecord; described here because pybind11 lets only one module of a process register a C++ struct. */
inline py::dtype
AckRecordDtype()
{
    StructType made;
#define ACK_FIELD(type, name, unit, value, meaning) made.Add(#name, py::dtype::of<type>(), offsetof(AckRecord, name));
#include "ack_record.def"
    return made.Of(sizeof(AckRecord));
}

/** Of a PacketRecord. */
inline py::dtype
PacketRecordDtype()
{
    StructType made;
#define FIELD(name, format) made.Add(#name, py::str(format), offsetof(PacketRecord, name));
    FIELD(time_ns, "i8")
    FIELD(offset_bytes, "u8")
    FIELD(acked_bytes, "u8")
    FIELD(window_bytes, "u8")
    FIELD(flow, "u4")
    FIELD(payload_bytes, "u4")
    FIELD(queue_bytes, "u4")
    FIELD(flags, "u2")
    FIELD(event, "u1")
    FIELD(block_count, "u1")
    FIELD(blocks, "(4,2)u8")
#undef FIELD
    static_assert(sizeof(PacketRecord) == 112 && PacketRecord::MAX_BLOCKS == 4);
    return made.Of(sizeof(PacketRecord));
}

/** Of a DecisionRecord: an AckRecord's after its own. */
inline py::dtype
DecisionRecordDtype()
{
    const py::dict ack = AckRecordDtype().attr("fields");
    StructType made;
    made.Add("flow", py::str("i8"), 0);
    made.Add("after", py::str("i8"), sizeof(int64_t));
    for (const auto& [name, field] : ack)
    {
        made.Add(name, field[py::int_(0)], offsetof(DecisionRecord, ack) + field[py::int_(1)].cast<std::size_t>());
    }
    return made.Of(sizeof(DecisionRecord));
}

/** A run that logs its packets. */
template <class Run>
concept TracesPackets = requires(Run& run) {
    run.TracePackets();
    run.Log();
};

/** An implementation whose tunables a policy may set. */
template <class Implementation>
concept TakesPolicy = requires(Implementation& vector, const std::string& path) { vector.UsePolicy(path); };

/** An implementation whose reset waits for others, so that Python's threads go on meanwhile. */
template <class Implementation>
concept WaitsInReset = requires { Implementation::RESET_WAITS; };

/**
 * Runs of a world. Implementation has a constructor from (worlds, threads), HAS_OWN_THREADS: whether a run has some
 * beside those, and
 *
 *   LayOut(VectorTables)   Reset(world, scenario, seed)   Reset(world, seed)   Advance(duration_s, mask, stop)
 *   World(world) -> a run with GetScenario(), Summarise(flow_table, link_row), TraceAcks(flow, max_rows),
 * AckTrace(flow)
 */
template <class Implementation> class PyVector
{
  public:
    PyVector(std::size_t worlds, std::size_t threads, double timeout_s)
        : m_worlds(worlds),
          m_threads(threads),
          m_timeout_s(timeout_s),
          m_owner_pid(getpid())
    {
        if (worlds < 1 || threads < 1)
        {
            throw py::value_error("num_worlds and threads: expected at least 1");
        }
        m_vector = std::make_unique<Implementation>(worlds, threads);
    }

    ~PyVector() { Close(); }

    void UsePolicy(const std::string& path) { Alive().UsePolicy(path); }

    void LayOut(py::ssize_t flow_capacity, const py::object& tunables, const py::object& flow_stats,
                const py::object& link_stats, const py::object& now_s, const py::object& done)
    {
        if (flow_capacity < 1)
        {
            throw py::value_error("flow_capacity: expected at least 1");
        }
        const auto worlds = static_cast<py::ssize_t>(m_worlds);
        const VectorTables tables{static_cast<std::size_t>(flow_capacity),
                                  View(tunables, "tunables", {worlds, flow_capacity, std::ssize(Tunables())}),
                                  View(flow_stats, "flow_stats", {worlds, flow_capacity, std::ssize(FLOW_STAT_FIELDS)}),
                                  View(link_stats, "link_stats", {worlds, std::ssize(LINK_STAT_FIELDS)}),
                                  View(now_s, "now_s", {worlds}),
                                  View<bool>(done, "done", {worlds})};
        Alive().LayOut(tables);
        m_keep_alive = py::make_tuple(tunables, flow_stats, link_stats, now_s, done);
        m_is_laid_out = true;
    }

    void Reset(std::size_t world, const std::optional<std::string>& scenario_json, uint64_t seed)
    {
        Implementation& vector = LaidOut(world);
        std::shared_ptr<const Scenario> scenario;
        if (scenario_json)
        {
            scenario = std::make_shared<const Scenario>(ParseScenario(*scenario_json));
        }
        const auto begin = [&] {
            scenario ? vector.Reset(world, std::move(scenario), seed) : vector.Reset(world, seed);
        };
        if constexpr (WaitsInReset<Implementation>)
        {
            m_is_resetting = true; // which other threads are told
            const std::exception_ptr error = WithoutGil(begin);
            m_is_resetting = false;
            CloseIfAsked();
            Rethrow(error);
        }
        else
        {
            begin();
        }
    }

    /** The one way into the simulations' loops. */
    void Advance(const py::object& durations_s)
    {
        Implementation& vector = LaidOut(0);
        const std::span<const double> asked_s =
            View<double>(durations_s, "durations_s", {static_cast<py::ssize_t>(m_worlds)});
        const auto runs = [](double duration_s) { return duration_s >= 0.0; };
        auto world = static_cast<std::size_t>(std::ranges::find_if(asked_s, runs) - asked_s.begin());
        AdvanceWatch watch(
            LimitS(std::ranges::max(asked_s), static_cast<std::size_t>(std::ranges::count_if(asked_s, runs))));
        m_watch = &watch;
        const std::exception_ptr error = WithoutGil([&] {
            try
            {
                vector.Advance(asked_s, watch.Stop());
            }
            catch (const Stopped& stopped)
            {
                world = stopped.World();
            }
        });
        m_watch = nullptr;
        CloseIfAsked();
        watch.Raise(world);
        Rethrow(error);
    }

    void Summary(std::size_t world, const py::object& flow_out, const py::object& link_out) const
    {
        const auto& run = LaidOut(world).World(world);
        const auto flows = static_cast<py::ssize_t>(run.GetScenario().flows.size());
        run.Summarise(View(flow_out, "flow_out", {flows, std::ssize(FLOW_SUMMARY_FIELDS)}),
                      View(link_out, "link_out", {std::ssize(LINK_SUMMARY_FIELDS)}));
    }

    py::array_t<double> Links(std::size_t world) const
    {
        const std::vector<double> rows = LaidOut(world).World(world).LinkRows();
        constexpr py::ssize_t width = std::ssize(LINK_STAT_FIELDS) + std::ssize(LINK_SUMMARY_FIELDS);
        return py::array_t<double>({std::ssize(rows) / width, width}, rows.data());
    }

    void TraceAcks(std::size_t world, std::size_t flow, std::size_t max_rows)
    {
        LaidOut(world).World(world).TraceAcks(flow, max_rows);
    }

    py::array AckTrace(std::size_t world, std::size_t flow) const
    {
        const auto& trace = LaidOut(world).World(world).AckTrace(flow);
        return py::array(AckRecordDtype(), std::ssize(trace), trace.data());
    }

    void TracePackets(std::size_t world) { LaidOut(world).World(world).TracePackets(); }

    py::tuple TakePackets(std::size_t world)
    {
        const auto [packets, decisions] = LaidOut(world).World(world).Log().Drain();
        return py::make_tuple(py::array(PacketRecordDtype(), std::ssize(packets), packets.data()),
                              py::array(DecisionRecordDtype(), std::ssize(decisions), decisions.data()));
    }

    /** Ends an advance that another thread is in, or a signal's handler was called from, first. */
    void Close()
    {
        const bool is_fork = getpid() != m_owner_pid;
        if ((m_watch || m_is_resetting) && !is_fork)
        {
            m_is_closing = true;
            if (m_watch)
            {
                m_watch->Stop().Request();
            }
            return;
        }
        if (is_fork && (m_watch || m_is_resetting || HasThreads()))
        {
            m_vector.release(); // its threads are not here to be ended; its memory ends with the fork
        }
        m_vector.reset();
    }

    /** The implementation, to be used for one of its worlds. */
    Implementation& LaidOut(std::size_t world) const
    {
        Implementation& vector = Alive();
        if (!m_is_laid_out)
        {
            throw std::runtime_error("the vector has no arrays: call lay_out() first");
        }
        if (world >= m_worlds)
        {
            throw py::index_error("world " + std::to_string(world) + " of " + std::to_string(m_worlds));
        }
        return vector;
    }

  private:
    Implementation& Alive() const
    {
        if (!m_vector)
        {
            throw std::runtime_error("the vector is closed");
        }
        if (m_watch)
        {
            throw std::runtime_error("the vector is in the middle of an advance");
        }
        if (m_is_resetting)
        {
            throw std::runtime_error("the vector is in the middle of a reset");
        }
        if (HasLostThreads())
        {
            throw std::runtime_error("the vector belongs to process " + std::to_string(m_owner_pid) +
                                     ": its threads are not in a fork");
        }
        return *m_vector;
    }

    /** Acts while other threads of Python may use the vector, or close it; returns what is thrown. */
    static std::exception_ptr WithoutGil(const auto& act)
    {
        const py::gil_scoped_release release;
        return Caught(act);
    }

    void CloseIfAsked()
    {
        if (m_is_closing)
        {
            Close();
        }
    }

    bool HasThreads() const { return m_threads > 1 || Implementation::HAS_OWN_THREADS; }

    /** In a fork only the thread that forked goes on. */
    bool HasLostThreads() const { return HasThreads() && getpid() != m_owner_pid; }

    /** The longest wall time of an advance: each thread runs its share of the worlds one after the other. */
    double LimitS(double longest_s, std::size_t worlds) const
    {
        const std::size_t rounds = (worlds + m_threads - 1) / m_threads;
        return m_timeout_s * std::max(1.0, longest_s) * static_cast<double>(std::max<std::size_t>(rounds, 1));
    }

    std::size_t m_worlds;
    std::size_t m_threads;
    double m_timeout_s; ///< wall time for each simulated second of an advance; for a shorter advance in all
    pid_t m_owner_pid;
    bool m_is_laid_out = false;
    bool m_is_resetting = false;     ///< without the GIL
    bool m_is_closing = false;       ///< Close was called in the middle of an advance or a reset
    AdvanceWatch* m_watch = nullptr; ///< of the advance under way; null: none is
    py::object m_keep_alive;
    std::unique_ptr<Implementation> m_vector;
};

/** Defines the class; its constructor takes the path of a policy if the world does. A world may add methods of its own
 * to what is returned. */
template <class Implementation>
py::class_<PyVector<Implementation>>
DefineVector(py::module_& module)
{
    using Vector = PyVector<Implementation>;
    module.def("load_plugin", &LoadPlugin, py::arg("name"), py::arg("path"),
               "Makes a shared object a congestion control of the runs to come; ValueError: it is none.");
    py::class_<Vector> vector(module, "Vector", R"(Runs of resolved scenarios, advanced together.

The caller owns the arrays, which may lie in shared memory. Rows of flows that a world's scenario does not have are
NaN. A bad argument raises ValueError, a world that is not there IndexError. `threads` includes the caller's.)");
    if constexpr (TakesPolicy<Implementation>)
    {
        vector.def(py::init([](std::size_t worlds, std::size_t threads, double timeout_s,
                               const std::optional<std::string>& policy) {
                       auto made = std::make_unique<Vector>(worlds, threads, timeout_s);
                       if (policy)
                       {
                           made->UsePolicy(*policy);
                       }
                       return made;
                   }),
                   py::arg("num_worlds"), py::arg("threads"), py::arg("timeout_s"), py::arg("policy") = py::none());
    }
    else
    {
        vector.def(py::init<std::size_t, std::size_t, double>(), py::arg("num_worlds"), py::arg("threads"),
                   py::arg("timeout_s"));
    }
    vector
        .def(
            "lay_out", &Vector::LayOut, py::arg("flow_capacity"), py::arg("tunables"), py::arg("flow_stats"),
            py::arg("link_stats"), py::arg("now_s"), py::arg("done"),
            R"(Uses these arrays from now on: float64 `tunables` [worlds, flow_capacity, tunables], `flow_stats` [worlds,
flow_capacity, fields], `link_stats` [worlds, fields], `now_s` [worlds] and bool `done` [worlds]. Runs go on; the
arrays must hold what the former ones held.)")
        .def(
            "reset", &Vector::Reset, py::arg("index"), py::arg("scenario_json"), py::arg("seed"),
            R"(Begins a run of one world and fills its rows: each flow's initial tunables, NaN where its algorithm does not
have one, and the stats of an empty interval. None: the scenario that the world runs, not parsed again.)")
        .def("advance", &Vector::Advance, py::arg("durations_s"),
             R"(Advances the worlds whose `durations_s` [worlds], float64, is not below 0: applies changed rows of
`tunables` (a bad one raises ValueError and its world does not run), runs, at most to the scenario's end, and writes the
stats of that interval. Releases the GIL. An error in one world is raised after the others have advanced. A signal's
handler that raises, the end of the time, or close() ends it at once: worlds that did not come to the interval's end
must be reset.)")
        .def("summary", &Vector::Summary, py::arg("index"), py::arg("flow_out"), py::arg("link_out"),
             "Fills `flow_out` [flows, fields] and `link_out` [fields], measured from the warm-up's end to now.")
        .def("trace_acks", &Vector::TraceAcks, py::arg("index"), py::arg("flow"), py::arg("max_rows"),
             "Records a flow's ACKs from now on, up to `max_rows`; ValueError for ns-3's own controls.")
        .def("ack_trace", &Vector::AckTrace, py::arg("index"), py::arg("flow"),
             "The recorded ACKs: a structured array, a row per ACK, units in the names; -1: not measured.")
        .def("close", &Vector::Close, "Ends the runs; may be called again.");
    if constexpr (TracesPackets<std::remove_reference_t<decltype(std::declval<Implementation&>().World(0))>>)
    {
        vector
            .def("links", &Vector::Links, py::arg("index"),
                 R"(What is measured of the links of a world that has several, of the last interval and since the
warm-up: [links, fields of the interval, then of the summary].)")
            .def("trace_packets", &Vector::TracePackets, py::arg("index"),
                 "Logs every packet and decision of one world from its run's beginning on; ValueError: the run has "
                 "begun.")
            .def("take_packets", &Vector::TakePackets, py::arg("index"),
                 R"(The rows logged since the last call: structured arrays of packets and of decisions. `event` and the
bits of `flags` are those of bbrgym._cc.packet_codes(); a decision's `after` is the number of these packets that precede
it. Rows that are not taken stay in memory.)");
    }
    return vector;
}

} // namespace bbrgym::binding

#endif
