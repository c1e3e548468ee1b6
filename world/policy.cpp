// SPDX-License-Identifier: GPL-2.0-only
#include "policy.hpp"

#include "fields.hpp"
#include "params.hpp"

#include <algorithm>
#include <dlfcn.h>
#include <filesystem>

namespace bbrgym
{

// What the header exports, see agents/training/policy.h.jinja.

struct PolicyColumn
{
    const char* name;
    int64_t per_unit;
};

struct PolicyEntry
{
    uint32_t format;
    uint32_t is_per_flow;
    uint64_t interval_us;
    uint64_t hold;
    uint64_t state_bytes;
    uint32_t flows;
    uint32_t field_count;
    uint32_t tunable_count;
    const char* variant;
    const PolicyColumn* fields;
    const PolicyColumn* tunables;
    void (*begin)(void* state, const int64_t* tunables);
    void (*decide)(void* state, const int64_t* fields, uint32_t flows, int64_t* tunables);
};

namespace
{

constexpr uint32_t FORMAT = 2;

std::size_t
FieldOf(const std::string& path, const char* name)
{
    const auto found = std::ranges::find_if(FLOW_STAT_FIELDS, [name](const Field& field) { return std::string(field.name) == name; });
    if (found == std::end(FLOW_STAT_FIELDS))
    {
        throw std::invalid_argument("policy: " + path + " observes " + name + ", which no world measures: export it again");
    }
    return static_cast<std::size_t>(found - std::begin(FLOW_STAT_FIELDS));
}

std::size_t
TunableOf(const std::string& path, const char* name)
{
    const auto found = FindTunable(name);
    if (!found)
    {
        throw std::invalid_argument("policy: " + path + " sets " + name + ", which is no tunable: export it again");
    }
    return static_cast<std::size_t>(*found);
}

} // namespace

// ---- the shared object ----------------------------------------------------------------------------------

Policy::Policy(const std::string& path)
    : m_library(dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL))
{
    try
    {
        if (m_library == nullptr)
        {
            throw std::invalid_argument(std::string("policy: cannot be loaded: ") + dlerror());
        }
        m_entry = static_cast<const PolicyEntry*>(dlsym(m_library, "bbrgym_policy"));
        if (m_entry == nullptr || m_entry->format != FORMAT)
        {
            throw std::invalid_argument("policy: " + path + " is no policy of format " + std::to_string(FORMAT) +
                                        ", expected what `bbrgym export --format c` wrote, compiled with BBRGYM_POLICY_ENTRY");
        }
        for (const PolicyColumn& column : std::span(m_entry->fields, m_entry->field_count))
        {
            m_fields.push_back({FieldOf(path, column.name), static_cast<double>(column.per_unit)});
        }
        for (const PolicyColumn& column : std::span(m_entry->tunables, m_entry->tunable_count))
        {
            m_tunables.push_back({TunableOf(path, column.name), static_cast<double>(column.per_unit)});
        }
    }
    catch (...)
    {
        if (m_library != nullptr)
        {
            dlclose(m_library);
        }
        throw;
    }
}

Policy::~Policy()
{
    dlclose(m_library);
}

int64_t
Policy::IntervalNs() const
{
    return static_cast<int64_t>(m_entry->interval_us) * 1000;
}

// ---- at work --------------------------------------------------------------------------------------------

PolicyRun::PolicyRun(std::shared_ptr<const Policy> policy, const Scenario& scenario)
    : m_policy(std::move(policy))
{
    const PolicyEntry& entry = *m_policy->m_entry;
    std::vector<Controlled> controlled;
    for (std::size_t flow = 0; flow < scenario.flows.size(); ++flow)
    {
        const Flow& spec = scenario.flows[flow];
        if (spec.role == Role::LEARNER && spec.cc == entry.variant)
        {
            controlled.push_back({flow, spec.start_ns, spec.stop_ns});
        }
    }
    if (controlled.empty())
    {
        throw std::invalid_argument("policy: sets tunables of " + std::string(entry.variant) + ", expected a flow with role learner and cc " +
                                    entry.variant + " in scenario '" + scenario.name + "'");
    }
    if (entry.is_per_flow == 0 && controlled.size() > entry.flows)
    {
        throw std::invalid_argument("policy: observes up to " + std::to_string(entry.flows) + " learner flows, scenario '" + scenario.name +
                                    "' has " + std::to_string(controlled.size()));
    }
    if (entry.is_per_flow == 0)
    {
        m_controllers.push_back({controlled, std::vector<std::byte>(entry.state_bytes)});
        return;
    }
    for (const Controlled& one : controlled)
    {
        m_controllers.push_back({{one}, std::vector<std::byte>(entry.state_bytes)});
    }
}

/**
 * A flow's own controller acts in each interval in which the flow runs, one for all flows in all. Decisions that hold for
 * several intervals are made at the same times by all controllers.
 */
void
PolicyRun::Decide(int64_t now_ns, const WorldTables& tables)
{
    const bool is_per_flow = m_policy->m_entry->is_per_flow != 0;
    const auto hold = static_cast<int64_t>(m_policy->m_entry->hold);
    const bool is_free = m_intervals++ % hold == 0;
    for (Controller& controller : m_controllers)
    {
        const Controlled& first = controller.flows.front();
        const bool begins = is_free && first.start_ns < now_ns + hold * m_policy->IntervalNs();
        if (!is_per_flow || ((controller.has_begun || begins) && now_ns < first.stop_ns))
        {
            Decide(controller, tables);
        }
    }
}

void
PolicyRun::Decide(Controller& controller, const WorldTables& tables)
{
    constexpr std::size_t fields = std::size(FLOW_STAT_FIELDS);
    const std::size_t tunables = Tunables().size();
    m_values.clear();
    for (const Policy::Column& column : m_policy->m_tunables)
    {
        m_values.push_back(std::llround(tables.tunables[controller.flows.front().flow * tunables + column.index] * column.per_unit));
    }
    if (!controller.has_begun)
    {
        m_policy->m_entry->begin(controller.state.data(), m_values.data());
        controller.has_begun = true;
    }
    m_fields.clear();
    for (const Controlled& one : controller.flows)
    {
        for (const Policy::Column& column : m_policy->m_fields)
        {
            m_fields.push_back(std::llround(tables.flow_stats[one.flow * fields + column.index] * column.per_unit));
        }
    }
    m_policy->m_entry->decide(
        controller.state.data(), m_fields.data(), static_cast<uint32_t>(controller.flows.size()), m_values.data());
    for (const Controlled& one : controller.flows)
    {
        for (std::size_t i = 0; i < m_values.size(); ++i)
        {
            const Policy::Column& column = m_policy->m_tunables[i];
            tables.tunables[one.flow * tunables + column.index] = static_cast<double>(m_values[i]) / column.per_unit;
        }
    }
}

int64_t
PolicyRun::EndOf(double duration_s, int64_t now_ns, int64_t end_ns) const
{
    const int64_t until_ns = std::min<int64_t>(now_ns + std::llround(std::min(duration_s * 1e9, 9e17)), end_ns);
    if (!(duration_s > 0) || ((until_ns - now_ns) % m_policy->IntervalNs() != 0 && until_ns < end_ns))
    {
        throw std::invalid_argument("advance: the duration is " + std::to_string(duration_s) +
                                    " s, allowed with this policy are multiples of its interval, " +
                                    std::to_string(static_cast<double>(m_policy->IntervalNs()) / 1e9) + " s");
    }
    return until_ns;
}

} // namespace bbrgym
