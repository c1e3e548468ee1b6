// SPDX-License-Identifier: GPL-2.0-only
//
// Runs on the caller's arrays, advanced together in threads. Each world is stepped by one thread at a time and shares
// nothing with the others, so the number of threads changes nothing but the speed.
#ifndef BBRGYM_TWIN_VECTOR_HPP
#define BBRGYM_TWIN_VECTOR_HPP

#include "engine.hpp"
#include "policy.hpp"
#include "thread_pool.hpp"

#include "tables.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bbrgym
{

/** A run at one moment, and what the caller's arrays held. */
struct Snapshot
{
    Engine engine;
    /** All that was asked of the run, by which another process repeats it: of each advance its seconds, a number of
     * changed tunables, and of each its place in the table and its value. */
    std::vector<double> history;
    std::vector<double> tunables;
    std::vector<double> flow_stats;
    std::vector<double> link_stats;
    std::optional<PolicyRun> policy;
};

class TwinVector
{
  public:
    static constexpr bool HAS_OWN_THREADS = false; ///< those of the constructor are all

    /** Calls `work` as ThreadPool::ForEach does, in the caller's thread, where flows have plugins of their own. */
    using RunOwn = void (*)(std::size_t count, const std::function<void(std::size_t)>& work);
    static inline RunOwn run_own = nullptr; ///< of the module that loads such plugins

    TwinVector(std::size_t worlds, std::size_t threads);

    /** Lets a policy set the tunables of tuned flows in the runs to come. std::invalid_argument: it cannot be loaded.
     */
    void UsePolicy(const std::string& path) { m_policy = std::make_shared<const Policy>(path); }

    /** Uses these arrays from now on; their rows must hold what the former arrays held. */
    void LayOut(const VectorTables& tables) { m_tables = tables; }

    /** Begins a run of one world. ScenarioError, std::invalid_argument: the scenario does not fit. */
    void Reset(std::size_t world, std::shared_ptr<const Scenario> scenario, uint64_t seed);
    /** Begins again with the world's scenario; std::logic_error if it runs none. */
    void Reset(std::size_t world, uint64_t seed) { Reset(world, World(world).SharedScenario(), seed); }

    /**
     * Advances each world by its seconds; below 0: not. If one cannot, the others do, and the first one's error is
     * thrown. Stopped: `stop` said so; the worlds that did not come to their end run no more, but may be reset.
     */
    void Advance(std::span<const double> durations_s, StopCheck& stop);

    /** The engine of a world that runs; std::logic_error if it does not. */
    const Engine& World(std::size_t world) const;
    Engine& World(std::size_t world) { return const_cast<Engine&>(std::as_const(*this).World(world)); }

    Snapshot Save(std::size_t world) const;
    /** Continues a world from a snapshot of any one; std::invalid_argument: it has too many flows. */
    void Restore(std::size_t world, const Snapshot& snapshot);

  private:
    struct Slot
    {
        Engine engine;
        std::optional<PolicyRun> policy;
        std::vector<double> history;  ///< see Snapshot
        std::vector<double> tunables; ///< after the last advance
        bool is_running = false;
    };

    void AdvanceOne(std::size_t world, double duration_s, StopCheck& stop);
    static void Note(Slot& slot, double duration_s, std::span<const double> tunables);
    void WriteTime(std::size_t world);

    std::shared_ptr<const Policy> m_policy; ///< null: the caller sets the tunables
    VectorTables m_tables;
    std::vector<std::unique_ptr<Slot>> m_slots; ///< apart from each other, so that threads share no cache line
    ThreadPool m_pool;
};

} // namespace bbrgym

#endif
