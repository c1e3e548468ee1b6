// SPDX-License-Identifier: GPL-2.0-only
//
// tune-replay FILE.json SEED < actions
//
// Runs a task (ns3-scratch/tune/task.h) with the actions of the standard input, a JSON list of numbers on each line,
// and prints a JSON object for its begin and one for each interval. What is wrong is one line, exit 2.
#include "run.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <string>

namespace
{

void
Print(const bbrgym::TuneRun& run)
{
    nlohmann::ordered_json terms = nlohmann::ordered_json::object();
    for (const auto& [name, value] : run.LastReward().terms)
    {
        terms[name] = value;
    }
    const nlohmann::ordered_json state{{"now_s", run.NowS()},
                                       {"done", run.Done()},
                                       {"observation", run.Observation()},
                                       {"reward", run.LastReward().total},
                                       {"terms", terms},
                                       {"tunables", run.InForce().values},
                                       {"coordinates", run.InForce().coordinates}};
    std::cout << state.dump() << "\n";
}

} // namespace

int
main(int argc, char** argv)
{
    if (argc != 3)
    {
        std::fprintf(stderr, "usage: tune-replay FILE.json SEED < actions\n");
        return 2;
    }
    try
    {
        const bbrgym::Task task = bbrgym::ReadTask(argv[1]);
        bbrgym::TuneRun run(task, std::stoull(argv[2]));
        Print(run);
        for (std::string line; !run.Done() && std::getline(std::cin, line);)
        {
            run.Step(nlohmann::json::parse(line).get<std::vector<float>>());
            Print(run);
        }
        return 0;
    }
    catch (const std::invalid_argument& error)
    {
        std::fprintf(stderr, "tune-replay: %s\n", error.what());
        return 2;
    }
}
