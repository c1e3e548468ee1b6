// SPDX-License-Identifier: GPL-2.0-only
#include "observation.h"

#include "fields.hpp"

#include <algorithm>
#include <cmath>

namespace bbrgym
{

namespace
{

constexpr std::size_t FIELDS = std::size(FLOW_STAT_FIELDS);

float
Normalised(const Feature& feature, std::span<const double> row)
{
    double x = row[feature.field];
    if (feature.per)
    {
        const double divisor = row[*feature.per];
        x /= divisor > 0 ? divisor : INFINITY;
    }
    switch (feature.scale)
    {
    case Feature::Scale::LOG:
        x = std::log(std::max(x / feature.low, 1.0)) * (1 / std::log(feature.high / feature.low));
        break;
    case Feature::Scale::LINEAR:
        x = std::max((x - feature.low) * (1 / (feature.high - feature.low)), 0.0);
        break;
    case Feature::Scale::WITHIN:
        return feature.low <= x && x <= feature.high ? 1.0F : 0.0F;
    }
    return static_cast<float>(std::min(x, 1.0));
}

/** Mean, smallest and largest over active flows, 0 without one; then the part of the slots that are active. */
std::vector<float>
Pooled(const std::vector<std::vector<float>>& by_slot, const std::vector<bool>& is_active, std::size_t features)
{
    const auto count = static_cast<double>(std::count(is_active.begin(), is_active.end(), true));
    std::vector<float> pooled(3 * features + 1);
    for (std::size_t f = 0; f < features; ++f)
    {
        double sum = 0;
        float smallest = 1;
        float largest = 0;
        for (std::size_t slot = 0; slot < by_slot.size(); ++slot)
        {
            if (is_active[slot])
            {
                sum += static_cast<double>(by_slot[slot][f]);
                smallest = std::min(smallest, by_slot[slot][f]);
                largest = std::max(largest, by_slot[slot][f]);
            }
        }
        pooled[f] = static_cast<float>(sum / std::max(count, 1.0));
        pooled[features + f] = count > 0 ? smallest : 0;
        pooled[2 * features + f] = largest;
    }
    pooled.back() = static_cast<float>(count / static_cast<double>(by_slot.size()));
    return pooled;
}

/** What one interval adds to the observation. */
std::vector<float>
View(const ObservationSpec& spec,
     std::span<const double> slots,
     std::size_t present,
     std::span<const float> coordinates)
{
    const std::size_t features = spec.features.size();
    std::vector<std::vector<float>> by_slot(spec.slots, std::vector<float>(features, 0.0F));
    std::vector<bool> is_active(spec.slots, false);
    for (std::size_t slot = 0; slot < present; ++slot)
    {
        is_active[slot] = ReadRow<FlowStats>(slots, slot).active > 0;
        for (std::size_t f = 0; f < features; ++f)
        {
            by_slot[slot][f] = Normalised(spec.features[f], slots.subspan(slot * FIELDS, FIELDS));
        }
    }
    std::vector<float> view;
    if (spec.is_pooled)
    {
        view = Pooled(by_slot, is_active, features);
    }
    else
    {
        for (const std::vector<float>& numbers : by_slot)
        {
            view.insert(view.end(), numbers.begin(), numbers.end());
        }
    }
    for (const float coordinate : coordinates)
    {
        view.push_back((coordinate + 1.0F) / 2.0F);
    }
    return view;
}

} // namespace

ObservationStack::ObservationStack(const ObservationSpec& spec,
                                   std::span<const double> slots,
                                   std::size_t present,
                                   std::span<const float> coordinates)
    : m_spec(spec)
{
    const std::vector<float> view = View(spec, slots, present, coordinates);
    for (std::size_t i = 0; i < spec.stack; ++i)
    {
        m_numbers.insert(m_numbers.end(), view.begin(), view.end());
    }
}

void
ObservationStack::Add(std::span<const double> slots, std::size_t present, std::span<const float> coordinates)
{
    const std::vector<float> view = View(m_spec, slots, present, coordinates);
    m_numbers.erase(m_numbers.begin(), m_numbers.begin() + static_cast<std::ptrdiff_t>(view.size()));
    m_numbers.insert(m_numbers.end(), view.begin(), view.end());
}

} // namespace bbrgym
