# SPDX-License-Identifier: GPL-2.0-only
"""The shipped experiments' names, papers and headings, without their model, which takes longer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

#: The papers, the testbeds of others and a draft with open questions, by the name of their folder.
PAPERS: Mapping[str, str] = MappingProxyType(
    {
        "bbr-acd": "BBR-ACD (Mahmud et al., Electronics 2020)",
        "rebbr": "ReBBR (Hsiao and Muindi 2017)",
        "bbq": "BBQ (Ma et al., arXiv 1706.09115, 2017)",
        "bbr-plus": "BBR+ (Utsumi et al. 2018)",
        "bbr-pg": "BBR-PG (Xu et al., Future Internet 2024)",
        "nyu": "BBRv1, v2, v3 beside loss-based flows and each other (github.com/fatihsarpkaya/bbr-shared-bottleneck)",
        "bbr3-rtt": "BBRv3 with two RTTs (github.com/gomezgaona/bbr3)",
        "l4s": "BBRv2 beside others, FIFO and CoDel (github.com/fatihsarpkaya/L4S-PAM2025)",
        "starlink": "random loss at 10 Mbit/s (github.com/abobker11/TCP-Starlink-Analysis)",
        "lanman2023": "CUBIC and BBR on lossy and long paths (github.com/cs7org/lanman2023)",
        "themis": "queue shares of lone flows (github.com/cmu-snap/themis-backend)",
        "c4": "CUBIC and BBR in the tests of C4 (github.com/private-octopus/c4)",
        "draft": "Questions of draft-ietf-ccwg-bbr (github.com/ietf-wg-ccwg/draft-ietf-ccwg-bbr/issues)",
    }
)

_HEADING = re.compile(r"^(?:figure|title|like):.*\n(?: .*\n)*", re.MULTILINE)


def experiment_names() -> list[str]:
    """Return the names of all shipped experiments, ``<paper>/<id>``, paper by paper."""
    return [f"{paper}/{path.stem}" for paper in PAPERS for path in sorted((folder() / paper).glob("*.yaml"))]


def heading_of(name: str) -> tuple[str, str]:
    """Return the figure and the title of a shipped experiment."""
    path = folder() / f"{name}.yaml"
    heading: dict[str, Any] = yaml.safe_load("".join(_HEADING.findall(path.read_text(encoding="utf-8"))))
    paper = name.partition("/")[0]
    figure = heading["figure"] if "figure" in heading else heading_of(f"{paper}/{heading['like']}")[0]
    return str(figure), str(heading["title"])


def notes_of(paper: str) -> str:
    """Return a paper's notes.md, which holds for many experiments, in one line; empty without one."""
    path = folder() / paper / "notes.md"
    return " ".join(path.read_text(encoding="utf-8").split()) if path.exists() else ""


def folder() -> Path:
    """Return the folder of the shipped experiments, with one of each paper."""
    return Path(str(resources.files("bbrgym") / "conf" / "experiment"))
