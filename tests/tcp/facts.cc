// SPDX-License-Identifier: GPL-2.0-only
//
// usage: facts [NAME]: runs a TEST of the sources it is linked with; without a name, all of them.
#include "facts.hpp"

int
main(int argc, char** argv)
{
    if (argc > 1)
    {
        return RunExperiment(Tests(), argc, argv);
    }
    for (const Experiment& test : Tests())
    {
        test.run();
    }
    return 0;
}
