// SPDX-License-Identifier: GPL-2.0-only
#include "vector.hpp"

#include "params.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace bbrgym
{

VectorSimulation::VectorSimulation(std::size_t flow_capacity, std::size_t threads, const Tables& tables)
    : m_flow_capacity(flow_capacity),
      m_tables(tables),
      m_pool(threads)
{
    for (std::size_t i = 0; i < tables.now_s.size(); ++i)
    {
        m_slots.push_back(std::make_unique<Slot>());
    }
}

Engine::Tables
VectorSimulation::TablesOf(std::size_t index, std::size_t flows) const
{
    const std::size_t tunables = Tunables().size();
    constexpr std::size_t fields = std::size(FLOW_STAT_FIELDS);
    constexpr std::size_t link_fields = std::size(LINK_STAT_FIELDS);
    return {m_tables.tunables.subspan(index * m_flow_capacity * tunables, flows * tunables),
            m_tables.flow_stats.subspan(index * m_flow_capacity * fields, flows * fields),
            m_tables.link_stats.subspan(index * link_fields, link_fields)};
}

void
VectorSimulation::Reset(std::size_t index, std::shared_ptr<const Scenario> scenario, uint64_t seed)
{
    if (scenario->flows.size() > m_flow_capacity)
    {
        throw std::invalid_argument("scenario '" + scenario->name + "' has " + std::to_string(scenario->flows.size()) +
                                    " flows, expected at most " + std::to_string(m_flow_capacity));
    }
    Begin(index, std::move(scenario), seed);
}

void
VectorSimulation::Reset(std::size_t index, uint64_t seed)
{
    World(index); // there must be one
    Begin(index, m_slots[index]->engine.SharedScenario(), seed);
}

void
VectorSimulation::Begin(std::size_t index, std::shared_ptr<const Scenario> scenario, uint64_t seed)
{
    Slot& slot = *m_slots.at(index);
    slot.is_running = false;
    const Engine::Tables all = TablesOf(index, m_flow_capacity);
    std::ranges::fill(all.tunables, std::numeric_limits<double>::quiet_NaN());
    std::ranges::fill(all.flow_stats, std::numeric_limits<double>::quiet_NaN());
    const Engine::Tables tables = TablesOf(index, scenario->flows.size());
    slot.engine.Reset(std::move(scenario), seed, tables);
    slot.is_running = true;
    ShowTime(index);
}

void
VectorSimulation::Advance(double duration_s, std::span<const uint8_t> mask)
{
    m_pool.ForEach(Worlds(), [this, duration_s, mask](std::size_t index) {
        Slot& slot = *m_slots[index];
        if (mask[index] == 0)
        {
            return;
        }
        World(index); // it must run
        slot.engine.Advance(duration_s, TablesOf(index, slot.engine.GetScenario().flows.size()));
        ShowTime(index);
    });
}

const Engine&
VectorSimulation::World(std::size_t index) const
{
    if (!m_slots.at(index)->is_running)
    {
        throw std::logic_error("world " + std::to_string(index) + " does not run: reset it first");
    }
    return m_slots[index]->engine;
}

Snapshot
VectorSimulation::Save(std::size_t index) const
{
    const Engine& engine = World(index);
    const Engine::Tables tables = TablesOf(index, engine.GetScenario().flows.size());
    return {engine,
            {tables.tunables.begin(), tables.tunables.end()},
            {tables.flow_stats.begin(), tables.flow_stats.end()},
            {tables.link_stats.begin(), tables.link_stats.end()}};
}

void
VectorSimulation::Restore(std::size_t index, const Snapshot& snapshot)
{
    const std::size_t flows = snapshot.engine.GetScenario().flows.size();
    if (flows > m_flow_capacity)
    {
        throw std::invalid_argument("restore: the snapshot has " + std::to_string(flows) + " flows, expected at most " +
                                    std::to_string(m_flow_capacity));
    }
    Slot& slot = *m_slots.at(index);
    const Engine::Tables all = TablesOf(index, m_flow_capacity);
    std::ranges::fill(all.tunables, std::numeric_limits<double>::quiet_NaN());
    std::ranges::fill(all.flow_stats, std::numeric_limits<double>::quiet_NaN());
    const Engine::Tables tables = TablesOf(index, flows);
    slot.engine = snapshot.engine;
    std::ranges::copy(snapshot.tunables, tables.tunables.begin());
    std::ranges::copy(snapshot.flow_stats, tables.flow_stats.begin());
    std::ranges::copy(snapshot.link_stats, tables.link_stats.begin());
    slot.is_running = true;
    ShowTime(index);
}

void
VectorSimulation::ShowTime(std::size_t index)
{
    m_tables.now_s[index] = static_cast<double>(m_slots[index]->engine.NowNs()) / 1e9;
    m_tables.done[index] = m_slots[index]->engine.Done();
}

} // namespace bbrgym
