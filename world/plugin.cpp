// SPDX-License-Identifier: GPL-2.0-only
#include "plugin.hpp"

#include <algorithm>
#include <iterator>

#include <dlfcn.h>

namespace bbrgym
{

namespace
{

void
Require(bool holds, const std::string& what, const auto& value, const std::string& expected)
{
    if (!holds)
    {
        std::ostringstream text;
        text << what << " = " << value << ", expected " << expected;
        throw std::invalid_argument(text.str());
    }
}

/** Ends a run whose plugin decided a window or a rate at which no packet leaves. */
void
Refuse(const cc_params* params, const cc_state* state)
{
    const Plugin& plugin = *static_cast<const Plugin*>(params->plugin);
    const bool is_window = state->cwnd_pkts == 0 || state->cwnd_pkts > CC_PLUGIN_MAX_CWND_PKTS;
    throw std::runtime_error(plugin.name + ": " +
                             (is_window ? "cwnd_pkts = " + std::to_string(state->cwnd_pkts) + ", expected 1 to " +
                                              std::to_string(CC_PLUGIN_MAX_CWND_PKTS)
                                        : "pacing_Bps = 0, expected more, or UINT64_MAX for none"));
}

TunableInfo
RowOf(const cc_plugin_tunable& row)
{
    const std::array kinds = {std::pair("ratio", TunableKind::ratio), std::pair("us", TunableKind::us),
                              std::pair("count", TunableKind::count), std::pair("mode", TunableKind::mode)};
    const auto* const kind = std::ranges::find(kinds, std::string_view(row.unit),
                                               [](const auto& one) { return std::string_view(one.first); });
    const std::string_view scale = row.scale;
    const std::string at = std::string("tunable ") + row.name + ": ";
    Require(kind != kinds.end(), at + "unit", row.unit, "ratio, us, count or mode");
    Require(scale == "linear" || scale == "log", at + "scale", row.scale, "linear or log");
    Require(row.low < row.high && (scale == "linear" || row.low > 0), at + "low", row.low,
            "less than high, and on a log scale more than 0");
    Require(row.preset >= row.low && row.preset <= row.high, at + "default", row.preset, "a value from low to high");
    Require(std::abs(row.low) < 1e9 && row.high < 1e9, at + "high", row.high, "less than 1e9");
    return {.name = row.name,
            .symbol = "",
            .unit = row.unit,
            .kind = kind->second,
            .default_value = row.preset,
            .low = row.low,
            .high = row.high,
            .scale = row.scale,
            .mechanism = "PLUGIN",
            .source = row.meaning,
            .field = nullptr,
            .bit = 0};
}

} // namespace

int
LoadPlugin(const std::string& name, const std::string& path)
{
    void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // stays to the end of the process, as its variant
    if (!object)
    {
        throw std::invalid_argument(dlerror());
    }
    const auto* row = static_cast<const cc_plugin*>(dlsym(object, "bbrgym_plugin"));
    Require(row != nullptr, "bbrgym_plugin", "none", "a file that ends with CC_PLUGIN(...)");
    Require(row->version == CC_PLUGIN_VERSION, "version", row->version, std::to_string(CC_PLUGIN_VERSION));
    Require(row->layout == CC_PLUGIN_LAYOUT, "layout", row->layout,
            std::to_string(CC_PLUGIN_LAYOUT) + ": compile it with this version's headers");
    Require(row->state_bytes <= CC_OWN_BYTES, "state_bytes", row->state_bytes,
            "at most " + std::to_string(CC_OWN_BYTES));
    Require(row->tunable_count <= CC_PLUGIN_TUNABLES, "tunables", row->tunable_count,
            "at most " + std::to_string(CC_PLUGIN_TUNABLES));
    Require(row->on_ack != nullptr, "on_ack", "none", "a function");
    Require(row->paces || row->reduce != nullptr, "reduce", "none", "a function, or paces = true");
    Plugin plugin;
    static_cast<cc_plugin&>(plugin) = *row;
    plugin.refuse = &Refuse;
    plugin.name = name;
    std::ranges::transform(std::span(row->tunables, row->tunable_count), std::back_inserter(plugin.table), RowOf);
    Plugins().push_back(std::move(plugin));
    return *FindVariant(name);
}

} // namespace bbrgym
