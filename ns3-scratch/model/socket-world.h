// SPDX-License-Identifier: GPL-2.0-only
//
// A network of your own as a world: build any topology with ns-3's own helpers, name its bottlenecks, hand over the
// sending sockets of the scenario's flows, and report what their receivers read.
//
//   SocketWorld world(scenario, seed);                          // first, since it sets ns-3's random streams
//   const auto queue = world.AddBottleneck(queue_disc, rate);   // for each link that may be one
//   auto socket = world.CreateSender(flow, node, {queue});      // or AdoptSender(): then bind, connect and write
//   world.Received(flow, bytes);                                // whenever its receiver reads
//
// Of the scenario the world itself uses name, duration, warm-up, MSS and, for each flow, start, stop, congestion
// control and tunables. Link, RTTs and applications are the network's; it reads them from GetScenario() as far as it
// wants.
//
// Each bottleneck is measured with the flows that cross it. The row of a flow is that of the bottleneck where its fair
// share (capacity / active flows) is the smallest, with the waits and drops of the flow's other bottlenecks added; its
// throughput is that of the last one on its path. The row of the link is that of the first bottleneck added.
// Packets that belong to no flow, and losses outside the queues, are not measured.
#ifndef BBRGYM_SOCKET_WORLD_H
#define BBRGYM_SOCKET_WORLD_H

#include "world.h"

#include "ns3/data-rate.h"
#include "ns3/node.h"
#include "ns3/queue-disc.h"
#include "ns3/sequence-number.h"
#include "ns3/tcp-header.h"
#include "ns3/tcp-socket.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace bbrgym
{

class MeasuredQueue;

class SocketWorld : private OwnTables, public World
{
  public:
    /** Index of a bottleneck, from 0. */
    using Bottleneck = std::size_t;

    /** Throws ScenarioError on an unknown congestion control, std::runtime_error while another world is alive. */
    SocketWorld(const std::shared_ptr<const Scenario>& scenario, uint64_t seed);
    ~SocketWorld() override;

    /** Measures the queue of a link with a constant rate. The queue of the device behind it should hold one packet. */
    Bottleneck AddBottleneck(ns3::Ptr<ns3::QueueDisc> queue, ns3::DataRate rate);

    /**
     * Creates the sending socket of a flow, with the scenario's congestion control and MSS, and takes it.
     * `path` lists the bottlenecks that the flow's data cross, in their order.
     */
    ns3::Ptr<ns3::TcpSocket> CreateSender(std::size_t flow, ns3::Ptr<ns3::Node> node, std::vector<Bottleneck> path);

    /**
     * Takes a socket that was created elsewhere for the flow's sender, before it connects: a TcpLinuxSocket for one of
     * our algorithms, else one that runs the flow's congestion control. Throws std::invalid_argument for another.
     */
    void AdoptSender(std::size_t flow, ns3::Ptr<ns3::TcpSocket> socket, std::vector<Bottleneck> path);

    /** Counts bytes of a flow that its receiver has read. */
    void Received(std::size_t flow, uint32_t bytes);

    // World. The first call of Advance() throws std::logic_error if a flow has no sender.
    void Advance(double duration_s) override;
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const override;

  private:
    /** Both ends of a connection, address and port, from sender to receiver. */
    using Endpoints = std::array<uint32_t, 4>;
    friend class MeasuredQueue;

    struct FlowEnd
    {
        ns3::Ptr<ns3::TcpSocket> socket;
        std::vector<Bottleneck> path;
        ns3::SequenceNumber32 sent_until{0}; ///< of payload; 0: nothing yet
        bool has_sent = false;
    };

    template <typename Event> void OnPath(std::size_t flow, Event&& event);
    void ScheduleMoments();
    void NoteSegment(std::size_t flow, ns3::Ptr<const ns3::Packet> payload, const ns3::TcpHeader& header);
    std::optional<std::size_t> FlowBetween(const Endpoints& endpoints);
    void RefuseUnlessComplete() const;
    void TakeInterval();

    std::vector<FlowEnd> m_flows;
    std::vector<std::unique_ptr<MeasuredQueue>> m_bottlenecks;
    std::map<Endpoints, std::optional<std::size_t>> m_flow_between;
};

} // namespace bbrgym

#endif
