# SPDX-License-Identifier: GPL-2.0-only
"""Which setting of its library a portfolio picks on which networks.

usage: python benchmarks/portfolio_map.py RUN [--draws 400] [--figure docs/figures/portfolio.svg]

Lets the agent of a run folder of `bbrgym train agent=portfolio` probe and choose on the first validation draws of its
scenario, in the twin. Draws the share of each family of networks that gets each setting, the commonest first, and
prints the same as a table, with what distinguishes the settings from BBR's own. Takes a minute.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.rollout import make_rollout
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.envs.library import Library, load_library
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import split_seeds
from bbrgym.scenario.families import FAMILIES, families_of
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import SWITCHES, VARIANTS
from bbrgym.worlds import FAST_WORLD, TUNABLE_COLUMNS

AT_ONCE = 100
SHOWN = 6  # settings; the others are one row
OTHERS = "others"
TOLD = {"bbr_cwnd_gain": "cwnd gain {:.2f}", "bbr_up_gain": "up gain {:.2f}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/portfolio.svg"))
    options = parser.parse_args()
    source = parse_training(TrainingFolder(options.run).read_config()).source
    library = load_library(options.run / "library.yaml")
    seeds = split_seeds("validation", options.draws)
    scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
    chosen = choices(options.run, library, scenarios, seeds)
    names, families, shares = shares_of(chosen, scenarios, len(library.settings))
    settings = list(library.settings.values())
    labels = [name if name == OTHERS else f"{name}: {told(library, settings[int(name) - 1])}" for name in names]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "portfolio"}):
        draw(labels, families, shares).savefig(
            options.figure, metadata={"Date": None} if is_svg(options.figure) else {}
        )
    print("| setting | " + " | ".join(families) + " |")
    print("|---|" + "---|" * len(families))
    for label, row in zip(labels, shares, strict=True):
        print(f"| {label} | " + " | ".join(f"{100 * share:.0f}" for share in row) + " |")


def is_svg(path: Path) -> bool:
    return path.suffix == ".svg"


def choices(run: Path, library: Library, scenarios: Sequence[Scenario], seeds: Sequence[int]) -> np.ndarray:
    """Return the number of the setting that the agent holds after its probe, from 0 on, [draws]."""
    agent, arguments = load_agent(run)
    if not isinstance(agent, PortfolioAgent):
        raise ConfigError(f"run: {str(run)!r} holds agent {agent.name}, expected a portfolio")
    columns = [TUNABLE_COLUMNS[name] for name in library.tunables]
    settings = library.values(library.tunables)
    span = np.ptp([*settings, [VARIANTS[library.variant].preset[name] for name in library.tunables]], axis=0)
    found = []
    for start in range(0, len(seeds), AT_ONCE):
        part, drawn = list(scenarios[start : start + AT_ONCE]), list(seeds[start : start + AT_ONCE])
        options = Options(**{**arguments, "world": FAST_WORLD, "scenario": part})
        rollout = make_rollout(options, drawn)
        try:
            rollout.begin(agent.tuner)
            for _ in range(agent.routine.intervals + 1):
                rollout.advance()
            learners = [[flow.role for flow in scenario.resolved().flows].index("learner") for scenario in part]
            held = rollout.worlds.tunables[np.arange(len(part)), learners][:, columns]
        finally:
            rollout.close()
        distances = np.abs((held[:, None] - settings) / np.maximum(span, 1e-9)).sum(axis=2)
        found.append(distances.argmin(axis=1))
    return np.concatenate(found)


def shares_of(
    chosen: np.ndarray, scenarios: Sequence[Scenario], size: int
) -> tuple[list[str], list[str], list[list[float]]]:
    """Return the names of the commonest settings, those of the families, and the shares, [settings, families]."""
    commonest = np.argsort(-np.bincount(chosen, minlength=size), kind="stable")[:SHOWN].tolist()
    of_families = [set(families_of(scenario)) for scenario in scenarios]
    among = {"all": np.ones(len(chosen), np.bool_)}
    among |= {name: np.array([name in each for each in of_families]) for name in FAMILIES}
    among = {name: is_in for name, is_in in among.items() if is_in.any()}
    rows = [[float((chosen[is_in] == number).mean()) for is_in in among.values()] for number in commonest]
    names = [str(number + 1) for number in commonest]
    if size > len(commonest):
        rows.append([1.0 - sum(row[place] for row in rows) for place in range(len(among))])
        names.append(OTHERS)
    return names, list(among), rows


def told(library: Library, setting: Mapping[str, float]) -> str:
    """Describe a setting: gains, the time between two ProbeRTTs, and what is switched on."""
    values = {**VARIANTS[library.variant].preset, **setting}
    parts = [text.format(values[name]) for name, text in TOLD.items()]
    parts.append(f"ProbeRTT every {values['bbr_probe_rtt_interval_us'] / 1e6:.0f} s")
    parts += [name.removeprefix("use_").replace("_", " ") for name in SWITCHES.values() if values.get(name, 0) >= 0.5]
    return ", ".join(parts)


def draw(labels: Sequence[str], families: Sequence[str], shares: Sequence[Sequence[float]]) -> Figure:
    """Return the figure: a row per setting, a column per family."""
    figure = Figure(figsize=(11, 0.6 * len(labels) + 1.6), layout="constrained")
    axes = figure.subplots()
    percent = 100 * np.array(shares)
    axes.imshow(percent, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for (row, column), share in np.ndenumerate(percent):
        axes.text(column, row, f"{share:.0f}", ha="center", va="center", color="white" if share > 60 else "black")
    axes.set_yticks(range(len(labels)), [textwrap.fill(label, 46) for label in labels], fontsize=8)
    axes.set_xticks(range(len(families)), families, rotation=30, ha="right")
    axes.set_title("Share of the networks of each kind that get each setting (%)")
    return figure


if __name__ == "__main__":
    main()
