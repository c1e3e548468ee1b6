// SPDX-License-Identifier: GPL-2.0-only
//
// What the controller is paid for an interval: envs/terms.py, envs/averages.py and envs/reward.py, operation by
// operation.
#ifndef BBRGYM_TUNE_REWARD_H
#define BBRGYM_TUNE_REWARD_H

#include "task.h"

#include "fields.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bbrgym
{

/** Whether there is a term of that name. */
bool HasTerm(const std::string& name);

/** What the terms are computed from. */
struct Interval
{
    std::vector<FlowStats> learners;
    std::vector<FlowStats> flows;     ///< all of them
    std::vector<double> base_rtt_ms;  ///< of the learners
    std::vector<float> moved;         ///< distance that each coordinate of the setting moved
};

/** Exponential means of learner flows' goodput, fair share and RTT since each began. */
class Averages
{
  public:
    Averages(double horizon_s, double interval_s, std::size_t learners);

    /** Puts the means in the place of what is averaged. */
    void Replace(std::vector<FlowStats>& learners);

  private:
    struct Mean
    {
        double sum = 0;
        double total = 0;

        double Add(double keep, double value, double weight);
    };

    struct Means
    {
        Mean goodput;
        Mean fair_share;
        Mean rtt;
    };

    double m_keep;
    std::vector<Means> m_means;
};

/** The weighted sum, and its terms. */
struct Reward
{
    double total = 0;
    std::vector<std::pair<std::string, double>> terms; ///< in the task's order
};

Reward RewardOf(const RewardSpec& spec, const Interval& interval);

} // namespace bbrgym

#endif
