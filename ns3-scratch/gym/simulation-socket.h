// SPDX-License-Identifier: GPL-2.0-only
//
// The simulation's end of ns3-gym's conversation: a ZeroMQ REQ socket over TCP, by ZMTP 3.0 without security. It asks,
// the agent answers, and no wait is without an end.
//
//   greeting          both ways: version 3.0, mechanism NULL
//   READY             both ways: the type of the socket
//   ["", question] -> ["", answer]     again and again
#ifndef BBRGYM_GYM_SIMULATION_SOCKET_H
#define BBRGYM_GYM_SIMULATION_SOCKET_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <sys/types.h>

namespace bbrgym
{

/** The agent did not come, did not answer in time, has gone, or said what ZMTP does not allow. */
class AgentError : public std::runtime_error
{
  public:
    using std::runtime_error::runtime_error;
};

class SimulationSocket
{
  public:
    /** `port` is the agent's on this machine; `timeout_s` is the longest wait for it and for each of its answers. */
    SimulationSocket(uint16_t port, double timeout_s);
    ~SimulationSocket();
    SimulationSocket(const SimulationSocket&) = delete;
    SimulationSocket& operator=(const SimulationSocket&) = delete;

    /** Asks the first question, as soon as an agent listens, and again if that one goes before it answers. */
    std::string Introduce(const std::string& question);
    /** Asks the next one; throws AgentError if the agent has gone. */
    std::string Ask(const std::string& question);

  private:
    using Clock = std::chrono::steady_clock;

    bool TryConnect();
    std::string Exchange(const std::string& question);
    void Handshake();
    void SendFrame(uint8_t flags, const std::string& body);
    std::string ReceiveFrame(uint8_t& flags);
    void Send(const std::string& bytes);
    std::string Receive(std::size_t bytes);
    void Transfer(short events, std::size_t bytes, const std::function<ssize_t(std::size_t)>& move);
    void Close();

    uint16_t m_port;
    double m_timeout_s;
    Clock::time_point m_deadline;
    int m_fd = -1;
};

} // namespace bbrgym

#endif
