# SPDX-License-Identifier: GPL-2.0-only
"""The network between the hosts in virtual time (path_laws.cc): no privileges, no clock."""

import compilers
import pytest

PACKETS = ("delays", "looking_seldom", "contents", "marks", "conservation", "strangers", "foreign")
EXPERIMENTS = (*PACKETS, "taps", "gate", "return_path")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_path_holds_its_laws(experiment: str) -> None:
    compilers.run_program("path_laws", experiment)
