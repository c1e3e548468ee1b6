# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym list``: tables of all names to choose from."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from rich.table import Table

from bbrgym.cli.terminal import print_results
from bbrgym.papers.catalogue import experiment_names, load_experiment
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import distribution_names, load_scenario, scenario_names
from bbrgym.targets import shipped_names
from bbrgym.tunables import BASES, SWITCHES, TUNABLES, VARIANTS
from bbrgym.worlds import registered_worlds

_GROUPS = (
    "experiment",
    "agent",
    "env",
    "observation",
    "action",
    "reward",
    "logger",
    "rollouts",
)


def listing() -> Iterator[Table]:
    """Yield the tables of variants, tunables, scenarios, experiments, worlds and all other named options."""
    yield variants_table()
    yield tunables_table()
    yield scenarios_table()
    yield distributions_table()
    yield experiments_table()
    yield worlds_table()
    yield choices_table()


def variants_table() -> Table:
    """Return a row per variant: its tunables and its source."""
    table = _table("Variants", "name", "tunables (and its base's)", "source")
    for variant in VARIANTS.values():
        base = BASES.get(variant.algorithm, variant.name)
        own = [name for name in variant.preset if variant.name == base or name not in VARIANTS[base].preset]
        is_all = variant.name != base and set(own) >= set(SWITCHES.values())
        table.add_row(variant.name, "all mechanisms'" if is_all else ", ".join(own) or "-", variant.source)
    return table


def tunables_table() -> Table:
    """Return a row per tunable: symbol, unit, default, range, scale and source."""
    table = _table("Tunables", "name", "symbol", "unit", "default", "range", "scale", "source")
    for tunable in TUNABLES.values():
        table.add_row(
            tunable.name,
            tunable.symbol,
            tunable.unit,
            f"{tunable.default:.10g}",
            f"{tunable.low:.10g} to {tunable.high:.10g}",
            tunable.scale,
            tunable.source,
        )
    return table


def scenarios_table() -> Table:
    """Return a row per shipped scenario: its link, flows and duration."""
    table = _table("Scenarios", "name", "link", "flows", "duration")
    for name in scenario_names():
        scenario = load_scenario(name)
        link = scenario.link
        rate = f"{link.rate_mbps:g} Mbit/s" if link.rate_mbps is not None else str(link.trace_path)
        flows = ", ".join(f"{flow.count} x {flow.rtt_ms:g} ms ({flow.role})" for flow in scenario.flows)
        table.add_row(name, rate, flows, f"{scenario.duration_s:g} s")
    return table


def distributions_table() -> Table:
    """Return a row per shipped distribution: its most flows and tuned flows, and its duration."""
    table = _table("Scenario distributions", "name", "flows", "tuned flows", "duration")
    for name in distribution_names():
        distribution = load_distribution(name)
        duration = f"{distribution.fields['duration_s']} s"
        table.add_row(name, f"up to {distribution.max_flows}", f"up to {distribution.max_tuned}", duration)
    return table


def experiments_table() -> Table:
    """Return a row per experiment of a paper."""
    table = _table("Experiments of the papers", "name", "in the paper", "content")
    for name in experiment_names():
        experiment = load_experiment(name)
        table.add_row(name, experiment.figure, experiment.title)
    return table


def worlds_table() -> Table:
    """Return a row per registered world."""
    table = _table("Worlds", "name", "description")
    for name, world in registered_worlds().items():
        table.add_row(name, world.meaning)
    return table


def choices_table() -> Table:
    """Return a row per file of the other config groups."""
    table = _table("Other options that are chosen by name", "option", "description")
    for group in _GROUPS:
        for name in shipped_names(group):
            text = (resources.files("bbrgym") / "conf" / group / f"{name}.yaml").read_text(encoding="utf-8")
            table.add_row(f"{group}={name}", _first_sentence(text))
    return table


def _first_sentence(text: str) -> str:
    """Return the first sentence of a file's comment."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.lstrip("# ") for line in lines if not line.startswith("# @"))
    return re.split(r"(?<=\.)\s|:\sbbrgym", comment)[0].rstrip(".")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def add(commands: Any, purpose: str) -> None:
    """Add the command."""
    commands.add_parser("list", help=purpose).set_defaults(run=run)


def run(options: argparse.Namespace) -> None:  # noqa: ARG001
    """Print the tables."""
    print_results(*listing())
