// SPDX-License-Identifier: GPL-2.0-only
//
// Congestion controls that are a Python class (bbrgym.Controller): an object for each flow, told of the flow's events.
//
// Worlds with such flows run in the caller's thread. Where a class offers `on_acks`, each of them runs as a coroutine
// up to the next event of such a flow, and one call decides for all; within a world nothing changes. A lone ACK goes to
// `on_ack` where the class has that, too: NumPy takes longer for one number than Python.
#ifndef BBRGYM_PYTHON_CONTROLLERS_HPP
#define BBRGYM_PYTHON_CONTROLLERS_HPP

#include "sample_fields.hpp"
#include "struct_type.hpp"

#include "params.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace bbrgym::binding
{

namespace py = pybind11;

inline py::object
Python(const char* name)
{
    return py::module_::import("bbrgym.controller").attr(name);
}

/** The object of one flow. Made, used and freed with the GIL. */
struct FlowObject
{
    explicit FlowObject(py::object made)
        : self(std::move(made)),
          sample(py::cast(cc_sample{})),
          shown(sample.cast<cc_sample*>()),
          on_ack(self.attr("on_ack")),
          on_acks(py::getattr(self, "on_acks", py::none())),
          has_on_ack(!on_ack.attr("__func__").is(Python("Controller").attr("on_ack")))
    {}

    py::object self;
    py::object sample; ///< that on_ack is given, each time
    cc_sample* shown;
    py::object on_ack, on_acks; ///< the latter None: the class has none
    bool has_on_ack;            ///< and not the base's
};

/** The type of on_acks' samples. A field is a signed number of 64 bits, so that differences do not wrap. */
inline py::dtype
SampleType()
{
    static const py::handle made = [] {
        StructType type;
#define FIELD(name)                                                                                                    \
    type.Add(#name, py::str(std::is_same_v<decltype(cc_sample::name), bool> ? "?" : "i8"), 8 * type.names.size());
        SAMPLE_FIELDS(FIELD)
#undef FIELD
        return type.Of(8 * type.names.size()).release();
    }(); // stays to the end of the process
    return py::reinterpret_borrow<py::dtype>(made);
}

/** An event of a flow with an object, to be decided. */
struct OwnEvent
{
    const Plugin* plugin;
    cc_state* state;
    const cc_sample* sample;                             ///< of an ACK; null: another event
    std::function<py::object(const py::object&)> method; ///< of another event

    FlowObject& Object() const { return *static_cast<FlowObject*>(plugin->object.get()); }
    bool IsOfBatch() const { return sample && !Object().on_acks.is_none(); }
};

/** Work with a stack of its own, which waits at each event until it is decided. */
class Coroutine
{
  public:
    explicit Coroutine(std::function<void()> work) : m_work(std::move(work))
    {
        getcontext(&m_context);
        m_context.uc_stack.ss_sp = m_stack.get();
        m_context.uc_stack.ss_size = STACK_BYTES;
        m_context.uc_link = &m_caller;
        makecontext(&m_context, &Coroutine::Begin, 0);
    }

    /** The one that runs in this thread; null: none does. */
    static Coroutine*& Current()
    {
        static thread_local Coroutine* current = nullptr;
        return current;
    }

    /** Goes on up to the next event, which is returned; null: it has ended. */
    const OwnEvent* Resume()
    {
        m_event = nullptr;
        Current() = this;
        swapcontext(&m_caller, &m_context);
        Current() = nullptr;
        return m_event;
    }

    /** From within: waits until the event is decided. */
    void Await(const OwnEvent& event)
    {
        m_event = &event;
        swapcontext(&m_context, &m_caller);
        Rethrow(std::exchange(error, nullptr));
    }

    std::exception_ptr error; ///< of the event that was to be decided; of the work, once it has ended

  private:
    static void Begin()
    {
        Coroutine& self = *Current();
        self.error = Caught(self.m_work);
    }

    static constexpr std::size_t STACK_BYTES = 256 * 1024;
    std::function<void()> m_work;
    std::unique_ptr<char[]> m_stack = std::make_unique_for_overwrite<char[]>(STACK_BYTES);
    ucontext_t m_context{};
    ucontext_t m_caller{};
    const OwnEvent* m_event = nullptr;
};

class PythonControllers
{
  public:
    /** Makes a class the congestion control `name` of the runs to come. */
    static void Load(const std::string& name, const py::object& type)
    {
        py::module_::import("bbrgym._cc"); // knows samples
        Plugin plugin{};
        plugin.name = name;
        plugin.paces = true;
        plugin.init = &Init;
        plugin.on_ack = &OnAck;
        if (py::hasattr(type, "on_rto"))
        {
            plugin.on_rto = [](cc_state* state, const cc_params* params, bool /*saves*/, uint64_t /*total_lost_pkts*/) {
                Tell(state, params, "on_rto");
            };
        }
        if (py::hasattr(type, "on_restart"))
        {
            plugin.on_restart = [](cc_state* state, const cc_params* params, uint64_t now_us, bool is_app_limited) {
                Tell(state, params, "on_restart", now_us, is_app_limited);
            };
        }
        if (py::hasattr(type, "on_loss_state"))
        {
            plugin.on_loss_state = [](cc_state* state, const cc_params* params, cc_ca_state before, cc_ca_state now) {
                Tell(state, params, "on_loss_state", static_cast<int>(before), static_cast<int>(now));
            };
        }
        const py::handle kept = type.inc_ref(); // stays to the end of the process, as its variant
        plugin.of_flow = [plugin, kept](const std::string& flow, uint64_t seed) {
            const py::gil_scoped_acquire acquire;
            std::shared_ptr<const Plugin> own;
            Rethrow(Failure(plugin, [&] { own = WithObject(plugin, Python("make")(kept, flow, seed)); }));
            return own;
        };
        s_has_batches |= py::hasattr(type, "on_acks");
        Plugins().push_back(std::move(plugin));
    }

    /** Runs worlds, see TwinVector::RunOwn. */
    static void RunWorlds(std::size_t count, const std::function<void(std::size_t)>& work)
    {
        std::vector<std::exception_ptr> errors(count);
        std::vector<std::unique_ptr<Coroutine>> running;
        for (std::size_t world = 0; world < count; ++world)
        {
            if (s_has_batches && count > 1)
            {
                running.push_back(std::make_unique<Coroutine>([&work, world] { work(world); }));
            }
            else
            {
                errors[world] = Caught([&] { work(world); });
            }
        }
        while (Step(running, errors))
        {
        }
        const auto first = std::ranges::find_if(errors, [](const auto& error) { return error != nullptr; });
        try
        {
            Rethrow(first == errors.end() ? nullptr : *first);
        }
        catch (py::error_already_set& raised)
        {
            const py::gil_scoped_acquire acquire;
            raised.value().attr("place") = first - errors.begin();
            throw;
        }
    }

  private:
    /** The plugin of one flow. */
    static std::shared_ptr<const Plugin> WithObject(const Plugin& common, py::object made)
    {
        auto own = std::make_shared<Plugin>(common);
        const std::shared_ptr<FlowObject> object(new FlowObject(std::move(made)), [](FlowObject* freed) {
            const py::gil_scoped_acquire acquire;
            delete freed;
        });
        own->of_flow = nullptr;
        own->object = object;
        own->copied = [common, object] {
            const py::gil_scoped_acquire acquire;
            return WithObject(common, Python("copied")(common.name, object->self));
        };
        return own;
    }

    // ---- events --------------------------------------------------------------------------------------------

    static const Plugin* Of(const cc_params* params) { return static_cast<const Plugin*>(params->plugin); }

    static void Init(cc_state* state, const cc_params* params, const cc_start* start)
    {
        bbr_set_mode(&state->bbr, BBR_PROBE_BW); // what worlds measure of it is as direct's
        state->bbr.cycle_index = DIRECT_CYCLE_INDEX;
        Decide({Of(params), state, nullptr, [start](const py::object& object) {
                    object.attr("mss_bytes") = start->mss_bytes;
                    return py::none();
                }});
    }

    static void OnAck(cc_state* state, const cc_params* params, const cc_sample* sample)
    {
        direct_update_bandwidth(&state->bbr, sample);
        state->bbr.min_rtt_us = cc_max_u64(sample->min_rtt_us, 1);
        Decide({Of(params), state, sample, {}});
    }

    static void Tell(cc_state* state, const cc_params* params, const char* method, auto... arguments)
    {
        Decide(
            {Of(params), state, nullptr, [=](const py::object& object) { return object.attr(method)(arguments...); }});
    }

    // ---- decisions -----------------------------------------------------------------------------------------

    static void Decide(const OwnEvent& event)
    {
        if (Coroutine* current = Coroutine::Current())
        {
            current->Await(event);
            return;
        }
        const py::gil_scoped_acquire acquire;
        Rethrow(event.IsOfBatch() ? DecideBatch({&event}) : DecideAlone(event));
    }

    /** Runs each world to its next event, and decides these; false: all worlds have ended. */
    static bool Step(std::vector<std::unique_ptr<Coroutine>>& running, std::vector<std::exception_ptr>& errors)
    {
        std::map<PyTypeObject*, std::pair<std::vector<const OwnEvent*>, std::vector<Coroutine*>>> batches;
        bool is_any = false;
        const py::gil_scoped_acquire acquire;
        for (std::size_t world = 0; world < running.size(); ++world)
        {
            if (!running[world])
            {
                continue;
            }
            const OwnEvent* event = running[world]->Resume();
            if (!event)
            {
                errors[world] = running[world]->error;
                running[world].reset();
                continue;
            }
            is_any = true;
            if (event->IsOfBatch())
            {
                auto& [events, waiting] = batches[Py_TYPE(event->Object().self.ptr())];
                events.push_back(event);
                waiting.push_back(running[world].get());
            }
            else
            {
                running[world]->error = DecideAlone(*event);
            }
        }
        for (const auto& batch : std::views::values(batches))
        {
            const std::exception_ptr error = DecideBatch(batch.first);
            std::ranges::for_each(batch.second, [&error](Coroutine* one) { one->error = error; });
        }
        return is_any;
    }

    static std::exception_ptr DecideAlone(const OwnEvent& event)
    {
        return Failure(*event.plugin, [&event] {
            FlowObject& object = event.Object();
            py::object returned;
            if (event.sample)
            {
                *object.shown = *event.sample;
                returned = object.on_ack(object.sample);
            }
            else if (returned = event.method(object.self); returned.is_none())
            {
                return;
            }
            const auto [cwnd_pkts, pacing_mbps] = Pair(event, returned);
            Take(event, Number(cwnd_pkts), Number(pacing_mbps));
        });
    }

    /** Lets a class decide several ACKs at once. */
    static std::exception_ptr DecideBatch(const std::vector<const OwnEvent*>& events)
    {
        if (events.size() == 1 && events[0]->Object().has_on_ack)
        {
            return DecideAlone(*events[0]);
        }
        return Failure(*events[0]->plugin, [&events] {
            py::list objects(events.size());
            py::array samples(SampleType(), static_cast<py::ssize_t>(events.size()));
            auto* row = static_cast<int64_t*>(samples.mutable_data());
            for (std::size_t i = 0; i < events.size(); ++i)
            {
                objects[i] = events[i]->Object().self;
#define FIELD(name)                                                                                                    \
    *row++ = std::in_range<int64_t>(events[i]->sample->name + 0) ? static_cast<int64_t>(events[i]->sample->name)       \
                                                                 : INT64_MAX;
                SAMPLE_FIELDS(FIELD)
#undef FIELD
            }
            const py::object returned = events[0]->Object().on_acks(objects, samples);
            const auto [windows, rates] = Pair(*events[0], returned);
            const std::vector<double> cwnd_pkts = Numbers(*events[0], windows, events.size());
            const std::vector<double> pacing_mbps = Numbers(*events[0], rates, events.size());
            for (std::size_t i = 0; i < events.size(); ++i)
            {
                Take(*events[i], cwnd_pkts[i], pacing_mbps[i]);
            }
        });
    }

    static std::pair<PyObject*, PyObject*> Pair(const OwnEvent& event, const py::object& returned)
    {
        if (!PyTuple_Check(returned.ptr()) || PyTuple_GET_SIZE(returned.ptr()) != 2)
        {
            throw std::runtime_error(event.plugin->name + ": returned " + std::string(py::repr(returned)) +
                                     ", expected (cwnd_pkts, pacing_mbps)");
        }
        return {PyTuple_GET_ITEM(returned.ptr(), 0), PyTuple_GET_ITEM(returned.ptr(), 1)};
    }

    /** A number; None, in place of a rate, is infinite. */
    static double Number(PyObject* value)
    {
        const double number = value == Py_None ? HUGE_VAL : PyFloat_AsDouble(value);
        if (number == -1 && PyErr_Occurred())
        {
            throw py::error_already_set();
        }
        return number;
    }

    /** Numbers of flows, or one for all. */
    static std::vector<double> Numbers(const OwnEvent& event, PyObject* values, std::size_t flows)
    {
        std::vector<double> numbers;
        if (PyList_Check(values) || PyTuple_Check(values))
        {
            for (const py::handle value : py::reinterpret_borrow<py::sequence>(values))
            {
                numbers.push_back(Number(value.ptr()));
            }
        }
        else if (const auto array = py::reinterpret_borrow<py::object>(values); py::isinstance<py::array>(array))
        {
            const py::array_t<double, py::array::c_style | py::array::forcecast> given(array);
            numbers.assign(given.data(), given.data() + given.size());
        }
        else
        {
            numbers.assign(flows, Number(values));
        }
        if (numbers.size() != flows)
        {
            throw std::runtime_error(event.plugin->name + ": returned " + std::to_string(numbers.size()) +
                                     " numbers for " + std::to_string(flows) + " ACKs");
        }
        return numbers;
    }

    /** Takes a decision over; no pacing rate is infinite. std::runtime_error: a law is broken. */
    static void Take(const OwnEvent& event, double cwnd_pkts, double pacing_mbps)
    {
        const auto require = [&event](bool holds, const char* what, double value, const std::string& expected) {
            if (!holds)
            {
                throw std::runtime_error(event.plugin->name + ": " + what + " = " +
                                         std::string(py::str(py::float_(value))) + ", expected " + expected);
            }
        };
        require(cwnd_pkts >= 1 && cwnd_pkts <= CC_PLUGIN_MAX_CWND_PKTS, "cwnd_pkts", cwnd_pkts,
                "1 to " + std::to_string(CC_PLUGIN_MAX_CWND_PKTS));
        require(pacing_mbps > 0, "pacing_mbps", pacing_mbps, "more than 0, or None");
        const double pacing_Bps = pacing_mbps * 125'000;
        event.state->cwnd_pkts = static_cast<uint32_t>(cwnd_pkts);
        event.state->pacing_Bps =
            pacing_Bps < 0x1p63 ? std::max<uint64_t>(static_cast<uint64_t>(pacing_Bps), 1) : UINT64_MAX;
    }

    /** What an act throws; an exception of Python's as the failure of the class, with the exception as its cause. */
    static std::exception_ptr Failure(const Plugin& plugin, const auto& act)
    {
        try
        {
            act();
        }
        catch (py::error_already_set& error)
        {
            if (!error.matches(PyExc_Exception))
            {
                return std::current_exception(); // Ctrl-C
            }
            if (error.trace())
            {
                PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
            }
            const py::object failure =
                py::module_::import("bbrgym.worlds.errors").attr("failure_of")(plugin.name, error.value());
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure.ptr())), failure.ptr());
            return std::make_exception_ptr(py::error_already_set());
        }
        catch (...)
        {
            return std::current_exception();
        }
        return nullptr;
    }

    static inline bool s_has_batches = false; ///< a class that has been loaded does
};

} // namespace bbrgym::binding

#endif
