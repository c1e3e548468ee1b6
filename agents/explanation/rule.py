# SPDX-License-Identifier: GPL-2.0-only
"""A rule's numbers: modes, merits, corrections, and the modes of recorded decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bbrgym.agents.evolution.modes_network import ModesNetwork
from bbrgym.agents.explanation.episodes import Decisions, RecordedEpisode
from bbrgym.agents.training.draw_groups import group_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.scaling import TunableScaling
from bbrgym.worlds import Table

Modes = NDArray[np.intp]

USUAL = (5.0, 95.0)
"""Percentiles between which a feature usually is."""


@dataclass(frozen=True, eq=False)
class RuleExplanation:
    """Rule with hysteresis between modes."""

    features: tuple[str, ...]  # names of the numbers that it observes, [features]
    usual: Table  # ends of what each was in nine of ten decisions, normalised, [2, features]
    # gain of each mode but the first in merit, as each feature goes from one end to the other, [modes - 1, features]
    merits: Table
    hysteresis: float  # merit that another mode must have beyond the held one's
    corrected: tuple[str, ...]  # names of the tunables that it corrects
    # what they move as each feature goes from one end to the other, in parts of their range, [corrected, features]
    corrections: Table
    tunables: tuple[str, ...]  # names of all tunables that it sets
    settings: Table  # values of the tunables in each mode, uncorrected, [modes, tunables]
    groups: tuple[str, ...]  # kind of network of each episode
    modes: tuple[tuple[Modes, ...], ...]  # mode of each decision of each policy in each episode


def explained_rule(
    network: ModesNetwork, names: Sequence[str], scaling: TunableScaling, episodes: Sequence[RecordedEpisode]
) -> RuleExplanation:
    """Return what a rule does."""
    count = len(network.mean)
    observed = np.concatenate([each.observations[:, :count] for one in episodes for each in one.decisions])
    usual: Table = np.percentile(observed, USUAL, axis=0)
    merits, corrections = network.terms()
    return RuleExplanation(
        features=tuple(names[:count]),
        usual=usual,
        merits=merits.weights * (usual[1] - usual[0]),
        hysteresis=abs(network.hysteresis.item()),
        corrected=tuple(scaling.names[place] for place in network.places.argmax(dim=1).tolist()),
        corrections=corrections.weights * (usual[1] - usual[0]) / 2.0,
        tunables=scaling.names,
        settings=scaling.snap(network.anchors.numpy())[0],
        groups=tuple(group_of(TrainingDraw(one.scenario, one.seed, 1.0)) for one in episodes),
        modes=tuple(tuple(_modes_of(network, each) for each in one.decisions) for one in episodes),
    )


@torch.no_grad()
def _modes_of(network: ModesNetwork, decisions: Decisions) -> Modes:
    """Return the mode of each decision."""
    _, _, mode = network.first_inputs(1, decisions.observations.shape[1])
    modes = []
    for number, observation in enumerate(torch.from_numpy(decisions.observations)):
        _, mode = network(observation[None], torch.tensor([float(number == 0)]), mode)
        modes.append(int(mode.argmax()))
    return np.array(modes, np.intp)
