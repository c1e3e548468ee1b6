# SPDX-License-Identifier: GPL-2.0-only
"""Explains the agent of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bbrgym.agents.explanation.episodes import RecordedEpisode, recorded_episodes
from bbrgym.agents.explanation.shuffling import ShuffledFeature, columns_by_feature, shuffled_features
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import split_seeds

MIN_EPISODES = 2  # a feature is shuffled between them


@dataclass(frozen=True, eq=False)
class Explanation:
    """Account of what an agent does."""

    agent: str  # name of the agent
    scenario: str  # name of the scenario, or of the distribution
    variant: str  # whose tunables it sets
    interval_s: float  # time between two decisions
    is_per_flow: bool  # whether each flow decides for itself
    tunables: tuple[str, ...]  # names of the tunables that it sets
    episodes: Sequence[RecordedEpisode]  # in which it acted
    shuffled: Sequence[ShuffledFeature]  # what its features change


def explain(run_dir: str | Path, *, checkpoint: str = "best", draws: int = 40) -> Explanation:
    """Explain a trained agent by episodes in the world of the training's validation.

    Args:
        run_dir: run folder of `bbrgym train`.
        checkpoint: ``best`` or ``last``.
        draws: number of episodes, the first draws of the validation.

    Raises:
        ConfigError: there is no such agent, or there are too few draws or too many.
        MissingExtraError: a package that its trainer needs is not installed.
        WorldError: a simulation failed.
    """
    if draws < MIN_EPISODES:
        raise ConfigError(f"draws: is {draws}, allowed are whole numbers from {MIN_EPISODES}")
    agent, _ = load_agent(run_dir, checkpoint)
    settings = TrainingFolder(Path(run_dir)).read_request(parse_training)
    options, objective = settings.validation_options(), settings.objective
    batch = batch_of(1, options)
    scaling = batch.scaling
    columns = columns_by_feature(batch.observation.names(scaling.names), scaling.names)
    batch.close()
    episodes = recorded_episodes(agent, options, settings.source, split_seeds("validation", draws), objective=objective)
    return Explanation(
        agent=agent.name,
        scenario=settings.source.name,
        variant=scaling.variant,
        interval_s=options.control_interval_s * options.hold_intervals,
        is_per_flow=agent.is_per_flow,
        tunables=scaling.names,
        episodes=episodes,
        shuffled=shuffled_features(agent, options, settings.source, episodes, columns, objective=objective),
    )
