# SPDX-License-Identifier: GPL-2.0-only
"""A whole search for bad networks: trials, honest scores of the best, files, and runs in another world.

config.yaml        the request
trials.parquet     each trial: its numbers, and the scores of both on seeds A
cases/NAME.yaml    the kept networks, worst first, which scenario= takes
found.yaml         all of them, a distribution, which train takes: scenario=[wan_mix,DIR/found.yaml]
cases.csv          their scores on seeds A, on seeds B, and on seeds B in the world `replay`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import yaml

from bbrgym.evaluate.adversary.adversary_settings import Adversary
from bbrgym.evaluate.adversary.network_scores import entrant_named, harms_on, scores_on
from bbrgym.evaluate.adversary.network_search import NetworkTrial, scores_in, search_networks, table_of
from bbrgym.evaluate.adversary.search_space import SearchSpace
from bbrgym.evaluate.resume import check_same_config
from bbrgym.runs.run_folder import RunFolder
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.families import described, families_of
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.shipped import MIX
from bbrgym.worlds import FAST_WORLD, Table

TRIALS, CASES = "trials.parquet", "cases.csv"
FIRST_SEED_A, FIRST_SEED_B = 1, 1001
_CHECKED = 4  # times as many networks are scored on seeds B as are kept
_NEAR = 0.1  # mean distance of the numbers of two networks below which they are one


class AdversaryFolder(RunFolder):
    """Run folder of a search."""

    command: ClassVar[str] = "adversary"


@dataclass(frozen=True)
class FoundNetwork:
    """Network that is kept."""

    network: Scenario
    loss_a: float  # mean loss on the seeds that the search saw
    losses: Table  # on seeds B, [seeds]
    entrant: float  # mean score on seeds B
    reference: float  # mean score on seeds B
    replayed: Table  # losses in the other world, [seeds]; empty if there is none


@dataclass(frozen=True)
class SearchProgress:
    """Progress of a search."""

    done: int  # trials so far
    total: int
    loss: float  # largest so far, on seeds A
    stage: str  # under way


def search_adversary(
    distribution: Distribution,
    settings: Adversary,
    folder: AdversaryFolder,
    on_progress: Callable[[SearchProgress], None] | None = None,
) -> list[FoundNetwork]:
    """Search, and leave the files in the folder, which is open; trials that it holds are not run again.

    Returns:
        The kept networks, worst first: those on which the entrant loses on seeds B too.

    Raises:
        ConfigError: a setting cannot be used, or the folder holds another search.
        MissingExtraError: Optuna is not installed.
        WorldError: a simulation failed; finished trials are kept.
        OSError: a file cannot be written.
    """
    search = _AdversarySearch(distribution, settings, folder, on_progress)
    cases = search.checked(search.trials())
    search.write(cases)
    return cases


class _AdversarySearch:
    def __init__(
        self,
        distribution: Distribution,
        settings: Adversary,
        folder: AdversaryFolder,
        on_progress: Callable[[SearchProgress], None] | None,
    ) -> None:
        self._settings, self._folder, self._on_progress = settings, folder, on_progress
        self._space = SearchSpace(distribution, settings.steps)
        named = settings.agent or settings.variant
        self._entrant = entrant_named("agent" if settings.agent else "variant", named)
        self._reference = entrant_named("reference", settings.reference) if settings.goal == "score" else None
        config = {"scenario": dict(distribution.fields), **settings.model_dump(mode="json")}
        if folder.has_config():
            check_same_config(config, folder.read_config(), "search", folder)
        folder.write_config(config)

    def trials(self) -> list[NetworkTrial]:
        """Search, and keep the trials in the folder."""
        is_kept = (self._folder.path / TRIALS).exists()
        known = scores_in(self._folder.read_table(TRIALS)) if is_kept else []
        seeds = range(FIRST_SEED_A, FIRST_SEED_A + self._settings.seeds)
        trials: list[NetworkTrial] = []

        def scores(networks: Sequence[Scenario]) -> list[tuple[float, float]]:
            both = self._scores_of_both(FAST_WORLD, networks, seeds)
            return list(zip(*(one.mean(axis=1).tolist() for one in both), strict=True))

        for batch in search_networks(self._space, self._settings, scores, known):
            trials += batch
            if len(trials) > len(known):
                self._folder.write_table(TRIALS, table_of(trials))
            self._report(len(trials), max(one.loss for one in trials), "search")
        return trials

    def _scores_of_both(self, world: str, networks: Sequence[Scenario], seeds: Sequence[int]) -> list[Table]:
        """Return the scores of the entrant and of the reference, [networks, seeds] each.

        Of goal harm it is minus the entrant's harm, and the 0 of the others' own control in its place.
        """
        delta, threads = self._settings.score_delta, self._settings.threads
        if self._reference is None:
            harms = harms_on(world, self._entrant, networks, seeds, threads)
            return [-harms, np.zeros_like(harms)]
        return [scores_on(world, who, networks, seeds, delta, threads) for who in (self._entrant, self._reference)]

    def checked(self, trials: Sequence[NetworkTrial]) -> list[FoundNetwork]:
        """Return the worst networks by seeds B."""
        settings = self._settings
        worst = sorted((one for one in trials if one.loss > 0), key=lambda one: (-one.loss, one.number))
        chosen: list[NetworkTrial] = []
        for one in worst:
            if len(chosen) < _CHECKED * settings.keep and all(_distance(one, other) >= _NEAR for other in chosen):
                chosen.append(one)
        if not chosen:
            return []
        self._report(len(trials), worst[0].loss, "check")
        seeds = range(FIRST_SEED_B, FIRST_SEED_B + settings.check_seeds)
        networks = [one.network for one in chosen]
        entrant, reference = self._scores_of_both(FAST_WORLD, networks, seeds)
        losses = np.nan_to_num(reference - entrant)
        order = [index for index in np.argsort(-losses.mean(axis=1), kind="stable") if losses[index].mean() > 0]
        kept = order[: settings.keep]
        self._report(len(trials), worst[0].loss, "replay")
        replayed = self._replayed([networks[index] for index in kept])
        return [
            FoundNetwork(
                self._renamed(networks[index], place),
                chosen[index].loss,
                losses[index],
                float(entrant[index].mean()),
                float(reference[index].mean()),
                replayed[place - 1],
            )
            for place, index in enumerate(kept, start=1)
        ]

    def _replayed(self, networks: Sequence[Scenario]) -> Table:
        """Return the losses in the other world, [networks, seeds]."""
        settings = self._settings
        if settings.replay is None or not networks:
            return np.zeros((len(networks), 0))
        seeds = range(FIRST_SEED_B, FIRST_SEED_B + settings.replay_seeds)
        entrant, reference = self._scores_of_both(settings.replay, networks, seeds)
        return np.nan_to_num(reference - entrant)

    def _renamed(self, network: Scenario, place: int) -> Scenario:
        who = self._entrant.agent if self._settings.agent else self._entrant.variant
        fields = network.model_dump(mode="json", exclude_none=True)
        return load_scenario({**fields, "name": f"against-{who}-{place}"})

    def write(self, cases: Sequence[FoundNetwork]) -> None:
        """Write the kept networks."""
        for case in cases:
            self._folder.write_text(f"cases/{case.network.name}.yaml", self._text(case))
        if cases:
            found = {"name": "found", MIX: [_fields(case.network) for case in cases]}
            self._folder.write_text("found.yaml", yaml.safe_dump(found, sort_keys=False))
        self._folder.write_text(CASES, table_of_cases(cases).write_csv())

    def _text(self, case: FoundNetwork) -> str:
        reference = None if self._reference is None else self._reference.label
        loss = describe_loss(case, self._entrant.label, reference, self._settings.replay)
        lines = [describe_network(case.network), *loss]
        return "".join(f"# {line}\n" for line in lines) + yaml.safe_dump(_fields(case.network), sort_keys=False)

    def _report(self, done: int, loss: float, stage: str) -> None:
        if self._on_progress is not None:
            self._on_progress(SearchProgress(done, self._settings.budget, loss, stage))


def table_of_cases(cases: Sequence[FoundNetwork]) -> pl.DataFrame:
    """Return a row per kept network."""
    return pl.DataFrame(
        {
            "network": [case.network.name for case in cases],
            "loss_a": [case.loss_a for case in cases],
            "loss_b": [float(case.losses.mean()) for case in cases],
            "least_b": [float(case.losses.min()) for case in cases],
            "entrant_b": [case.entrant for case in cases],
            "reference_b": [case.reference for case in cases],
            "loss_replayed": [float(case.replayed.mean()) if len(case.replayed) else None for case in cases],
            "description": [describe_network(case.network) for case in cases],
        },
        schema_overrides={"loss_replayed": pl.Float64, "network": pl.String, "description": pl.String},
    )


def describe_network(network: Scenario) -> str:
    """Return a network in a line, with the families that it is in."""
    return f"{described(network)}: {', '.join(families_of(network)) or 'no family'}"


def describe_loss(case: FoundNetwork, entrant: str, reference: str | None, replay: str | None) -> list[str]:
    """Return sentences on the scores of both, or on the entrant's harm if there is no reference."""
    losses, seeds = case.losses, f"on {len(case.losses)} seeds that the search did not see"
    loss = f"{losses.mean():.2f} ({losses.min():.2f} to {losses.max():.2f})"
    scores = f"{entrant} scores {case.entrant:.2f} and {reference} {case.reference:.2f} {seeds}: a loss of {loss}."
    lines = [scores if reference else f"{entrant} does the others a harm of {loss} {seeds}."]
    if len(case.replayed):
        what = "loss" if reference else "harm"
        lines.append(f"In {replay} the {what} is {case.replayed.mean():.2f} ({len(case.replayed)} seeds).")
    return lines


def _fields(network: Scenario) -> dict[str, Any]:
    fields = network.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for kept, flow in zip(fields["flows"], network.flows, strict=True):
        if "cc" in kept:
            kept["role"] = flow.role  # a tuned flow's too, beside its cc
    return fields


def _distance(one: NetworkTrial, other: NetworkTrial) -> float:
    """Return the mean distance of the numbers of two networks; a place that one of them lacks counts as 1."""
    places = {*one.numbers, *other.numbers}
    apart = [
        abs(one.numbers[place] - other.numbers[place]) if place in one.numbers and place in other.numbers else 1.0
        for place in places
    ]
    return float(np.mean(apart))
