// SPDX-License-Identifier: GPL-2.0-only
#include "task.h"

#include "fields.hpp"
#include "params.hpp"
#include "reward.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

namespace bbrgym
{

namespace
{

using Json = nlohmann::json;

constexpr int FORMAT = 1;            // of envs/task.py
constexpr std::size_t MOST = 10'000; // slots or intervals: beyond that it is a slip

void
Require(bool is_true, const std::string& problem)
{
    if (!is_true)
    {
        throw TaskError(problem);
    }
}

template <typename T>
T
OneOf(const std::map<std::string, T>& allowed, const Json& json, const std::string& path)
{
    const auto name = json.get<std::string>();
    const auto found = allowed.find(name);
    Require(found != allowed.end(), path + ": '" + name + "' is unknown");
    return found->second;
}

double
Positive(const Json& json, const std::string& path)
{
    const auto number = json.get<double>();
    Require(std::isfinite(number) && number > 0, path + ": is " + json.dump() + ", expected a number > 0");
    return number;
}

std::size_t
Count(const Json& json, const std::string& path)
{
    const auto number = json.get<double>();
    Require(number >= 1 && number <= MOST && number == std::floor(number),
            path + ": is " + json.dump() + ", expected a whole number from 1 to " + std::to_string(MOST));
    return static_cast<std::size_t>(number);
}

std::size_t
FieldOf(const Json& json, const std::string& path)
{
    const auto name = json.get<std::string>();
    const auto* found = std::find_if(std::begin(FLOW_STAT_FIELDS), std::end(FLOW_STAT_FIELDS), [&](const Field& field) {
        return name == field.name;
    });
    Require(found != std::end(FLOW_STAT_FIELDS), path + ": no field '" + name + "' is measured");
    return static_cast<std::size_t>(found - std::begin(FLOW_STAT_FIELDS));
}

void
CheckRange(double low, double high, bool is_log, const std::string& path)
{
    Require(std::isfinite(low) && std::isfinite(high) && low <= high && (!is_log || low > 0),
            path + ": low and high are no range of its scale");
}

Feature
ParseFeature(const Json& json)
{
    const std::string path = "feature " + json.at("name").get<std::string>();
    Feature feature{};
    feature.field = FieldOf(json.at("field"), path);
    if (!json.at("per").is_null())
    {
        feature.per = FieldOf(json.at("per"), path);
    }
    using enum Feature::Scale;
    feature.scale = OneOf<Feature::Scale>({{"linear", LINEAR}, {"log", LOG}, {"within", WITHIN}}, json.at("scale"), path);
    feature.low = json.at("low").get<double>();
    feature.high = json.at("high").get<double>();
    CheckRange(feature.low, feature.high, feature.scale == LOG, path);
    return feature;
}

ObservationSpec
ParseObservation(const Json& json)
{
    ObservationSpec observation;
    for (const Json& feature : json.at("features"))
    {
        observation.features.push_back(ParseFeature(feature));
    }
    observation.slots = Count(json.at("slots"), "observation.slots");
    observation.stack = Count(json.at("stack"), "observation.stack");
    observation.is_pooled = OneOf<bool>({{"each", false}, {"pooled", true}}, json.at("view"), "observation.view");
    return observation;
}

Coordinate
ParseCoordinate(const Json& json)
{
    Coordinate coordinate{};
    coordinate.name = json.at("name").get<std::string>();
    const std::string path = "tunable " + coordinate.name;
    const auto column = FindTunable(coordinate.name);
    Require(column.has_value(), path + ": there is none of that name");
    coordinate.column = static_cast<std::size_t>(*column);
    using enum Coordinate::Scale;
    coordinate.scale =
        OneOf<Coordinate::Scale>({{"linear", LINEAR}, {"log", LOG}, {"whole", WHOLE}}, json.at("scale"), path);
    coordinate.low = json.at("low").get<double>();
    coordinate.high = json.at("high").get<double>();
    CheckRange(coordinate.low, coordinate.high, coordinate.scale == LOG, path);
    return coordinate;
}

/** Which tunables must not be below which; known once all coordinates are. */
void
LinkBounds(const Json& tunables, std::vector<Coordinate>& coordinates)
{
    for (std::size_t i = 0; i < coordinates.size(); ++i)
    {
        const Json& bound = tunables[i].at("not_below");
        if (bound.is_null())
        {
            continue;
        }
        Coordinate::LowerBound lower{std::nullopt, bound.at("preset").get<double>()};
        for (std::size_t j = 0; j < coordinates.size(); ++j)
        {
            if (coordinates[j].name == bound.at("name").get<std::string>())
            {
                lower.coordinate = j;
            }
        }
        Require(coordinates[i].scale != Coordinate::Scale::WHOLE,
                "tunable " + coordinates[i].name + ": has a lower bound, expected none of a whole number");
        coordinates[i].not_below = lower;
    }
}

std::optional<std::vector<double>>
ParseDistances(const Json& json, std::size_t coordinates, const std::string& path)
{
    if (json.is_null())
    {
        return std::nullopt;
    }
    Require(json.size() == coordinates, path + ": expected a number for each tunable");
    std::vector<double> distances;
    for (const Json& distance : json)
    {
        distances.push_back(Positive(distance, path));
    }
    return distances;
}

ActionSpec
ParseAction(const Json& json)
{
    ActionSpec action;
    const Json& tunables = json.at("tunables");
    for (const Json& tunable : tunables)
    {
        action.coordinates.push_back(ParseCoordinate(tunable));
    }
    Require(!action.coordinates.empty(), "action.tunables: is empty, expected at least one");
    LinkBounds(tunables, action.coordinates);
    action.step = ParseDistances(json.at("step"), action.coordinates.size(), "action.step");
    action.limit = ParseDistances(json.at("limit"), action.coordinates.size(), "action.limit");
    return action;
}

RewardSpec
ParseReward(const Json& json)
{
    RewardSpec reward;
    for (const Json& term : json.at("terms"))
    {
        reward.terms.push_back({term.at("name").get<std::string>(), term.at("weight").get<double>()});
        Require(HasTerm(reward.terms.back().name), "reward.terms: '" + reward.terms.back().name + "' is unknown");
    }
    reward.alpha = json.at("alpha").get<double>();
    if (!json.at("horizon_s").is_null())
    {
        reward.horizon_s = Positive(json.at("horizon_s"), "reward.horizon_s");
    }
    return reward;
}

std::vector<Learner>
ParseLearners(const Json& json, const Json& flows)
{
    std::vector<Learner> learners;
    for (const Json& entry : json)
    {
        const auto flow = entry.get<std::size_t>();
        Require(flow < flows.size(), "learners: flow " + entry.dump() + " is not in the scenario");
        // As the scenario writes it: in nanoseconds it would be rounded.
        learners.push_back({flow, Positive(flows[flow].at("rtt_ms"), "rtt_ms of a learner flow")});
    }
    Require(!learners.empty(), "learners: is empty, expected at least one flow");
    return learners;
}

/** What is wrong only together. */
void
CheckTogether(const Task& task)
{
    Require(task.learners.size() <= task.observation.slots,
            "observation.slots: is " + std::to_string(task.observation.slots) + ", expected one for each learner flow");
    for (const Learner& learner : task.learners)
    {
        const Flow& flow = task.scenario->flows[learner.flow];
        const auto variant = FindVariant(flow.cc);
        for (const Coordinate& coordinate : task.action.coordinates)
        {
            Require(variant && VariantHasTunable(*variant, static_cast<int>(coordinate.column)),
                    "flow " + flow.name + " runs " + flow.cc + ", which has no " + coordinate.name);
        }
    }
}

Task
TaskOf(const Json& json)
{
    Require(json.at("format").get<double>() == FORMAT,
            "format: is " + json.at("format").dump() + ", this program reads " + std::to_string(FORMAT));
    Task task;
    task.scenario = std::make_shared<const Scenario>(ParseScenario(json.at("scenario").dump()));
    task.learners = ParseLearners(json.at("learners"), json.at("scenario").at("flows"));
    task.interval_s = Positive(json.at("control_interval_s"), "control_interval_s");
    task.observation = ParseObservation(json.at("observation"));
    task.action = ParseAction(json.at("action"));
    task.reward = ParseReward(json.at("reward"));
    CheckTogether(task);
    return task;
}

} // namespace

Task
ParseTask(const std::string& json)
{
    try
    {
        return TaskOf(Json::parse(json));
    }
    catch (const Json::exception& error)
    {
        throw TaskError(std::string("not what `bbrgym task` writes: ") + error.what());
    }
}

Task
ReadTask(const std::string& path)
{
    std::ifstream stream(path, std::ios::binary);
    Require(stream.good(), "cannot read '" + path + "'");
    return ParseTask({std::istreambuf_iterator<char>(stream), {}});
}

} // namespace bbrgym
