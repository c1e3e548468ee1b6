// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario as whoever drives it sees it: tunables in, the rows of fields.def out, every control interval.
#ifndef BBRGYM_WORLD_H
#define BBRGYM_WORLD_H

#include "flow-senders.h"
#include "run-control.h"

#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"
#include "tables.hpp"

#include "ns3/simulator.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bbrgym
{

class World
{
  public:
    using Tables = WorldTables;

    World(const World&) = delete;
    World& operator=(const World&) = delete;
    virtual ~World() = default;

    const Scenario& GetScenario() const { return *m_scenario; }
    uint64_t Seed() const { return m_seed; }
    const Tables& GetTables() const { return m_tables; }
    /** Uses these tables from now on; they must hold what the former ones held. */
    void SetTables(const Tables& tables) { m_tables = tables; }
    double NowS() const { return static_cast<double>(ns3::Simulator::Now().GetNanoSeconds()) / 1e9; }
    /** Whether the scenario's end is reached. */
    bool Done() const { return ns3::Simulator::Now().GetNanoSeconds() >= m_scenario->duration_ns; }

    /**
     * Applies changed tunables, runs, at most to the scenario's end, and writes the stats of that time; of 0 s those of
     * an empty interval.
     * Throws std::invalid_argument on a tunable out of its range; nothing runs then.
     */
    virtual void Advance(double duration_s) = 0;

    /** Fills [flows, FLOW_SUMMARY] and [LINK_SUMMARY], measured from the warm-up's end to now. */
    virtual void Summarise(std::span<double> flow_table, std::span<double> link_row) const = 0;

  protected:
    /** Throws std::runtime_error while another world is alive; the rest is as for FlowSenders. */
    World(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Tables& tables, bool peers_follow)
        : m_scenario(Drawn(std::move(scenario), seed)),
          m_seed(seed),
          m_tables(tables),
          m_simulator(seed),
          m_senders(*m_scenario, seed, peers_follow)
    {}

    void RunSimulator(double duration_s)
    {
        m_senders.ApplyTunables(m_tables.tunables);
        AdvanceSimulator(duration_s, m_scenario->duration_ns);
    }

    const std::shared_ptr<const Scenario> m_scenario;
    const uint64_t m_seed;
    Tables m_tables;
    SimulatorLease m_simulator; ///< to be ended first: it still calls into what a world has
    FlowSenders m_senders;
};

/** Tables with memory of their own. */
class OwnTables
{
  public:
    explicit OwnTables(std::size_t flows)
        : m_tunables(flows * Tunables().size()),
          m_flow_stats(flows * std::size(FLOW_STAT_FIELDS)),
          m_link_stats(std::size(LINK_STAT_FIELDS))
    {}

    WorldTables Get() { return {m_tunables, m_flow_stats, m_link_stats}; }

  private:
    std::vector<double> m_tunables;
    std::vector<double> m_flow_stats;
    std::vector<double> m_link_stats;
};

} // namespace bbrgym

#endif
