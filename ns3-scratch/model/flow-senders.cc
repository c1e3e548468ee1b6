// SPDX-License-Identifier: GPL-2.0-only
#include "flow-senders.h"

#include "params.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace bbrgym
{

using namespace ns3;

FlowSenders::FlowSenders(const Scenario& scenario, uint64_t seed, bool peers_follow)
    : m_scenario(scenario),
      m_peers_follow(peers_follow)
{
    for (std::size_t flow = 0; flow < scenario.flows.size(); ++flow)
    {
        m_senders.push_back(Make(flow, seed));
    }
}

std::unique_ptr<FlowSender>
FlowSenders::Make(std::size_t flow, uint64_t seed)
{
    const Flow& spec = m_scenario.flows[flow];
    const std::string path = "flows[" + std::to_string(flow) + "]";
    const auto variant = FindVariant(spec.cc);
    if (variant)
    {
        const cc_params params = ParamsOf(spec, *variant, path);
        SocketFacts facts = spec.stack.socket;
        facts.tail_loss_probe &= m_peers_follow;
        facts.undo &= m_peers_follow; // ns-3's receiver reports no duplicates
        m_tunables.AddFlow(*variant, params);
        return std::make_unique<LinuxSender>(spec, params, facts, seed);
    }
    const auto stock = StockCongestionControls();
    if (std::find(stock.begin(), stock.end(), spec.cc) == stock.end())
    {
        std::string known;
        for (const VariantInfo& info : Variants())
        {
            known += std::string(info.name) + ", ";
        }
        for (const std::string& name : stock)
        {
            known += name + (name == stock.back() ? "" : ", ");
        }
        throw ScenarioError(path + ".cc", "is '" + spec.cc + "', expected one of " + known);
    }
    if (!spec.tunables.empty())
    {
        throw ScenarioError(path + ".tunables", "ns-3's own " + spec.cc + " has none, expected {}");
    }
    m_tunables.AddFlow(TunableTable::NO_VARIANT, {});
    return std::make_unique<StockSender>(spec.cc, m_scenario.mss_bytes);
}

LinuxSender&
FlowSenders::OursOf(std::size_t flow) const
{
    if (flow >= m_senders.size())
    {
        throw std::out_of_range("flow " + std::to_string(flow) + " of " + std::to_string(m_senders.size()));
    }
    auto* ours = dynamic_cast<LinuxSender*>(m_senders[flow].get());
    if (!ours)
    {
        throw std::invalid_argument("flow '" + m_scenario.flows[flow].name + "': ns-3's own " +
                                    m_scenario.flows[flow].cc + " shows no ACKs");
    }
    return *ours;
}

void
FlowSenders::ApplyTunables(std::span<const double> table)
{
    for (const auto& [flow, params] : m_tunables.Changes(table, m_scenario))
    {
        OursOf(flow).SetParams(params);
    }
}

} // namespace bbrgym
