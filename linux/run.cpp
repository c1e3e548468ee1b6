// SPDX-License-Identifier: GPL-2.0-only
#include "run.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace bbrgym
{

LinuxRun::LinuxRun(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables,
                   const HostOptions& options)
    : m_scenario(Drawn(std::move(scenario), seed)),
      m_seed(seed),
      m_network(BuildNetwork(PlanOf(*m_scenario, options))),
      m_controllers(m_scenario, seed, m_network, options.policy),
      m_has_policy(!options.policy.empty())
{
    m_emulator = std::make_unique<Emulator>(m_scenario, seed, m_network, m_clock,
                                            [this](std::size_t flow) { return m_controllers.Read(flow); });
    m_controllers.WriteTo(tables.tunables);
    m_last = m_emulator->Measured();
    WriteTo(tables);
}

void
LinuxRun::Start()
{
    m_memory_lock.emplace();
    m_core_keeper = std::make_unique<CoreKeeper>();
    m_clock.Start();
    m_emulator->Start();
    m_applications = std::make_unique<Applications>(m_scenario, m_seed, m_network, m_clock);
}

void
LinuxRun::Advance(double duration_s, const WorldTables& tables, StopCheck& stop)
{
    if (!(duration_s >= 0))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) + ", expected >= 0 s");
    }
    m_controllers.TakeTunables(tables.tunables);
    if (!m_applications)
    {
        Start();
    }
    const int64_t left_ns = m_scenario->duration_ns - m_last.at_ns;
    m_emulator->AskForCut(m_last.at_ns + std::min<int64_t>(std::llround(std::min(duration_s * 1e9, 9e18)), left_ns));
    while (!m_emulator->WaitForCut(m_last, StopCheck::PERIOD))
    {
        m_applications->Check();
        m_controllers.TakeRecords(m_clock);
        if (stop.ShouldStop())
        {
            throw Stopped();
        }
    }
    m_controllers.TakeRecords(m_clock);
    if (m_has_policy)
    {
        m_controllers.WriteTo(tables.tunables);
    }
    WriteTo(tables);
    if (Done())
    {
        m_core_keeper.reset(); // its core is free for others
    }
}

void
LinuxRun::WriteTo(const WorldTables& tables) const
{
    std::ranges::copy(m_last.flow_stats, tables.flow_stats.begin());
    std::ranges::copy(m_last.link_stats, tables.link_stats.begin());
}

void
LinuxRun::Summarise(std::span<double> flow_table, std::span<double> link_row) const
{
    std::ranges::copy(m_last.flow_summary, flow_table.begin());
    std::ranges::copy(m_last.link_summary, link_row.begin());
}

} // namespace bbrgym
