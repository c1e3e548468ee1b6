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

// ---- ns3-gym's messages, by their field numbers (src/bbrgym/ns3gym/messages.proto) ----------------------

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
        for (std::size_t at = 0; field->number == data && at + sizeof(Number) <= field->bytes.size(); at += sizeof(Number))
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

class Service
{
  public:
    Service(World& world, uint16_t port, double timeout_s);

    void Run();

  private:
    std::string State(double reward);
    Json Info() const;
    Json InitialTunables() const;

    World& m_world;
    SimulationSocket m_socket;
    const uint32_t m_flows;
    std::vector<double> m_flow_summary;
    std::vector<double> m_link_summary;
    std::vector<double> m_seconds;
    std::vector<Table> m_observation;
    std::vector<Table> m_action;
    bool m_has_begun = false;
};

Service::Service(World& world, uint16_t port, double timeout_s)
    : m_world(world),
      m_socket(port, timeout_s),
      m_flows(static_cast<uint32_t>(world.GetScenario().flows.size())),
      m_flow_summary(m_flows * std::size(FLOW_SUMMARY_FIELDS)),
      m_link_summary(std::size(LINK_SUMMARY_FIELDS)),
      m_seconds(1)
{
    const World::Tables& tables = world.GetTables();
    m_observation = {{"flow_stats", {m_flows, std::size(FLOW_STAT_FIELDS)}, tables.flow_stats},
                     {"link_stats", {std::size(LINK_STAT_FIELDS)}, tables.link_stats},
                     {"flow_summary", {m_flows, std::size(FLOW_SUMMARY_FIELDS)}, m_flow_summary},
                     {"link_summary", {std::size(LINK_SUMMARY_FIELDS)}, m_link_summary}};
    m_action = {{"tunables", {m_flows, static_cast<uint32_t>(Tunables().size())}, tables.tunables},
                {"seconds", {1}, m_seconds}};
}

void
Service::Run()
{
    m_world.Advance(0); // the rows of an empty interval
    const Writer init = Writer()
                            .Number(1, static_cast<uint64_t>(getpid()))
                            .Bytes(3, SpaceOf(m_observation))
                            .Bytes(4, SpaceOf(m_action));
    if (NumberIn(m_socket.Introduce(init.Message()), STOP))
    {
        return;
    }
    double reward = 0;
    while (true)
    {
        const std::string answer = m_socket.Ask(State(reward));
        if (m_world.Done() || NumberIn(answer, STOP))
        {
            return;
        }
        ReadAction(BytesIn(answer, 1), m_action);
        if (!(m_seconds[0] > 0) || std::isinf(m_seconds[0]))
        {
            throw std::invalid_argument("action: seconds is " + std::to_string(m_seconds[0]) +
                                        ", expected a finite number > 0");
        }
        const double before_s = m_world.NowS();
        m_world.Advance(m_seconds[0]);
        const double score = IntervalScore(m_world.GetScenario(), m_world.GetTables().flow_stats, m_world.NowS() - before_s);
        reward = std::isfinite(score) ? score : 0;
    }
}

/** The EnvStateMsg of now; a game over of reason 0 is SimulationEnd. */
std::string
Service::State(double reward)
{
    m_world.Summarise(m_flow_summary, m_link_summary);
    const std::string info = Info().dump();
    m_has_begun = true;
    return Writer()
        .Bytes(1, DataOf(m_observation))
        .Float(2, static_cast<float>(reward))
        .Number(3, m_world.Done())
        .Bytes(5, info)
        .Message();
}

Json
Service::Info() const
{
    Json info{{"now_s", m_world.NowS()}, {"done", m_world.Done()}};
    if (m_has_begun)
    {
        return info;
    }
    const Scenario& scenario = m_world.GetScenario();
    info["scenario"] = scenario.name;
    info["seed"] = m_world.Seed();
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
    info["initial_tunables"] = InitialTunables();
    return info;
}

Json
Service::InitialTunables() const
{
    Json flows = Json::array();
    for (std::size_t flow = 0; flow < m_flows; ++flow)
    {
        Json values = Json::object();
        for (std::size_t i = 0; i < Tunables().size(); ++i)
        {
            const double value = m_world.GetTables().tunables[flow * Tunables().size() + i];
            if (!std::isnan(value))
            {
                values[std::string(Tunables()[i].name)] = value;
            }
        }
        flows.push_back(values);
    }
    return flows;
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
    Service(world, port, timeout_s).Run();
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
