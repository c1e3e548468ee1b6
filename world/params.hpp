// SPDX-License-Identifier: GPL-2.0-only
//
// The tables of tunables and variants (cc/tunables.def, cc/variants.def) for C++: names, units, bounds, and
// tunables read and written in natural units.
#ifndef BBRGYM_WORLD_PARAMS_HPP
#define BBRGYM_WORLD_PARAMS_HPP

extern "C"
{
#include "cc.h"
}

#include <array>
#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bbrgym
{

enum class TunableKind
{
    ratio,
    us,
    count,
    mode,
    on_off
};

struct TunableInfo
{
    std::string_view name;
    std::string_view symbol;
    std::string_view unit; ///< ratio, us, count, mode or switch
    TunableKind kind;
    double default_value;
    double low;
    double high;
    std::string_view scale;     ///< linear or log
    std::string_view mechanism; ///< of mechanisms.def, or BBR
    std::string_view source;
    int64_t cc_params::* field; ///< null for a switch
    uint32_t bit;               ///< of the mechanism; 0: BBR v1's own, CC_BBR3: v3's
};

struct VariantInfo
{
    std::string_view name;
    cc_algorithm algorithm;
    uint32_t mechanisms;
    std::string_view source;
};

namespace detail
{

// clang-format off
#define BBRGYM_FIELD_ratio(name) &cc_params::name##_q16
#define BBRGYM_FIELD_us(name) &cc_params::name
#define BBRGYM_FIELD_count(name) &cc_params::name
#define BBRGYM_FIELD_mode(name) &cc_params::name
#define BBRGYM_FIELD_switch(name) nullptr
#define BBRGYM_KIND_ratio TunableKind::ratio
#define BBRGYM_KIND_us TunableKind::us
#define BBRGYM_KIND_count TunableKind::count
#define BBRGYM_KIND_mode TunableKind::mode
#define BBRGYM_KIND_switch TunableKind::on_off

#define CC_TUNABLE(name, symbol, kind, def, low, high, scale, mechanism, source)                       \
    TunableInfo{#name, symbol, #kind, BBRGYM_KIND_##kind, def, low, high, #scale, #mechanism, source,  \
                BBRGYM_FIELD_##kind(name), CC_MECHANISM_OF_##name},
inline constexpr std::array TUNABLES = {
#include "tunables.def"
};
#undef CC_TUNABLE

#define CC_VARIANT(id, name, algorithm, mechanisms, exponent, source) VariantInfo{name, algorithm, mechanisms, source},
inline constexpr std::array VARIANTS = {
#include "variants.def"
};
#undef CC_VARIANT
// clang-format on

} // namespace detail

constexpr std::span<const TunableInfo>
Tunables()
{
    return detail::TUNABLES;
}

constexpr std::span<const VariantInfo>
Variants()
{
    return detail::VARIANTS;
}

/** A loaded algorithm of one file, whose variants' indices follow those of Variants(). */
struct Plugin : cc_plugin
{
    std::string name;
    std::vector<TunableInfo> table;
    /** Makes one flow's own plugin, from the seed of its stream; null: all flows share this one. */
    std::function<std::shared_ptr<const Plugin>(const std::string& flow, uint64_t seed)> of_flow;
    /** Of one flow's own: another one that continues as this would. */
    std::function<std::shared_ptr<const Plugin>()> copied;
    std::shared_ptr<void> object; ///< of one flow's own: what decides
};

/** All that this module has loaded; the last of a name counts. They stay where they are. */
inline std::deque<Plugin>&
Plugins()
{
    static std::deque<Plugin> plugins;
    return plugins;
}

/** Of a variant's index; null: it is of Variants(). */
inline const Plugin*
PluginOf(int variant)
{
    const auto index = static_cast<std::size_t>(variant);
    return index < detail::VARIANTS.size() ? nullptr : &Plugins()[index - detail::VARIANTS.size()];
}

/** Index of a variant; nothing if there is none of that name. */
inline std::optional<int>
FindVariant(std::string_view name)
{
    for (std::size_t i = Plugins().size(); i-- > 0;)
    {
        if (Plugins()[i].name == name)
        {
            return static_cast<int>(detail::VARIANTS.size() + i);
        }
    }
    for (std::size_t i = 0; i < detail::VARIANTS.size(); ++i)
    {
        if (detail::VARIANTS[i].name == name)
        {
            return static_cast<int>(i);
        }
    }
    return std::nullopt;
}

/** The column of a plugin's first tunable: they are in the places of v3's, which it does not have. */
inline constexpr std::size_t FIRST_OF_PLUGIN = [] {
    std::size_t index = 0;
    while (detail::TUNABLES[index].bit != CC_BBR3)
    {
        ++index;
    }
    return index;
}();
static_assert(FIRST_OF_PLUGIN + CC_PLUGIN_TUNABLES <= detail::TUNABLES.size());

/** Index of a tunable, of a plugin first; nothing if there is none of that name. */
inline std::optional<int>
FindTunable(std::string_view name, const cc_plugin* plugin = nullptr)
{
    for (std::size_t i = 0; plugin && i < plugin->tunable_count; ++i)
    {
        if (plugin->tunables[i].name == name)
        {
            return static_cast<int>(FIRST_OF_PLUGIN + i);
        }
    }
    for (std::size_t i = 0; i < detail::TUNABLES.size(); ++i)
    {
        if (detail::TUNABLES[i].name == name)
        {
            return static_cast<int>(i);
        }
    }
    return std::nullopt;
}

/** The row of a tunable: a plugin's own, if it has that one. */
inline const TunableInfo&
RowOfTunable(const cc_plugin* plugin, int tunable)
{
    const auto index = static_cast<std::size_t>(tunable);
    if (plugin && index >= FIRST_OF_PLUGIN && index < FIRST_OF_PLUGIN + plugin->tunable_count)
    {
        return static_cast<const Plugin*>(plugin)->table[index - FIRST_OF_PLUGIN];
    }
    return detail::TUNABLES[index];
}

/** Sets a tunable's number; it is a plugin's, or in range. */
inline void
StoreTunable(cc_params& params, int tunable, double value)
{
    const bool is_ratio = RowOfTunable(params.plugin, tunable).kind == TunableKind::ratio;
    params.*detail::TUNABLES[static_cast<std::size_t>(tunable)].field =
        std::llround(is_ratio ? value * CC_Q16_ONE : value);
}

inline cc_params
Preset(int variant)
{
    const Plugin* plugin = PluginOf(variant);
    cc_params params{};
    cc_params_init(&params, plugin ? CC_VARIANT_BBR : static_cast<cc_variant>(variant));
    if (plugin)
    {
        params.algorithm = plugin->paces ? CC_ALGORITHM_PLUGIN_BBR : CC_ALGORITHM_PLUGIN;
        params.plugin = plugin;
        for (std::size_t i = 0; i < plugin->table.size(); ++i)
        {
            StoreTunable(params, static_cast<int>(FIRST_OF_PLUGIN + i), plugin->table[i].default_value);
        }
    }
    return params;
}

/** BBR's own tunables belong to every BBR of the version, a mechanism's to the variants that have it, all of v1's to
 * bbr-mix. */
inline bool
VariantHasTunable(int variant, int tunable)
{
    const TunableInfo& t = detail::TUNABLES[static_cast<std::size_t>(tunable)];
    if (const Plugin* plugin = PluginOf(variant))
    {
        return &RowOfTunable(plugin, tunable) != &t || (plugin->paces && !plugin->of_flow && t.bit == 0);
    }
    const VariantInfo& v = detail::VARIANTS[static_cast<std::size_t>(variant)];
    if (v.algorithm == CC_ALGORITHM_BBR3 || v.algorithm == CC_ALGORITHM_BBR2)
    {
        return t.bit == CC_BBR3 || (variant == CC_VARIANT_BBR3_MIX && (t.bit & CC_BBR3_MECHANISMS) != 0);
    }
    return (v.algorithm == CC_ALGORITHM_BBR && t.bit == 0) ||
           (variant == CC_VARIANT_BBR_MIX && (t.bit & CC_ALL_MECHANISMS) != 0) ||
           (t.kind != TunableKind::on_off && (v.mechanisms & t.bit) != 0);
}

/** Value of a tunable in natural units. */
inline double
GetTunable(const cc_params& params, int tunable)
{
    const TunableInfo& t = detail::TUNABLES[static_cast<std::size_t>(tunable)];
    if (t.kind == TunableKind::on_off)
    {
        return (params.mechanisms & t.bit) != 0 ? 1.0 : 0.0;
    }
    const double stored = static_cast<double>(params.*t.field);
    return RowOfTunable(params.plugin, tunable).kind == TunableKind::ratio ? stored / CC_Q16_ONE : stored;
}

/**
 * Sets a tunable from natural units; whole numbers and switches are rounded to the nearest.
 * @throws std::invalid_argument naming the tunable, the value and the range, if it is out of range or not a number
 */
inline void
SetTunable(cc_params& params, int tunable, double value)
{
    const TunableInfo& t = RowOfTunable(params.plugin, tunable);
    if (!(value >= t.low && value <= t.high))
    {
        std::ostringstream text;
        text << t.name << " = " << value << " is outside [" << t.low << ", " << t.high << "] " << t.unit;
        throw std::invalid_argument(text.str());
    }
    if (t.kind == TunableKind::on_off)
    {
        params.mechanisms = value >= 0.5 ? params.mechanisms | t.bit : params.mechanisms & ~t.bit;
        return;
    }
    StoreTunable(params, tunable, value);
}

} // namespace bbrgym

#endif
