// SPDX-License-Identifier: GPL-2.0-only
//
// A run on the caller's arrays, and its snapshots.
#ifndef BBRGYM_TWIN_SIMULATION_HPP
#define BBRGYM_TWIN_SIMULATION_HPP

#include "engine.hpp"

#include <memory>
#include <vector>

namespace bbrgym
{

/** A run at one moment, and what the caller's arrays held. */
struct Snapshot
{
    Engine engine;
    std::vector<double> tunables;
    std::vector<double> flow_stats;
    std::vector<double> link_stats;
};

class Simulation
{
  public:
    using Tables = Engine::Tables;

    /** Fills the tables, which must outlive it. ScenarioError: a flow runs what this world has not. */
    Simulation(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Tables& tables)
        : m_tables(tables)
    {
        m_engine.Reset(std::move(scenario), seed, m_tables);
    }

    void Advance(double duration_s) { m_engine.Advance(duration_s, m_tables); }
    double NowS() const { return static_cast<double>(m_engine.NowNs()) / 1e9; }
    bool Done() const { return m_engine.Done(); }
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const
    {
        m_engine.Summarise(flow_table, link_row);
    }
    void TraceAcks(std::size_t flow, std::size_t max_rows) { m_engine.TraceAcks(flow, max_rows); }
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const { return m_engine.AckTrace(flow); }

    Snapshot Save() const;
    /** Continues from a snapshot of a run with as many flows; std::invalid_argument otherwise. */
    void Restore(const Snapshot& snapshot);

    const Engine& GetEngine() const { return m_engine; }

  private:
    Engine m_engine;
    Tables m_tables;
};

} // namespace bbrgym

#endif
