// SPDX-License-Identifier: GPL-2.0-only
//
// One run of a scenario on the kernel's sockets. Its clock starts with the first advance and is the machine's from then
// on. Intervals follow each other without a gap: an advance ends its interval as long after the last one's end as it is
// asked to, or at once if the caller took longer than that.
#ifndef BBRGYM_LINUX_RUN_HPP
#define BBRGYM_LINUX_RUN_HPP

#include "applications.hpp"
#include "controllers.hpp"
#include "emulator.hpp"
#include "network.hpp"
#include "real_time.hpp"

#include "ack_record.hpp"
#include "stop.hpp"
#include "tables.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace bbrgym
{

class LinuxRun
{
  public:
    /** Builds the network and fills the tables. ScenarioError: the kernel cannot run it. std::runtime_error: nor this
     * machine. */
    LinuxRun(std::shared_ptr<const Scenario> scenario, uint64_t seed, const WorldTables& tables,
             const HostOptions& options);

    /** Runs for so long, at most to the scenario's end, and shows that interval. Stopped: `stop` said so; the run is
     * over. */
    void Advance(double duration_s, const WorldTables& tables, StopCheck& stop);
    void Summarise(std::span<double> flow_table, std::span<double> link_row) const;

    const Scenario& GetScenario() const { return *m_scenario; }
    double NowS() const { return static_cast<double>(m_last.at_ns) / 1e9; }
    bool Done() const { return m_last.at_ns >= m_scenario->duration_ns; }
    /** The measurements up to the last interval's end. */
    const Cut& Last() const { return m_last; }
    /** Whether the machine let its threads go before others. */
    bool IsFifo() const { return m_emulator->IsFifo() && m_applications && m_applications->IsFifo(); }

    void TraceAcks(std::size_t flow, std::size_t max_rows) { m_controllers.TraceAcks(flow, max_rows); }
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const { return m_controllers.AckTrace(flow); }

  private:
    void Start();
    void WriteTo(const WorldTables& tables) const;

    std::shared_ptr<const Scenario> m_scenario;
    uint64_t m_seed;
    Network m_network;
    RunClock m_clock;
    Controllers m_controllers;
    bool m_has_policy;
    Cut m_last;
    std::optional<MemoryLock> m_memory_lock;
    // In this order: what is below uses what is above.
    std::unique_ptr<Emulator> m_emulator;
    std::unique_ptr<CoreKeeper> m_core_keeper;
    std::unique_ptr<Applications> m_applications;
};

} // namespace bbrgym

#endif
