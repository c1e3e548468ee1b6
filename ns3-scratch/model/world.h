// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario as whoever drives it sees it: tunables in, the rows of fields.def out, every control interval.
#ifndef BBRGYM_WORLD_H
#define BBRGYM_WORLD_H

#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"
#include "tables.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace bbrgym
{

class World
{
  public:
    using Tables = WorldTables;

    virtual ~World() = default;

    virtual const Scenario& GetScenario() const = 0;
    virtual uint64_t Seed() const = 0;
    virtual const Tables& GetTables() const = 0;

    /**
     * Applies changed tunables, runs, at most to the scenario's end, and writes the stats of that time; of 0 s those of
     * an empty interval.
     * Throws std::invalid_argument on a tunable out of its range; nothing runs then.
     */
    virtual void Advance(double duration_s) = 0;
    virtual double NowS() const = 0;
    /** Whether the scenario's end is reached. */
    virtual bool Done() const = 0;

    /** Fills [flows, FLOW_SUMMARY] and [LINK_SUMMARY], measured from the warm-up's end to now. */
    virtual void Summarise(std::span<double> flow_table, std::span<double> link_row) const = 0;
};

/** Tables with memory of their own. */
class OwnTables
{
  public:
    explicit OwnTables(std::size_t flows)
        : m_tunables(flows * Tunables().size()),
          m_flow_stats(flows * std::size(FLOW_STAT_FIELDS)),
          m_link_stats(std::size(LINK_STAT_FIELDS)),
          m_tables{m_tunables, m_flow_stats, m_link_stats}
    {
    }
    OwnTables(const OwnTables&) = delete;
    OwnTables& operator=(const OwnTables&) = delete;

    const World::Tables& Get() const { return m_tables; }

  private:
    std::vector<double> m_tunables;
    std::vector<double> m_flow_stats;
    std::vector<double> m_link_stats;
    World::Tables m_tables;
};

} // namespace bbrgym

#endif
