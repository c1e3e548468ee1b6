// SPDX-License-Identifier: GPL-2.0-only
//
// A policy in integer arithmetic (`bbrgym export format=c`), compiled as a shared object, that sets the tunables of a
// world's tuned flows in place of whoever drives the world.
//
//   run time   |--- interval ---|--- interval ---|---
//              ^ decides        ^ decides        ^ decides, from the rows of the interval before
//
// It acts on the world's tables alone, between two advances, so a world needs nothing for it and costs the same
// without.
#ifndef BBRGYM_WORLD_POLICY_HPP
#define BBRGYM_WORLD_POLICY_HPP

#include "scenario.hpp"
#include "tables.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace bbrgym
{

struct PolicyEntry;

/** The shared object. */
class Policy
{
  public:
    /** std::invalid_argument: the file is not a shared object, or what it exports is not a policy of this version. */
    explicit Policy(const std::string& path);
    ~Policy();
    Policy(const Policy&) = delete;
    Policy& operator=(const Policy&) = delete;

    int64_t IntervalNs() const;

  private:
    friend class PolicyRun;

    struct Column
    {
        std::size_t index; ///< in the rows of the tables
        double per_unit;   ///< whole units in one of the table's
    };

    void* m_library = nullptr;
    const PolicyEntry* m_entry = nullptr;
    std::vector<Column> m_fields;
    std::vector<Column> m_tunables;
};

/** A policy at work in a run. A copy continues as the original would. */
class PolicyRun
{
  public:
    /** std::invalid_argument: no flow with role tuned runs the policy's variant, or more do than it can observe. */
    PolicyRun(std::shared_ptr<const Policy> policy, const Scenario& scenario);

    /** Decides the tunables of the interval that begins now, and writes them into the table. */
    void Decide(int64_t now_ns, const WorldTables& tables);

    /**
     * Runs for so long, with a decision at the beginning of each interval. `advance` runs a world for so many seconds,
     * `now_ns` tells its time. std::invalid_argument: the duration is not a multiple of the interval; nothing ran.
     */
    template <class Advance, class NowNs>
    void Run(double duration_s, int64_t end_ns, const WorldTables& tables, Advance&& advance, NowNs&& now_ns)
    {
        const int64_t until_ns = EndOf(duration_s, now_ns(), end_ns);
        do
        {
            Decide(now_ns(), tables);
            advance(static_cast<double>(m_policy->IntervalNs()) / 1e9);
        } while (now_ns() < until_ns);
    }

  private:
    struct Controlled
    {
        std::size_t flow;
        int64_t start_ns;
        int64_t stop_ns;
    };

    /** Of a controller, for one flow or for all of them. */
    struct Controller
    {
        std::vector<Controlled> flows;
        std::vector<std::byte> state;
        bool has_begun = false;
    };

    int64_t EndOf(double duration_s, int64_t now_ns, int64_t end_ns) const;
    void Decide(Controller& controller, const WorldTables& tables);

    std::shared_ptr<const Policy> m_policy;
    std::vector<Controller> m_controllers;
    int64_t m_intervals = 0; ///< so far
    std::vector<int64_t> m_fields;
    std::vector<int64_t> m_values;
};

} // namespace bbrgym

#endif
