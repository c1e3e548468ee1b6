// SPDX-License-Identifier: GPL-2.0-only
//
// The settings of a network device that rtnetlink makes, in the namespace of the calling thread.
#ifndef BBRGYM_LINUX_NETLINK_HPP
#define BBRGYM_LINUX_NETLINK_HPP

#include "descriptor.hpp"

#include <cstdint>
#include <string>

namespace bbrgym
{

class Netlink
{
  public:
    Netlink();

    /** Sets MTU and queue length of a device, and the most segments that TCP gives it at once; 0: as it is. */
    void SetLink(int device, uint32_t mtu_bytes, uint32_t queue_packets, uint32_t gso_max_segs);
    /** Gives a device an IPv4 address (in host order) with a prefix, and takes it up. */
    void TakeUp(int device, uint32_t address, uint8_t prefix_bits);
    /** Gives a device a queueing discipline of this kind. */
    void SetDiscipline(int device, const std::string& kind);
    /** Connections to an address over a device ask for ECN, whatever tcp_ecn says. */
    void AskForEcn(int device, uint32_t address);

  private:
    class Message;
    void Send(Message& message, const std::string& what);

    Descriptor m_socket;
    uint32_t m_sequence = 0;
};

} // namespace bbrgym

#endif
