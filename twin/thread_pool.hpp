// SPDX-License-Identifier: GPL-2.0-only
//
// Threads that wait for work and do it together with the caller. They end with the pool.
#ifndef BBRGYM_TWIN_THREAD_POOL_HPP
#define BBRGYM_TWIN_THREAD_POOL_HPP

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace bbrgym
{

class ThreadPool
{
  public:
    /** `threads` in all, the caller's included; at least 1. std::runtime_error: the system refuses one; none is left.
     */
    explicit ThreadPool(std::size_t threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    /**
     * Calls `work` for each of 0 ... count - 1, in any order and thread, and returns when all are done. If some
     * throw, the rest is done nevertheless, and the exception of the smallest index is thrown. While the caller waits
     * for the other threads, it calls `while_waiting` every few milliseconds.
     */
    void ForEach(std::size_t count, const std::function<void(std::size_t)>& work,
                 const std::function<void()>& while_waiting);

  private:
    void End();
    void Serve();
    void RunShare();
    void LeaveCoreToCaller();

    std::mutex m_mutex;
    std::condition_variable m_begin;
    std::condition_variable m_end;
    uint64_t m_round = 0;      ///< under m_mutex
    std::size_t m_at_work = 0; ///< helpers in this round; under m_mutex
    bool m_is_ending = false;  ///< under m_mutex
    const std::function<void(std::size_t)>* m_work = nullptr;
    std::size_t m_count = 0;
    std::atomic<std::size_t> m_next{0};
    std::size_t m_error_index = 0; ///< under m_mutex
    std::exception_ptr m_error;    ///< under m_mutex
    std::vector<std::thread> m_helpers;
    int m_callers_core = -1; ///< where no helper runs; -1: not yet known
};

} // namespace bbrgym

#endif
