// SPDX-License-Identifier: GPL-2.0-only
#include "run.h"

#include "params.hpp"

#include <cmath>

namespace bbrgym
{

namespace
{

constexpr std::size_t FIELDS = std::size(FLOW_STAT_FIELDS);

/** A flow's tunables that the action sets. */
std::vector<double>
ValuesOf(const ActionSpec& spec, const std::vector<double>& tunables, std::size_t flow)
{
    std::vector<double> values;
    for (const Coordinate& coordinate : spec.coordinates)
    {
        values.push_back(tunables[flow * Tunables().size() + coordinate.column]);
    }
    return values;
}

} // namespace

TuneRun::TuneRun(const Task& task, uint64_t seed)
    : m_task(task),
      m_tunables(task.scenario->flows.size() * Tunables().size()),
      m_flow_stats(task.scenario->flows.size() * FIELDS),
      m_link_stats(std::size(LINK_STAT_FIELDS)),
      m_simulation(task.scenario, seed, {m_tunables, m_flow_stats, m_link_stats}),
      m_setting(SettingOf(task.action, ValuesOf(task.action, m_tunables, task.learners.front().flow)))
{
    m_stack.emplace(task.observation, Slots(), task.learners.size(), m_setting.coordinates);
    if (task.reward.horizon_s)
    {
        m_averages.emplace(*task.reward.horizon_s, task.interval_s, task.learners.size());
    }
}

void
TuneRun::Step(std::span<const float> action)
{
    const std::vector<float> before = m_setting.coordinates;
    m_setting = Settle(m_task.action, action, before);
    WriteTunables();
    m_simulation.Advance(m_task.interval_s);
    Interval interval = LastInterval(before);
    if (m_averages)
    {
        m_averages->Replace(interval.learners);
    }
    m_reward = RewardOf(m_task.reward, interval);
    m_stack->Add(Slots(), m_task.learners.size(), m_setting.coordinates);
}

std::vector<double>
TuneRun::Slots() const
{
    std::vector<double> slots(m_task.observation.slots * FIELDS, 0.0);
    for (std::size_t slot = 0; slot < m_task.learners.size(); ++slot)
    {
        WriteRow(ReadRow<FlowStats>(m_flow_stats, m_task.learners[slot].flow), slots, slot);
    }
    return slots;
}

Interval
TuneRun::LastInterval(std::span<const float> moved_from) const
{
    Interval interval;
    for (std::size_t flow = 0; flow < m_task.scenario->flows.size(); ++flow)
    {
        interval.flows.push_back(ReadRow<FlowStats>(m_flow_stats, flow));
    }
    for (const Learner& learner : m_task.learners)
    {
        interval.learners.push_back(interval.flows[learner.flow]);
        interval.base_rtt_ms.push_back(learner.base_rtt_ms);
    }
    for (std::size_t i = 0; i < moved_from.size(); ++i)
    {
        interval.moved.push_back(std::abs(m_setting.coordinates[i] - moved_from[i]));
    }
    return interval;
}

void
TuneRun::WriteTunables()
{
    for (const Learner& learner : m_task.learners)
    {
        for (std::size_t i = 0; i < m_setting.values.size(); ++i)
        {
            m_tunables[learner.flow * Tunables().size() + m_task.action.coordinates[i].column] = m_setting.values[i];
        }
    }
}

} // namespace bbrgym
