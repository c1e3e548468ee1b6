// SPDX-License-Identifier: GPL-2.0-only
#include "ns3-simulation.h"

#include "bottleneck-device.h"
#include "flow-application.h"
#include "last-hop.h"
#include "link-device.h"
#include "packet-tap.h"
#include "params.hpp"

#include "ns3/icmpv4-l4-protocol.h"
#include "ns3/inet-socket-address.h"
#include "ns3/ipv4-interface.h"
#include "ns3/ipv4-l3-protocol.h"
#include "ns3/ipv4-static-routing.h"
#include "ns3/simulator.h"
#include "ns3/tcp-l4-protocol.h"
#include "ns3/traffic-control-layer.h"

namespace bbrgym
{

using namespace ns3;

namespace
{

constexpr uint16_t FIRST_PORT = 5000;
constexpr uint32_t RECEIVER_ADDRESS = 0x0a000001; // 10.0.0.1
constexpr uint32_t SENDER_ADDRESS = 0x0a010000;   // 10.1.0.0 + flow

/**
 * Of ns-3's own sockets the buffers are what the stack's hold, of payload, since nothing else limits them; automatic
 * ones at their largest. On our sockets tcp/ decides what fits.
 */
SocketSettings
SettingsFor(const Scenario& scenario, const Flow& flow)
{
    const SocketFacts& facts = flow.stack.socket;
    const uint32_t ample_bytes = BufferBytes(scenario);
    SocketSettings settings{scenario.mss_bytes, ample_bytes, ample_bytes, UsefulWindowBytes(scenario), facts.ecn};
    if (!FindVariant(flow.cc))
    {
        const auto at_most = [ample_bytes](uint64_t bytes) {
            return static_cast<uint32_t>(std::min<uint64_t>(bytes, ample_bytes));
        };
        settings.send_buffer_bytes = at_most(SendPayloadBytes(facts, scenario.mss_bytes));
        settings.receive_buffer_bytes = at_most(ReceivePayloadBytes(facts, scenario.mss_bytes));
    }
    return settings;
}

// ---- hosts ----------------------------------------------------------------------------------------------

/**
 * Passes packets between TCP and the device. ns-3's IPv4 and traffic control, which could only do the same on a host
 * with one route, take a third of the instructions of a run.
 */
void
Connect(Ptr<TcpL4Protocol> tcp, Ptr<Ipv4Interface> interface, Ptr<LinkDevice> device)
{
    constexpr uint8_t TTL = 64;
    tcp->SetDownTarget(IpL4Protocol::DownTargetCallback(
        [device](Ptr<Packet> packet, Ipv4Address from, Ipv4Address to, uint8_t protocol, Ptr<Ipv4Route>) {
            Ipv4Header ip;
            ip.SetSource(from);
            ip.SetDestination(to);
            ip.SetProtocol(protocol);
            ip.SetPayloadSize(static_cast<uint16_t>(packet->GetSize()));
            ip.SetTtl(TTL);
            if (SocketIpTosTag tos; packet->RemovePacketTag(tos))
            {
                ip.SetTos(tos.GetTos());
            }
            packet->AddHeader(ip);
            device->Send(packet, Address(), Ipv4L3Protocol::PROT_NUMBER);
        }));
    device->SetReceiver([tcp, interface](Ptr<Packet> packet) {
        Ipv4Header ip;
        packet->RemoveHeader(ip);
        tcp->Receive(packet, ip, interface);
    });
}

/** A node with one device, one address and the TCP/IP protocols. */
Ptr<Node>
MakeHost(Ipv4Address address, Ptr<LinkDevice> device)
{
    auto node = CreateObject<Node>();
    auto ip = CreateObject<Ipv4L3Protocol>();
    node->AggregateObject(ip);
    node->AggregateObject(CreateObject<Icmpv4L4Protocol>());
    auto tcp = CreateObject<TcpL4Protocol>();
    node->AggregateObject(tcp);
    node->AggregateObject(CreateObject<TrafficControlLayer>());

    node->AddDevice(device);
    const uint32_t interface = ip->AddInterface(device);
    ip->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask::GetOnes()));
    ip->SetUp(interface);
    auto routing = CreateObject<Ipv4StaticRouting>();
    ip->SetRoutingProtocol(routing);
    routing->AddNetworkRouteTo(Ipv4Address::GetAny(), Ipv4Mask::GetZero(), interface);
    Connect(tcp, ip->GetInterface(interface), device);
    return node;
}

} // namespace

// ---- the network ----------------------------------------------------------------------------------------

Ns3Simulation::Ns3Simulation(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables)
    : World(std::move(scenario), seed, tables, true),
      m_measurement(*m_scenario)
{
    MakePath();
    for (std::size_t flow = 0; flow < m_scenario->flows.size(); ++flow)
    {
        AddFlow(flow);
    }
    ScheduleChanges();
    m_senders.WriteTunables(m_tables.tunables);
    m_measurement.TakeInterval(*this, m_tables.flow_stats, m_tables.link_stats);
}

Ns3Simulation::~Ns3Simulation()
{
    m_simulator.End();
}

int64_t
Ns3Simulation::NowNs() const
{
    return bbrgym::NowNs();
}

double
Ns3Simulation::CapacityBytes() const
{
    return m_bottleneck->Get().CapacityBytes(NowNs());
}

PartlySent
Ns3Simulation::InTransmission() const
{
    return m_bottleneck->Get().InTransmission(NowNs());
}

double
Ns3Simulation::QueueByteNs() const
{
    return m_bottleneck->Get().QueueByteNs(NowNs());
}

/** Router and receiver, and what is between them. */
void
Ns3Simulation::MakePath()
{
    m_bottleneck = CreateObject<BottleneckDevice>(*m_scenario, m_seed, FIRST_PORT, m_measurement);
    m_return = CreateObject<DelayDevice>();
    m_return->SetGate(m_scenario->link.acks);
    CreateObject<Node>()->AddDevice(m_bottleneck);
    m_receiver = m_scenario->link.last_hop ? MakeStation(*m_scenario->link.last_hop)
                                           : MakeHost(Ipv4Address(RECEIVER_ADDRESS), m_return);
    m_bottleneck->Connect(m_return);
    if (!m_end)
    {
        m_end = m_return;
    }
}

/** The receiver behind a radio hop, at the other end of which the wired devices are. */
Ptr<Node>
Ns3Simulation::MakeStation(const LastHop& spec)
{
    auto access_point = CreateObject<Node>();
    access_point->AddDevice(m_return);
    auto station = CreateObject<StationDevice>();
    m_last_hop = MakeRadioHop(
        spec, {[station](Ptr<Packet> packet) { station->ReceiveFromRadio(packet); },
               [to = m_return](Ptr<Packet> packet) { to->Send(packet, Address(), Ipv4L3Protocol::PROT_NUMBER); }});
    RadioHop* hop = m_last_hop.get();
    m_end = station;
    station->SetUplink([hop](Ptr<Packet> packet) { hop->Up(packet); });
    m_return->SetReceiver([hop](Ptr<Packet> packet) { hop->Down(packet); });
    return MakeHost(Ipv4Address(RECEIVER_ADDRESS), station);
}

void
Ns3Simulation::AddFlow(std::size_t flow)
{
    const Flow& spec = m_scenario->flows[flow];
    const auto index = static_cast<uint32_t>(flow);
    const auto port = static_cast<uint16_t>(FIRST_PORT + index);
    const Ipv4Address address(SENDER_ADDRESS + index);
    const Ipv4Address receiver(RECEIVER_ADDRESS);
    const PathDelays delays = PathDelaysOf(spec, m_scenario->link);
    const SocketSettings settings = SettingsFor(*m_scenario, spec);

    auto access = CreateObject<DelayDevice>();
    const Ptr<Node> node = MakeHost(address, access);
    access->AddPath(receiver, m_bottleneck, NanoSeconds(delays.access_ns));
    m_return->AddPath(address, access, NanoSeconds(delays.return_ns));
    m_access.push_back(access);

    const FlowApplication::Observer observer{
        [this, flow] { m_measurement.FlowStarted(flow, *this); },
        [this, flow] { m_measurement.FlowStopped(flow, *this); },
        [this, flow](bool is_retransmission) { m_measurement.Sent(flow, is_retransmission); },
        [this, flow](int64_t rtt_ns) { m_measurement.RttSample(flow, rtt_ns); }};
    auto application = CreateObject<FlowApplication>(spec, m_seed, m_senders.Of(flow), settings,
                                                     InetSocketAddress(receiver, port), observer);
    application->SetStartTime(NanoSeconds(spec.start_ns));
    application->SetStopTime(NanoSeconds(spec.stop_ns));
    node->AddApplication(application);
    access->SetObserver(
        [application = PeekPointer(application)](const SegmentView& segment) { application->NoteSegment(segment); });
    const bool is_linux = FindVariant(spec.cc) && !HasNs3Receiver(spec.stack.socket);
    m_receiver->AddApplication(CreateObject<FlowSink>(InetSocketAddress(receiver, port), settings,
                                                      is_linux ? std::optional(spec.stack.socket) : std::nullopt,
                                                      [this, flow](uint32_t bytes) {
                                                          if (m_measurement.Readable(flow, bytes))
                                                          {
                                                              m_measurement.FlowCompleted(flow, *this);
                                                          }
                                                      }));
}

void
Ns3Simulation::ScheduleChanges()
{
    Simulator::Schedule(NanoSeconds(m_scenario->warmup_ns), [this] { m_measurement.WarmedUp(*this); });
    for (const LinkChange& change : m_scenario->link.changes)
    {
        Simulator::Schedule(NanoSeconds(change.at_ns), [this, &change] { m_bottleneck->Change(change); });
    }
}

void
Ns3Simulation::TracePackets()
{
    if (m_has_begun)
    {
        throw std::invalid_argument("the packets are traced from a run's beginning on: ask before its first advance");
    }
    Log().Begin(m_scenario->flows.size());
    m_tap = std::make_unique<PacketTap>(*m_scenario, FIRST_PORT, Log());
    for (std::size_t flow = 0; flow < m_access.size(); ++flow)
    {
        m_access[flow]->SetTap([this](LinkDevice::Way way, Ptr<const Packet> packet) { m_tap->AtSender(way, packet); });
        if (FindVariant(m_scenario->flows[flow].cc))
        {
            m_senders.OursOf(flow).LogTo(Log(), flow, m_scenario->mss_bytes);
        }
    }
    m_end->SetTap([this](LinkDevice::Way way, Ptr<const Packet> packet) { m_tap->AtReceiver(way, packet); });
}

// ---- running --------------------------------------------------------------------------------------------

void
Ns3Simulation::Advance(double duration_s)
{
    m_has_begun = true;
    RunSimulator(duration_s);
    m_measurement.TakeInterval(*this, m_tables.flow_stats, m_tables.link_stats);
}

void
Ns3Simulation::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    m_measurement.Summarise(*this, flow_table, link_row);
}

} // namespace bbrgym
