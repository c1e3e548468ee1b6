// SPDX-License-Identifier: GPL-2.0-only
//
// Many worlds of the twin that take turns in steps of 100 ms on one thread, as in a vector, for callgrind: it counts
// within Measured (twin_instructions.py).
//
// usage: twin_worlds WORLDS SECONDS
// In each a flow of BBR on 10 Mbit/s and 40 ms, on linux-6, with a queue of one bandwidth-delay product. The first second
// is not counted: worlds grow in it. Prints the packets delivered in what is counted.
#include "engine.hpp"
#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

using namespace bbrgym;

struct World
{
    Engine engine;
    std::vector<double> tunables = std::vector<double>(Tunables().size(), std::nan(""));
    std::vector<double> flow_stats = std::vector<double>(std::size(FLOW_STAT_FIELDS));
    std::vector<double> link_stats = std::vector<double>(std::size(LINK_STAT_FIELDS));

    WorldTables Tables() { return {tunables, flow_stats, link_stats}; }
};

void
StepAll(std::vector<World>& worlds)
{
    for (World& world : worlds)
    {
        world.engine.Advance(0.1, world.Tables());
    }
}

extern "C" [[gnu::noinline]] void
Measured(std::vector<World>& worlds)
{
    while (!worlds[0].engine.Done())
    {
        StepAll(worlds);
    }
}

uint64_t
DeliveredPkts(const std::vector<World>& worlds)
{
    return std::accumulate(worlds.begin(),
                           worlds.end(),
                           uint64_t{0},
                           [](uint64_t pkts, const World& world) { return pkts + world.engine.Sender(0).delivered_pkts; });
}

int
main(int argc, char** argv)
{
    if (argc != 3)
    {
        std::fputs("usage: twin_worlds WORLDS SECONDS\n", stderr);
        return 2;
    }
    Scenario scenario;
    scenario.duration_ns = NanosecondsOfS(std::atof(argv[2]));
    scenario.mss_bytes = 1448;
    scenario.link.rate_bps = 10e6;
    scenario.link.delay_ns = NanosecondsOfMs(2);
    scenario.link.queue.size_bytes = 50'000;
    Flow flow;
    flow.name = "f";
    flow.cc = "bbr";
    flow.rtt_ns = NanosecondsOfMs(40);
    flow.stop_ns = scenario.duration_ns;
    flow.stack = StackOf(StackPreset::LINUX_6);
    scenario.flows.push_back(flow);
    const auto shared = std::make_shared<const Scenario>(scenario);
    std::vector<World> worlds(std::strtoul(argv[1], nullptr, 10));
    uint64_t seed = 0;
    for (World& world : worlds)
    {
        world.engine.Reset(shared, ++seed, world.Tables());
    }
    for (int step = 0; step < 10; ++step)
    {
        StepAll(worlds);
    }
    const uint64_t before_pkts = DeliveredPkts(worlds);
    Measured(worlds);
    std::printf("%llu\n", static_cast<unsigned long long>(DeliveredPkts(worlds) - before_pkts));
    return 0;
}
