// SPDX-License-Identifier: GPL-2.0-only
//
// The applications of all flows, on a thread of their own: they connect and write as the scenario says, and the
// receivers read at once. What they write are zeros, which the emulator counts on.
#ifndef BBRGYM_LINUX_APPLICATIONS_HPP
#define BBRGYM_LINUX_APPLICATIONS_HPP

#include "network.hpp"
#include "real_time.hpp"
#include "scenario.hpp"
#include "times.hpp"
#include "write_times.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace bbrgym
{

class Applications
{
  public:
    /** Begins the scenario; the clock runs. `network` must outlive it. */
    Applications(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network,
                 const RunClock& clock);
    ~Applications();
    Applications(const Applications&) = delete;
    Applications& operator=(const Applications&) = delete;

    bool IsFifo() const { return m_is_fifo; }
    /** Throws what ended the thread, if anything did. */
    void Check() const;

  private:
    struct Writer
    {
        WriteTimes times;
        bool is_running = false;
        bool is_connected = false;
        uint64_t early_writes = 0; ///< segments that wait for the connection
        int64_t next_ns = 0;       ///< of its start or its next write
        uint64_t left_bytes = 0;   ///< bulk: still to be written
        uint32_t begun_bytes = 0;  ///< of a segment of which the socket took a part
    };

    void Watch(int fd, uint32_t events, uint64_t what);
    void Ignore(int fd);
    void Loop();
    void Handle(uint64_t what);
    void RunDue(int64_t now_ns);
    void Start(std::size_t flow);
    void Write(std::size_t flow);
    void FillBulk(std::size_t flow);
    void WriteSegment(std::size_t flow);
    void Accept(std::size_t flow);
    void ReadAll(std::size_t flow);
    int64_t NextNs() const;
    void ArmTimer(int64_t run_ns);

    std::shared_ptr<const Scenario> m_scenario;
    const Network& m_network;
    const RunClock& m_clock;
    std::vector<uint8_t> m_zeros;
    std::vector<Writer> m_writers;
    std::vector<Descriptor> m_readers; ///< accepted, of each flow
    Descriptor m_epoll;
    Descriptor m_timer;
    Descriptor m_end; ///< an eventfd
    bool m_should_end = false;
    std::atomic<bool> m_is_fifo{false};
    std::atomic<bool> m_has_failed{false};
    std::exception_ptr m_failure; ///< set before m_has_failed
    std::thread m_thread;
};

} // namespace bbrgym

#endif
