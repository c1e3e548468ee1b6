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
constexpr uint32_t REVERSE_ADDRESS = 0x0a000101;  // 10.0.1.1: the receiver of the other direction
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
    SocketSettings settings{scenario.mss_bytes,          ample_bytes, ample_bytes,
                            UsefulWindowBytes(scenario), facts.ecn,   flow.read_bps};
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

// ---- a link -----------------------------------------------------------------------------------------------

MeasuredLink::MeasuredLink(const Scenario& scenario, std::size_t link, uint64_t run_seed, const FlowSenders& senders,
                           const FairShares& fair_shares)
    : m_senders(senders),
      m_fair_shares(fair_shares),
      m_measurement(scenario),
      m_device(CreateObject<BottleneckDevice>(scenario, link, run_seed, FIRST_PORT, m_measurement))
{}

MeasuredLink::~MeasuredLink() = default;

int64_t
MeasuredLink::NowNs() const
{
    return bbrgym::NowNs();
}

double
MeasuredLink::CapacityBytes() const
{
    return m_device->Get().CapacityBytes(NowNs());
}

PartlySent
MeasuredLink::InTransmission() const
{
    return m_device->Get().InTransmission(NowNs());
}

double
MeasuredLink::QueueByteNs() const
{
    return m_device->Get().QueueByteNs(NowNs());
}

// ---- the network ----------------------------------------------------------------------------------------

Ns3Simulation::Ns3Simulation(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables)
    : World(std::move(scenario), seed, tables, true)
{
    m_rows.Reset(*m_scenario);
    m_fair_shares.Reset(*m_scenario);
    MakePath();
    for (std::size_t flow = 0; flow < m_scenario->flows.size(); ++flow)
    {
        AddFlow(flow);
    }
    ScheduleChanges();
    m_senders.WriteTunables(m_tables.tunables);
    TakeInterval();
}

Ns3Simulation::~Ns3Simulation()
{
    m_simulator.End();
}

/** Routers and receivers, and what is between them. */
void
Ns3Simulation::MakePath()
{
    for (std::size_t index = 0; index <= m_scenario->further_links.size(); ++index)
    {
        m_links.push_back(std::make_unique<MeasuredLink>(*m_scenario, index, m_seed, m_senders, m_fair_shares));
        CreateObject<Node>()->AddDevice(m_links.back()->Device());
    }
    m_forward = {RECEIVER_ADDRESS, CreateObject<DelayDevice>(), nullptr};
    m_forward.out->SetGate(m_scenario->link.acks);
    m_forward.node = m_scenario->link.last_hop ? MakeStation(*m_scenario->link.last_hop)
                                               : MakeHost(Ipv4Address(RECEIVER_ADDRESS), m_forward.out);
    if (!m_end)
    {
        m_end = m_forward.out;
    }
    if (HasReverse())
    {
        m_reverse = {REVERSE_ADDRESS, CreateObject<DelayDevice>(), nullptr};
        m_reverse.node = MakeHost(Ipv4Address(REVERSE_ADDRESS), m_reverse.out);
    }
}

/** The receiver behind a radio hop, at the other end of which the wired devices are. */
Ptr<Node>
Ns3Simulation::MakeStation(const LastHop& spec)
{
    auto access_point = CreateObject<Node>();
    access_point->AddDevice(m_forward.out);
    auto station = CreateObject<StationDevice>();
    m_last_hop = MakeRadioHop(
        spec, {[station](Ptr<Packet> packet) { station->ReceiveFromRadio(packet); },
               [to = m_forward.out](Ptr<Packet> packet) { to->Send(packet, Address(), Ipv4L3Protocol::PROT_NUMBER); }});
    RadioHop* hop = m_last_hop.get();
    m_end = station;
    station->SetUplink([hop](Ptr<Packet> packet) { hop->Up(packet); });
    m_forward.out->SetReceiver([hop](Ptr<Packet> packet) { hop->Down(packet); });
    return MakeHost(Ipv4Address(RECEIVER_ADDRESS), station);
}

void
Ns3Simulation::AddFlow(std::size_t flow)
{
    const Flow& spec = m_scenario->flows[flow];
    const auto index = static_cast<uint32_t>(flow);
    const auto port = static_cast<uint16_t>(FIRST_PORT + index);
    const Ipv4Address address(SENDER_ADDRESS + index);
    const Receivers& receivers = HasReverse() && spec.there.front() == 1 ? m_reverse : m_forward;
    const Ipv4Address receiver(receivers.address);
    const SocketSettings settings = SettingsFor(*m_scenario, spec);

    auto access = CreateObject<DelayDevice>();
    const Ptr<Node> node = MakeHost(address, access);
    Connect(flow, receivers, access);
    m_access.push_back(access);

    const FlowApplication::Observer observer{
        [this, flow] {
            SetActive(flow, true);
            OnPath(flow, [flow](MeasuredLink& link) { link.Get().FlowStarted(flow, link); });
        },
        [this, flow] {
            SetActive(flow, false);
            OnPath(flow, [flow](MeasuredLink& link) { link.Get().FlowStopped(flow, link); });
        },
        [this, flow](bool is_retransmission) {
            OnPath(flow, [=](MeasuredLink& link) { link.Get().Sent(flow, is_retransmission); });
        },
        [this, flow](int64_t rtt_ns) { OnPath(flow, [=](MeasuredLink& link) { link.Get().RttSample(flow, rtt_ns); }); },
        [this, flow](uint64_t end_bytes, bool is_whole) {
            OnPath(flow,
                   [=](MeasuredLink& link) { link.Get().FrameWritten(flow, end_bytes, is_whole, bbrgym::NowNs()); });
        }};
    auto application = CreateObject<FlowApplication>(spec, m_seed, m_senders.Of(flow), settings,
                                                     InetSocketAddress(receiver, port), observer);
    application->SetStartTime(NanoSeconds(spec.start_ns));
    application->SetStopTime(NanoSeconds(spec.stop_ns));
    node->AddApplication(application);
    access->SetObserver(
        [application = PeekPointer(application)](const SegmentView& segment) { application->NoteSegment(segment); });
    const bool is_linux = FindVariant(spec.cc) && !HasNs3Receiver(spec.stack.socket);
    const auto facts = is_linux ? std::optional(spec.stack.socket) : std::nullopt;
    const auto readable = [this, flow](uint32_t bytes) {
        OnPath(flow, [=, this](MeasuredLink& link) {
            if (link.Get().Readable(flow, bytes, bbrgym::NowNs()))
            {
                SetActive(flow, false);
                link.Get().FlowCompleted(flow, link);
            }
        });
    };
    receivers.node->AddApplication(
        CreateObject<FlowSink>(InetSocketAddress(receiver, port), settings, facts, readable));
}

/** Leads a flow's packets over their links, there and back. */
void
Ns3Simulation::Connect(std::size_t flow, const Receivers& receivers, Ptr<DelayDevice> access)
{
    const Flow& spec = m_scenario->flows[flow];
    const PathDelays delays = PathDelaysOf(spec, *m_scenario);
    const Ipv4Address sender(SENDER_ADDRESS + static_cast<uint32_t>(flow));
    const auto device = [this](uint32_t index) { return m_links[index]->Device(); };
    for (const std::vector<uint32_t>* path : {&spec.there, &spec.back})
    {
        for (std::size_t i = 1; i < path->size(); ++i)
        {
            device((*path)[i - 1])->LeadToQueue(flow, device((*path)[i]));
        }
    }
    access->AddPath(Ipv4Address(receivers.address), device(spec.there.front()), NanoSeconds(delays.access_ns));
    device(spec.there.back())->LeadToReceiver(flow, receivers.out);
    if (spec.back.empty())
    {
        receivers.out->AddPath(sender, access, NanoSeconds(delays.return_ns));
        return;
    }
    receivers.out->AddQueue(sender, device(spec.back.front()));
    device(spec.back.back())->LeadFurther(flow, access, NanoSeconds(delays.return_ns));
}

/** At the links that a flow's data cross. */
template <typename Event>
void
Ns3Simulation::OnPath(std::size_t flow, Event&& event)
{
    for (const uint32_t index : m_scenario->flows[flow].there)
    {
        event(*m_links[index]);
    }
}

/** Call before who is active changes, or a link. */
void
Ns3Simulation::AccrueFairShares() const
{
    if (m_fair_shares.IsOn())
    {
        m_fair_shares.Accrue([this](std::size_t link) { return m_links[link]->CapacityBytes(); });
    }
}

void
Ns3Simulation::SetActive(std::size_t flow, bool is_active)
{
    if (m_fair_shares.IsOn())
    {
        AccrueFairShares();
        m_fair_shares.SetActive(flow, is_active);
    }
}

void
Ns3Simulation::ScheduleChanges()
{
    Simulator::Schedule(NanoSeconds(m_scenario->warmup_ns), [this] {
        AccrueFairShares();
        for (const auto& link : m_links)
        {
            link->Get().WarmedUp(*link);
        }
    });
    for (std::size_t index = 0; index < m_links.size(); ++index)
    {
        for (const LinkChange& change : m_scenario->LinkAt(index).changes)
        {
            Simulator::Schedule(NanoSeconds(change.at_ns), [this, device = m_links[index]->Device(), &change] {
                AccrueFairShares();
                device->Change(change);
            });
        }
    }
}

void
Ns3Simulation::TracePackets()
{
    if (m_has_begun)
    {
        throw std::invalid_argument("the packets are traced from a run's beginning on: ask before its first advance");
    }
    if (m_links.size() > 1)
    {
        throw std::invalid_argument("the packets of a scenario of several links cannot be traced");
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
    TakeInterval();
}

void
Ns3Simulation::TakeInterval()
{
    const auto take = [this](std::size_t index, std::span<double> flow_rows, std::span<double> link_row) {
        m_links[index]->Get().TakeInterval(*m_links[index], flow_rows, link_row);
    };
    m_rows.TakeInterval(*m_scenario, m_fair_shares, take, m_tables.flow_stats, m_tables.link_stats);
}

void
Ns3Simulation::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    const FairShares before = m_fair_shares;
    AccrueFairShares();
    const auto summarise = [this](std::size_t index, std::span<double> flow_rows, std::span<double> row) {
        m_links[index]->Get().Summarise(*m_links[index], flow_rows, row);
    };
    SummariseNetwork(*m_scenario, summarise, flow_table, link_row);
    m_fair_shares = before;
}

} // namespace bbrgym
