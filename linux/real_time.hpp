// SPDX-License-Identifier: GPL-2.0-only
//
// What keeps a run on time: its clock, the priority of its threads, memory that stays, cores that do not halt. Each is
// used where the machine allows it; the lateness that a run measures says what came of it.
#ifndef BBRGYM_LINUX_REAL_TIME_HPP
#define BBRGYM_LINUX_REAL_TIME_HPP

#include <atomic>
#include <cstdint>
#include <thread>

namespace bbrgym
{

/** Nanoseconds of CLOCK_MONOTONIC. */
int64_t MonotonicNs();

/** Counts from its start. Started by one thread and read by the others after that. */
class RunClock
{
  public:
    void Start() { m_start_ns = MonotonicNs(); }
    int64_t NowNs() const { return MonotonicNs() - m_start_ns; }
    /** A time of the run on CLOCK_MONOTONIC. */
    int64_t MonotonicAt(int64_t run_ns) const { return m_start_ns + run_ns; }
    /** A time of CLOCK_MONOTONIC in the run. */
    int64_t RunAt(int64_t monotonic_ns) const { return monotonic_ns - m_start_ns; }

  private:
    int64_t m_start_ns = 0;
};

/** Priorities of a run's threads under SCHED_FIFO: packets go before what writes and reads the data. */
enum class FifoPriority : int
{
    APPLICATIONS = 10,
    EMULATOR = 20
};

/** Schedules the calling thread first in, first out; false if the machine forbids it. */
bool MakeFifo(FifoPriority priority);

/** Keeps the process's pages in memory once they were touched, as long as one of these lives, if the machine allows it.
 */
class MemoryLock
{
  public:
    MemoryLock();
    ~MemoryLock();
    MemoryLock(const MemoryLock&) = delete;
    MemoryLock& operator=(const MemoryLock&) = delete;
};

/** A thread under SCHED_IDLE that keeps a core from halting, whose waking takes tens of microseconds. */
class CoreKeeper
{
  public:
    CoreKeeper();
    ~CoreKeeper();
    CoreKeeper(const CoreKeeper&) = delete;
    CoreKeeper& operator=(const CoreKeeper&) = delete;

  private:
    std::atomic<bool> m_should_end{false};
    std::thread m_thread;
};

} // namespace bbrgym

#endif
