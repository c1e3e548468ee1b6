// SPDX-License-Identifier: GPL-2.0-only
//
// The two hosts of a run: a network namespace for all senders and one for all receivers, each with one TUN device,
// and a socket of each flow at either end.
//
// The namespaces have no name and hold no process. They live as long as the descriptors here, so they end with the
// process that has them, however it ends.
#ifndef BBRGYM_LINUX_NETWORK_HPP
#define BBRGYM_LINUX_NETWORK_HPP

#include "descriptor.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <vector>

namespace bbrgym
{

/** What a user of the world may choose beside the scenario. */
struct HostOptions
{
    bool timestamps = false;     ///< TCP's timestamp option (RFC 7323); packets keep their size
    bool user_namespace = false; ///< act without privileges, also where there are some
    std::string policy;          ///< file of a BPF object with a policy for the tuned flows; empty: none
};

/** The sockets of a flow. */
struct SocketPlan
{
    std::string cc;                            ///< the name that TCP_CONGESTION takes; empty: the system's default
    bool asks_for_ecn = false;                 ///< in its SYN
    std::optional<uint32_t> send_bytes;        ///< SO_SNDBUF
    std::optional<uint32_t> receive_bytes;     ///< SO_RCVBUF
    std::optional<uint32_t> most_unsent_bytes; ///< TCP_NOTSENT_LOWAT
};

struct NetworkPlan
{
    HostOptions options;
    uint32_t packet_bytes = 0;
    bool gives_skbs = false;                   ///< the senders' device gives sk_buffs as TSO makes them
    uint32_t gso_max_segs = 0;                 ///< the most segments that TCP hands to a device at once; 0: as it is
    std::optional<uint32_t> most_buffer_bytes; ///< tcp_rmem's and tcp_wmem's maximum; unset: the machine's
    std::vector<SocketPlan> flows;
};

/** The variant whose flows change between the kernel's own controls (see Controllers). */
inline constexpr const char* SWITCHING = "switch";

/** Gives a socket a congestion control of this kernel's, also while its connection is open. */
void SetController(int socket, const std::string& name);

/** The hosts that a scenario needs. ScenarioError: the kernel's sockets cannot be as its stack says. */
NetworkPlan PlanOf(const Scenario& scenario, const HostOptions& options);

struct Network
{
    Descriptor senders_tun;
    Descriptor receivers_tun;
    std::vector<Descriptor> senders;   ///< of each flow, not connected
    std::vector<Descriptor> listeners; ///< of each flow
};

/** Builds the hosts. std::runtime_error: the machine forbids it. */
Network BuildNetwork(const NetworkPlan& plan);

/** Where a flow's receiver listens. */
sockaddr_in ReceiverAddress(std::size_t flow, bool asks_for_ecn);

/** The flow of a receiver's port, if it is one. */
std::optional<std::size_t> FlowOfPort(uint16_t port, std::size_t flows);

} // namespace bbrgym

#endif
