// SPDX-License-Identifier: GPL-2.0-only
#include "simulation-socket.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>

namespace bbrgym
{

namespace
{

// Flags of a frame.
constexpr uint8_t MORE = 1;
constexpr uint8_t LONG = 2; // its length has 8 bytes instead of 1
constexpr uint8_t COMMAND = 4;

constexpr std::size_t GREETING_BYTES = 64;
constexpr std::size_t MAX_FRAME_BYTES = 16U << 20;
constexpr auto RETRY = std::chrono::milliseconds(10);

/** The connection is closed; another one may be tried. */
class AgentGone : public AgentError
{
  public:
    using AgentError::AgentError;
};

std::string
Greeting()
{
    std::string greeting(GREETING_BYTES, '\0');
    greeting[0] = '\xff'; // signature, from 0 to 9
    greeting[9] = '\x7f';
    greeting[10] = 3; // version 3.0
    greeting.replace(12, 4, "NULL"); // mechanism, from 12 to 31
    return greeting;
}

std::string
BigEndian(uint64_t number, std::size_t bytes)
{
    std::string text(bytes, '\0');
    for (std::size_t i = bytes; i-- > 0; number >>= 8)
    {
        text[i] = static_cast<char>(number & 0xff);
    }
    return text;
}

std::string
Ready()
{
    const auto property = [](const std::string& name, const std::string& value) {
        return BigEndian(name.size(), 1) + name + BigEndian(value.size(), 4) + value;
    };
    return BigEndian(5, 1) + "READY" + property("Socket-Type", "REQ") + property("Identity", "");
}

} // namespace

SimulationSocket::SimulationSocket(uint16_t port, double timeout_s)
    : m_port(port),
      m_timeout_s(timeout_s)
{
}

SimulationSocket::~SimulationSocket()
{
    Close();
}

std::string
SimulationSocket::Introduce(const std::string& question)
{
    m_deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(m_timeout_s * 1e3));
    while (true)
    {
        try
        {
            if (TryConnect())
            {
                Handshake();
                return Exchange(question);
            }
        }
        catch (const AgentGone&) // between two episodes an agent may close its socket and open another one
        {
        }
        Close();
        if (Clock::now() >= m_deadline)
        {
            std::ostringstream text;
            text << "no agent at port " << m_port << " within " << m_timeout_s << " s";
            throw AgentError(text.str());
        }
        std::this_thread::sleep_for(RETRY);
    }
}

std::string
SimulationSocket::Ask(const std::string& question)
{
    m_deadline = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(m_timeout_s * 1e3));
    return Exchange(question);
}

bool
SimulationSocket::TryConnect()
{
    m_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m_fd < 0)
    {
        throw AgentError(std::string("no socket: ") + std::strerror(errno));
    }
    const int yes = 1;
    setsockopt(m_fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in agent{};
    agent.sin_family = AF_INET;
    agent.sin_port = htons(m_port);
    agent.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(m_fd, reinterpret_cast<const sockaddr*>(&agent), sizeof agent) == 0;
}

void
SimulationSocket::Handshake()
{
    Send(Greeting());
    const std::string theirs = Receive(GREETING_BYTES);
    if (theirs[0] != '\xff' || theirs[9] != '\x7f' || theirs[10] < 3 || theirs.compare(12, 5, std::string("NULL\0", 5)) != 0)
    {
        throw AgentError("what listens at port " + std::to_string(m_port) + " is not a ZeroMQ socket without security");
    }
    SendFrame(COMMAND, Ready());
    uint8_t flags = 0;
    const std::string command = ReceiveFrame(flags);
    if (!(flags & COMMAND) || command.compare(0, 6, "\5READY") != 0)
    {
        throw AgentError("the agent refuses the connection");
    }
}

/** Both messages of a REQ socket begin with an empty frame. */
std::string
SimulationSocket::Exchange(const std::string& question)
{
    SendFrame(MORE, "");
    SendFrame(0, question);
    uint8_t flags = 0;
    const std::string delimiter = ReceiveFrame(flags);
    const bool is_delimited = delimiter.empty() && (flags & MORE);
    std::string answer = is_delimited ? ReceiveFrame(flags) : "";
    if (!is_delimited || (flags & MORE))
    {
        throw AgentError("the agent's answer is not an empty frame and one other");
    }
    return answer;
}

void
SimulationSocket::SendFrame(uint8_t flags, const std::string& body)
{
    const bool is_long = body.size() > UINT8_MAX;
    Send(BigEndian(flags | (is_long ? LONG : 0), 1) + BigEndian(body.size(), is_long ? 8 : 1) + body);
}

/** The next frame; commands after the handshake are for heartbeats, which nobody asked for. */
std::string
SimulationSocket::ReceiveFrame(uint8_t& flags)
{
    while (true)
    {
        flags = static_cast<uint8_t>(Receive(1).front());
        uint64_t size = 0;
        for (const char byte : Receive(flags & LONG ? 8 : 1))
        {
            size = size << 8 | static_cast<uint8_t>(byte);
        }
        if (size > MAX_FRAME_BYTES)
        {
            throw AgentError("the agent sends a frame of " + std::to_string(size) + " bytes, expected at most " +
                             std::to_string(MAX_FRAME_BYTES));
        }
        std::string body = Receive(size);
        if (!(flags & COMMAND) || body.compare(0, 6, "\5READY") == 0)
        {
            return body;
        }
    }
}

void
SimulationSocket::Send(const std::string& bytes)
{
    Transfer(POLLOUT, bytes.size(), [&](std::size_t done) {
        return send(m_fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    });
}

std::string
SimulationSocket::Receive(std::size_t bytes)
{
    std::string received(bytes, '\0');
    Transfer(POLLIN, bytes, [&](std::size_t done) {
        const ssize_t now = recv(m_fd, received.data() + done, bytes - done, MSG_DONTWAIT);
        errno = now == 0 ? ECONNRESET : errno;
        return now == 0 ? -1 : now;
    });
    return received;
}

/** Moves bytes by a function that is told how many are done, until all are; throws AgentError after the deadline. */
void
SimulationSocket::Transfer(short events, std::size_t bytes, const std::function<ssize_t(std::size_t)>& move)
{
    for (std::size_t done = 0; done < bytes;)
    {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(m_deadline - Clock::now()).count();
        pollfd waiting{m_fd, events, 0};
        if (left <= 0 || poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, INT32_MAX))) == 0)
        {
            std::ostringstream text;
            text << "no answer of the agent within " << m_timeout_s << " s";
            throw AgentError(text.str());
        }
        const ssize_t now = move(done);
        if (now < 0 && errno != EAGAIN && errno != EINTR)
        {
            throw AgentGone("the agent has gone");
        }
        done += static_cast<std::size_t>(std::max<ssize_t>(now, 0));
    }
}

void
SimulationSocket::Close()
{
    if (m_fd >= 0)
    {
        close(m_fd);
        m_fd = -1;
    }
}

} // namespace bbrgym
