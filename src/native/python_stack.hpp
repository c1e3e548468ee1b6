// SPDX-License-Identifier: GPL-2.0-only
//
// External flows whose stack is Python: bbrgym.quic opens it, upcalls take the GIL.
#ifndef BBRGYM_PYTHON_STACK_HPP
#define BBRGYM_PYTHON_STACK_HPP

#include "external_flow.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace bbrgym::binding
{

namespace py = pybind11;

/** A port in Python's hands, which may outlive the run. */
struct PyPort
{
    const bbrgym_port* port = nullptr; ///< null: the run is over

    const bbrgym_port& Open() const
    {
        return port != nullptr ? *port : throw std::runtime_error("the port's run is over");
    }
};

struct PyStack
{
    std::shared_ptr<PyPort> port;
    py::object write, delivered, dropped, due, state;

    /** Calls a method of a stack, `self`, from any thread. */
    template <class... Arguments>
    static const char* Call(void* self, py::object PyStack::* method, const Arguments&... arguments)
    {
        const py::gil_scoped_acquire gil;
        (static_cast<PyStack*>(self)->*method)(arguments...);
        return nullptr;
    }
};

inline void
OpenByPython(const std::string& name, const bbrgym_facts& facts, const bbrgym_port& port, bbrgym_stack& stack)
{
    const py::gil_scoped_acquire gil;
    const auto py_port = std::make_shared<PyPort>(PyPort{&port});
    const py::object opened =
        py::module_::import("bbrgym.quic")
            .attr("open_stack")(name, facts.cc, facts.seed, facts.datagram_bytes, facts.window_bytes, py_port);
    if (py::isinstance<py::str>(opened))
    {
        OpenLibrary(opened.cast<std::string>(), facts, port, stack);
        return;
    }
    const auto method = [&](const char* called) { return opened.attr(called).cast<py::object>(); };
    stack.overhead_bytes = py::getattr(opened, "overhead_bytes", py::int_(stack.overhead_bytes)).cast<uint32_t>();
    stack.self =
        new PyStack{py_port, method("write"), method("delivered"), method("dropped"), method("due"), method("state")};
    stack.write = [](void* self, int64_t now_ns, uint64_t bytes) {
        const auto size = bytes == BBRGYM_WITHOUT_END ? std::nullopt : std::optional(bytes);
        return PyStack::Call(self, &PyStack::write, now_ns, size);
    };
    stack.delivered = [](void* self, int64_t now_ns, bbrgym_end end, uint64_t tag) {
        return PyStack::Call(self, &PyStack::delivered, now_ns, static_cast<int>(end), tag);
    };
    stack.dropped = [](void* self, int64_t now_ns, uint64_t tag) {
        return PyStack::Call(self, &PyStack::dropped, now_ns, tag);
    };
    stack.due = [](void* self, int64_t now_ns, bbrgym_end end) {
        return PyStack::Call(self, &PyStack::due, now_ns, static_cast<int>(end));
    };
    stack.state = [](void* self, bbrgym_sender_state* state) {
        const py::gil_scoped_acquire gil;
        const auto values = static_cast<PyStack*>(self)->state().cast<std::vector<double>>();
        if (values.size() != sizeof(*state) / sizeof(double))
        {
            throw py::value_error("state() of a stack: expected 5 numbers, NaN where one is not known");
        }
        std::ranges::copy(values, &state->cwnd_bytes);
    };
    stack.close = [](void* self) {
        const py::gil_scoped_acquire gil;
        const std::unique_ptr<PyStack> owned(static_cast<PyStack*>(self));
        owned->port->port = nullptr;
    };
}

inline void
DefinePort(py::module_& module)
{
    StackOpener() = OpenByPython;
    const auto end_of = [](int end) {
        return end == BBRGYM_SENDER || end == BBRGYM_RECEIVER
                   ? static_cast<bbrgym_end>(end)
                   : throw py::value_error("end = " + std::to_string(end) + ", expected 0 or 1");
    };
    py::class_<PyPort, std::shared_ptr<PyPort>>(
        module, "Port",
        "What the network offers a stack (bbrgym.quic); an end is 0, the sender's, or 1, the receiver's.")
        .def(
            "send",
            [end_of](const PyPort& self, int end, uint32_t size_bytes, uint64_t tag) {
                if (const char* problem = self.Open().send(self.port, end_of(end), size_bytes, tag))
                {
                    throw py::value_error("send: size_bytes = " + std::to_string(size_bytes) + ": " + problem);
                }
            },
            py::arg("end"), py::arg("size_bytes"), py::arg("tag"), "A datagram leaves an end; ValueError: its size.")
        .def(
            "set_timer",
            [end_of](const PyPort& self, int end, std::optional<int64_t> at_ns) {
                self.Open().set_timer(self.port, end_of(end), at_ns.value_or(BBRGYM_NEVER));
            },
            py::arg("end"), py::arg("at_ns"),
            "Calls `due` of the end then, 1 us from now at the earliest, in place of its time before; None: never.")
        .def(
            "readable", [](const PyPort& self, uint64_t bytes) { self.Open().readable(self.port, bytes); },
            py::arg("size_bytes"), "So many bytes became readable in order at the receiver.")
        .def(
            "rtt_sample", [](const PyPort& self, int64_t rtt_ns) { self.Open().rtt_sample(self.port, rtt_ns); },
            py::arg("rtt_ns"), "The sender measured a round trip.");
}

} // namespace bbrgym::binding

#endif
