// SPDX-License-Identifier: GPL-2.0-only
#include "simulation.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace bbrgym
{

Snapshot
Simulation::Save() const
{
    return {m_engine,
            {m_tables.tunables.begin(), m_tables.tunables.end()},
            {m_tables.flow_stats.begin(), m_tables.flow_stats.end()},
            {m_tables.link_stats.begin(), m_tables.link_stats.end()}};
}

void
Simulation::Restore(const Snapshot& snapshot)
{
    const std::size_t flows = m_engine.GetScenario().flows.size();
    const std::size_t saved_flows = snapshot.engine.GetScenario().flows.size();
    if (flows != saved_flows)
    {
        throw std::invalid_argument("restore: the snapshot has " + std::to_string(saved_flows) +
                                    " flows, expected as many as here, " + std::to_string(flows));
    }
    m_engine = snapshot.engine;
    std::ranges::copy(snapshot.tunables, m_tables.tunables.begin());
    std::ranges::copy(snapshot.flow_stats, m_tables.flow_stats.begin());
    std::ranges::copy(snapshot.link_stats, m_tables.link_stats.begin());
}

} // namespace bbrgym
