# SPDX-License-Identifier: GPL-2.0-only
"""An agent in words and tables: a rule by the rule's numbers, any other agent by the effect of shuffled features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.table import Table as RichTable

from bbrgym.agents.explanation.explanation import Explanation
from bbrgym.agents.explanation.rule import RuleExplanation
from bbrgym.envs.features import Feature
from bbrgym.envs.observation import FEATURES
from bbrgym.evaluate.statistics import bootstrap_mean
from bbrgym.report.tables import draws_with_intervals, new_table
from bbrgym.tunables import TUNABLES
from bbrgym.worlds import Table

_NAMED = 3  # features that a sentence names
_LEAST = 0.005  # part of a tunable's range below which a table shows nothing
_USUAL = "5th to the 95th percentile"


def mode_name(number: int) -> str:
    """Return the name of a mode, numbered from 0."""
    return f"mode {number + 1}"


# ---- words --------------------------------------------------------------------------------------------


def sentences(explanation: Explanation) -> Iterator[str]:
    """Yield what the agent does, a sentence each."""
    seconds = f"every {explanation.interval_s:g} s"
    if explanation.is_per_flow:
        yield f"Each tuned flow decides {seconds} by what it measures."
    else:
        yield f"One controller decides {seconds} for all tuned flows."
    rule = explanation.rule
    if rule is None:
        yield (
            "A feature's part is what changes if it is that of another episode: the action in the same situation, and "
            "the score of whole episodes."
        )
        return
    others = len(rule.settings) - 1
    if others:
        yield (
            f"It starts in mode 1 and changes to another mode whose merit exceeds that of the mode it is in by more "
            f"than {rule.hysteresis:.3g}."
        )
    else:
        yield "It has one mode."
    yield f"In what follows a feature rises from the {_USUAL} of what it was at its decisions."
    for number in range(others):
        yield f"The merit of {mode_name(number + 1)} over mode 1 {_moved(rule, rule.merits[number], '+.2f')}."
    for tunable, moves in zip(rule.corrected, rule.corrections, strict=True):
        yield f"{tunable}, in parts of its range, {_moved(rule, moves, '+.2f')}."


def _moved(rule: RuleExplanation, moves: Table, digits: str) -> str:
    """Name the features that move a quantity most, and how far each does."""
    most = np.argsort(-np.abs(moves), kind="stable")[:_NAMED].tolist()
    parts = [f"{moves[each]:{digits}} as {rule.features[each]} rises" for each in most]
    return f"changes by {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else f"changes by {parts[0]}"


# ---- tables -------------------------------------------------------------------------------------------


def explanation_tables(explanation: Explanation) -> list[RichTable]:
    """Return all tables of an explanation."""
    if explanation.rule is None:
        return [shuffled_table(explanation)]
    return [
        features_table(explanation.rule),
        modes_table(explanation.rule),
        groups_table(explanation, explanation.rule),
    ]


def features_table(rule: RuleExplanation) -> RichTable:
    """Return a table with a row per feature: the effect of a rise, the strongest first."""
    merits = [f"merit of\n{mode_name(number + 1)}" for number in range(len(rule.merits))]
    corrected = [f"{name}\n% of range" for name in rule.corrected]
    table = new_table(
        f"What moves as a feature rises from the {_USUAL}", ["feature\n", "usual range\n"], [*merits, *corrected]
    )
    strength = np.abs(np.concatenate([rule.merits, rule.corrections])).max(axis=0)
    for each in np.argsort(-strength, kind="stable").tolist():
        usual = usual_range(rule.features[each], *rule.usual[:, each].tolist())
        moves = [f"{100 * move:+.0f}" if abs(move) >= _LEAST else "-" for move in rule.corrections[:, each]]
        table.add_row(rule.features[each], usual, *(f"{merit:+.2f}" for merit in rule.merits[:, each]), *moves)
    return table


def usual_range(name: str, low: float, high: float) -> str:
    """Return the ends of a feature's range, given normalised, in the feature's unit."""
    found = [feature for feature in FEATURES if feature.name == name.partition("[")[0]]
    if not found:
        return f"{low:.2f} to {high:.2f}"
    return f"{_value(found[0], low):.3g} to {_value(found[0], high):.3g} {found[0].unit}"


def _value(feature: Feature, normalised: float) -> float:
    if feature.scale == "linear":
        return feature.low + normalised * (feature.high - feature.low)
    if feature.scale == "log":
        return float(feature.low * (feature.high / feature.low) ** normalised)
    return normalised


def modes_table(rule: RuleExplanation) -> RichTable:
    """Return a table with a row per tunable: the value in each mode, those that differ most first."""
    modes = [mode_name(number) for number in range(len(rule.settings))]
    table = new_table("Settings of the modes, before corrections", ["tunable", "unit"], modes)
    ranges = np.array([TUNABLES[name].high - TUNABLES[name].low for name in rule.tunables])
    differences = np.ptp(rule.settings, axis=0) / ranges
    for each in np.argsort(-differences, kind="stable").tolist():
        tunable = TUNABLES[rule.tunables[each]]
        table.add_row(tunable.name, tunable.unit, *(f"{value:.4g}" for value in rule.settings[:, each]))
    return table


def groups_table(explanation: Explanation, rule: RuleExplanation) -> RichTable:
    """Return a table with a row per kind of network: the share of each mode, and the rate of changes."""
    shares = [f"{mode_name(number)}\n% of decisions" for number in range(len(rule.settings))]
    headings = ["episodes\n", *shares, "changes of mode\nper flow and minute"]
    table = new_table("Modes by kind of network", ["network\n"], headings)
    for group in dict.fromkeys(rule.groups):
        own = [number for number, name in enumerate(rule.groups) if name == group]
        by_flow = [modes for number in own for modes in rule.modes[number]]
        counts = np.bincount(np.concatenate(by_flow), minlength=len(rule.settings))
        changes = sum(int((modes[1:] != modes[:-1]).sum()) for modes in by_flow)
        minutes = sum(map(len, by_flow)) * explanation.interval_s / 60.0
        parts = [f"{100 * part:.0f}" for part in counts / counts.sum()]
        table.add_row(group, str(len(own)), *parts, f"{changes / minutes:.2f}")
    return table


def shuffled_table(explanation: Explanation) -> RichTable:
    """Return a table with a row per feature of an agent that is not a rule."""
    title = f"What changes if a feature is that of another episode: {draws_with_intervals(len(explanation.episodes))}"
    table = new_table(title, ["feature\n"], ["change of the action\n% of its range", "drop in score\n"])
    for one in explanation.shuffled:
        change = bootstrap_mean(one.action_change).scaled(100)
        table.add_row(one.name, change.text(1), bootstrap_mean(one.score_drop).text(3, "+"))
    return table
