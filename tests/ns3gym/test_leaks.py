# SPDX-License-Identifier: GPL-2.0-only
"""Many resets in a row leave nothing behind."""

import leaks


def holds_no_more(report, growth_mib):
    for name, before in report.before.items():
        assert report.after[name].grown_from(before) == {}
        assert report.growth_mib(name) < growth_mib


def test_resets_of_a_served_world_leak_nothing():
    holds_no_more(leaks.of_a_served_world(300), growth_mib=0.5)  # of 100 resets: 5 KiB each


def test_resets_that_start_the_simulation_leak_nothing():
    holds_no_more(leaks.of_a_command(21), growth_mib=0.35)  # of 7 resets: 50 KiB each
