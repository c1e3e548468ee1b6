# SPDX-License-Identifier: GPL-2.0-only
"""Steps in which a portfolio's gap to the best setting of its library is lost.

usage: python benchmarks/portfolio_gap.py RUN [--draws 128] [--write docs/results.md]

RUN is a run folder of `bbrgym train agent=portfolio`. Draws of the training split that no stage ran are simulated in
the twin, with every setting of the library, from the first packet on and after the probe, twice each. All rows are
scored on the same run of each draw.

    best in the run              the best setting held from the first packet on, chosen on the very run: partly luck
    chosen on another run        the same, chosen on another run of the same network
    ..., after a probe           both, for settings that are held when the probe has ended
    told the true parameters     the selector that is told them, after the probe
    the selector                 the portfolio itself
    the best fixed setting       the first of the library, from the first packet on
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import polars as pl
import torch
from portfolio_ablations import interval
from portfolio_run import load_portfolio, parser_of
from report import Bystanders, command, measured_on, replace_section

from bbrgym.agents.portfolio.parts import parts_of
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.probe import ProbePart, histories
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw, training_draws
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.worlds import Table, WorldSettings
from bbrgym.worlds.score import DEFAULT_DELTA

_SEED = 2**20  # of the draws: other ones than any stage's


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=128)
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, options = load_portfolio(asked.run)
    source = parse_training(TrainingFolder(asked.run).read_config()).source
    draws = list(islice(training_draws(source, _SEED), asked.draws))
    conditions = TrainingConditions(options, WorldSettings(), DEFAULT_DELTA)
    rows = rows_of(agent, draws, conditions)
    weights = np.array([draw.weight for draw in draws])
    weights /= weights.sum()
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. {len(draws)} training draws that no stage ran; fast "
        "networks are rarer and weigh more. 95 % intervals over the draws.\n\n"
        "| choice | minus the best fixed setting | minus the row above |\n| --- | --- | --- |\n"
    )
    above: Table | None = None
    for name, scores in rows.items():
        lost = "" if above is None else interval(scores - above, weights)
        section += f"| {name} | {interval(scores - rows[_FIXED], weights) if name != _FIXED else 0} | {lost} |\n"
        above = scores
    print(section)
    if asked.write:
        replace_section(asked.write, "portfolio-gap", section)


_FIXED = "the best fixed setting"


def rows_of(agent: PortfolioAgent, draws: Sequence[TrainingDraw], conditions: TrainingConditions) -> dict[str, Table]:
    """Return the scores of each row, [draws]."""
    held, held_again = (held_scores(agent, draws, conditions, number) for number in range(2))
    probed, again = (probes(agent, draws, conditions, number) for number in range(2))
    after, after_again = (np.array(table["scores"].to_list()) for table in (probed, again))
    told = [agent.knows(draw.scenario) for draw in draws]
    with torch.no_grad():
        features = agent.looks[0].features(histories(probed, agent.routine.intervals, agent.routine.width)[0])
    return {
        "best in the run": held.max(axis=1),
        "chosen on another run": of(held, held_again.argmax(axis=1)),
        "best in the run, after a probe": after.max(axis=1),
        "chosen on another run, after a probe": of(after, after_again.argmax(axis=1)),
        "told the true parameters": of(after, told),
        "the selector": of(after, agent.looks[0].selector.choices(features)),
        _FIXED: held[:, 0],
    }


def held_scores(
    agent: PortfolioAgent, draws: Sequence[TrainingDraw], conditions: TrainingConditions, number: int
) -> Table:
    """Return the scores with each setting from the first packet on, [draws, settings]."""
    with conditions.trials(draws, 1, number, None) as trials:
        return np.array([trials.scores(setting) for setting in agent.library]).T


def probes(
    agent: PortfolioAgent, draws: Sequence[TrainingDraw], conditions: TrainingConditions, number: int
) -> pl.DataFrame:
    """Return what stage probe would leave of these draws."""
    routine = agent.routine
    return pl.concat(
        ProbePart(conditions, part, routine.setting, routine.intervals, agent.library, run=number)(None)
        for part in parts_of(draws)
    )


def of(scores: Table, chosen: Sequence[int] | np.ndarray) -> Table:
    """Return the scores of the chosen settings, [draws]."""
    return scores[np.arange(len(scores)), chosen]


if __name__ == "__main__":
    main()
