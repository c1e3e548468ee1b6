// SPDX-License-Identifier: GPL-2.0-only
#include "thread_pool.hpp"

#include "thread_start.hpp"

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <string>

namespace bbrgym
{

namespace
{

constexpr std::chrono::milliseconds WAIT_PERIOD{10};

} // namespace

ThreadPool::ThreadPool(std::size_t threads)
{
    m_helpers.reserve(threads);
    try
    {
        for (std::size_t i = 1; i < threads; ++i)
        {
            const std::string what =
                "thread " + std::to_string(i + 1) + " of " + std::to_string(threads) + " (threads sets how many)";
            m_helpers.push_back(StartThread(what, [this] { Serve(); }));
        }
    }
    catch (...)
    {
        End(); // a thread that is not joined would end the process
        throw;
    }
}

ThreadPool::~ThreadPool()
{
    End();
}

void
ThreadPool::End()
{
    {
        const std::lock_guard lock(m_mutex);
        m_is_ending = true;
    }
    m_begin.notify_all();
    for (std::thread& helper : m_helpers)
    {
        helper.join();
    }
}

void
ThreadPool::ForEach(std::size_t count, const std::function<void(std::size_t)>& work,
                    const std::function<void()>& while_waiting)
{
    LeaveCoreToCaller();
    m_work = &work;
    m_count = count;
    m_next = 0;
    m_error = nullptr;
    {
        const std::lock_guard lock(m_mutex);
        m_at_work = m_helpers.size();
        ++m_round;
    }
    m_begin.notify_all();
    RunShare();
    std::unique_lock lock(m_mutex);
    while (m_at_work != 0 && !m_end.wait_for(lock, WAIT_PERIOD, [this] { return m_at_work == 0; }))
    {
        lock.unlock();
        while_waiting();
        lock.lock();
    }
    if (m_error)
    {
        std::rethrow_exception(m_error);
    }
}

/**
 * Linux often wakes a thread on its waker's core, even where another one is idle, and moves it away only after
 * milliseconds, later than a round ends. So the helpers may run on any other core.
 */
void
ThreadPool::LeaveCoreToCaller()
{
    const int core = m_helpers.empty() ? -1 : sched_getcpu();
    if (core < 0 || core == m_callers_core)
    {
        return;
    }
    cpu_set_t others;
    if (pthread_getaffinity_np(pthread_self(), sizeof others, &others) != 0 || CPU_COUNT(&others) < 2)
    {
        return;
    }
    CPU_CLR(core, &others);
    for (std::thread& helper : m_helpers)
    {
        pthread_setaffinity_np(helper.native_handle(), sizeof others,
                               &others); // a failure changes nothing but the speed
    }
    m_callers_core = core;
}

void
ThreadPool::Serve()
{
    for (uint64_t round = 1;; ++round)
    {
        {
            std::unique_lock lock(m_mutex);
            m_begin.wait(lock, [this, round] { return m_is_ending || m_round >= round; });
            if (m_is_ending)
            {
                return;
            }
        }
        RunShare();
        const std::lock_guard lock(m_mutex);
        if (--m_at_work == 0)
        {
            m_end.notify_one();
        }
    }
}

void
ThreadPool::RunShare()
{
    for (std::size_t index = m_next++; index < m_count; index = m_next++)
    {
        try
        {
            (*m_work)(index);
        }
        catch (...)
        {
            const std::lock_guard lock(m_mutex);
            if (!m_error || index < m_error_index)
            {
                m_error = std::current_exception();
                m_error_index = index;
            }
        }
    }
}

} // namespace bbrgym
