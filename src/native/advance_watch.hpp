// SPDX-License-Identifier: GPL-2.0-only
//
// Ends an advance that runs without the GIL: at a signal whose Python handler raises (Ctrl-C), at its deadline, or when
// another thread closes the vector.
#ifndef BBRGYM_ADVANCE_WATCH_HPP
#define BBRGYM_ADVANCE_WATCH_HPP

#include "stop.hpp"

#include <pybind11/pybind11.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace bbrgym::binding
{

namespace py = pybind11;

/** Made and destroyed with the GIL, in the thread that advances. */
class AdvanceWatch
{
  public:
    /** @param limit_s the longest wall time; infinite: none */
    explicit AdvanceWatch(double limit_s)
        : m_limit_s(limit_s),
          m_stop([this](StopCheck::Clock::duration elapsed) { return IsLate(elapsed) || HasSignal(); })
    {}
    AdvanceWatch(const AdvanceWatch&) = delete;
    AdvanceWatch& operator=(const AdvanceWatch&) = delete;

    StopCheck& Stop() { return m_stop; }

    /** Raises the reason of a stop, if there was one; `world` is the first that did not come to its end. */
    void Raise(std::size_t world)
    {
        if (m_signal)
        {
            throw *m_signal;
        }
        if (m_is_late)
        {
            const py::object failure = py::module_::import("bbrgym.worlds.errors").attr("EngineFailure");
            const std::string reason = "no answer within " + std::string(py::str("{:g}").format(m_limit_s)) +
                                       " s (timeout_s sets how long to wait)";
            PyErr_SetObject(failure.ptr(), failure(reason, world).ptr());
            throw py::error_already_set();
        }
        if (m_stop.IsRequested())
        {
            throw std::runtime_error("closed in the middle of an advance");
        }
    }

  private:
    bool IsLate(StopCheck::Clock::duration elapsed)
    {
        m_is_late = std::chrono::duration<double>(elapsed).count() > m_limit_s;
        return m_is_late;
    }

    /** Runs the handlers of signals that have come; they run in the main thread only. */
    bool HasSignal()
    {
        const py::gil_scoped_acquire acquire;
        if (PyErr_CheckSignals() != 0)
        {
            m_signal.emplace();
        }
        return m_signal.has_value();
    }

    double m_limit_s;
    bool m_is_late = false;
    std::optional<py::error_already_set> m_signal;
    StopCheck m_stop;
};

} // namespace bbrgym::binding

#endif
