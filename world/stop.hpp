// SPDX-License-Identifier: GPL-2.0-only
//
// Ends an advance from outside: a signal, a deadline or another thread asks, and every loop over events looks now and
// then. Looking changes no event, so a run that nobody stops is the same to the byte.
#ifndef BBRGYM_WORLD_STOP_HPP
#define BBRGYM_WORLD_STOP_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace bbrgym
{

/** Thrown out of an advance that was stopped. The run is in the middle of an interval and must begin again. */
class Stopped : public std::exception
{
  public:
    explicit Stopped(std::size_t world = 0) : m_world(world) {}
    const char* what() const noexcept override { return "the advance was stopped"; }
    std::size_t World() const { return m_world; } ///< the first one that did not come to its end

  private:
    std::size_t m_world;
};

/** Asks whether to stop, in the thread that made it; the loops of all threads of an advance look at the answer. */
class StopCheck
{
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds PERIOD{10};

    /**
     * `asks` returns whether to stop, given the time since the first look: an advance too short for one reads no clock.
     * It is called every PERIOD, or less often so that it takes a twentieth of the time at most.
     */
    explicit StopCheck(std::function<bool(Clock::duration)> asks)
        : m_asks(std::move(asks)),
          m_owner(std::this_thread::get_id())
    {}

    void Request() { m_is_requested.store(true, std::memory_order_relaxed); }
    bool IsRequested() const { return m_is_requested.load(std::memory_order_relaxed); }

    /** Asks if it is time to; returns whether to stop. A loop calls it every few hundred events. */
    bool ShouldStop()
    {
        if (!IsRequested() && std::this_thread::get_id() == m_owner)
        {
            Ask();
        }
        return IsRequested();
    }

  private:
    void Ask()
    {
        const Clock::time_point before = Clock::now();
        if (!m_first)
        {
            m_first = before;
            m_next = before + PERIOD;
        }
        if (before < m_next)
        {
            return;
        }
        if (m_asks(before - *m_first))
        {
            Request();
        }
        const Clock::time_point after = Clock::now();
        m_next = after + std::max<Clock::duration>(PERIOD, 20 * (after - before));
    }

    std::function<bool(Clock::duration)> m_asks;
    std::thread::id m_owner;
    std::optional<Clock::time_point> m_first; ///< the owner's alone, like m_next
    Clock::time_point m_next;
    std::atomic<bool> m_is_requested{false};
};

} // namespace bbrgym

#endif
