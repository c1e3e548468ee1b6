// SPDX-License-Identifier: GPL-2.0-only
#include "policy.hpp"

#include "fields.hpp"
#include "params.hpp"
#include "shared_object.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace bbrgym
{

// What the header exports, see agents/deploy/policy_runtime.h.

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
// Far above what an export has, and so small that no product of them overflows.
constexpr uint64_t MAX_INTERVAL_US = 10'000'000'000;
constexpr uint64_t MAX_HOLD = 100'000;
constexpr uint64_t MAX_STATE_BYTES = 1 << 26;
constexpr uint64_t MAX_FLOWS = 1 << 16;
constexpr int64_t MAX_PER_UNIT = 1'000'000'000'000;

/** The table that a shared object exports, looked at before anything of it is used or called. */
class EntryCheck
{
  public:
    EntryCheck(const std::string& path, std::vector<Elf64_Phdr> segments, const void* symbol)
        : m_path(path),
          m_segments(std::move(segments))
    {
        Dl_info info{};
        link_map* object = nullptr;
        const Elf64_Sym* row = nullptr;
        if (symbol == nullptr || dladdr1(symbol, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0 ||
            dladdr1(symbol, &info, reinterpret_cast<void**>(const_cast<Elf64_Sym**>(&row)), RTLD_DL_SYMENT) == 0 ||
            row == nullptr)
        {
            RefuseFormat();
        }
        m_base = object->l_addr;
        m_entry = static_cast<const PolicyEntry*>(symbol);
        if (row->st_size < sizeof(PolicyEntry) || !IsMapped(symbol, sizeof(PolicyEntry), PF_R) ||
            m_entry->format != FORMAT)
        {
            RefuseFormat();
        }
    }

    const PolicyEntry* Checked() const
    {
        const PolicyEntry& entry = *m_entry;
        Require("interval_us", entry.interval_us, 1, MAX_INTERVAL_US);
        Require("hold", entry.hold, 1, MAX_HOLD);
        Require("state_bytes", entry.state_bytes, 1, MAX_STATE_BYTES);
        Require("is_per_flow", entry.is_per_flow, 0, 1);
        Require("flows", entry.flows, 1, MAX_FLOWS);
        Require("field_count", entry.field_count, 1, std::size(FLOW_STAT_FIELDS));
        Require("tunable_count", entry.tunable_count, 1, Tunables().size());
        const std::string variant = Text("variant", entry.variant);
        if (!FindVariant(variant))
        {
            Refuse("variant is '" + variant + "', which is none");
        }
        if (!IsMapped(reinterpret_cast<const void*>(entry.begin), 1, PF_X) ||
            !IsMapped(reinterpret_cast<const void*>(entry.decide), 1, PF_X))
        {
            Refuse("begin or decide is not a function of it");
        }
        return m_entry;
    }

    std::size_t FieldOf(const PolicyColumn& column) const
    {
        const std::string name = Text("the name of a field", column.name);
        const auto found =
            std::ranges::find_if(FLOW_STAT_FIELDS, [&name](const Field& field) { return field.name == name; });
        if (found == std::end(FLOW_STAT_FIELDS))
        {
            Refuse("observes '" + name + "', which no world measures");
        }
        return static_cast<std::size_t>(found - std::begin(FLOW_STAT_FIELDS));
    }

    std::size_t TunableOf(const PolicyColumn& column) const
    {
        const std::string name = Text("the name of a tunable", column.name);
        const auto found = FindTunable(name);
        if (!found || !VariantHasTunable(*FindVariant(m_entry->variant), *found))
        {
            Refuse("sets '" + name + "', which is not a tunable of " + m_entry->variant);
        }
        return static_cast<std::size_t>(*found);
    }

    std::span<const PolicyColumn> Columns(const char* what, const PolicyColumn* columns, uint32_t count) const
    {
        if (!IsMapped(columns, count * sizeof(PolicyColumn), PF_R))
        {
            Refuse(std::string(what) + " are not in it");
        }
        for (const PolicyColumn& column : std::span(columns, count))
        {
            Require("per_unit", static_cast<uint64_t>(column.per_unit), 1, MAX_PER_UNIT);
        }
        return {columns, count};
    }

  private:
    /** Whether memory is the object's own, to be used so. */
    bool IsMapped(const void* begin, std::size_t bytes, Elf64_Word use) const
    {
        const auto address = reinterpret_cast<uintptr_t>(begin) - m_base;
        return std::ranges::any_of(m_segments, [address, bytes, use](const Elf64_Phdr& segment) {
            return (segment.p_flags & use) == use && address >= segment.p_vaddr && bytes <= segment.p_memsz &&
                   address - segment.p_vaddr <= segment.p_memsz - bytes;
        });
    }

    std::string Text(const char* what, const char* text) const
    {
        constexpr std::size_t longest = 64;
        std::size_t length = 0;
        while (length < longest && IsMapped(text + length, 1, PF_R) && text[length] != '\0')
        {
            ++length;
        }
        if (length == 0 || length == longest || !IsMapped(text + length, 1, PF_R))
        {
            Refuse(std::string(what) + " is missing");
        }
        return {text, length};
    }

    void Require(const char* what, uint64_t value, uint64_t low, uint64_t high) const
    {
        if (value < low || value > high)
        {
            Refuse(std::string(what) + " is " + std::to_string(value) + ", allowed are " + std::to_string(low) +
                   " to " + std::to_string(high));
        }
    }

    [[noreturn]] void RefuseFormat() const
    {
        throw std::invalid_argument(
            "policy: " + m_path + " is not a policy of format " + std::to_string(FORMAT) +
            ", expected what `bbrgym export format=c` wrote, compiled with BBRGYM_POLICY_ENTRY");
    }

    [[noreturn]] void Refuse(const std::string& why) const
    {
        throw std::invalid_argument("policy: " + m_path + ": " + why + ": export it again");
    }

    const std::string& m_path;
    std::vector<Elf64_Phdr> m_segments;
    Elf64_Addr m_base = 0;
    const PolicyEntry* m_entry = nullptr;
};

} // namespace

// ---- the shared object ----------------------------------------------------------------------------------

Policy::Policy(const std::string& path)
{
    std::vector<Elf64_Phdr> segments = SegmentsOf(path);
    m_library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (m_library == nullptr)
    {
        throw std::invalid_argument(std::string("policy: cannot be loaded: ") + dlerror());
    }
    try
    {
        const EntryCheck check(path, std::move(segments), dlsym(m_library, "bbrgym_policy"));
        m_entry = check.Checked();
        for (const PolicyColumn& column : check.Columns("fields", m_entry->fields, m_entry->field_count))
        {
            m_fields.push_back({check.FieldOf(column), static_cast<double>(column.per_unit)});
        }
        for (const PolicyColumn& column : check.Columns("tunables", m_entry->tunables, m_entry->tunable_count))
        {
            m_tunables.push_back({check.TunableOf(column), static_cast<double>(column.per_unit)});
        }
    }
    catch (...)
    {
        dlclose(m_library);
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

PolicyRun::PolicyRun(std::shared_ptr<const Policy> policy, const Scenario& scenario) : m_policy(std::move(policy))
{
    const PolicyEntry& entry = *m_policy->m_entry;
    std::vector<Controlled> controlled;
    for (std::size_t flow = 0; flow < scenario.flows.size(); ++flow)
    {
        const Flow& spec = scenario.flows[flow];
        if (spec.role == Role::TUNED && spec.cc == entry.variant)
        {
            controlled.push_back({flow, spec.start_ns, spec.stop_ns});
        }
    }
    if (controlled.empty())
    {
        throw std::invalid_argument("policy: sets tunables of " + std::string(entry.variant) +
                                    ", expected a flow with role tuned and cc " + entry.variant + " in scenario '" +
                                    scenario.name + "'");
    }
    if (entry.is_per_flow == 0 && controlled.size() > entry.flows)
    {
        throw std::invalid_argument("policy: observes up to " + std::to_string(entry.flows) +
                                    " tuned flows, scenario '" + scenario.name + "' has " +
                                    std::to_string(controlled.size()));
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
 * A flow's own controller acts in each interval in which the flow runs, one for all flows in all. Decisions that hold
 * for several intervals are made at the same times by all controllers.
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
        m_values.push_back(
            std::llround(tables.tunables[controller.flows.front().flow * tunables + column.index] * column.per_unit));
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
    m_policy->m_entry->decide(controller.state.data(), m_fields.data(), static_cast<uint32_t>(controller.flows.size()),
                              m_values.data());
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
                                    std::to_string(static_cast<double>(m_policy->IntervalNs()) / 1e9) +
                                    " s (interval_s of an evaluation, env.control_interval_s of an environment)");
    }
    return until_ns;
}

} // namespace bbrgym
