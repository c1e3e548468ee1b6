// SPDX-License-Identifier: GPL-2.0-only
//
// The congestion controls of a run's senders: the kernel's own by name, or cc/ in BPF with the flow's tunables. A flow
// of variant switch changes between the kernel's own, by TCP_CONGESTION on its open connection.
#ifndef BBRGYM_LINUX_CONTROLLERS_HPP
#define BBRGYM_LINUX_CONTROLLERS_HPP

#include "congestion_control.hpp"
#include "network.hpp"

#include "ack_record.hpp"
#include "measurement.hpp"
#include "real_time.hpp"
#include "tunable_table.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace bbrgym
{

class Controllers
{
  public:
    /**
     * Gives each sender its own, and the tuned flows of its variant the policy in the BPF object `policy` (empty:
     * none); `network` must outlive it. ScenarioError: this machine cannot run one of them. std::invalid_argument: no
     * flow is of the policy's variant.
     */
    Controllers(std::shared_ptr<const Scenario> scenario, uint64_t seed, const Network& network,
                const std::string& policy);

    /** Writes the current tunables, those that a policy set too. */
    void WriteTo(std::span<double> table);
    /** Takes over what the caller changed, while the flows run. std::invalid_argument: a value is wrong. */
    void TakeTunables(std::span<const double> table);

    /** A flow's state now; called by any thread. */
    SenderState Read(std::size_t flow) const;

    /** Records the ACKs of a flow from now on, up to `max_rows`. std::invalid_argument: it runs a control of the
     * kernel's own. */
    void TraceAcks(std::size_t flow, std::size_t max_rows);
    /** Takes what the kernel recorded; its times count from the start of `clock`. */
    void TakeRecords(const RunClock& clock);
    /** std::invalid_argument: as TraceAcks. std::runtime_error: records were lost. */
    const std::vector<AckRecord>& AckTrace(std::size_t flow) const;

  private:
    struct Trace
    {
        std::vector<AckRecord> rows;
        std::size_t max_rows = 0;
        uint64_t next = 0; ///< number of the next event
        uint64_t lost = 0; ///< events, for want of room
    };

    static constexpr std::size_t WAITING_RECORDS = 4096; ///< half a second of 100 Mbit/s

    void Attach(std::size_t flow, int variant, uint64_t seed);
    CongestionControl& ProgramFor(const bpf_flow_settings& settings);
    void TakeRecord(const bpf_record& record, const RunClock& clock);
    bpf_flow_settings SettingsOf(std::size_t flow) const;
    void RequireOurs(std::size_t flow) const;

    std::shared_ptr<const Scenario> m_scenario;
    const Network& m_network;
    TunableTable m_tunables;
    std::vector<bpf_flow_settings> m_settings;   ///< of each flow; of the kernel's own not used
    std::vector<CongestionControl*> m_programs;  ///< of each flow; null: it runs a control of the kernel's own
    std::string m_policy;                        ///< file; empty: none
    std::optional<std::string> m_policy_variant; ///< unset: no flow of ours asked yet
    std::vector<Trace> m_traces;
    bool m_is_tracing = false;
    mutable std::mutex m_mutex; ///< of the settings, which the emulator's thread reads while the caller's changes them
    std::array<std::unique_ptr<CongestionControl>, 2> m_generations; ///< BBR v1, and v2 and v3; null: no flow needs it
};

} // namespace bbrgym

#endif
