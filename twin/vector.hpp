// SPDX-License-Identifier: GPL-2.0-only
//
// Many worlds stepped at once, in threads. Each world is stepped by one thread at a time and shares nothing
// with the others, so the number of threads changes nothing but the speed.
#ifndef BBRGYM_TWIN_VECTOR_HPP
#define BBRGYM_TWIN_VECTOR_HPP

#include "simulation.hpp"
#include "thread_pool.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bbrgym
{

class VectorSimulation
{
  public:
    /** The caller's arrays, a row of each a world; a world's rows have room for `flow_capacity` flows. */
    struct Tables
    {
        std::span<double> tunables;   ///< [worlds, flow_capacity, tunables]
        std::span<double> flow_stats; ///< [worlds, flow_capacity, fields]
        std::span<double> link_stats; ///< [worlds, fields]
        std::span<double> now_s;      ///< [worlds]
        std::span<uint8_t> done;      ///< [worlds]
    };

    VectorSimulation(std::size_t flow_capacity, std::size_t threads, const Tables& tables);

    std::size_t Worlds() const { return m_tables.now_s.size(); }

    /** Begins a run of world `index`. ScenarioError, std::invalid_argument: the scenario does not fit. */
    void Reset(std::size_t index, std::shared_ptr<const Scenario> scenario, uint64_t seed);
    /** The same scenario again; std::logic_error if there was none. */
    void Reset(std::size_t index, uint64_t seed);

    /** Advances the worlds whose mask is not 0. If one cannot, the others do, and the first one's error is thrown. */
    void Advance(double duration_s, std::span<const uint8_t> mask);

    /** The engine of a world that runs; std::logic_error if it does not. */
    const Engine& World(std::size_t index) const;
    Snapshot Save(std::size_t index) const;
    void Restore(std::size_t index, const Snapshot& snapshot);

  private:
    struct Slot
    {
        Engine engine;
        bool is_running = false;
    };

    Engine::Tables TablesOf(std::size_t index, std::size_t flows) const;
    void Begin(std::size_t index, std::shared_ptr<const Scenario> scenario, uint64_t seed);
    void ShowTime(std::size_t index);

    std::size_t m_flow_capacity;
    Tables m_tables;
    std::vector<std::unique_ptr<Slot>> m_slots; ///< apart from each other, so that threads share no cache line
    ThreadPool m_pool;
};

} // namespace bbrgym

#endif
