// SPDX-License-Identifier: GPL-2.0-only
#include "network.hpp"

#include "addresses.hpp"
#include "params.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace bbrgym
{

namespace
{

constexpr double UNSENT_S = 0.05; // of the link's rate: more than the writer ever takes to wake up
constexpr uint32_t MIN_UNSENT_PKTS = 64;
constexpr double MAX_UNSENT_BYTES = 4e6;

constexpr std::array KERNEL_CONTROLS = {std::pair(std::string_view("kernel-bbr"), "bbr"),
                                        std::pair(std::string_view("kernel-cubic"), "cubic"),
                                        std::pair(std::string_view("kernel-reno"), "reno")};

/** The name for TCP_CONGESTION; of cc/, which the parent attaches, none. */
std::string
KernelName(const Flow& flow, const std::string& path)
{
    const auto found = std::ranges::find(KERNEL_CONTROLS, flow.cc, &decltype(KERNEL_CONTROLS)::value_type::first);
    if (found == KERNEL_CONTROLS.end() && !FindVariant(flow.cc))
    {
        throw ScenarioError(path + ".cc",
                            "is '" + flow.cc + "', which the linux world does not have: ns-3's own need the ns3 world");
    }
    return found == KERNEL_CONTROLS.end() ? "" : found->second;
}

/** The facts that can be chosen; every other one is the kernel's. Those of the algorithm belong to cc/, and so does
 * pacing. */
bool
CanBeChosen(const StackFact& fact, bool is_ours, const Stack& stack)
{
    if (is_ours && (fact.layer == "algorithm" || (fact.name == "pacing" && stack.socket.pacing != pacing_choice::fq)))
    {
        return true;
    }
    constexpr std::array NAMES = {"ecn", "gso_max_segs", "timestamps", "send_buffer_bytes", "receive_buffer_bytes"};
    return std::ranges::find(NAMES, fact.name) != NAMES.end();
}

/** ScenarioError: a fact that the kernel fixes differs from what Linux 6 does. */
void
CheckStack(const Stack& stack, bool is_ours, const std::string& path)
{
    for (const StackFact& fact : StackFacts())
    {
        const int64_t of_linux_6 = fact.values[static_cast<std::size_t>(StackPreset::LINUX_6)];
        if (!CanBeChosen(fact, is_ours, stack) && fact.get(stack) != of_linux_6)
        {
            throw ScenarioError(
                path + ".stack." + std::string(fact.name),
                "is " + FactText(fact, fact.get(stack)) + ", expected " + FactText(fact, of_linux_6) +
                    ", that of linux-6: the sockets are this machine's kernel's, of which ecn, gso_max_segs, "
                    "timestamps, send_buffer_bytes and receive_buffer_bytes can be chosen");
        }
    }
}

/** ScenarioError: a flow has another value of a fact than the first one. */
void
CheckEqual(const Scenario& scenario, std::size_t flow, std::string_view name, const std::string& why)
{
    const StackFact& fact = *std::ranges::find(StackFacts(), name, &StackFact::name);
    const int64_t value = fact.get(scenario.flows[flow].stack), of_first = fact.get(scenario.flows[0].stack);
    if (value != of_first)
    {
        throw ScenarioError("flows[" + std::to_string(flow) + "].stack." + std::string(name),
                            "is " + FactText(fact, value) + ", expected " + FactText(fact, of_first) +
                                " as of the other flows: " + why);
    }
}

/** The most that a flow's socket keeps beyond what is on its way. */
uint32_t
UnsentBytes(const Scenario& scenario, const Flow& flow)
{
    double rate_bps = MeanRateBps(scenario.LinkAt(flow.there.front()));
    for (const uint32_t link : flow.there)
    {
        rate_bps = std::min(rate_bps, MeanRateBps(scenario.LinkAt(link)));
    }
    const double bytes = std::min(rate_bps / 8 * UNSENT_S, MAX_UNSENT_BYTES);
    return std::max(static_cast<uint32_t>(bytes), MIN_UNSENT_PKTS * scenario.mss_bytes);
}

} // namespace

NetworkPlan
PlanOf(const Scenario& scenario, const HostOptions& options)
{
    if (scenario.link.last_hop)
    {
        throw ScenarioError("link.last_hop", "is given, which the linux world does not have: use the ns3 world");
    }
    if (!scenario.further_links.empty() && scenario.further_links[0].name != "link.reverse")
    {
        throw ScenarioError("links", "is given, which the linux world does not have: use the twin or ns3 world");
    }
    for (std::size_t i = 0; i < scenario.flows.size(); ++i)
    {
        const bool is_media = std::holds_alternative<Frames>(scenario.flows[i].app);
        if (is_media || scenario.flows[i].read_bps > 0)
        {
            throw ScenarioError("flows[" + std::to_string(i) + "].app" + (is_media ? ".kind" : ".read_mbps"),
                                is_media ? "is frames, which the linux world does not have: use the twin or ns3 world"
                                         : "is given, which the linux world does not have: use the twin or ns3 world");
        }
    }
    NetworkPlan plan{
        .options = options, .packet_bytes = scenario.mss_bytes + HEADER_BYTES, .gives_skbs = scenario.link.loses_skbs};
    const uint32_t ample_bytes = BufferBytes(scenario);
    bool has_auto = false;
    for (std::size_t i = 0; i < scenario.flows.size(); ++i)
    {
        const Flow& flow = scenario.flows[i];
        const std::string path = "flows[" + std::to_string(i) + "]";
        CheckStack(flow.stack, FindVariant(flow.cc).has_value() && flow.cc != SWITCHING, path);
        CheckEqual(scenario, i, "gso_max_segs", "it belongs to the senders' device");
        CheckEqual(scenario, i, "timestamps", "it belongs to the host");
        plan.gso_max_segs = static_cast<uint32_t>(flow.stack.socket.gso_max_segs);
        plan.options.timestamps |= flow.stack.socket.timestamps;
        SocketPlan sockets{.cc = KernelName(flow, path), .asks_for_ecn = flow.stack.socket.ecn};
        const int64_t send_bytes = flow.stack.socket.send_buffer_bytes;
        const int64_t receive_bytes = flow.stack.socket.receive_buffer_bytes;
        if (send_bytes > 0)
        {
            sockets.send_bytes = static_cast<uint32_t>(send_bytes);
        }
        else if (send_bytes == SIZE_ample && std::holds_alternative<Bulk>(flow.app))
        {
            sockets.most_unsent_bytes = UnsentBytes(scenario, flow);
        }
        else if (send_bytes == SIZE_ample)
        {
            sockets.send_bytes = ample_bytes;
        }
        if (receive_bytes > 0)
        {
            sockets.receive_bytes = static_cast<uint32_t>(receive_bytes);
        }
        if (receive_bytes == SIZE_ample)
        {
            plan.most_buffer_bytes = ample_bytes;
        }
        has_auto |= receive_bytes == SIZE_auto || send_bytes == SIZE_auto;
        plan.flows.push_back(sockets);
    }
    if (has_auto && plan.most_buffer_bytes)
    {
        throw ScenarioError(
            "flows", "have buffers that are auto beside ample receive buffers, expected auto or a number for all: "
                     "tcp_rmem and tcp_wmem are the same for all sockets of a host");
    }
    return plan;
}

sockaddr_in
ReceiverAddress(std::size_t flow, bool asks_for_ecn)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(FIRST_PORT + flow));
    address.sin_addr.s_addr = htonl(asks_for_ecn ? RECEIVER_WITH_ECN : RECEIVER);
    return address;
}

std::optional<std::size_t>
FlowOfPort(uint16_t port, std::size_t flows)
{
    if (port < FIRST_PORT || port >= FIRST_PORT + flows)
    {
        return std::nullopt;
    }
    return std::size_t{port} - FIRST_PORT;
}

} // namespace bbrgym
