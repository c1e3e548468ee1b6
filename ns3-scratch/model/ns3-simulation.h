// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario on ns-3, driven in control intervals.
//
//   sender 0 --delay--\                                  (each sender has its own delay)
//   sender 1 --delay----> router --bottleneck--> receiver
//      ^                                            |
//      +----------------- delay <-------------------+    (ACKs; the same way for all, the same delay as there)
//
// A scenario with a last hop has that radio between the bottleneck and the receiver, both ways (last-hop.h).
//
// ns-3 is one simulation per process. Every run begins from the same global state, so the same scenario and
// seed give the same numbers, whatever ran before in the process.
#ifndef BBRGYM_NS3_SIMULATION_H
#define BBRGYM_NS3_SIMULATION_H

#include "world.h"

#include "ack_record.hpp"
#include "packet_log.hpp"
#include "scenario.hpp"
#include "tables.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bbrgym
{

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
    Ns3Simulation(const Ns3Simulation&) = delete;
    Ns3Simulation& operator=(const Ns3Simulation&) = delete;

    // World
    const Scenario& GetScenario() const override;
    uint64_t Seed() const override;
    const Tables& GetTables() const override;
    void Advance(double duration_s) override;
    double NowS() const override;
    bool Done() const override;
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const override;

    /** Uses these tables from now on; they must hold what the former ones held. */
    void SetTables(const WorldTables& tables);

    /** Logs all packets and decisions from now on; std::invalid_argument: the run has begun. */
    void TracePackets();
    PacketLog& Log();

    /** Records the flow's next ACKs, up to so many; std::invalid_argument for one of ns-3's own controls. */
    void TraceAcks(std::size_t flow, std::size_t max_rows);
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const;

  private:
    class Network;
    std::unique_ptr<Network> m_network;
};

} // namespace bbrgym

#endif
