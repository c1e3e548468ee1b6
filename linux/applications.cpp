// SPDX-License-Identifier: GPL-2.0-only
#include "applications.hpp"

#include "thread_start.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

namespace bbrgym
{

namespace
{

constexpr std::size_t WRITE_BYTES = 65'536;
constexpr std::size_t READ_BYTES = 1 << 20;
constexpr uint64_t EVERYTHING = std::numeric_limits<uint64_t>::max() / 2; // more than a run can write
constexpr int POLL_MS = 1000;                                             // the longest wait; the thread's end wakes it

/** What an event of epoll is about: a kind and a flow. */
enum Kind : uint64_t
{
    TIMER,
    END,
    WRITER,
    LISTENER,
    READER
};

constexpr uint64_t
What(Kind kind, std::size_t flow = 0)
{
    return uint64_t{flow} << 8 | kind;
}

bool
WouldBlock()
{
    return errno == EAGAIN || errno == EINTR;
}

/** The connection ended before the run did: the sender gave up. It stays silent, as a program would that saw it. */
bool
IsOver()
{
    return errno == ETIMEDOUT || errno == ECONNRESET || errno == EPIPE || errno == EHOSTUNREACH ||
           errno == ECONNREFUSED;
}

} // namespace

Applications::Applications(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network,
                           const RunClock& clock)
    : m_scenario(std::move(scenario)),
      m_network(network),
      m_clock(clock),
      m_zeros(std::max<std::size_t>(WRITE_BYTES, m_scenario->mss_bytes)),
      m_readers(m_scenario->flows.size()),
      m_epoll(Checked(epoll_create1(EPOLL_CLOEXEC), "making an epoll")),
      m_timer(Checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "making a timer")),
      m_end(Checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "making an eventfd"))
{
    Watch(m_timer.Get(), EPOLLIN, What(TIMER));
    Watch(m_end.Get(), EPOLLIN, What(END));
    for (std::size_t flow = 0; flow < m_scenario->flows.size(); ++flow)
    {
        const Flow& spec = m_scenario->flows[flow];
        m_writers.push_back({.times = WriteTimes(spec, m_scenario->mss_bytes, seed), .next_ns = spec.start_ns});
        Watch(m_network.listeners[flow].Get(), EPOLLIN, What(LISTENER, flow));
    }
    m_thread = StartThread("the applications' thread", [this] {
        m_is_fifo = MakeFifo(FifoPriority::APPLICATIONS);
        try
        {
            Loop();
        }
        catch (...)
        {
            m_failure = std::current_exception();
            m_has_failed = true;
        }
    });
}

Applications::~Applications()
{
    eventfd_write(m_end.Get(), 1);
    m_thread.join();
}

void
Applications::Check() const
{
    if (m_has_failed)
    {
        std::rethrow_exception(m_failure);
    }
}

void
Applications::Watch(int fd, uint32_t events, uint64_t what)
{
    epoll_event event{.events = events, .data = {.u64 = what}};
    Checked(epoll_ctl(m_epoll.Get(), EPOLL_CTL_ADD, fd, &event), "watching a descriptor");
}

/** Ignores a descriptor from now on, its errors too, which would wake the thread without end. */
void
Applications::Ignore(int fd)
{
    epoll_ctl(m_epoll.Get(), EPOLL_CTL_DEL, fd, nullptr);
}

void
Applications::Loop()
{
    std::array<epoll_event, 64> events;
    while (!m_should_end)
    {
        RunDue(m_clock.NowNs());
        ArmTimer(NextNs());
        const int count = epoll_wait(m_epoll.Get(), events.data(), static_cast<int>(events.size()), POLL_MS);
        for (int i = 0; i < count; ++i)
        {
            Handle(events[static_cast<std::size_t>(i)].data.u64);
        }
    }
}

void
Applications::Handle(uint64_t what)
{
    const auto flow = static_cast<std::size_t>(what >> 8);
    eventfd_t ignored;
    switch (static_cast<Kind>(what & 0xff))
    {
    case TIMER:
        eventfd_read(m_timer.Get(), &ignored); // a timer is read like an eventfd
        return;
    case END: m_should_end = true; return;
    case WRITER: Write(flow); return;
    case LISTENER: Accept(flow); return;
    case READER: ReadAll(flow);
    }
}

// ---- time -----------------------------------------------------------------------------------------------

int64_t
Applications::NextNs() const
{
    int64_t next_ns = NEVER_NS;
    for (const Writer& writer : m_writers)
    {
        next_ns = std::min(next_ns, writer.next_ns);
    }
    return next_ns;
}

void
Applications::ArmTimer(int64_t run_ns)
{
    itimerspec setting{};
    if (run_ns != NEVER_NS)
    {
        const int64_t at_ns = std::max<int64_t>(m_clock.MonotonicAt(run_ns), 1); // 0 would disarm it
        setting.it_value = {.tv_sec = at_ns / 1'000'000'000, .tv_nsec = at_ns % 1'000'000'000};
    }
    Checked(timerfd_settime(m_timer.Get(), TFD_TIMER_ABSTIME, &setting, nullptr), "setting a timer");
}

/** Writes what is due by now: what a late thread missed, too. */
void
Applications::RunDue(int64_t now_ns)
{
    for (std::size_t flow = 0; flow < m_writers.size(); ++flow)
    {
        Writer& writer = m_writers[flow];
        const Flow& spec = m_scenario->flows[flow];
        if (writer.next_ns <= now_ns && !writer.is_running)
        {
            Start(flow);
        }
        while (writer.next_ns <= now_ns)
        {
            if (writer.next_ns >= spec.stop_ns)
            {
                writer.next_ns = NEVER_NS;
                break;
            }
            WriteSegment(flow);
            writer.next_ns = writer.times.NextNs(writer.next_ns);
        }
    }
}

// ---- senders --------------------------------------------------------------------------------------------

void
Applications::Start(std::size_t flow)
{
    Writer& writer = m_writers[flow];
    const Flow& spec = m_scenario->flows[flow];
    const int socket = m_network.senders[flow].Get();
    writer.is_running = true;
    const sockaddr_in address = ReceiverAddress(flow, spec.stack.socket.ecn);
    if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno != EINPROGRESS)
    {
        ThrowErrno("connecting flow '" + spec.name + "'");
    }
    Watch(socket, EPOLLOUT, What(WRITER, flow));
    if (const auto* bulk = std::get_if<Bulk>(&spec.app))
    {
        writer.next_ns = NEVER_NS;
        writer.left_bytes = bulk->pkts > 0 ? bulk->pkts * m_scenario->mss_bytes : EVERYTHING;
    }
}

/** A sender is connected, or has room. One that is not bulk's is told once. */
void
Applications::Write(std::size_t flow)
{
    Writer& writer = m_writers[flow];
    writer.is_connected = true;
    if (std::holds_alternative<Bulk>(m_scenario->flows[flow].app))
    {
        FillBulk(flow);
        return;
    }
    Ignore(m_network.senders[flow].Get());
    for (; writer.early_writes > 0; --writer.early_writes)
    {
        WriteSegment(flow);
    }
}

void
Applications::FillBulk(std::size_t flow)
{
    const Flow& spec = m_scenario->flows[flow];
    const int socket = m_network.senders[flow].Get();
    const std::size_t chunk_bytes = m_zeros.size() / m_scenario->mss_bytes * m_scenario->mss_bytes;
    uint64_t& left_bytes = m_writers[flow].left_bytes;
    bool goes_on = left_bytes > 0 && m_clock.NowNs() < spec.stop_ns;
    while (goes_on)
    {
        const std::size_t bytes = std::min<uint64_t>(chunk_bytes, left_bytes);
        const ssize_t taken = send(socket, m_zeros.data(), bytes, MSG_NOSIGNAL);
        if (taken < 0 && WouldBlock())
        {
            return;
        }
        if (taken < 0 && !IsOver())
        {
            ThrowErrno("writing to flow '" + spec.name + "'");
        }
        left_bytes -= taken > 0 ? static_cast<uint64_t>(taken) : 0;
        goes_on = taken >= 0 && left_bytes > 0 && m_clock.NowNs() < spec.stop_ns;
    }
    Ignore(socket); // it has stopped
}

/** Segments for which the socket has no room are never written, as by a live source; one that it took in part is. */
void
Applications::WriteSegment(std::size_t flow)
{
    Writer& writer = m_writers[flow];
    if (!writer.is_connected)
    {
        ++writer.early_writes;
        return;
    }
    const std::size_t bytes = m_scenario->mss_bytes - writer.begun_bytes;
    const ssize_t taken = send(m_network.senders[flow].Get(), m_zeros.data(), bytes, MSG_NOSIGNAL);
    if (taken < 0 && !WouldBlock() && !IsOver())
    {
        ThrowErrno("writing to flow '" + m_scenario->flows[flow].name + "'");
    }
    if (taken > 0)
    {
        writer.begun_bytes = (writer.begun_bytes + static_cast<uint32_t>(taken)) % m_scenario->mss_bytes;
    }
}

// ---- receivers ------------------------------------------------------------------------------------------

void
Applications::Accept(std::size_t flow)
{
    Descriptor reader(accept4(m_network.listeners[flow].Get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!reader && (WouldBlock() || errno == ECONNABORTED))
    {
        return; // the peer is gone again
    }
    Checked(reader.Get(), "accepting the connection of flow '" + m_scenario->flows[flow].name + "'");
    Watch(reader.Get(), EPOLLIN, What(READER, flow));
    m_readers[flow] = std::move(reader);
}

/** Reads and drops all there is: with MSG_TRUNC the kernel copies nothing (tcp(7)). */
void
Applications::ReadAll(std::size_t flow)
{
    const int socket = m_readers[flow].Get();
    ssize_t bytes = 0;
    do
    {
        bytes = recv(socket, nullptr, READ_BYTES, MSG_TRUNC);
    } while (bytes > 0);
    if (bytes == 0 || !WouldBlock())
    {
        Ignore(socket); // nothing more will come
    }
}

} // namespace bbrgym
