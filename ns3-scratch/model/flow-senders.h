// SPDX-License-Identifier: GPL-2.0-only
//
// The senders of a scenario's flows: each with its congestion control and, where that is ours, its tunables.
#ifndef BBRGYM_FLOW_SENDERS_H
#define BBRGYM_FLOW_SENDERS_H

#include "flow-sender.h"

#include "scenario.hpp"
#include "tunable_table.hpp"

#include <memory>
#include <span>
#include <vector>

namespace bbrgym
{

class FlowSenders
{
  public:
    /**
     * `peers_follow`: the receivers are as the flows' stacks say; otherwise they are ns-3's. Throws ScenarioError if a
     * flow's congestion control or one of its tunables is unknown.
     */
    FlowSenders(const Scenario& scenario, uint64_t seed, bool peers_follow);

    ns3::FlowSender& Of(std::size_t flow) const { return *m_senders[flow]; }
    /** The flow's sender where it is ours; std::out_of_range, or std::invalid_argument if it is ns-3's own. */
    ns3::LinuxSender& OursOf(std::size_t flow) const;

    /** Writes the current tunables: [flows, tunables], NaN where a flow does not have a tunable. */
    void WriteTunables(std::span<double> table) { m_tunables.WriteTo(table); }
    /** Applies what the caller changed in that table: all of it, or std::invalid_argument if any of it is wrong. */
    void ApplyTunables(std::span<const double> table);

  private:
    std::unique_ptr<ns3::FlowSender> Make(std::size_t flow, uint64_t seed);

    const Scenario& m_scenario;
    bool m_peers_follow;
    std::vector<std::unique_ptr<ns3::FlowSender>> m_senders;
    TunableTable m_tunables;
};

} // namespace bbrgym

#endif
