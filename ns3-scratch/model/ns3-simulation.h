// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario on ns-3, driven in control intervals.
//
//   sender 0 --delay--\                                  (each sender has its own delay)
//   sender 1 --delay----> router --bottleneck--> receiver
//      ^                                            |
//      +----------------- delay <-------------------+    (ACKs; the same way for all, the same delay as there)
//
// A scenario with a last hop has that radio between the bottleneck and the receiver, both ways (last-hop.h). With a
// reverse link ACKs take a second bottleneck, by which flows of that direction send to a receiver at the other side;
// with several links data and ACKs of each flow take those that it names.
//
// ns-3 is one simulation per process. Every run begins from the same global state, so the same scenario and
// seed give the same numbers, whatever ran before in the process.
#ifndef BBRGYM_NS3_SIMULATION_H
#define BBRGYM_NS3_SIMULATION_H

#include "world.h"

#include "ack_record.hpp"
#include "measurement.hpp"
#include "packet_log.hpp"
#include "path_rows.hpp"
#include "scenario.hpp"
#include "tables.hpp"

#include "ns3/node.h"
#include "ns3/ptr.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ns3
{
class BottleneckDevice;
class DelayDevice;
class LinkDevice;
class PacketTap;
} // namespace ns3

namespace bbrgym
{

class RadioHop;

/** A link, and the measurement of what crosses it. */
class MeasuredLink : public MeasuredWorld
{
  public:
    MeasuredLink(const Scenario& scenario, std::size_t link, uint64_t run_seed, const FlowSenders& senders,
                 const FairShares& fair_shares);
    ~MeasuredLink() override;

    const ns3::Ptr<ns3::BottleneckDevice>& Device() const { return m_device; }
    Measurement& Get() { return m_measurement; }
    const Measurement& Get() const { return m_measurement; }

    // MeasuredWorld
    int64_t NowNs() const override;
    double CapacityBytes() const override;
    PartlySent InTransmission() const override;
    double QueueByteNs() const override;
    SenderState Sender(std::size_t flow) const override { return m_senders.Of(flow).State(); }
    double FairShareBytes(std::size_t flow) const override { return m_fair_shares.Bytes(flow); }

  private:
    const FlowSenders& m_senders;
    const FairShares& m_fair_shares;
    Measurement m_measurement;
    ns3::Ptr<ns3::BottleneckDevice> m_device;
};

class Ns3Simulation : public World
{
  public:
    /**
     * Builds the network, fills `tunables` with each flow's initial values (NaN where the flow does not
     * have the tunable) and the stats with those of an empty interval.
     * Throws std::runtime_error while another simulation is alive, std::invalid_argument on a bad scenario.
     */
    Ns3Simulation(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables);
    ~Ns3Simulation() override;

    // World
    void Advance(double duration_s) override;
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const override;

    /** What is measured of the links: [links, LINK_STAT + LINK_SUMMARY]. */
    std::vector<double> LinkRows() const { return LinkRowsOf(*this, m_rows); }

    /** Logs all packets and decisions from now on; std::invalid_argument: the run has begun. */
    void TracePackets();
    PacketLog& Log() { return m_links.front()->Get().Log(); }

    /** Records the flow's next ACKs, up to so many; std::invalid_argument for one of ns-3's own controls. */
    void TraceAcks(std::size_t flow, std::size_t max_rows) { m_senders.OursOf(flow).TraceAcks(max_rows); }
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const { return m_senders.OursOf(flow).AckTrace(); }

  private:
    /** The host of all receivers of a direction; their packets leave by `out`. */
    struct Receivers
    {
        uint32_t address;
        ns3::Ptr<ns3::DelayDevice> out;
        ns3::Ptr<ns3::Node> node;
    };

    void MakePath();
    ns3::Ptr<ns3::Node> MakeStation(const LastHop& spec);
    void AddFlow(std::size_t flow);
    void Connect(std::size_t flow, const Receivers& receivers, ns3::Ptr<ns3::DelayDevice> access);
    void ScheduleChanges();
    void TakeInterval();
    void AccrueFairShares() const;
    void SetActive(std::size_t flow, bool is_active);
    bool HasReverse() const { return m_scenario->Links() == 2 && m_scenario->link.name == "link"; }
    template <typename Event> void OnPath(std::size_t flow, Event&& event);

    std::vector<std::unique_ptr<MeasuredLink>> m_links;
    NetworkRows m_rows;
    mutable FairShares m_fair_shares; ///< a summary counts the time until now for itself
    Receivers m_forward;
    Receivers m_reverse;
    std::unique_ptr<RadioHop> m_last_hop;            ///< null: the receiver is wired
    std::vector<ns3::Ptr<ns3::LinkDevice>> m_access; ///< of each sender
    ns3::Ptr<ns3::LinkDevice> m_end;                 ///< the receiver's
    std::unique_ptr<ns3::PacketTap> m_tap;           ///< null: the packets are not logged
    bool m_has_begun = false;
};

} // namespace bbrgym

#endif
