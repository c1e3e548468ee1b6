# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym list``: tables of all names to choose from."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

from rich.table import Table

from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import named_table, print_results
from bbrgym.errors import ConfigError, nearest
from bbrgym.papers.names import experiment_names, heading_of
from bbrgym.plugins import load_controller
from bbrgym.scenario.shipped import distribution_names, role_of, scenario_names, shipped
from bbrgym.tunables import BASES, SWITCHES, TUNABLES, VARIANTS
from bbrgym.worlds import registered_worlds

DESCRIPTION = "Shows all names to choose from, or some: a table, or the tunables of variants and of C files.\n"
WORDS = Words("[TABLE | VARIANT | FILE.c ...]", 0, math.inf)
_CONF = Path(str(resources.files("bbrgym") / "conf"))
_GROUPS = ("experiment", "agent", "env", "observation", "action", "reward", "logger", "rollouts")


def listing(words: Sequence[str] = ()) -> Iterator[Table]:
    """Yield tables of names to choose from.

    Args:
        words: the tables' names, or variants and C files whose rows and tunables alone are shown. Default: all tables.

    Raises:
        ConfigError: a word is none of these, or a file cannot be compiled.
    """
    asked = [word for word in words if word in _TABLES]
    names = [_variant(word) for word in words if word not in _TABLES]
    for table in asked or (("variants", "tunables") if names else _TABLES):
        title, headings, rows = _TABLES[table]
        yield _table(title, headings, rows(names or VARIANTS))


def _variant(word: str) -> str:
    if word in VARIANTS or "." in word:
        return word if word in VARIANTS else load_controller(word)
    raise ConfigError(f"list: {word!r}: {nearest(word, [*_TABLES, *VARIANTS])}")


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


def _experiments() -> Iterator[Sequence[str]]:
    return ((name, *heading_of(name)) for name in experiment_names())


def _worlds() -> Iterator[Sequence[str]]:
    return ((name, world.meaning) for name, world in registered_worlds().items())


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


#: Titles, headings and rows by the words that ask for them; the rows are of variants, where they are of some.
_TABLES: dict[str, tuple[str, Sequence[str], Callable[[Iterable[str]], Iterable[Sequence[str]]]]] = {
    "variants": ("Variants", ("name", "tunables (and its base's)", "source"), _variants),
    "tunables": ("Tunables", ("name", "symbol", "unit", "default", "range", "scale", "source"), _tunables),
    "scenarios": ("Scenarios", ("name", "link", "flows", "duration"), lambda _: _scenarios()),
    "distributions": ("Scenario distributions", ("name", "description"), lambda _: _distributions()),
    "experiments": ("Experiments of the papers", ("name", "in the paper", "content"), lambda _: _experiments()),
    "worlds": ("Worlds", ("name", "description"), lambda _: _worlds()),
    "options": ("Other options that are chosen by name", ("option", "description"), lambda _: _choices()),
}


def run(words: Sequence[str], given: Sequence[str]) -> None:  # noqa: ARG001
    """Print the tables."""
    print_results(*listing(words))
