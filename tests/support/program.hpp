// SPDX-License-Identifier: GPL-2.0-only
//
// What the tests' programs share: laws, experiments chosen by name, and numbers as arguments.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

/** Ends the program with 1 at the first broken law. */
template <typename Law>
void
Require(bool holds, const Law& law)
{
    if (!holds)
    {
        std::fprintf(stderr, "broken: %s\n", std::string(law).c_str());
        std::exit(1);
    }
}

/** Returns the n-th argument, a number; ends the program with 2 if there is none. */
inline uint64_t
Number(int n, int argc, char** argv)
{
    if (argc <= n)
    {
        std::fprintf(stderr, "%s: argument %d is missing, a number\n", argv[0], n);
        std::exit(2);
    }
    return std::strtoull(argv[n], nullptr, 10);
}

struct Experiment
{
    const char* name;
    void (*run)();
};

/** Runs the experiment that the first argument names; returns the program's exit code. */
inline int
RunExperiment(std::span<const Experiment> experiments, int argc, char** argv)
{
    for (const Experiment& experiment : experiments)
    {
        if (argc == 2 && std::string(argv[1]) == experiment.name)
        {
            experiment.run();
            return 0;
        }
    }
    std::fprintf(stderr, "usage: %s EXPERIMENT\n", argv[0]);
    return 2;
}
