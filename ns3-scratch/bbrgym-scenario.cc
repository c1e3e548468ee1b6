// SPDX-License-Identifier: GPL-2.0-only
//
// bbrgym-scenario FILE.json [--seed N] [--policy FILE.so] [--json]
// bbrgym-scenario --serve
//
// Runs the scenario of FILE.json (all fields resolved, as the package writes it; - is the standard input) to
// its end and prints the summary, as text or as JSON. A policy (`bbrgym export format=c`, compiled) sets the tunables
// of its tuned flows. A bad scenario is one line on the error output, exit 2. With --serve it is a program of bbrgym's
// world ns3gym: the scenario's own network, on the ns-3 that it was built with.
#include "ns3-simulation.h"
#include "serve.h"

#include "fields.hpp"
#include "params.hpp"
#include "policy.hpp"
#include "scenario.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace
{

using bbrgym::Field;

/** A scenario's own network, with tables of its own. */
class ScenarioWorld : private bbrgym::OwnTables, public bbrgym::Ns3Simulation
{
  public:
    ScenarioWorld(const std::shared_ptr<const bbrgym::Scenario>& scenario, uint64_t seed)
        : OwnTables(scenario->flows.size()),
          Ns3Simulation(scenario, seed, OwnTables::Get())
    {}
};

struct Arguments
{
    std::string file;
    uint64_t seed = 1;
    std::string policy; ///< empty: none
    bool as_json = false;
};

constexpr const char* USAGE = "usage: bbrgym-scenario FILE.json [--seed N] [--policy FILE.so] [--json], or --serve";

Arguments
ParseArguments(int argc, char** argv)
{
    Arguments arguments;
    for (int i = 1; i < argc; ++i)
    {
        const std::string argument = argv[i];
        if (argument == "--json")
        {
            arguments.as_json = true;
        }
        else if (argument == "--seed" && i + 1 < argc)
        {
            const std::string value = argv[++i];
            std::size_t used = 0;
            try
            {
                arguments.seed = value.front() == '-' ? 0 : std::stoull(value, &used);
            }
            catch (const std::logic_error&)
            {
                used = 0;
            }
            if (used != value.size())
            {
                throw std::invalid_argument("--seed is '" + value + "', expected a whole number >= 0");
            }
        }
        else if (argument == "--policy" && i + 1 < argc)
        {
            arguments.policy = argv[++i];
        }
        else if (arguments.file.empty() && (argument == "-" || argument.front() != '-'))
        {
            arguments.file = argument;
        }
        else
        {
            throw std::invalid_argument("unexpected '" + argument + "'; " + USAGE);
        }
    }
    if (arguments.file.empty())
    {
        throw std::invalid_argument(USAGE);
    }
    return arguments;
}

std::string
ReadAll(const std::string& file)
{
    if (file == "-")
    {
        return {std::istreambuf_iterator<char>(std::cin), {}};
    }
    std::ifstream stream(file, std::ios::binary);
    if (!stream)
    {
        throw std::invalid_argument("cannot read '" + file + "'");
    }
    return {std::istreambuf_iterator<char>(stream), {}};
}

nlohmann::ordered_json
RowAsJson(std::span<const Field> fields, std::span<const double> row)
{
    nlohmann::ordered_json json;
    for (std::size_t i = 0; i < fields.size(); ++i)
    {
        json[fields[i].name] = std::isnan(row[i]) ? nlohmann::ordered_json() : nlohmann::ordered_json(row[i]);
    }
    return json;
}

void
PrintRow(const std::string& title, std::span<const Field> fields, std::span<const double> row)
{
    std::printf("%s\n", title.c_str());
    for (std::size_t i = 0; i < fields.size(); ++i)
    {
        std::printf("  %-22s %12.6g %s\n", fields[i].name, row[i], fields[i].unit);
    }
}

void
Run(const Arguments& arguments)
{
    using namespace bbrgym;
    const auto shared = std::make_shared<const Scenario>(ParseScenario(ReadAll(arguments.file)));
    const Scenario& scenario = *shared;
    const std::size_t flows = scenario.flows.size();
    std::vector<double> tunables(flows * Tunables().size());
    std::vector<double> flow_stats(flows * std::size(FLOW_STAT_FIELDS));
    std::vector<double> link_stats(std::size(LINK_STAT_FIELDS));
    std::vector<double> flow_table(flows * std::size(FLOW_SUMMARY_FIELDS));
    std::vector<double> link_row(std::size(LINK_SUMMARY_FIELDS));

    Ns3Simulation simulation(shared, arguments.seed, {tunables, flow_stats, link_stats});
    const double duration_s = static_cast<double>(scenario.duration_ns) / 1e9;
    if (arguments.policy.empty())
    {
        simulation.Advance(duration_s);
    }
    else
    {
        PolicyRun(std::make_shared<const Policy>(arguments.policy), scenario)
            .Run(
                duration_s, scenario.duration_ns, simulation.GetTables(),
                [&simulation](double seconds) { simulation.Advance(seconds); },
                [&simulation] { return std::llround(simulation.NowS() * 1e9); });
    }
    simulation.Summarise(flow_table, link_row);

    const auto row_of = [&](std::size_t flow) {
        return std::span<const double>(flow_table)
            .subspan(flow * std::size(FLOW_SUMMARY_FIELDS), std::size(FLOW_SUMMARY_FIELDS));
    };
    if (arguments.as_json)
    {
        nlohmann::ordered_json json{{"scenario", scenario.name}, {"seed", arguments.seed}};
        for (std::size_t flow = 0; flow < flows; ++flow)
        {
            json["flows"][scenario.flows[flow].name] = RowAsJson(FLOW_SUMMARY_FIELDS, row_of(flow));
        }
        json["link"] = RowAsJson(LINK_SUMMARY_FIELDS, link_row);
        std::printf("%s\n", json.dump(2).c_str());
        return;
    }
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        PrintRow(scenario.flows[flow].name + " (" + scenario.flows[flow].cc + ")", FLOW_SUMMARY_FIELDS, row_of(flow));
    }
    PrintRow("link", LINK_SUMMARY_FIELDS, link_row);
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc == 2 && argv[1] == std::string("--serve"))
    {
        return bbrgym::ServeMain(
            [](auto scenario, uint64_t seed) { return std::make_unique<ScenarioWorld>(scenario, seed); });
    }
    try
    {
        Run(ParseArguments(argc, argv));
        return 0;
    }
    catch (const std::invalid_argument& error)
    {
        std::fprintf(stderr, "bbrgym-scenario: %s\n", error.what());
        return 2;
    }
}
