# SPDX-License-Identifier: GPL-2.0-only
"""Many resets in a row; benchmarks/ns3gym_resets.py goes on to 1,000."""

import leaks


def holds_no_more(report, memory_mib):
    for name, before in report.before.items():
        assert report.after[name].counts() == before.counts()
        assert report.after[name].memory_mib < before.memory_mib + memory_mib


def test_resets_of_a_served_world_leak_nothing():
    holds_no_more(leaks.of_a_served_world(400), memory_mib=2.0)


def test_resets_that_start_the_simulation_leak_nothing():
    holds_no_more(leaks.of_a_command(20), memory_mib=1.0)
