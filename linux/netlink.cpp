// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"

#include <arpa/inet.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>

namespace bbrgym
{

/** A request with its attributes: few and short, so it has a fixed room. */
class Netlink::Message
{
  public:
    template <class Body> Message(uint16_t type, uint16_t flags, const Body& body)
    {
        Header().nlmsg_type = type;
        Header().nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
        Header().nlmsg_len = NLMSG_LENGTH(sizeof(Body));
        std::memcpy(NLMSG_DATA(&Header()), &body, sizeof(Body));
    }

    nlmsghdr& Header() { return *reinterpret_cast<nlmsghdr*>(m_room.data()); }

    void Add(uint16_t type, const void* data, std::size_t bytes)
    {
        const std::size_t at = NLMSG_ALIGN(Header().nlmsg_len);
        if (at + RTA_SPACE(bytes) > m_room.size())
        {
            throw std::bad_alloc();
        }
        auto* attribute = reinterpret_cast<rtattr*>(m_room.data() + at);
        attribute->rta_type = type;
        attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes));
        std::memcpy(RTA_DATA(attribute), data, bytes);
        Header().nlmsg_len = static_cast<uint32_t>(at + RTA_ALIGN(attribute->rta_len));
    }

    void Add(uint16_t type, uint32_t value) { Add(type, &value, sizeof(value)); }

  private:
    alignas(nlmsghdr) std::array<char, 256> m_room{};
};

Netlink::Netlink() : m_socket(Checked(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), "opening rtnetlink"))
{
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(m_socket.Get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

void
Netlink::SetLink(int device, uint32_t mtu_bytes, uint32_t queue_packets, uint32_t gso_max_segs)
{
    Message message(RTM_NEWLINK, 0, ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_index = device});
    message.Add(IFLA_MTU, mtu_bytes);
    message.Add(IFLA_TXQLEN, queue_packets);
    if (gso_max_segs > 0)
    {
        message.Add(IFLA_GSO_MAX_SEGS, gso_max_segs);
    }
    Send(message, "setting MTU, queue length and gso_max_segs of a device");
}

void
Netlink::TakeUp(int device, uint32_t address, uint8_t prefix_bits)
{
    const uint32_t wire = htonl(address);
    Message message(
        RTM_NEWADDR, NLM_F_CREATE,
        ifaddrmsg{.ifa_family = AF_INET, .ifa_prefixlen = prefix_bits, .ifa_index = static_cast<uint32_t>(device)});
    message.Add(IFA_LOCAL, wire);
    message.Add(IFA_ADDRESS, wire);
    Send(message, "giving a device its address");
    Message up(RTM_NEWLINK, 0,
               ifinfomsg{.ifi_family = AF_UNSPEC, .ifi_index = device, .ifi_flags = IFF_UP, .ifi_change = IFF_UP});
    Send(up, "taking a device up");
}

void
Netlink::SetDiscipline(int device, const std::string& kind)
{
    Message message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE,
                    tcmsg{.tcm_family = AF_UNSPEC, .tcm_ifindex = device, .tcm_parent = TC_H_ROOT});
    message.Add(TCA_KIND, kind.c_str(), kind.size() + 1);
    Send(message, "giving a device the queueing discipline " + kind);
}

void
Netlink::AskForEcn(int device, uint32_t address)
{
    Message message(RTM_NEWROUTE, NLM_F_CREATE,
                    rtmsg{.rtm_family = AF_INET,
                          .rtm_dst_len = 32,
                          .rtm_table = RT_TABLE_MAIN,
                          .rtm_protocol = RTPROT_STATIC,
                          .rtm_scope = RT_SCOPE_LINK,
                          .rtm_type = RTN_UNICAST});
    const rtattr features{.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTAX_FEATURES};
    const uint32_t ecn = RTAX_FEATURE_ECN;
    std::array<char, RTA_LENGTH(sizeof(uint32_t))> metrics{};
    std::memcpy(metrics.data(), &features, sizeof(features));
    std::memcpy(metrics.data() + RTA_LENGTH(0), &ecn, sizeof(ecn));
    message.Add(RTA_DST, htonl(address));
    message.Add(RTA_OIF, static_cast<uint32_t>(device));
    message.Add(RTA_METRICS, metrics.data(), metrics.size());
    Send(message, "asking for ECN on a route");
}

/** Sends a request and waits for its acknowledgement. */
void
Netlink::Send(Message& message, const std::string& what)
{
    message.Header().nlmsg_seq = ++m_sequence;
    Checked(static_cast<int>(send(m_socket.Get(), &message.Header(), message.Header().nlmsg_len, 0)), what);
    alignas(nlmsghdr) std::array<char, 4096> answer;
    const ssize_t bytes = recv(m_socket.Get(), answer.data(), answer.size(), 0);
    Checked(static_cast<int>(bytes), what);
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
    if (!NLMSG_OK(header, static_cast<uint32_t>(bytes)) || header->nlmsg_type != NLMSG_ERROR)
    {
        throw std::runtime_error(what + ": the kernel's answer is not an acknowledgement");
    }
    const int error = static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    if (error != 0)
    {
        errno = -error;
        ThrowErrno(what);
    }
}

} // namespace bbrgym
