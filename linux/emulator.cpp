// SPDX-License-Identifier: GPL-2.0-only
#include "emulator.hpp"

#include "thread_start.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace bbrgym
{

namespace
{

constexpr int64_t SPIN_NS = 80'000; // more than waking up takes, mostly
constexpr int64_t LONGEST_SLEEP_NS = 100'000'000;
constexpr int PACKETS_BETWEEN_LOOKS = 32; // some tens of microseconds
constexpr std::size_t MAX_IP_BYTES = 65'535;

/** The kernel's virtio_net_hdr, whose own header is not C++. */
struct VirtioNetHeader
{
    uint8_t flags, gso_type;
    uint16_t header_bytes, gso_bytes, checksum_begin, checksum_at;
};

} // namespace

Emulator::Emulator(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network,
                   const RunClock& clock, ReadSenderState read_sender)
    : m_scenario(std::move(scenario)),
      m_network(network),
      m_clock(clock),
      m_read_sender(std::move(read_sender)),
      m_path(m_scenario, seed, *this),
      m_reads_skbs(m_scenario->link.loses_skbs),
      m_skbs(m_scenario->flows.size()),
      m_buffer(sizeof(VirtioNetHeader) + MAX_IP_BYTES),
      m_zeros(MAX_IP_BYTES),
      m_marked_lost(m_scenario->flows.size()),
      m_wake(Checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "making an eventfd"))
{}

Emulator::~Emulator()
{
    m_should_end = true;
    eventfd_write(m_wake.Get(), 1);
    if (m_thread.joinable())
    {
        m_thread.join();
    }
}

void
Emulator::Start()
{
    m_thread = StartThread("the emulator's thread", [this] {
        m_is_fifo = MakeFifo(FifoPriority::EMULATOR);
        try
        {
            Loop();
        }
        catch (...)
        {
            const std::lock_guard lock(m_mutex);
            m_failure = std::current_exception();
            m_is_cut.notify_all();
        }
    });
}

// ---- the owner's side -----------------------------------------------------------------------------------

void
Emulator::AskForCut(int64_t at_ns)
{
    m_cut_ns = std::min(at_ns, m_scenario->duration_ns);
    eventfd_write(m_wake.Get(), 1);
}

bool
Emulator::WaitForCut(Cut& cut, std::chrono::milliseconds longest)
{
    std::unique_lock lock(m_mutex);
    m_is_cut.wait_for(lock, longest, [this] { return m_has_cut || m_failure; });
    if (m_failure)
    {
        std::rethrow_exception(m_failure);
    }
    if (!std::exchange(m_has_cut, false))
    {
        return false;
    }
    cut = std::move(m_cut);
    return true;
}

// ---- the thread -----------------------------------------------------------------------------------------

void
Emulator::Loop()
{
    while (!m_should_end)
    {
        const int64_t now_ns = std::min(m_clock.NowNs(), m_scenario->duration_ns);
        const int64_t cut_ns = m_cut_ns;
        if (cut_ns <= now_ns)
        {
            TakeCut(std::max(cut_ns, m_path.NowNs()));
        }
        m_path.RunUntil(now_ns);
        ReadAll();
        WaitFor(std::min({m_path.NextLookNs(), m_cut_ns.load(), m_scenario->duration_ns}));
    }
}

void
Emulator::TakeCut(int64_t at_ns)
{
    m_path.RunUntil(at_ns);
    Cut cut = Measured();
    m_cut_ns = NEVER_NS;
    const std::lock_guard lock(m_mutex);
    m_cut = std::move(cut);
    m_has_cut = true;
    m_is_cut.notify_all();
}

Cut
Emulator::Measured()
{
    const std::size_t flows = m_scenario->flows.size();
    Cut cut{.at_ns = m_path.NowNs(),
            .flow_stats = std::vector<double>(flows * std::size(FLOW_STAT_FIELDS)),
            .link_stats = std::vector<double>(std::size(LINK_STAT_FIELDS)),
            .flow_summary = std::vector<double>(flows * std::size(FLOW_SUMMARY_FIELDS)),
            .link_summary = std::vector<double>(std::size(LINK_SUMMARY_FIELDS)),
            .delivered_packets = m_lateness.Count(),
            .lateness = m_lateness.Get()};
    m_path.TakeInterval(cut.flow_stats, cut.link_stats);
    m_path.Summarise(cut.flow_summary, cut.link_summary);
    return cut;
}

/** Reads what both hosts have sent, but not without end: events wait. */
void
Emulator::ReadAll()
{
    for (int i = 0; i < PACKETS_BETWEEN_LOOKS; ++i)
    {
        const bool from_sender = ReadOne(m_network.senders_tun.Get(), true);
        const bool from_receiver = ReadOne(m_network.receivers_tun.Get(), false);
        if (!from_sender && !from_receiver)
        {
            return;
        }
    }
}

/** Takes a packet from a host; false if it has sent none. */
bool
Emulator::ReadOne(int tun, bool is_sender)
{
    const ssize_t bytes = read(tun, m_buffer.data(), m_buffer.size());
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
    {
        return false;
    }
    Checked(static_cast<int>(bytes), "reading from a TUN device");
    const int64_t now_ns = m_clock.NowNs();
    const std::size_t before_bytes = is_sender && m_reads_skbs ? sizeof(VirtioNetHeader) : 0;
    auto packet = WirePacket::Parse(std::span(m_buffer).first(static_cast<std::size_t>(bytes)).subspan(before_bytes));
    if (!packet)
    {
        return true; // nothing of ours: the kernel's own, such as IGMP
    }
    const uint16_t port = is_sender ? packet->DestinationPort() : packet->SourcePort();
    const auto flow = FlowOfPort(port, m_scenario->flows.size());
    packet->flow = static_cast<uint32_t>(flow.value_or(0));
    if (!flow)
    {
        const auto payload = m_buffer.begin() + static_cast<std::ptrdiff_t>(before_bytes + packet->Headers().size());
        packet->foreign_payload =
            std::make_shared<const std::vector<uint8_t>>(payload, payload + packet->PayloadBytes());
    }
    if (before_bytes > 0)
    {
        VirtioNetHeader header;
        std::memcpy(&header, m_buffer.data(), sizeof(header));
        SendSegments(*packet, header.gso_type == 0 ? MAX_IP_BYTES : header.gso_bytes, now_ns);
        return true;
    }
    is_sender ? m_path.FromSender(*packet, now_ns) : m_path.FromReceiver(*packet, now_ns);
    return true;
}

/** Does what TSO left to the device. */
void
Emulator::SendSegments(const WirePacket& packet, std::size_t each_bytes, int64_t now_ns)
{
    const std::span<const uint8_t> payload(packet.foreign_payload ? packet.foreign_payload->data() : m_zeros.data(),
                                           packet.PayloadBytes());
    const uint32_t skb = packet.IsData() ? m_skbs[packet.flow]++ % SKB_NUMBERS : SKB_NUMBERS;
    std::size_t begin = 0;
    do
    {
        const std::size_t bytes = std::min(each_bytes, payload.size() - begin);
        WirePacket segment = packet.Segment(payload, begin, bytes);
        segment.skb = skb;
        if (packet.foreign_payload)
        {
            const auto from = payload.begin() + static_cast<std::ptrdiff_t>(begin);
            segment.foreign_payload =
                std::make_shared<const std::vector<uint8_t>>(from, from + static_cast<std::ptrdiff_t>(bytes));
        }
        m_path.FromSender(segment, now_ns);
        begin += bytes;
    } while (begin < payload.size());
}

/** Sleeps until a packet comes or shortly before a time; returns at once if that is near, so that the loop spins. */
void
Emulator::WaitFor(int64_t run_ns)
{
    const int64_t now_ns = m_clock.NowNs();
    const bool is_over = now_ns >= m_scenario->duration_ns;
    const int64_t sleep_ns = is_over ? LONGEST_SLEEP_NS : std::min(run_ns - now_ns - SPIN_NS, LONGEST_SLEEP_NS);
    if (sleep_ns <= 0 || m_cut_ns <= now_ns)
    {
        return;
    }
    const short packets = is_over ? 0 : POLLIN; // at the end nobody reads them any more
    std::array<pollfd, 3> waited{{{m_wake.Get(), POLLIN, 0},
                                  {m_network.senders_tun.Get(), packets, 0},
                                  {m_network.receivers_tun.Get(), packets, 0}}};
    const timespec longest{.tv_sec = sleep_ns / 1'000'000'000, .tv_nsec = sleep_ns % 1'000'000'000};
    if (ppoll(waited.data(), waited.size(), &longest, nullptr) > 0 && waited[0].revents != 0)
    {
        eventfd_t ignored;
        eventfd_read(m_wake.Get(), &ignored);
    }
}

// ---- PathHost -------------------------------------------------------------------------------------------

void
Emulator::ReachReceiver(const WirePacket& packet, int64_t due_ns)
{
    Write(m_network.receivers_tun.Get(), packet, due_ns, 0);
}

void
Emulator::ReachSender(const WirePacket& packet, int64_t due_ns)
{
    Write(m_network.senders_tun.Get(), packet, due_ns, m_reads_skbs ? sizeof(VirtioNetHeader) : 0);
}

void
Emulator::Write(int tun, const WirePacket& packet, int64_t due_ns, std::size_t zeros_before)
{
    m_lateness.Add(m_clock.NowNs() - due_ns);
    const auto headers = packet.Headers();
    const uint8_t* payload = packet.foreign_payload ? packet.foreign_payload->data() : m_zeros.data();
    const std::array<iovec, 3> parts{{{m_zeros.data(), zeros_before},
                                      {const_cast<uint8_t*>(headers.data()), headers.size()},
                                      {const_cast<uint8_t*>(payload), packet.PayloadBytes()}}};
    Checked(static_cast<int>(writev(tun, parts.data(), parts.size())), "writing to a TUN device");
}

SenderState
Emulator::ReadSender(std::size_t flow) const
{
    SenderState state = m_read_sender(flow);
    m_marked_lost[flow] = state.marked_lost_pkts = std::max(m_marked_lost[flow], state.marked_lost_pkts);
    return state;
}

} // namespace bbrgym
