// SPDX-License-Identifier: GPL-2.0-only
//
// A named random stream of a run: the same seed and name give the same numbers in every world.
#ifndef BBRGYM_WORLD_RANDOM_HPP
#define BBRGYM_WORLD_RANDOM_HPP

extern "C"
{
#include "rng.h"
}

#include <cstdint>
#include <string>

namespace bbrgym
{

class Random
{
  public:
    Random(uint64_t run_seed, const std::string& stream) : m_rng(cc_rng_make(run_seed, stream.c_str())) {}

    /** A multiple of 2^-53 in [0, 1). */
    double Uniform() { return static_cast<double>(cc_rng_53(&m_rng)) * 0x1p-53; }

    bool Chance(double probability) { return Uniform() < probability; }

    /**
     * Exponential with mean 1, by von Neumann's comparison method: no logarithm, whose last bits differ
     * between machines. A draw counts how often a falling run of uniforms had even length, plus the first
     * uniform of the run that had odd length.
     */
    double Exponential()
    {
        for (int whole = 0;; ++whole)
        {
            const double first = Uniform();
            double last = first;
            int length = 1;
            for (double next = Uniform(); next < last; next = Uniform())
            {
                last = next;
                ++length;
            }
            if (length % 2 == 1)
            {
                return whole + first;
            }
        }
    }

  private:
    cc_rng m_rng;
};

} // namespace bbrgym

#endif
