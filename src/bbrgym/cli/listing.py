# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym list``: tables of all names to choose from."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from rich.table import Table

from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import named_table, print_results
from bbrgym.papers.names import experiment_names, heading_of
from bbrgym.plugins import load_controller
from bbrgym.scenario.shipped import distribution_names, role_of, scenario_names, shipped
from bbrgym.tunables import BASES, SWITCHES, TUNABLES, VARIANTS
from bbrgym.worlds import registered_worlds

DESCRIPTION = "Shows tables of all names to choose from.\n"
WORDS = Words("[FILE.c ...]", 0, math.inf)
_CONF = Path(str(resources.files("bbrgym") / "conf"))
_GROUPS = ("experiment", "agent", "env", "observation", "action", "reward", "logger", "rollouts")


def listing(names: Sequence[str] = ()) -> Iterator[Table]:
    """Yield the tables of variants, tunables, scenarios, experiments, worlds and all other named options.

    Args:
        names: of the variants whose rows and tunables are shown. Default: all.
    """
    yield _table("Variants", ("name", "tunables (and its base's)", "source"), _variants(names or VARIANTS))
    headings = ("name", "symbol", "unit", "default", "range", "scale", "source")
    yield _table("Tunables", headings, _tunables(names or VARIANTS))
    yield _table("Scenarios", ("name", "link", "flows", "duration"), _scenarios())
    yield _table("Scenario distributions", ("name", "description"), _distributions())
    papers = ((name, *heading_of(name)) for name in experiment_names())
    yield _table("Experiments of the papers", ("name", "in the paper", "content"), papers)
    worlds = ((name, world.meaning) for name, world in registered_worlds().items())
    yield _table("Worlds", ("name", "description"), worlds)
    yield _table("Other options that are chosen by name", ("option", "description"), _choices())


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = named_table(title, *headings)
    for row in rows:
        table.add_row(*row)
    return table


def _variants(names: Iterable[str]) -> Iterator[Sequence[str]]:
    for variant in (VARIANTS[name] for name in names):
        base = BASES.get(variant.algorithm, variant.name)
        own = [name for name in variant.preset if variant.name == base or name not in VARIANTS[base].preset]
        is_all = variant.name != base and set(own) >= set(SWITCHES.values())
        yield variant.name, "all mechanisms'" if is_all else ", ".join(own) or "-", variant.source


def _tunables(names: Iterable[str]) -> Iterator[Sequence[str]]:
    shown = {tunable for name in names for tunable in VARIANTS[name].preset}
    for one in (one for name, one in TUNABLES.items() if name in shown):
        bounds = f"{one.low:.10g} to {one.high:.10g}"
        yield one.name, one.symbol, one.unit, f"{one.default:.10g}", bounds, one.scale, one.source


def _scenarios() -> Iterator[Sequence[str]]:
    for name in scenario_names():
        fields = shipped()[name]
        link = fields["link"]
        rate = f"{link['rate_mbps']:g} Mbit/s" if "rate_mbps" in link else str(link["trace_path"])
        flows = (f"{flow.get('count', 1)} x {flow['rtt_ms']:g} ms ({role_of(flow)})" for flow in fields["flows"])
        yield name, rate, ", ".join(flows), f"{fields['duration_s']:g} s"


def _distributions() -> Iterator[Sequence[str]]:
    for name in distribution_names():
        yield name, _first_sentence("scenario", name)


def _choices() -> Iterator[Sequence[str]]:
    for group in _GROUPS:
        for file in sorted((_CONF / group).glob("*.yaml")):
            yield f"{group}={file.stem}", _first_sentence(group, file.stem)


def _first_sentence(group: str, name: str) -> str:
    """Return the first sentence of the comment of a file in conf/."""
    text = (_CONF / group / f"{name}.yaml").read_text(encoding="utf-8")
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# @"))
    return re.split(r"(?<=\.)\s|:\sbbrgym", comment)[0].rstrip(".")


def run(words: Sequence[str], given: Sequence[str]) -> None:  # noqa: ARG001
    """Print the tables; given congestion controls of the user's own, their rows alone."""
    print_results(*itertools.islice(listing([load_controller(file) for file in words]), 2 if words else None))
