// SPDX-License-Identifier: GPL-2.0-only
#include "real_time.hpp"

#include "thread_start.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <mutex>

namespace bbrgym
{

namespace
{

std::mutex g_locks_mutex;
int g_locks = 0; ///< the process has one lock for all its runs

} // namespace

int64_t
MonotonicNs()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool
MakeFifo(FifoPriority priority)
{
    const sched_param parameters{.sched_priority = static_cast<int>(priority)};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

MemoryLock::MemoryLock()
{
    const std::lock_guard guard(g_locks_mutex);
    if (g_locks++ == 0)
    {
        mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT); // on fault: a process maps far more than it touches
    }
}

MemoryLock::~MemoryLock()
{
    const std::lock_guard guard(g_locks_mutex);
    if (--g_locks == 0)
    {
        munlockall();
    }
}

CoreKeeper::CoreKeeper()
    : m_thread(StartThread("the thread that keeps a core awake", [this] {
          const sched_param lowest{.sched_priority = 0};
          if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &lowest) != 0)
          {
              return; // at a normal priority it would take time from others
          }
          while (!m_should_end.load(std::memory_order_relaxed))
          {
#if defined(__x86_64__) || defined(__i386__)
              __builtin_ia32_pause();
#endif
          }
      }))
{}

CoreKeeper::~CoreKeeper()
{
    m_should_end = true;
    m_thread.join();
}

} // namespace bbrgym
