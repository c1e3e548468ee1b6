// SPDX-License-Identifier: GPL-2.0-only
//
// The score by which variants and agents are compared (src/bbrgym/worlds/score.py), of one control interval:
//
//   flow:      log2(goodput / fair share) - DELTA * log2(mean RTT / base RTT)
//   interval:  mean over the flows that count
//
// Tuned flows count; if there is none, all but background ones; if there is none of these, all.
#ifndef BBRGYM_SCORE_H
#define BBRGYM_SCORE_H

#include "scenario.hpp"

#include <span>

namespace bbrgym
{

/**
 * Score of an interval of `interval_s` seconds from its rows [flows, FLOW_STAT]; NaN if no flow was active. A flow that
 * delivered nothing scores as with one packet, and one without an RTT sample as with its base RTT.
 */
double IntervalScore(const Scenario& scenario, std::span<const double> flow_stats, double interval_s);

} // namespace bbrgym

#endif
