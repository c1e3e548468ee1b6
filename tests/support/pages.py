# SPDX-License-Identifier: GPL-2.0-only
"""The pages that people read."""

from repository import ROOT

PAGES = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "bench/README.md", "benchmarks/README.md", "ns3-scratch/README.md")
]
PAGES += sorted((ROOT / "docs").glob("*.md"))
