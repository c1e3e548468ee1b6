// SPDX-License-Identifier: GPL-2.0-only
//
// From measurements to the observation: envs/features.py and envs/observation.py, operation by operation.
#ifndef BBRGYM_TUNE_OBSERVATION_H
#define BBRGYM_TUNE_OBSERVATION_H

#include "task.h"

#include <span>
#include <vector>

namespace bbrgym
{

/** The last intervals, the oldest first; before the first ones the view at the begin stands in their place. */
class ObservationStack
{
  public:
    /**
     * Measurements at the begin, [slots, FLOW_STAT] with 0 where a slot has no flow; how many of the slots have one;
     * and the setting's coordinates.
     */
    ObservationStack(const ObservationSpec& spec,
                     std::span<const double> slots,
                     std::size_t present,
                     std::span<const float> coordinates);

    /** An interval has passed. */
    void Add(std::span<const double> slots, std::size_t present, std::span<const float> coordinates);

    /** stack * (flows' numbers + tunables), each from 0 to 1. */
    const std::vector<float>& Numbers() const { return m_numbers; }

  private:
    const ObservationSpec& m_spec;
    std::vector<float> m_numbers;
};

} // namespace bbrgym

#endif
