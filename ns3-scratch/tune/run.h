// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a task on ns-3: bbrgym/Tune-v0 from reset(seed=...) to the scenario's end.
#ifndef BBRGYM_TUNE_RUN_H
#define BBRGYM_TUNE_RUN_H

#include "action.h"
#include "observation.h"
#include "reward.h"
#include "task.h"

#include "ns3-simulation.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace bbrgym
{

class TuneRun
{
  public:
    /** Begins at time 0 with the flows' own setting; the task must outlive the run. */
    TuneRun(const Task& task, uint64_t seed);
    TuneRun(const TuneRun&) = delete;
    TuneRun& operator=(const TuneRun&) = delete;

    /** Sets the tunables and runs for a control interval; throws std::invalid_argument for what is no action. */
    void Step(std::span<const float> action);

    const std::vector<float>& Observation() const { return m_stack->Numbers(); }
    /** Of the last interval; 0 and no terms before the first. */
    const Reward& LastReward() const { return m_reward; }
    /** In force. */
    const Setting& InForce() const { return m_setting; }
    double NowS() const { return m_simulation.NowS(); }
    bool Done() const { return m_simulation.Done(); }

  private:
    /** The learner flows' rows, [slots, FLOW_STAT], 0 where a slot has no flow. */
    std::vector<double> Slots() const;
    Interval LastInterval(std::span<const float> moved_from) const;
    void WriteTunables();

    const Task& m_task;
    std::vector<double> m_tunables;
    std::vector<double> m_flow_stats;
    std::vector<double> m_link_stats;
    Ns3Simulation m_simulation;
    Setting m_setting;
    std::optional<ObservationStack> m_stack;
    std::optional<Averages> m_averages;
    Reward m_reward;
};

} // namespace bbrgym

#endif
