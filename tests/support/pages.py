# SPDX-License-Identifier: GPL-2.0-only
"""The pages that people read."""

from repository import ROOT

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += [ROOT / folder / "README.md" for folder in ("agents/deploy", "bench", "benchmarks", "linux", "ns3-scratch")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
