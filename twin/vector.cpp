// SPDX-License-Identifier: GPL-2.0-only
#include "vector.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace bbrgym
{

TwinVector::TwinVector(std::size_t worlds, std::size_t threads) : m_pool(threads)
{
    for (std::size_t i = 0; i < worlds; ++i)
    {
        m_slots.push_back(std::make_unique<Slot>());
    }
}

void
TwinVector::Reset(std::size_t world, std::shared_ptr<const Scenario> scenario, uint64_t seed)
{
    Slot& slot = *m_slots.at(world);
    const WorldTables rows = m_tables.Begin(world, scenario->flows.size(), "scenario '" + scenario->name + "'");
    slot.is_running = false;
    slot.policy.reset();
    if (m_policy)
    {
        slot.policy.emplace(m_policy, *scenario);
    }
    slot.engine.Reset(std::move(scenario), seed, rows);
    slot.history.clear();
    slot.tunables.assign(rows.tunables.begin(), rows.tunables.end());
    slot.is_running = true;
    WriteTime(world);
}

void
TwinVector::Advance(std::span<const double> durations_s, StopCheck& stop)
{
    const auto advance = [this, durations_s, &stop](std::size_t world) {
        if (durations_s[world] >= 0.0)
        {
            AdvanceOne(world, durations_s[world], stop);
        }
    };
    for (std::size_t world = 0; world < m_slots.size(); ++world)
    {
        if (durations_s[world] >= 0.0 && m_slots[world]->engine.HasOwnPlugins()) [[unlikely]]
        {
            run_own(m_slots.size(), advance);
            return;
        }
    }
    m_pool.ForEach(m_slots.size(), advance, [&stop] { stop.ShouldStop(); });
}

void
TwinVector::AdvanceOne(std::size_t world, double duration_s, StopCheck& stop)
{
    Engine& engine = World(world);
    Slot& slot = *m_slots[world];
    const std::size_t noted = slot.history.size();
    try
    {
        if (stop.IsRequested())
        {
            throw Stopped();
        }
        const WorldTables rows = m_tables.Of(world, engine.GetScenario().flows.size());
        const auto advance = [&engine, &rows, &stop](double seconds) { engine.Advance(seconds, rows, &stop); };
        Note(slot, duration_s, rows.tunables);
        if (auto& policy = slot.policy)
        {
            policy->Run(duration_s, engine.GetScenario().duration_ns, rows, advance,
                        [&engine] { return engine.NowNs(); });
        }
        else
        {
            advance(duration_s);
        }
        slot.tunables.assign(rows.tunables.begin(), rows.tunables.end());
    }
    catch (const Stopped&)
    {
        slot.is_running = false;
        WriteTime(world);
        throw Stopped(world);
    }
    catch (...) // a tunable out of its range: it has not run
    {
        slot.history.resize(noted);
        throw;
    }
    WriteTime(world);
}

void
TwinVector::Note(Slot& slot, double duration_s, std::span<const double> tunables)
{
    const std::size_t count_at = slot.history.size() + 1;
    slot.history.insert(slot.history.end(), {duration_s, 0.0});
    for (std::size_t i = 0; i < tunables.size(); ++i)
    {
        if (std::memcmp(&tunables[i], &slot.tunables[i], sizeof(double)) != 0)
        {
            slot.history.insert(slot.history.end(), {static_cast<double>(i), tunables[i]});
            slot.history[count_at] += 1.0;
        }
    }
}

const Engine&
TwinVector::World(std::size_t world) const
{
    if (!m_slots.at(world)->is_running)
    {
        throw std::logic_error("world " + std::to_string(world) + " does not run: reset it first");
    }
    return m_slots[world]->engine;
}

Snapshot
TwinVector::Save(std::size_t world) const
{
    const Engine& engine = World(world);
    if (engine.HasExternals())
    {
        throw std::invalid_argument("a run with flows of quic cannot be saved: only their stacks have their state");
    }
    const WorldTables rows = m_tables.Of(world, engine.GetScenario().flows.size());
    Snapshot snapshot{engine,
                      m_slots[world]->history,
                      {rows.tunables.begin(), rows.tunables.end()},
                      {rows.flow_stats.begin(), rows.flow_stats.end()},
                      {rows.link_stats.begin(), rows.link_stats.end()},
                      m_slots[world]->policy};
    snapshot.engine.CopyOwnPlugins();
    return snapshot;
}

void
TwinVector::Restore(std::size_t world, const Snapshot& snapshot)
{
    Slot& slot = *m_slots.at(world);
    const WorldTables rows = m_tables.Begin(world, snapshot.engine.GetScenario().flows.size(), "restore: the snapshot");
    slot.is_running = false;
    slot.engine = snapshot.engine;
    slot.engine.CopyOwnPlugins();
    slot.policy = snapshot.policy;
    slot.history = snapshot.history;
    slot.tunables = snapshot.tunables;
    std::ranges::copy(snapshot.tunables, rows.tunables.begin());
    std::ranges::copy(snapshot.flow_stats, rows.flow_stats.begin());
    std::ranges::copy(snapshot.link_stats, rows.link_stats.begin());
    slot.is_running = true;
    WriteTime(world);
}

void
TwinVector::WriteTime(std::size_t world)
{
    const Engine& engine = m_slots[world]->engine;
    m_tables.WriteTime(world, static_cast<double>(engine.NowNs()) / 1e9, engine.Done());
}

} // namespace bbrgym
