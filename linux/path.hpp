// SPDX-License-Identifier: GPL-2.0-only
//
// The network between senders and receivers in virtual time:
//
//   FromSender -> access delay -> [ bottleneck ] -> link delay -> ReachReceiver
//   ReachSender <- return delay <- [ link.reverse, if any ] <- gate of the ACKs <- FromReceiver
//
// In a scenario of several links, a packet takes those of its flow's path one after the other.
// It reads no clock and does no input or output: the host tells it the time, and is told what is due. Each packet's
// due time follows from those before it, not from when the host asks: a late host delays what it writes late and
// nothing else.
#ifndef BBRGYM_LINUX_PATH_HPP
#define BBRGYM_LINUX_PATH_HPP

#include "flow_tap.hpp"
#include "wire_packet.hpp"

#include "ack_gate.hpp"
#include "bottleneck.hpp"
#include "measurement.hpp"
#include "scenario.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <span>
#include <vector>

namespace bbrgym
{

/** What is told when it is due. */
class PathHost
{
  public:
    virtual ~PathHost() = default;
    virtual void ReachReceiver(const WirePacket& packet, int64_t due_ns) = 0;
    virtual void ReachSender(const WirePacket& packet, int64_t due_ns) = 0;
    /** The senders' state, read now: a measured window begins or ends. */
    virtual SenderState ReadSender(std::size_t flow) const = 0;
    virtual Punctuality ReadLateness() const = 0;
};

class Path
{
  public:
    Path(std::shared_ptr<const Scenario> scenario, uint64_t seed, PathHost& host);

    /** A packet of a flow leaves its sender, at the present or later. */
    void FromSender(const WirePacket& packet, int64_t now_ns);
    /** A packet of a flow leaves its receiver. */
    void FromReceiver(const WirePacket& packet, int64_t now_ns);

    /** Nothing is due before this time, whatever the hosts send meanwhile: the host may look again then. */
    int64_t NextLookNs() const;
    /** Handles all events up to this time, which is the present then. */
    void RunUntil(int64_t end_ns);

    /** Writes the rows of the interval that ends now. */
    void TakeInterval(std::span<double> flow_stats, std::span<double> link_stats);
    /** Writes the measurements from the warm-up's end to now. */
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const;

    int64_t NowNs() const { return m_now_ns; }

  private:
    /** Where a packet on its way arrives. */
    enum class Place : uint8_t
    {
        QUEUE,
        RECEIVER,
        SENDER
    };

    struct Due
    {
        int64_t time_ns;
        uint64_t order; ///< of those at the same time
        uint32_t slot;  ///< of m_packets
        Place place;
        uint32_t link; ///< whose queue

        bool operator>(const Due& other) const
        {
            return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
        }
    };

    /** A moment that the scenario fixes. */
    struct Moment
    {
        enum class Kind : uint8_t
        {
            WARMED_UP,
            CHANGE,
            STOP,
            START
        };

        int64_t time_ns;
        Kind kind;
        std::size_t index;        ///< of the flow, or the change's link
        const LinkChange* change; ///< null: the moment is not one
    };

    static constexpr uint32_t NONE = std::numeric_limits<uint32_t>::max();

    /** A link of the scenario. */
    struct Hop
    {
        Bottleneck<WirePacket> bottleneck;
        Measurement measurement;
        std::vector<uint32_t> next; ///< of each flow: the link behind this one; NONE: its path's end
    };

    /** A link as its measurement asks about it. */
    class View : public MeasuredWorld
    {
      public:
        View(const Path& path, const Hop& hop) : m_path(path), m_hop(hop) {}
        int64_t NowNs() const override { return m_path.m_now_ns; }
        double CapacityBytes() const override { return m_hop.bottleneck.CapacityBytes(NowNs()); }
        PartlySent InTransmission() const override { return m_hop.bottleneck.InTransmission(NowNs()); }
        double QueueByteNs() const override { return m_hop.bottleneck.QueueByteNs(NowNs()); }
        SenderState Sender(std::size_t flow) const override { return m_path.m_host.ReadSender(flow); }
        Punctuality Lateness() const override { return m_path.m_host.ReadLateness(); }

      private:
        const Path& m_path;
        const Hop& m_hop;
    };

    struct FlowState
    {
        int64_t access_ns = 0;
        int64_t return_ns = 0;
        FlowTap tap;
    };

    using DueQueue = std::priority_queue<Due, std::vector<Due>, std::greater<>>;

    void PrepareLinks(uint64_t seed);
    void PrepareScript();
    void FindShortestDelay();
    int64_t NextMomentNs() const;
    int64_t NextInsideNs() const;
    int64_t NextDueNs() const;
    int64_t NextNs() const;
    void Send(const WirePacket& packet, int64_t time_ns, Place place, uint32_t link = NONE);
    void Step(int64_t time_ns);
    void Serve(Hop& hop);
    template <class Call> void OnPath(std::size_t flow, Call&& call);
    void ReachQueue();
    void ReachHost();
    WirePacket Taken(DueQueue& packets);
    void PutOnReturnPath(const WirePacket& packet, int64_t now_ns);
    void Act(const Moment& moment);

    std::shared_ptr<const Scenario> m_scenario;
    PathHost& m_host;
    int64_t m_now_ns = 0;
    uint64_t m_next_order = 0;
    std::vector<Hop> m_hops; ///< by Scenario::LinkAt
    AckGate<WirePacket> m_gate;
    DueQueue m_to_queue;
    DueQueue m_to_hosts;
    int64_t m_shortest_ns = 0;         ///< from what happens inside to what is due at a host
    std::vector<WirePacket> m_packets; ///< on their way, by slot
    std::vector<uint32_t> m_free_slots;
    std::vector<Moment> m_script; ///< ascending
    std::size_t m_script_at = 0;
    std::vector<FlowState> m_flows;
};

} // namespace bbrgym

#endif
