# SPDX-License-Identifier: GPL-2.0-only
"""Figures of an agent at work: modes by kind of network, agreement between flows, and one episode."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bbrgym.agents.explanation.episodes import Decisions, RecordedEpisode
from bbrgym.agents.explanation.explanation import Explanation
from bbrgym.agents.explanation.rule import Modes, RuleExplanation
from bbrgym.report.explanation_tables import mode_name
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, colour
from bbrgym.worlds import Table

_BINS = 40  # of the time
_SHOWN = 4  # tunables in the figure of an episode: those that move most
_SHARE = Axis("% of the flows", limits=(-2, 102))
_TIME = Axis("time (s)", starts_at_zero=True)


def modes_figure(explanation: Explanation, rule: RuleExplanation) -> FigureSpec:
    """Specify a panel per kind of network: the share of the flows in each mode over time."""
    edges = _edges(explanation)
    panels = []
    for group in sorted(set(rule.groups)):
        own = [number for number, name in enumerate(rule.groups) if name == group]
        times = np.concatenate([each.times_s for number in own for each in explanation.episodes[number].decisions])
        modes = np.concatenate([each for number in own for each in rule.modes[number]])
        lines = [
            _steps(edges, 100 * _means(edges, times, modes == mode), mode_name(mode), colour(mode))
            for mode in range(len(rule.settings))
        ]
        panels.append(Panel(_TIME, _SHARE, lines, f"{group}, {len(own)} episodes"))
    return FigureSpec(
        name="modes",
        title="Modes over time by kind of network",
        panels=panels,
        columns=len(panels),
        shares_y=True,
        width_in=11,
        height_in=4,
    )


def agreement_figure(explanation: Explanation, rule: RuleExplanation) -> FigureSpec | None:
    """Specify the share of pairs of flows of one bottleneck that are in the same mode; None without a pair."""
    edges = _edges(explanation)
    lines = []
    for number, group in enumerate(sorted(set(rule.groups))):
        own = [each for each, name in enumerate(rule.groups) if name == group]
        pairs = [pair for each in own for pair in _pairs(explanation.episodes[each], rule.modes[each])]
        if pairs:
            times, shares = np.array(pairs).T
            lines.append(_steps(edges, 100 * _means(edges, times, shares), group, colour(number)))
    if not lines:
        return None
    agreement = Axis("% of the pairs", limits=(-2, 102))
    return FigureSpec(
        name="agreement",
        title="Pairs of flows of one bottleneck that are in the same mode",
        panels=[Panel(_TIME, agreement, lines)],
        height_in=3.5,
        note="Each decision of each episode counts alike.",
    )


def episode_figure(explanation: Explanation) -> FigureSpec:
    """Specify an episode: modes or actions, queueing delay, and goodput; of a rule that with the most changes."""
    number, rule = 0, explanation.rule
    if rule is not None:
        changes = [sum(int((one[1:] != one[:-1]).sum()) for one in modes) for modes in rule.modes]
        number = int(np.argmax(changes))
    episode = explanation.episodes[number]
    colours = {name: colour(place) for place, name in enumerate(episode.flows)}
    delays = Line(episode.times_s, episode.queue_delay_ms, None, colour(6))
    goodputs = [
        Line(episode.times_s, episode.goodput_mbps[:, place], name, colours[name])
        for place, name in enumerate(episode.flows)
    ]
    if rule is None:
        first = Panel(_TIME, Axis("action"), list(_actions(explanation, episode.decisions)))
    else:
        tuned = [flow.name for flow in episode.scenario.resolved().flows if flow.role == "tuned"]
        lines = []
        for each, modes in zip(episode.decisions, rule.modes[number], strict=True):
            name = None if each.flow is None else tuned[each.flow]
            lines.append(_steps(_ends(explanation, each), modes, name, colours.get(name or "", colour(0))))
        first = Panel(_TIME, Axis(names=[mode_name(mode) for mode in range(len(rule.settings))]), lines)
    return FigureSpec(
        name="episode",
        title=f"One episode of {explanation.scenario}, seed {episode.seed}: score {episode.score:.3f}",
        panels=[
            first,
            Panel(_TIME, Axis("queueing delay (ms)", starts_at_zero=True), [delays]),
            Panel(_TIME, Axis("goodput (Mbit/s)", starts_at_zero=True), goodputs),
        ],
        shares_x=True,
        height_in=7.5,
    )


def _actions(explanation: Explanation, decisions: tuple[Decisions, ...]) -> Iterator[Line]:
    """Yield the actions of the first policy: the tunables that move most, or the chosen number."""
    for one in decisions[:1]:
        columns = one.actions.reshape(len(one.actions), -1)
        is_each = columns.shape[1] == len(explanation.tunables)
        names = explanation.tunables if is_each else ("number of the action",)
        for place, column in enumerate(np.argsort(-columns.std(axis=0), kind="stable")[:_SHOWN].tolist()):
            yield _steps(_ends(explanation, one), columns[:, column], names[column], colour(7 + place))


def _ends(explanation: Explanation, decisions: Decisions) -> Table:
    """Return the times between which decisions hold, [decisions + 1]."""
    return np.append(decisions.times_s, decisions.times_s[-1] + explanation.interval_s)


def _steps(edges: Table, values: Table | Modes, label: str | None, drawn: str) -> Line:
    """Return a line that has each value from one edge to the next."""
    return Line(edges, np.append(values[:1], values), label, drawn, is_stepped=True)


def _pairs(episode: RecordedEpisode, modes: tuple[Modes, ...]) -> Iterator[tuple[float, float]]:
    """Yield the times at which several flows decide, and the share of pairs in the same mode."""
    at: dict[float, list[int]] = {}
    for each, own in zip(episode.decisions, modes, strict=True):
        for time_s, mode in zip(each.times_s.tolist(), own.tolist(), strict=True):
            at.setdefault(round(time_s, 6), []).append(mode)
    for time_s, together in at.items():
        count = len(together)
        if count > 1:
            alike = sum(together.count(mode) * (together.count(mode) - 1) for mode in set(together))
            yield time_s, alike / (count * (count - 1))


def _edges(explanation: Explanation) -> Table:
    """Return the ends of equal parts of the time, none shorter than the time between two decisions."""
    end_s = max(float(one.times_s[-1]) for one in explanation.episodes)
    return np.linspace(0.0, end_s, max(2, min(_BINS, int(end_s / explanation.interval_s)) + 1))


def _means(edges: Table, times: Table, values: Table) -> Table:
    """Return the mean of the values in each part of the time, NaN without one."""
    place = np.clip(np.searchsorted(edges, times + 1e-9, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(place, minlength=len(edges) - 1)
    sums = np.bincount(place, np.asarray(values, np.float64), minlength=len(edges) - 1)
    means: Table = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means
