// SPDX-License-Identifier: GPL-2.0-only
#include "serve.h"

#include "simulation-socket.h"
#include "score.h"
#include "wire.h"

#include "fields.hpp"
#include "params.hpp"

#include "ns3/command-line.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace bbrgym
{

namespace
{

using Json = nlohmann::ordered_json;
using wire::Reader;
using wire::Writer;

// ---- ns3-gym's messages, by their field numbers (src/bbrgym/ns3gym/messages.py) ----------------------

constexpr uint64_t BOX = 2; // SpaceType
constexpr uint64_t DICT = 4;
constexpr uint64_t DOUBLE = 4; // Dtype
constexpr uint32_t STOP = 2;   // stopSimReq of an answer

/** What a Box of doubles holds: as many numbers as the product of its shape. */
struct Table
{
    std::string name;
    std::vector<uint32_t> shape;
    std::span<double> numbers;
};

/** SpaceDescription or DataContainer: type, an Any with a message of the named kind, and the key in a Dict. */
std::string
Typed(uint64_t type, const std::string& kind, const std::string& message, const std::string& name = "")
{
    const Writer any = Writer().Bytes(1, "type.googleapis.com/ns3opengym." + kind).Bytes(2, message);
    return Writer().Number(1, type).Bytes(2, any.Message()).Bytes(3, name).Message();
}

std::string
SpaceOf(const std::vector<Table>& tables)
{
    constexpr float unbounded = std::numeric_limits<float>::infinity();
    Writer dict;
    for (const Table& table : tables)
    {
        const Writer box = Writer().Float(1, -unbounded).Float(2, unbounded).Number(3, DOUBLE).Numbers(4, table.shape);
        dict.Bytes(1, Typed(BOX, "BoxSpace", box.Message(), table.name));
    }
    return Typed(DICT, "DictSpace", dict.Message());
}

std::string
DataOf(const std::vector<Table>& tables)
{
    Writer dict;
    for (const Table& table : tables)
    {
        const Writer box = Writer().Number(1, DOUBLE).Numbers(2, table.shape).Doubles(6, table.numbers);
        dict.Bytes(1, Typed(BOX, "BoxDataContainer", box.Message(), table.name));
    }
    return Typed(DICT, "DictDataContainer", dict.Message());
}

std::string_view
BytesIn(std::string_view message, uint32_t number)
{
    return wire::Last(message, number, wire::Type::BYTES).bytes;
}

uint64_t
NumberIn(std::string_view message, uint32_t number)
{
    return wire::Last(message, number, wire::Type::VARINT).value;
}

/** The message within a DataContainer. */
std::string_view
HeldIn(std::string_view container)
{
    return BytesIn(BytesIn(container, 2), 2);
}

template <typename Number>
std::vector<double>
NumbersIn(std::string_view box, uint32_t data)
{
    std::vector<double> numbers;
    Reader reader(box);
    while (const auto field = reader.Next())
    {
        const std::size_t size = field->number == data ? field->bytes.size() : 0;
        for (std::size_t at = 0; at + sizeof(Number) <= size; at += sizeof(Number))
        {
            Number number;
            std::memcpy(&number, field->bytes.data() + at, sizeof number);
            numbers.push_back(number);
        }
    }
    return numbers;
}

/** Reads an action into the tables, which have its parts' names and sizes. */
void
ReadAction(std::string_view container, const std::vector<Table>& tables)
{
    std::size_t found = 0;
    Reader reader(HeldIn(container));
    while (const auto element = reader.Next())
    {
        for (const Table& table : tables)
        {
            if (BytesIn(element->bytes, 3) != table.name)
            {
                continue;
            }
            const std::string_view box = HeldIn(element->bytes);
            // ns3-gym's own agent answers a Box of doubles with floats.
            const std::vector<double> numbers =
                NumberIn(box, 1) == DOUBLE ? NumbersIn<double>(box, 6) : NumbersIn<float>(box, 5);
            if (numbers.size() != table.numbers.size())
            {
                throw std::invalid_argument("action: " + table.name + " has " + std::to_string(numbers.size()) +
                                            " numbers of float or double, expected " +
                                            std::to_string(table.numbers.size()));
            }
            std::ranges::copy(numbers, table.numbers.begin());
            ++found;
        }
    }
    if (found != tables.size())
    {
        throw std::invalid_argument("action: expected a Dict of tunables and seconds");
    }
}

// ---- the service ----------------------------------------------------------------------------------------

Json
UnitsOf(std::span<const Field> fields)
{
    Json units = Json::object();
    for (const Field& field : fields)
    {
        units[field.name] = field.unit;
    }
    return units;
}

/** Of each flow, the tunables that it has. */
Json
InitialTunables(const World& world)
{
    Json flows = Json::array();
    const std::span<const double> values = world.GetTables().tunables;
    for (std::size_t at = 0; at < values.size(); ++at)
    {
        const std::size_t column = at % Tunables().size();
        if (column == 0)
        {
            flows.push_back(Json::object());
        }
        if (!std::isnan(values[at]))
        {
            flows.back()[std::string(Tunables()[column].name)] = values[at];
        }
    }
    return flows;
}

Json
FirstInfo(const World& world)
{
    const Scenario& scenario = world.GetScenario();
    Json info{{"now_s", world.NowS()}, {"done", world.Done()}, {"scenario", scenario.name}, {"seed", world.Seed()}};
    info["flows"] = Json::array();
    for (const Flow& flow : scenario.flows)
    {
        info["flows"].push_back(flow.name);
    }
    info["fields"] = {{"flow_stats", UnitsOf(FLOW_STAT_FIELDS)},
                      {"link_stats", UnitsOf(LINK_STAT_FIELDS)},
                      {"flow_summary", UnitsOf(FLOW_SUMMARY_FIELDS)},
                      {"link_summary", UnitsOf(LINK_SUMMARY_FIELDS)}};
    for (const TunableInfo& tunable : Tunables())
    {
        info["tunables"][std::string(tunable.name)] = tunable.unit;
    }
    info["initial_tunables"] = InitialTunables(world);
    return info;
}

// ---- the program ----------------------------------------------------------------------------------------

std::shared_ptr<const Scenario>
ReadScenario(const std::string& path)
{
    std::ifstream stream(path, std::ios::binary);
    if (!stream)
    {
        throw std::invalid_argument("--scenario: cannot read '" + path + "'");
    }
    return std::make_shared<const Scenario>(ParseScenario({std::istreambuf_iterator<char>(stream), {}}));
}

} // namespace

void
Serve(World& world, uint16_t port, double timeout_s)
{
    const auto flows = static_cast<uint32_t>(world.GetScenario().flows.size());
    std::vector<double> flow_summary(flows * std::size(FLOW_SUMMARY_FIELDS));
    std::vector<double> link_summary(std::size(LINK_SUMMARY_FIELDS));
    std::vector<double> seconds(1);
    const World::Tables& tables = world.GetTables();
    const std::vector<Table> observation = {{"flow_stats", {flows, std::size(FLOW_STAT_FIELDS)}, tables.flow_stats},
                                            {"link_stats", {std::size(LINK_STAT_FIELDS)}, tables.link_stats},
                                            {"flow_summary", {flows, std::size(FLOW_SUMMARY_FIELDS)}, flow_summary},
                                            {"link_summary", {std::size(LINK_SUMMARY_FIELDS)}, link_summary}};
    const std::vector<Table> action = {
        {"tunables", {flows, static_cast<uint32_t>(Tunables().size())}, tables.tunables},
        {"seconds", {1}, seconds}};

    world.Advance(0); // the rows of an empty interval
    SimulationSocket socket(port, timeout_s);
    Writer init;
    init.Number(1, static_cast<uint64_t>(getpid())).Bytes(3, SpaceOf(observation)).Bytes(4, SpaceOf(action));
    std::string answer = socket.Introduce(init.Message());
    Json info = FirstInfo(world);
    double reward = 0;
    while (!NumberIn(answer, STOP))
    {
        world.Summarise(flow_summary, link_summary);
        // A game over of reason 0 is SimulationEnd.
        answer = socket.Ask(Writer()
                                .Bytes(1, DataOf(observation))
                                .Float(2, static_cast<float>(reward))
                                .Number(3, world.Done())
                                .Bytes(5, info.dump())
                                .Message());
        if (world.Done() || NumberIn(answer, STOP))
        {
            return;
        }
        ReadAction(BytesIn(answer, 1), action);
        if (!(seconds[0] > 0) || std::isinf(seconds[0]))
        {
            throw std::invalid_argument("action: seconds is " + std::to_string(seconds[0]) +
                                        ", expected a finite number > 0");
        }
        const double before_s = world.NowS();
        world.Advance(seconds[0]);
        const double score = IntervalScore(world.GetScenario(), tables.flow_stats, world.NowS() - before_s);
        reward = std::isfinite(score) ? score : 0;
        info = {{"now_s", world.NowS()}, {"done", world.Done()}};
    }
}

int
ServeMain(int argc, char** argv, const WorldFactory& make_world)
{
    std::string scenario;
    uint16_t port = 5555;
    uint64_t seed = 1;
    double timeout_s = 3600;
    ns3::CommandLine arguments(argv[0]);
    arguments.AddValue("scenario", "resolved scenario as JSON, which `bbrgym scenario NAME` prints", scenario);
    arguments.AddValue("openGymPort", "port of the agent on this machine", port);
    arguments.AddValue("simSeed", "seed of all random numbers", seed);
    arguments.AddValue("timeout", "longest wait for the agent and for each of its answers, in seconds", timeout_s);
    arguments.Parse(argc, argv);
    try
    {
        const auto world = make_world(ReadScenario(scenario), seed);
        Serve(*world, port, timeout_s);
        return 0;
    }
    catch (const std::exception& error)
    {
        std::fprintf(stderr, "%s: %s\n", arguments.GetName().c_str(), error.what());
        return dynamic_cast<const std::invalid_argument*>(&error) ? 2 : 1;
    }
}

} // namespace bbrgym
