# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym list``: tables of all names to choose from."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

from rich.table import Table

from bbrgym.cli.terminal import named_table, print_results
from bbrgym.papers.catalogue import experiment_names, load_experiment
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import distribution_names, load_scenario, scenario_names
from bbrgym.targets import shipped_names
from bbrgym.tunables import BASES, SWITCHES, TUNABLES, VARIANTS
from bbrgym.worlds import registered_worlds

_GROUPS = ("experiment", "agent", "env", "observation", "action", "reward", "logger", "rollouts")


def listing() -> Iterator[Table]:
    """Yield the tables of variants, tunables, scenarios, experiments, worlds and all other named options."""
    yield _table("Variants", ("name", "tunables (and its base's)", "source"), _variants())
    headings = ("name", "symbol", "unit", "default", "range", "scale", "source")
    yield _table("Tunables", headings, _tunables())
    yield _table("Scenarios", ("name", "link", "flows", "duration"), _scenarios())
    yield _table("Scenario distributions", ("name", "flows", "tuned flows", "duration"), _distributions())
    papers = ((one.name, one.figure, one.title) for one in map(load_experiment, experiment_names()))
    yield _table("Experiments of the papers", ("name", "in the paper", "content"), papers)
    worlds = ((name, world.meaning) for name, world in registered_worlds().items())
    yield _table("Worlds", ("name", "description"), worlds)
    yield _table("Other options that are chosen by name", ("option", "description"), _choices())


def _table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = named_table(title, *headings)
    for row in rows:
        table.add_row(*row)
    return table


def _variants() -> Iterator[Sequence[str]]:
    for variant in VARIANTS.values():
        base = BASES.get(variant.algorithm, variant.name)
        own = [name for name in variant.preset if variant.name == base or name not in VARIANTS[base].preset]
        is_all = variant.name != base and set(own) >= set(SWITCHES.values())
        yield variant.name, "all mechanisms'" if is_all else ", ".join(own) or "-", variant.source


def _tunables() -> Iterator[Sequence[str]]:
    for one in TUNABLES.values():
        bounds = f"{one.low:.10g} to {one.high:.10g}"
        yield one.name, one.symbol, one.unit, f"{one.default:.10g}", bounds, one.scale, one.source


def _scenarios() -> Iterator[Sequence[str]]:
    for name in scenario_names():
        scenario = load_scenario(name)
        link = scenario.link
        rate = f"{link.rate_mbps:g} Mbit/s" if link.rate_mbps is not None else str(link.trace_path)
        flows = ", ".join(f"{flow.count} x {flow.rtt_ms:g} ms ({flow.role})" for flow in scenario.flows)
        yield name, rate, flows, f"{scenario.duration_s:g} s"


def _distributions() -> Iterator[Sequence[str]]:
    for name in distribution_names():
        one = load_distribution(name)
        yield name, f"up to {one.max_flows}", f"up to {one.max_tuned}", f"{one.fields['duration_s']} s"


def _choices() -> Iterator[Sequence[str]]:
    for group in _GROUPS:
        for name in shipped_names(group):
            text = (resources.files("bbrgym") / "conf" / group / f"{name}.yaml").read_text(encoding="utf-8")
            yield f"{group}={name}", _first_sentence(text)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a file's comment."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# @"))
    return re.split(r"(?<=\.)\s|:\sbbrgym", comment)[0].rstrip(".")


def run(options: argparse.Namespace) -> None:  # noqa: ARG001
    """Print the tables."""
    print_results(*listing())
