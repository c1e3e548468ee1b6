// SPDX-License-Identifier: GPL-2.0-only
//
// What a controller sees, sets and is paid for in a scenario: the environment bbrgym/Tune-v0 with its arguments, as
// `bbrgym task` writes it to a file.
//
// An environment belongs to Python (envs/). This folder has its formulas once more, because a simulation inside an
// ns-3 tree has to answer an ns3-gym script without Python. Names, ranges, weights and presets come from the file,
// so only the formulas exist twice, and tests/ns3/test_tune.py runs both on the same networks and compares them.
#ifndef BBRGYM_TUNE_TASK_H
#define BBRGYM_TUNE_TASK_H

#include "scenario.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bbrgym
{

/** A task that cannot be: which entry, what it is. */
class TaskError : public std::invalid_argument
{
  public:
    explicit TaskError(const std::string& problem)
        : std::invalid_argument("task: " + problem)
    {
    }
};

/** A measured field, perhaps divided by another one, brought to [0, 1]; see envs/features.py. */
struct Feature
{
    enum class Scale
    {
        LINEAR,
        LOG,
        WITHIN
    };

    std::size_t field; ///< of FLOW_STAT_FIELDS
    std::optional<std::size_t> per;
    Scale scale;
    double low;
    double high;
};

struct ObservationSpec
{
    std::vector<Feature> features;
    std::size_t slots = 0; ///< for learner flows
    std::size_t stack = 0; ///< intervals
    bool is_pooled = false;
};

/** One coordinate of the setting; see envs/action.py. */
struct Coordinate
{
    enum class Scale
    {
        LINEAR,
        LOG,
        WHOLE ///< whole numbers: an equal part of [-1, 1] for each
    };

    /** The tunable that this one must not be below. */
    struct LowerBound
    {
        std::optional<std::size_t> coordinate; ///< nothing: it is not set, and stays at
        double preset;
    };

    std::string name;
    std::size_t column; ///< of Tunables()
    Scale scale;
    double low;
    double high;
    std::optional<LowerBound> not_below;
};

struct ActionSpec
{
    std::vector<Coordinate> coordinates;
    std::optional<std::vector<double>> step;  ///< how far an action of 1 moves each; nothing: an action is the setting
    std::optional<std::vector<double>> limit; ///< the farthest that each moves in an interval
};

struct WeightedTerm
{
    std::string name;
    double weight; ///< 0: only shown
};

/** See envs/reward.py. */
struct RewardSpec
{
    std::vector<WeightedTerm> terms;
    double alpha = 1;
    std::optional<double> horizon_s; ///< over which goodput and RTT are averaged; nothing: the interval alone
};

/** A flow that the controller sets. */
struct Learner
{
    std::size_t flow;
    double base_rtt_ms;
};

struct Task
{
    std::shared_ptr<const Scenario> scenario;
    std::vector<Learner> learners;
    double interval_s = 0;
    ObservationSpec observation;
    ActionSpec action;
    RewardSpec reward;
};

/** Reads what `bbrgym task` wrote; throws TaskError or ScenarioError at the first thing that is wrong. */
Task ParseTask(const std::string& json);

/** The same from a file. */
Task ReadTask(const std::string& path);

} // namespace bbrgym

#endif
