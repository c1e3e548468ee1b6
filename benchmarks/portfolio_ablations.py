# SPDX-License-Identifier: GPL-2.0-only
"""Ablations of a portfolio's choice: its fit with something left out or changed, cross-validated on training draws.

usage: python benchmarks/portfolio_ablations.py RUN [--rows half-draws,trees]

Reads the probed draws of a finished `bbrgym train agent=portfolio` and fits anew, each row on the same folds. Prints
the gain over the best fixed setting of the library, and its difference from the training's own fit with a 95 % interval
over the draws. Simulates nothing; a row takes seconds to a minute.

    as trained           the features and the fit of the training
    true-parameters      the true parameters of the network in place of the features: the value of knowing
    half-draws, ...      fitted on a part of the draws
    curriculum           fitted on a third of the draws, and on another third chosen where the first one's choice trails
                         the best of the library (as Genet chooses, Xia et al., SIGCOMM 2022), weighed by the inverse
                         of how often it is chosen; beside it, two-thirds has as many, all at random
    4-settings, ...      only the first settings of the library may be chosen
    each-flow, together  only the features of each flow, only those of all flows together
    one-flow             only what the first flow's sender saw: what a host knows that has one of the flows
    last-interval        only the last interval of the probe, as often as the probe has intervals: no memory of it
    one-network          one network in place of several
    unweighted           draws of fast networks weigh no more than others
    networks             networks in place of trees
    trees                extremely randomised trees in place of the networks, where scikit-learn is installed
    shallow-trees        trees with five draws in a leaf at least and a third of the features for a split
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import torch

from bbrgym.agents.portfolio.fit import fitted, held_out
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.portfolio_trainer import PortfolioTrainer
from bbrgym.agents.portfolio.probe import histories
from bbrgym.agents.portfolio.probe_features import OBSERVED, ProbeFeatures
from bbrgym.agents.portfolio.selector import Examples, FitSettings
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import TrainingSettings, parse_training
from bbrgym.agents.training.trainer import trainer_of
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.errors import ConfigError
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Flags, Table

OWN = "as trained"
LEAST_SHARE = 0.3  # of the draws that a curriculum keeps where nothing is to be gained
_SHALLOW = {"model": "trees", "leaf_draws": 5, "split_share": 0.33}
Predict = Callable[[Examples, torch.Tensor], np.ndarray]
"""Fits on draws, and returns the predictions for others: [draws, settings]."""


@dataclass(frozen=True, eq=False)
class Row:
    """A way to choose.

    Attributes:
        examples: draws, whose features may be others.
        predict: how settings are predicted.
        share: of the draws outside a fold that are fitted on.
        settings: number of settings that may be chosen; None for all.
    """

    examples: Examples
    predict: Predict
    share: float = 1.0
    settings: int | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rows", default="", help="comma-separated; default: all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = parse_training(TrainingFolder(options.run).read_config())
    trainer = trainer_of(settings, is_trusted=False)
    if not isinstance(trainer, PortfolioTrainer) or settings.is_per_flow:
        raise ConfigError(f"run: {str(options.run)!r} holds agent {settings.label}, expected a portfolio of all flows")
    agent = trainer.load(TrainingFolder(options.run), settings, "best")
    rows = rows_of(options.run, settings, trainer.fit, agent)
    asked = [name for name in options.rows.split(",") if name] or [
        name for name in rows if "trees" not in name or importlib.util.find_spec("sklearn")
    ]
    seed, folds = settings.stream("fit", 0), trainer.fit.folds
    own = gains(rows[OWN], folds, seed)
    weights = rows[OWN].examples.weights / rows[OWN].examples.weights.sum()
    print(f"{len(own)} draws, {rows[OWN].examples.scores.shape[1]} settings\n")
    print("| fit | gain over the best fixed setting | minus that of the training |\n|---|---|---|")
    print(f"| {OWN} | {interval(own, weights)} | |", flush=True)
    for name in asked:
        if name != OWN:
            found = gains(rows[name], folds, seed)
            print(f"| {name} | {interval(found, weights)} | {interval(found - own, weights)} |", flush=True)


def rows_of(run: Path, settings: TrainingSettings, fit: FitSettings, agent: PortfolioAgent) -> Mapping[str, Row]:
    """Return all rows by name."""
    tables = [pl.read_parquet(path) for path in sorted((run / "states").glob("probe-*.parquet"))]
    table = pl.concat(tables)
    intervals = agent.routine.intervals
    history, draws = histories(table, intervals, agent.routine.width)
    features = ProbeFeatures(intervals, settings.env["max_learners"])
    first_flow = torch.zeros_like(history)
    of_first = slice(0, len(FEATURE_LISTS[OBSERVED]))
    first_flow[..., of_first] = history[..., of_first]
    with torch.no_grad():
        seen, last = features(history), features(history[:, -1:].expand(-1, intervals, -1))
        lone = features(first_flow)
    source = settings.source
    scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in table["draw"].to_list()]
    told = torch.from_numpy(true_parameters(scenarios)).float()
    examples = Examples(seen, np.array(table["scores"].to_list()), table["weight"].to_numpy(), draws)
    first_of_all = features.names.index("flows")

    def by(changed: FitSettings) -> Predict:
        seed = settings.stream("fit", 0)
        return lambda known, others: predictions(known, others, changed, seed)

    return {
        OWN: Row(examples, by(fit)),
        "true-parameters": Row(replace(examples, features=told), by(fit)),
        "half-draws": Row(examples, by(fit), share=0.5),
        "quarter-draws": Row(examples, by(fit), share=0.25),
        "two-thirds": Row(examples, by(fit), share=2 / 3),
        "curriculum": Row(
            replace(examples, features=torch.cat([seen, told], dim=1)),
            by_curriculum(fit, settings.stream("fit", 0), seen.shape[1]),
        ),
        "2-settings": Row(examples, by(fit), settings=2),
        "4-settings": Row(examples, by(fit), settings=4),
        "each-flow": Row(replace(examples, features=seen[:, :first_of_all]), by(fit)),
        "together": Row(replace(examples, features=seen[:, first_of_all:]), by(fit)),
        "one-flow": Row(replace(examples, features=lone), by(fit)),
        "last-interval": Row(replace(examples, features=last), by(fit)),
        "one-network": Row(examples, by(fit.model_copy(update={"members": 1}))),
        "unweighted": Row(examples, lambda known, others: by(fit)(evenly(known), others)),
        "networks": Row(examples, by(fit.model_copy(update={"model": "networks"}))),
        "trees": Row(examples, by(fit.model_copy(update={"model": "trees"}))),
        "shallow-trees": Row(examples, by(fit.model_copy(update=_SHALLOW))),
    }


def predictions(known: Examples, others: torch.Tensor, fit: FitSettings, seed: int) -> np.ndarray:
    selector = fitted(known, fit, seed)
    with torch.no_grad():
        predicted: np.ndarray = selector(others).numpy()
    return predicted


def by_curriculum(fit: FitSettings, seed: int, features: int) -> Predict:
    """Return a fit that chooses a half of its draws by a curriculum.

    Args:
        fit: settings.
        seed: of all that is drawn.
        features: number of the probe's features; the true parameters follow them.
    """

    def predict(known: Examples, others: torch.Tensor) -> np.ndarray:
        generator = np.random.default_rng(seed)
        rank = generator.permutation(len(known))
        is_first = rank < len(known) // 3
        seen = replace(known, features=known.features[:, :features])
        lost = expected_losses(seen.of(is_first), known.features[:, features:], is_first, fit, seed)
        share = (lost / np.quantile(lost[is_first], 0.9)).clip(LEAST_SHARE, 1.0)
        is_kept = ~is_first & (generator.random(len(known)) < share)
        is_kept &= is_kept.cumsum() <= is_first.sum()
        weights = np.where(is_first, known.weights, known.weights * share[is_first].mean() / share)
        return predictions(replace(seen, weights=weights).of(is_first | is_kept), others[:, :features], fit, seed)

    return predict


def expected_losses(first: Examples, told: torch.Tensor, is_first: Flags, fit: FitSettings, seed: int) -> Table:
    """Return by how much the choice of a selector fitted on the first draws trails the library's best, [draws].

    It is measured on these by cross-validation, and expected of all by their true parameters, [draws, parameters].
    """
    best, chosen = first.scores.max(axis=1), np.zeros(len(first))
    for is_held_out, selector in held_out(first, fit, seed):
        own = first.of(is_held_out)
        chosen[is_held_out] = own.scores[np.arange(len(own)), selector.choices(own.features)]
    pairs = Examples(told[torch.from_numpy(is_first)], np.stack([chosen, best], axis=1), first.weights, first.draws)
    expected = predictions(pairs, told, fit, seed)
    lost: Table = expected[:, 1] - expected[:, 0]
    return lost


def evenly(examples: Examples) -> Examples:
    return replace(examples, weights=np.ones(len(examples)))


def gains(row: Row, folds: int, seed: int) -> Table:
    """Return the score of the choice minus that of the best fixed setting, each fold fitted on the others, [draws]."""
    examples = row.examples
    found = np.zeros(len(examples))
    fold = examples.folds(folds, seed)
    order = np.random.default_rng(seed).permutation(len(examples)) / len(examples)
    for number in range(folds):
        is_held_out = fold == number
        others, own = examples.of(~is_held_out), examples.of(is_held_out)
        predicted = row.predict(examples.of(~is_held_out & (order < row.share)), own.features)
        chosen = predicted[:, : row.settings].argmax(axis=1)
        fixed = int((others.weights @ others.scores).argmax())
        found[is_held_out] = own.scores[np.arange(len(own)), chosen] - own.scores[:, fixed]
    return found


def interval(values: Table, weights: Table) -> str:
    """Return the weighted mean with its 95 % interval over the draws."""
    mean = float(weights @ values)
    half = 1.96 * float(np.sqrt(weights**2 @ (values - mean) ** 2))
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


if __name__ == "__main__":
    main()
