// SPDX-License-Identifier: GPL-2.0-only
#include "tunable_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace bbrgym
{

void
TunableTable::WriteTo(std::span<double> table)
{
    m_shown.assign(m_flows.size() * Tunables().size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        for (std::size_t i = 0; m_flows[flow].variant != NO_VARIANT && i < Tunables().size(); ++i)
        {
            const auto tunable = static_cast<int>(i);
            if (VariantHasTunable(m_flows[flow].variant, tunable))
            {
                m_shown[flow * Tunables().size() + i] = GetTunable(m_flows[flow].params, tunable);
            }
        }
    }
    std::ranges::copy(m_shown, table.begin());
}

const std::vector<std::pair<std::size_t, cc_params>>&
TunableTable::Changes(std::span<const double> table, const Scenario& scenario)
{
    m_changes.clear();
    if (std::memcmp(table.data(), m_shown.data(), m_shown.size() * sizeof(double)) == 0)
    {
        return m_changes;
    }
    for (std::size_t flow = 0; flow < m_flows.size(); ++flow)
    {
        const FlowRow& row = m_flows[flow];
        const auto refuse = [&scenario, flow](const std::string& reason) {
            throw std::invalid_argument("flow '" + scenario.flows[flow].name + "': " + reason);
        };
        cc_params params = row.params;
        bool is_changed = false;
        for (std::size_t i = 0; i < Tunables().size(); ++i)
        {
            const double wanted = table[flow * Tunables().size() + i];
            const double shown = m_shown[flow * Tunables().size() + i];
            if (wanted == shown || (std::isnan(wanted) && std::isnan(shown)))
            {
                continue;
            }
            const auto tunable = static_cast<int>(i);
            if (row.variant == NO_VARIANT || !VariantHasTunable(row.variant, tunable))
            {
                refuse(scenario.flows[flow].cc + " has no tunable " + std::string(Tunables()[i].name));
            }
            try
            {
                SetTunable(params, tunable, wanted);
            }
            catch (const std::invalid_argument& error)
            {
                refuse(error.what());
            }
            is_changed = true;
        }
        if (is_changed)
        {
            m_changes.emplace_back(flow, params);
        }
    }
    for (const auto& [flow, params] : m_changes)
    {
        m_flows[flow].params = params;
    }
    m_shown.assign(table.begin(), table.end());
    return m_changes;
}

cc_params
ParamsOf(const Flow& flow, int variant, const std::string& path)
{
    cc_params params = Preset(variant);
    params.stack = flow.stack.algorithm;
    for (const auto& [name, value] : flow.tunables)
    {
        const auto tunable = FindTunable(name, params.plugin);
        if (!tunable || !VariantHasTunable(variant, *tunable))
        {
            throw ScenarioError(path + ".tunables", flow.cc + " has no tunable " + name);
        }
        try
        {
            SetTunable(params, *tunable, value);
        }
        catch (const std::invalid_argument& error)
        {
            throw ScenarioError(path + ".tunables", error.what());
        }
    }
    return params;
}

} // namespace bbrgym
