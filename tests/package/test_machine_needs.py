# SPDX-License-Identifier: GPL-2.0-only
"""The line at a run's end says what to install for the tests that were skipped."""

import re

from machine_needs import NEEDS, advice, reason_without
from repository import ROOT


def test_a_line_says_what_to_install_for_how_many_tests() -> None:
    reasons = [*[reason_without("tshark")] * 4, reason_without("clang", "libbpf1"), "not on this machine"]
    line = advice(f"('file.py', 7, 'Skipped: {reason}')" for reason in reasons)
    assert line == (
        "6 tests skipped; apt-get install tshark (traces read by Wireshark: 4), clang (cc/ and policies compiled for "
        "BPF: 1), libbpf1 (congestion controls in BPF in the kernel world: 1); 1 for other reasons, see above"
    )
    assert advice(["a", "b"]) == "2 tests skipped; 2 for other reasons, see above"


def test_ci_installs_what_tests_need() -> None:
    (installed,) = re.findall(r"^packages=\((.+)\)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(installed.split()) == set(NEEDS)
