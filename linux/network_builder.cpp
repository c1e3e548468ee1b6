// SPDX-License-Identifier: GPL-2.0-only
//
// BuildNetwork: a child process enters new namespaces, makes devices and sockets in them, passes their descriptors to
// the parent and ends. So the parent's own threads never leave their namespace, and the user namespace, into which
// only a process with one thread can go, is possible too.
#include "addresses.hpp"
#include "netlink.hpp"
#include "network.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

namespace bbrgym
{

namespace
{

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds PATIENCE{20};
constexpr uint32_t DEVICE_QUEUE_PACKETS = 10'000; // never a limit: the bottleneck is the emulator's
constexpr const char* DEVICE = "bbrgym";
constexpr std::size_t MAX_TEXT_BYTES = 512;
constexpr std::size_t MAX_FDS_PER_MESSAGE = 200; // the kernel takes 253

// ---- the parent's and the child's end of the channel ------------------------------------------------------

/** Sends descriptors, or a text alone: the reason of a failure. */
void
SendMessage(int channel, std::string_view text, std::span<const int> fds)
{
    char first = fds.empty() ? 'E' : 'F';
    std::array<iovec, 2> parts{{{&first, 1}, {const_cast<char*>(text.data()), std::min(text.size(), MAX_TEXT_BYTES)}}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(MAX_FDS_PER_MESSAGE * sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (!fds.empty())
    {
        message.msg_control = room.data();
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
    }
    Checked(static_cast<int>(sendmsg(channel, &message, 0)), "passing descriptors");
}

/** Signals may come meanwhile: their handlers run later. */
void
WaitForMessage(int channel, Clock::time_point deadline)
{
    int ready = 0;
    do
    {
        const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd waited{.fd = channel, .events = POLLIN, .revents = 0};
        ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(left_ms, 0)));
    } while (ready < 0 && errno == EINTR);
    if (Checked(ready, "waiting for the process that builds the network") == 0)
    {
        throw std::runtime_error("the network was not built within " + std::to_string(PATIENCE.count()) + " s");
    }
}

/** Adds the descriptors of a message; throws the child's reason if there is one. */
void
ReceiveMessage(int channel, Clock::time_point deadline, std::vector<Descriptor>& descriptors)
{
    WaitForMessage(channel, deadline);
    std::array<char, 1 + MAX_TEXT_BYTES> text;
    iovec part{text.data(), text.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(MAX_FDS_PER_MESSAGE * sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    const ssize_t bytes = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (bytes < 1)
    {
        throw std::runtime_error("the process that builds the network ended without an answer");
    }
    if (text[0] == 'E')
    {
        throw std::runtime_error(std::string(text.data() + 1, static_cast<std::size_t>(bytes - 1)));
    }
    for (cmsghdr* control = CMSG_FIRSTHDR(&message); control != nullptr; control = CMSG_NXTHDR(&message, control))
    {
        const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i)
        {
            int fd;
            std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof(int));
            descriptors.emplace_back(fd);
        }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0)
    {
        errno = EMFILE;
        ThrowErrno("taking over the network's descriptors");
    }
}

// ---- the child ------------------------------------------------------------------------------------------

/** Writes a setting; false if there is none of that name. */
bool
WriteFile(const std::string& path, const std::string& text)
{
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file && errno == ENOENT)
    {
        return false;
    }
    Checked(file.Get(), "opening " + path);
    Checked(static_cast<int>(write(file.Get(), text.data(), text.size())), "writing '" + text + "' to " + path);
    return true;
}

/** Becomes root of a user namespace in which it alone is. */
void
EnterUserNamespace()
{
    const std::string user = std::to_string(geteuid());
    const std::string group = std::to_string(getegid());
    Checked(unshare(CLONE_NEWUSER),
            "entering a user namespace (without privileges the world needs one: kernel.unprivileged_userns_clone, "
            "user.max_user_namespaces)");
    WriteFile("/proc/self/setgroups", "deny");
    WriteFile("/proc/self/uid_map", "0 " + user + " 1");
    WriteFile("/proc/self/gid_map", "0 " + group + " 1");
}

/** Enters a network namespace of its own; returns whether it has privileges outside, too. */
bool
EnterNetworkNamespace(bool unprivileged)
{
    if (!unprivileged && unshare(CLONE_NEWNET) == 0)
    {
        return true;
    }
    EnterUserNamespace();
    Checked(unshare(CLONE_NEWNET), "entering a network namespace");
    return false;
}

void
SetUpTcp(const NetworkPlan& plan)
{
    const std::string tcp = "/proc/sys/net/ipv4/tcp_";
    WriteFile(tcp + "timestamps", plan.options.timestamps ? "1" : "0");
    WriteFile(tcp + "no_metrics_save", "1"); // a connection learns nothing from one before it
    if (plan.most_buffer_bytes)
    {
        // The initial sizes stay Linux's own: a receiver that begins with a large buffer acknowledges each packet.
        const std::string most = std::to_string(*plan.most_buffer_bytes);
        WriteFile(tcp + "rmem", "4096 131072 " + most);
        WriteFile(tcp + "wmem", "4096 16384 " + most);
    }
    WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"); // no router solicitations on the link
}

struct Device
{
    Descriptor tun;
    int index;
};

/** `gives_skbs`: with a virtio_net_hdr before each packet, and segments as one. */
Device
MakeDevice(bool gives_skbs)
{
    Descriptor tun(Checked(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "opening /dev/net/tun"));
    ifreq request{};
    std::strncpy(request.ifr_name, DEVICE, IFNAMSIZ - 1);
    request.ifr_flags = static_cast<short>(IFF_TUN | IFF_NO_PI | (gives_skbs ? IFF_VNET_HDR : 0));
    Checked(ioctl(tun.Get(), TUNSETIFF, &request), "making a TUN device");
    if (gives_skbs)
    {
        Checked(ioctl(tun.Get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO_ECN), "taking sk_buffs from TSO");
    }
    return {std::move(tun),
            static_cast<int>(Checked(static_cast<int>(if_nametoindex(DEVICE)), "finding the TUN device"))};
}

/** Makes the device of a host. Packets go to it at once, without a queue of the kernel's between. */
Device
MakeHost(const NetworkPlan& plan, uint32_t address, bool gives_skbs)
{
    SetUpTcp(plan);
    Device device = MakeDevice(gives_skbs);
    Netlink netlink;
    netlink.SetLink(device.index, plan.packet_bytes, DEVICE_QUEUE_PACKETS, plan.gso_max_segs);
    netlink.SetDiscipline(device.index, "noqueue");
    netlink.TakeUp(device.index, address, PREFIX_BITS);
    return device;
}

/** Sets the size of a buffer; without privileges the machine may give less. */
void
SetBuffer(int socket, int forced, int asked, uint32_t bytes, bool has_privileges)
{
    const int size = static_cast<int>(std::min<uint32_t>(bytes, INT32_MAX / 2)); // the kernel doubles it
    Checked(setsockopt(socket, SOL_SOCKET, has_privileges ? forced : asked, &size, sizeof(size)),
            "setting the size of a socket's buffer");
}

Descriptor
MakeSender(const SocketPlan& plan, bool has_privileges)
{
    Descriptor sender(Checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "making a socket"));
    if (!plan.cc.empty())
    {
        SetController(sender.Get(), plan.cc);
    }
    if (plan.send_bytes)
    {
        SetBuffer(sender.Get(), SO_SNDBUFFORCE, SO_SNDBUF, *plan.send_bytes, has_privileges);
    }
    if (plan.most_unsent_bytes)
    {
        const int bytes = static_cast<int>(*plan.most_unsent_bytes);
        Checked(setsockopt(sender.Get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof(bytes)),
                "limiting unsent data");
    }
    return sender;
}

Descriptor
MakeListener(const SocketPlan& plan, std::size_t flow, bool has_privileges)
{
    Descriptor listener(Checked(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "making a socket"));
    if (plan.receive_bytes)
    {
        SetBuffer(listener.Get(), SO_RCVBUFFORCE, SO_RCVBUF, *plan.receive_bytes, has_privileges);
    }
    const sockaddr_in address = ReceiverAddress(flow, plan.asks_for_ecn);
    Checked(bind(listener.Get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            "binding a receiver's socket");
    Checked(listen(listener.Get(), 1), "listening");
    return listener;
}

void
MakeRoomForDescriptors()
{
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/** Everything in the order in which the parent takes it: both devices, the senders, the listeners. */
std::vector<Descriptor>
BuildAll(const NetworkPlan& plan)
{
    std::vector<Descriptor> all;
    const bool has_privileges = EnterNetworkNamespace(plan.options.user_namespace);
    Device sending = MakeHost(plan, SENDER, plan.gives_skbs);
    Netlink().AskForEcn(sending.index, RECEIVER_WITH_ECN);
    std::vector<Descriptor> senders;
    for (const SocketPlan& flow : plan.flows)
    {
        senders.push_back(MakeSender(flow, has_privileges));
    }
    Checked(unshare(CLONE_NEWNET), "entering a network namespace");
    Device receiving = MakeHost(plan, RECEIVER, false);
    Netlink().TakeUp(receiving.index, RECEIVER_WITH_ECN, PREFIX_BITS);
    all.push_back(std::move(sending.tun));
    all.push_back(std::move(receiving.tun));
    std::ranges::move(senders, std::back_inserter(all));
    for (std::size_t flow = 0; flow < plan.flows.size(); ++flow)
    {
        all.push_back(MakeListener(plan.flows[flow], flow, has_privileges));
    }
    return all;
}

/** The child's whole life. */
[[noreturn]] void
BuildAndPass(const NetworkPlan& plan, int channel)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    try
    {
        const std::vector<Descriptor> all = BuildAll(plan);
        std::vector<int> fds;
        std::ranges::transform(all, std::back_inserter(fds), &Descriptor::Get);
        for (std::size_t at = 0; at < fds.size(); at += MAX_FDS_PER_MESSAGE)
        {
            const std::size_t count = std::min(MAX_FDS_PER_MESSAGE, fds.size() - at);
            SendMessage(channel, "", std::span(fds).subspan(at, count));
        }
        _exit(0);
    }
    catch (const std::exception& error)
    {
        try
        {
            SendMessage(channel, error.what(), {});
        }
        catch (const std::exception&)
        {
            _exit(2); // the parent sees that there is no answer
        }
    }
    _exit(1);
}

/** Ends a child and waits for it. */
class Child
{
  public:
    explicit Child(pid_t pid) : m_pid(pid) {}
    ~Child()
    {
        kill(m_pid, SIGKILL); // it has sent all it has to say
        while (waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR)
        {
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

  private:
    pid_t m_pid;
};

} // namespace

void
SetController(int socket, const std::string& name)
{
    Checked(setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())),
            "giving a socket the congestion control '" + name +
                "' (sysctl net.ipv4.tcp_available_congestion_control lists those of this kernel)");
}

Network
BuildNetwork(const NetworkPlan& plan)
{
    MakeRoomForDescriptors();
    std::array<int, 2> ends;
    Checked(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), "making a channel");
    const Descriptor ours(ends[0]);
    Descriptor theirs(ends[1]);
    const pid_t pid = Checked(fork(), "starting the process that builds the network");
    if (pid == 0)
    {
        BuildAndPass(plan, theirs.Get());
    }
    const Child child(pid);
    theirs.Reset();
    const std::size_t expected = 2 + 2 * plan.flows.size();
    const Clock::time_point deadline = Clock::now() + PATIENCE;
    std::vector<Descriptor> all;
    while (all.size() < expected)
    {
        ReceiveMessage(ours.Get(), deadline, all);
    }
    Network network;
    network.senders_tun = std::move(all[0]);
    network.receivers_tun = std::move(all[1]);
    const auto listeners = all.begin() + 2 + static_cast<std::ptrdiff_t>(plan.flows.size());
    std::move(all.begin() + 2, listeners, std::back_inserter(network.senders));
    std::move(listeners, all.end(), std::back_inserter(network.listeners));
    return network;
}

} // namespace bbrgym
