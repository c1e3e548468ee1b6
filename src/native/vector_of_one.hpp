// SPDX-License-Identifier: GPL-2.0-only
//
// A vector of one world, for worlds of which a process or a thread runs one at a time.
#ifndef BBRGYM_VECTOR_OF_ONE_HPP
#define BBRGYM_VECTOR_OF_ONE_HPP

#include "scenario.hpp"
#include "stop.hpp"
#include "tables.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace bbrgym::binding
{

/** The implementation of a PyVector by a Run with NowS(), Done() and what PyVector asks of a run. */
template <class Run> class VectorOfOne
{
  public:
    virtual ~VectorOfOne() = default;

    void LayOut(const VectorTables& tables)
    {
        m_tables = tables;
        if (m_run)
        {
            OnNewTables(*m_run, m_tables.Of(0, m_scenario->flows.size()));
        }
    }

    void Reset(std::size_t world, std::shared_ptr<const Scenario> scenario, uint64_t seed)
    {
        const WorldTables rows = m_tables.Begin(world, scenario->flows.size(), "scenario '" + scenario->name + "'");
        m_run.reset(); // one at a time
        m_scenario = std::move(scenario);
        m_run = Begin(m_scenario, seed, rows);
        WriteTime();
    }

    void Reset(std::size_t world, uint64_t seed)
    {
        World(world);
        Reset(world, m_scenario, seed);
    }

    /** A run that was stopped or broke is over; one that was refused an argument goes on. */
    void Advance(std::span<const double> durations_s, StopCheck& stop)
    {
        if (!(durations_s[0] >= 0.0))
        {
            return;
        }
        try
        {
            AdvanceRun(World(0), m_tables.Of(0, m_scenario->flows.size()), durations_s[0], stop);
        }
        catch (const std::logic_error&)
        {
            throw;
        }
        catch (...)
        {
            WriteTime();
            m_run.reset();
            throw;
        }
        WriteTime();
    }

    Run& World(std::size_t)
    {
        if (!m_run)
        {
            throw std::logic_error("world 0 does not run: reset it first");
        }
        return *m_run;
    }

  protected:
    /** @param reason of the limit, of the error's text */
    VectorOfOne(std::size_t worlds, const std::string& reason)
    {
        if (worlds != 1)
        {
            throw std::invalid_argument("num_worlds is " + std::to_string(worlds) + ", expected 1: " + reason);
        }
    }

  private:
    virtual std::unique_ptr<Run> Begin(std::shared_ptr<const Scenario> scenario, uint64_t seed,
                                       const WorldTables& rows) = 0;
    virtual void AdvanceRun(Run& run, const WorldTables& rows, double duration_s, StopCheck& stop) = 0;
    /** The caller has other arrays from now on. */
    virtual void OnNewTables(Run&, const WorldTables&) {}

    void WriteTime() { m_tables.WriteTime(0, m_run->NowS(), m_run->Done()); }

    VectorTables m_tables;
    std::shared_ptr<const Scenario> m_scenario;
    std::unique_ptr<Run> m_run;
};

} // namespace bbrgym::binding

#endif
