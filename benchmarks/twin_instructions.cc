// SPDX-License-Identifier: GPL-2.0-only
//
// Flows on a link of the twin, for callgrind: it counts within Measured (twin_instructions.py).
//
// usage: twin_instructions CC RATE_MBPS FLOWS SECONDS LOSS
// Half of the flows have an RTT of 10 ms, half of 50 ms, on linux-6; the queue holds 30 ms. It runs in steps of 100 ms
// and prints the packets delivered.
#include "engine.hpp"
#include "fields.hpp"
#include "params.hpp"
#include "scenario.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

using namespace bbrgym;

extern "C" [[gnu::noinline]] void
Measured(Engine& engine, const WorldTables& tables)
{
    while (!engine.Done())
    {
        engine.Advance(0.1, tables);
    }
}

int
main(int argc, char** argv)
{
    if (argc != 6)
    {
        std::fputs("usage: twin_instructions CC RATE_MBPS FLOWS SECONDS LOSS\n", stderr);
        return 2;
    }
    Scenario scenario;
    scenario.duration_ns = NanosecondsOfS(std::atof(argv[4]));
    scenario.mss_bytes = 1448;
    scenario.link.rate_bps = std::atof(argv[2]) * 1e6;
    scenario.link.delay_ns = NanosecondsOfMs(2);
    scenario.link.queue.size_bytes = static_cast<uint64_t>(scenario.link.rate_bps / 8 * 0.03);
    scenario.link.loss = Bernoulli{std::atof(argv[5])};
    const std::size_t flows = std::strtoul(argv[3], nullptr, 10);
    for (std::size_t i = 0; i < flows; ++i)
    {
        Flow flow;
        flow.name = "f" + std::to_string(i);
        flow.cc = argv[1];
        flow.rtt_ns = NanosecondsOfMs(i % 2 == 0 ? 10 : 50);
        flow.stop_ns = scenario.duration_ns;
        flow.stack = StackOf(StackPreset::LINUX_6);
        scenario.flows.push_back(flow);
    }
    std::vector<double> tunables(flows * Tunables().size(), std::nan(""));
    std::vector<double> flow_stats(flows * std::size(FLOW_STAT_FIELDS));
    std::vector<double> link_stats(std::size(LINK_STAT_FIELDS));
    const WorldTables tables{tunables, flow_stats, link_stats};
    Engine engine;
    engine.Reset(std::make_shared<const Scenario>(scenario), 1, tables);
    Measured(engine, tables);
    uint64_t delivered_pkts = 0;
    for (std::size_t flow = 0; flow < flows; ++flow)
    {
        delivered_pkts += engine.Sender(flow).delivered_pkts;
    }
    std::printf("%llu\n", static_cast<unsigned long long>(delivered_pkts));
    return 0;
}
