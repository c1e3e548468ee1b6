// SPDX-License-Identifier: GPL-2.0-only
//
// From an action to tunables in natural units: envs/control.py and envs/action.py, operation by operation.
#ifndef BBRGYM_TUNE_ACTION_H
#define BBRGYM_TUNE_ACTION_H

#include "task.h"

#include <span>
#include <vector>

namespace bbrgym
{

/** Tunables, and where they are in [-1, 1]; one number for each that the action sets. */
struct Setting
{
    std::vector<double> values;
    std::vector<float> coordinates;
};

/** The setting that a flow starts with, from its tunables. */
Setting SettingOf(const ActionSpec& spec, std::span<const double> values);

/** The setting that an action leads to; throws std::invalid_argument for one that is not of the space. */
Setting Settle(const ActionSpec& spec, std::span<const float> action, std::span<const float> in_force);

} // namespace bbrgym

#endif
