// SPDX-License-Identifier: GPL-2.0-only
//
// The caller's table of tunables [flows, tunables], NaN where a flow's algorithm does not have the tunable: filled
// at the start of a run, read again before each interval.
#ifndef BBRGYM_WORLD_TUNABLE_TABLE_HPP
#define BBRGYM_WORLD_TUNABLE_TABLE_HPP

#include "params.hpp"
#include "scenario.hpp"

#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

class TunableTable
{
  public:
    /** The variant of a flow whose algorithm has no tunables. */
    static constexpr int NO_VARIANT = -1;

    /** Removes all flows. */
    void Reset() { m_flows.clear(); }
    void AddFlow(int variant, const cc_params& params) { m_flows.push_back({variant, params}); }

    /** Takes what something other than the caller set; shown from the next Show on. */
    void SetParams(std::size_t flow, const cc_params& params) { m_flows[flow].params = params; }

    /** Writes the current tunables. */
    void WriteTo(std::span<double> table);

    /**
     * Returns the flows whose rows the caller changed, with their new parameters. std::invalid_argument if any value
     * is invalid; then nothing changes. `scenario` provides the names in the message.
     */
    const std::vector<std::pair<std::size_t, cc_params>>& Changes(std::span<const double> table,
                                                                  const Scenario& scenario);

  private:
    struct FlowRow
    {
        int variant;
        cc_params params;
    };

    std::vector<FlowRow> m_flows;
    std::vector<double> m_shown;
    std::vector<std::pair<std::size_t, cc_params>> m_changes;
};

/** The parameters of a flow that runs `variant`: its preset, on the flow's stack and with its own tunables.
 * ScenarioError at `path`. */
cc_params ParamsOf(const Flow& flow, int variant, const std::string& path);

} // namespace bbrgym

#endif
