// SPDX-License-Identifier: GPL-2.0-only
//
// two-bottlenecks, a program of bbrgym's world ns3gym.
//
// A topology of its own as a world: two bottlenecks in a row, which no scenario can describe. It is written with ns-3's
// own helpers and sockets; what makes it a world are the four calls of SocketWorld, marked below.
//
//   long, first --> router 0 == 1st ==> router 1 == 2nd ==> router 2 --> long's, second's receiver
//                                       ^      |
//                              second --+      +--> first's receiver
//
// The name of a flow begins with long, first or second and says which bottlenecks it crosses. The scenario gives the
// rate, delay and queue of the first bottleneck; the second one has 80 % of that rate, and the same delay and queue. A
// flow's base RTT is the scenario's; its applications are bulk, whatever the scenario says.
#include "serve.h"
#include "socket-world.h"

#include "ns3/inet-socket-address.h"
#include "ns3/internet-stack-helper.h"
#include "ns3/ipv4-address-helper.h"
#include "ns3/ipv4-global-routing-helper.h"
#include "ns3/net-device-container.h"
#include "ns3/packet.h"
#include "ns3/point-to-point-helper.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/tcp-socket-factory.h"
#include "ns3/traffic-control-helper.h"
#include "ns3/uinteger.h"

#include <algorithm>
#include <array>
#include <stdexcept>

using namespace ns3;
using bbrgym::Flow;
using bbrgym::SocketWorld;

namespace
{

constexpr double SECOND_RATE = 0.8;
constexpr uint64_t ACCESS_RATE = 100; // of the links at the ends, times the bottleneck's
constexpr uint16_t PORT = 5000;
constexpr uint32_t WRITE_BYTES = 1 << 16;

class TwoBottlenecks : public SocketWorld
{
  public:
    TwoBottlenecks(std::shared_ptr<const bbrgym::Scenario> scenario, uint64_t seed);

  private:
    /** The routers at which a flow enters and leaves. */
    struct Route
    {
        uint32_t from;
        uint32_t to;
    };

    static Route RouteOf(const Flow& flow);

    static NetDeviceContainer Connect(Ptr<Node> one, Ptr<Node> other, uint64_t rate_bps, Time delay);
    void AddBottlenecks();
    void AddFlow(std::size_t flow);
    static void Write(Ptr<Socket> socket, uint32_t room);
    void Accept(std::size_t flow, Ptr<Socket> socket);

    NodeContainer m_routers;
    std::array<Bottleneck, 2> m_bottlenecks{};
    InternetStackHelper m_internet;
    Ipv4AddressHelper m_addresses{"10.0.0.0", "255.255.255.0"};
};

TwoBottlenecks::TwoBottlenecks(std::shared_ptr<const bbrgym::Scenario> scenario, uint64_t seed)
    : SocketWorld(scenario, seed) // 1: before the network, since it sets ns-3's random streams
{
    m_routers.Create(3);
    m_internet.Install(m_routers);
    AddBottlenecks();
    for (std::size_t flow = 0; flow < scenario->flows.size(); ++flow)
    {
        AddFlow(flow);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
}

/** Which bottlenecks a flow crosses: those between its routers. */
TwoBottlenecks::Route
TwoBottlenecks::RouteOf(const Flow& flow)
{
    if (flow.name.starts_with("long"))
    {
        return {0, 2};
    }
    if (flow.name.starts_with("first"))
    {
        return {0, 1};
    }
    if (flow.name.starts_with("second"))
    {
        return {1, 2};
    }
    throw std::invalid_argument("flow '" + flow.name + "': expected a name that begins with long, first or second");
}

/** Two nodes, a link, an address at each end; the devices hold one packet, so that packets wait above them. */
NetDeviceContainer
TwoBottlenecks::Connect(Ptr<Node> one, Ptr<Node> other, uint64_t rate_bps, Time delay)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate_bps)));
    link.SetChannelAttribute("Delay", TimeValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
    return link.Install(one, other);
}

void
TwoBottlenecks::AddBottlenecks()
{
    const bbrgym::Link& link = GetScenario().link;
    const bbrgym::Queue& queue = link.queue;
    const std::string size =
        queue.size_bytes ? std::to_string(*queue.size_bytes) + "B" : std::to_string(*queue.size_packets) + "p";
    TrafficControlHelper queues;
    queues.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(size));
    for (uint32_t i = 0; i < 2; ++i)
    {
        const auto rate_bps = static_cast<uint64_t>(MeanRateBps(link) * (i == 0 ? 1 : SECOND_RATE));
        const auto devices = Connect(m_routers.Get(i), m_routers.Get(i + 1), rate_bps, NanoSeconds(link.delay_ns));
        const auto discs = queues.Install(devices);
        m_bottlenecks[i] = AddBottleneck(discs.Get(0), DataRate(rate_bps)); // 2: what is measured
        m_addresses.Assign(devices);
        m_addresses.NewNetwork();
    }
}

void
TwoBottlenecks::AddFlow(std::size_t flow)
{
    const Flow& spec = GetScenario().flows[flow];
    const Route route = RouteOf(spec);
    const auto path = std::vector<Bottleneck>(&m_bottlenecks[route.from], &m_bottlenecks[0] + route.to);
    const auto crossed = static_cast<int64_t>(path.size());
    const auto rate_bps = static_cast<uint64_t>(MeanRateBps(GetScenario().link)) * ACCESS_RATE;
    const Time delay = NanoSeconds(std::max<int64_t>(spec.rtt_ns / 2 - crossed * GetScenario().link.delay_ns, 0) / 2);

    NodeContainer ends;
    ends.Create(2);
    m_internet.Install(ends);
    m_addresses.Assign(Connect(ends.Get(0), m_routers.Get(route.from), rate_bps, delay));
    m_addresses.NewNetwork();
    const auto there = m_addresses.Assign(Connect(m_routers.Get(route.to), ends.Get(1), rate_bps, delay));
    m_addresses.NewNetwork();

    const auto listener = Socket::CreateSocket(ends.Get(1), TcpSocketFactory::GetTypeId());
    listener->SetAttribute("RcvBufSize", UintegerValue(BufferBytes(GetScenario())));
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
    listener->Listen();
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                Callback<void, Ptr<Socket>, const Address&>(
                                    [this, flow](Ptr<Socket> socket, const Address&) { Accept(flow, socket); }));

    const Ptr<TcpSocket> socket = CreateSender(flow, ends.Get(0), path); // 3: whose sockets send
    socket->SetSendCallback(MakeCallback(&TwoBottlenecks::Write));
    socket->Bind();
    Simulator::Schedule(NanoSeconds(spec.start_ns),
                        [this, socket, to = there.GetAddress(1)] { socket->Connect(InetSocketAddress(to, PORT)); });
    Simulator::Schedule(NanoSeconds(spec.stop_ns), [socket] { socket->Close(); });
}

/** Fills the socket's buffer, whenever there is room. */
void
TwoBottlenecks::Write(Ptr<Socket> socket, uint32_t)
{
    while (socket->GetTxAvailable() >= WRITE_BYTES && socket->Send(Create<Packet>(WRITE_BYTES)) > 0)
    {
    }
}

void
TwoBottlenecks::Accept(std::size_t flow, Ptr<Socket> socket)
{
    socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this, flow](Ptr<Socket> receiver) {
        while (const Ptr<Packet> packet = receiver->Recv())
        {
            if (packet->GetSize() == 0) // the end of the stream
            {
                break;
            }
            Received(flow, packet->GetSize()); // 4: what arrived
        }
    }));
}

} // namespace

int
main()
{
    return bbrgym::ServeMain(
        [](auto scenario, uint64_t seed) { return std::make_unique<TwoBottlenecks>(scenario, seed); });
}
