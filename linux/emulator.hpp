// SPDX-License-Identifier: GPL-2.0-only
//
// The thread between the two hosts: it reads what they send, lets the path say when it is due at the other side, and
// writes it then. It sleeps until shortly before the next event and looks without a pause from there. Connections that
// are not of a flow, of programs that entered the namespaces, take the first flow's path. The bottleneck counts them as
// that flow's; what a flow's sender and receiver know is of its own packets.
#ifndef BBRGYM_LINUX_EMULATOR_HPP
#define BBRGYM_LINUX_EMULATOR_HPP

#include "lateness.hpp"
#include "network.hpp"
#include "path.hpp"
#include "real_time.hpp"
#include "scenario.hpp"
#include "times.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace bbrgym
{

/** The measurements at the end of an interval. */
struct Cut
{
    int64_t at_ns = 0;
    std::vector<double> flow_stats;
    std::vector<double> link_stats;
    std::vector<double> flow_summary; ///< from the warm-up's end to here
    std::vector<double> link_summary;
    uint64_t delivered_packets = 0; ///< of all flows and both ways, since the start
    Punctuality lateness;           ///< of those
};

class Emulator : private PathHost
{
  public:
    /** Reads the state of a flow's sender; called on the emulator's thread. */
    using ReadSenderState = std::function<SenderState(std::size_t flow)>;

    Emulator(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network, const RunClock& clock,
             ReadSenderState read_sender);
    ~Emulator();
    Emulator(const Emulator&) = delete;
    Emulator& operator=(const Emulator&) = delete;

    /** The interval that ends now; before the start an empty one. */
    Cut Measured();
    /** Begins; the clock runs. */
    void Start();

    /** Asks for the end of the interval at this time, or now if that is over; at most at the scenario's end. */
    void AskForCut(int64_t at_ns);
    /** Waits for it, at most so long; true: `cut` is it. Throws what ended the thread, if anything did. */
    bool WaitForCut(Cut& cut, std::chrono::milliseconds longest);

    bool IsFifo() const { return m_is_fifo; }

  private:
    void Loop();
    void ReadAll();
    bool ReadOne(int tun, bool is_sender);
    void SendSegments(const WirePacket& packet, std::size_t each_bytes, int64_t now_ns);
    void WaitFor(int64_t run_ns);
    void Write(int tun, const WirePacket& packet, int64_t due_ns, std::size_t zeros_before);
    void TakeCut(int64_t at_ns);

    // PathHost
    void ReachReceiver(const WirePacket& packet, int64_t due_ns) override;
    void ReachSender(const WirePacket& packet, int64_t due_ns) override;
    SenderState ReadSender(std::size_t flow) const override;
    Punctuality ReadLateness() const override { return m_lateness.Get(); }

    std::shared_ptr<const Scenario> m_scenario;
    const Network& m_network;
    const RunClock& m_clock;
    ReadSenderState m_read_sender;
    Path m_path;
    LatenessMeter m_lateness;
    bool m_reads_skbs;                           ///< from the senders, with a virtio_net_hdr before each packet
    std::vector<uint32_t> m_skbs;                ///< of each flow, so far
    std::vector<uint8_t> m_buffer;               ///< of the packet that is read
    std::vector<uint8_t> m_zeros;                ///< payload of the packets that are written
    mutable std::vector<uint64_t> m_marked_lost; ///< the most that each sender told: estimates may fall
    Descriptor m_wake;                           ///< an eventfd
    std::atomic<bool> m_should_end{false};
    std::atomic<bool> m_is_fifo{false};
    std::atomic<int64_t> m_cut_ns{NEVER_NS}; ///< asked for

    std::mutex m_mutex; ///< of what is below
    std::condition_variable m_is_cut;
    bool m_has_cut = false;
    Cut m_cut;
    std::exception_ptr m_failure;
    std::thread m_thread;
};

} // namespace bbrgym

#endif
