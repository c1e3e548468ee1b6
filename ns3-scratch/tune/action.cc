// SPDX-License-Identifier: GPL-2.0-only
#include "action.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace bbrgym
{

namespace
{

using Scale = Coordinate::Scale;

void
Check(const ActionSpec& spec, std::span<const float> action)
{
    const bool is_inside =
        std::all_of(action.begin(), action.end(), [](float number) { return std::abs(number) <= 1.0F; });
    if (action.size() == spec.coordinates.size() && is_inside)
    {
        return;
    }
    std::ostringstream text;
    text << "action: is [";
    for (std::size_t i = 0; i < action.size(); ++i)
    {
        text << (i > 0 ? ", " : "") << action[i];
    }
    text << "], allowed are " << spec.coordinates.size() << " numbers in [-1, 1]";
    throw std::invalid_argument(text.str());
}

/** Where an action leads to, a whole number's coordinate anywhere in its part. */
std::vector<float>
Aims(const ActionSpec& spec, std::span<const float> action, std::span<const float> in_force)
{
    std::vector<float> aims(action.begin(), action.end());
    for (std::size_t i = 0; (spec.step || spec.limit) && i < aims.size(); ++i)
    {
        const double now = in_force[i];
        double aim = spec.step ? now + (*spec.step)[i] * action[i] : action[i];
        if (spec.limit)
        {
            aim = std::min(std::max(aim, now - (*spec.limit)[i]), now + (*spec.limit)[i]);
        }
        aims[i] = static_cast<float>(std::min(std::max(aim, -1.0), 1.0));
    }
    return aims;
}

/** The end of a range that a lower bound leaves. */
double
Least(const Coordinate& coordinate, std::span<const double> values)
{
    if (!coordinate.not_below)
    {
        return coordinate.low;
    }
    const auto& lower = *coordinate.not_below;
    return std::max(coordinate.low, lower.coordinate ? values[*lower.coordinate] : lower.preset);
}

/** A value of a range, from 0 to 1 of it. */
double
ValueAt(const Coordinate& coordinate, double low, double part)
{
    return coordinate.scale == Scale::LOG ? low * std::pow(coordinate.high / low, part)
                                          : low + (coordinate.high - low) * part;
}

double
PartOf(const Coordinate& coordinate, double low, double value)
{
    const bool is_log = coordinate.scale == Scale::LOG;
    const double above = is_log ? std::log(value / low) : value - low;
    const double span = is_log ? std::log(coordinate.high / low) : coordinate.high - low;
    return above / (span > 0 ? span : 1);
}

double
Values(const Coordinate& coordinate)
{
    return coordinate.high - coordinate.low + 1;
}

} // namespace

Setting
SettingOf(const ActionSpec& spec, std::span<const double> values)
{
    Setting setting{{values.begin(), values.end()}, {}};
    for (std::size_t i = 0; i < values.size(); ++i)
    {
        const Coordinate& coordinate = spec.coordinates[i];
        const double part = coordinate.scale == Scale::WHOLE
                                ? (values[i] - coordinate.low + 0.5) / Values(coordinate)
                                : PartOf(coordinate, Least(coordinate, values), values[i]);
        setting.coordinates.push_back(static_cast<float>(2 * std::min(std::max(part, 0.0), 1.0) - 1));
    }
    return setting;
}

Setting
Settle(const ActionSpec& spec, std::span<const float> action, std::span<const float> in_force)
{
    Check(spec, action);
    Setting setting{std::vector<double>(action.size()), Aims(spec, action, in_force)};
    // Those that others must not be below come first.
    for (const bool is_bounded : {false, true})
    {
        for (std::size_t i = 0; i < action.size(); ++i)
        {
            const Coordinate& coordinate = spec.coordinates[i];
            if (coordinate.not_below.has_value() != is_bounded)
            {
                continue;
            }
            const double part = (static_cast<double>(setting.coordinates[i]) + 1) * 0.5;
            if (coordinate.scale == Scale::WHOLE)
            {
                const double count = Values(coordinate);
                const double nth = std::max(std::ceil(part * count) - 1, 0.0);
                setting.values[i] = coordinate.low + nth;
                setting.coordinates[i] = static_cast<float>(nth * (2 / count) + (1 / count - 1));
            }
            else
            {
                setting.values[i] = ValueAt(coordinate, Least(coordinate, setting.values), part);
            }
        }
    }
    for (std::size_t i = 0; i < action.size(); ++i)
    {
        setting.values[i] = std::min(setting.values[i], spec.coordinates[i].high);
    }
    return setting;
}

} // namespace bbrgym
