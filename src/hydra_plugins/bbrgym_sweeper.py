# SPDX-License-Identifier: GPL-2.0-only
"""``hydra/sweeper=bbrgym_optuna``: a Hydra sweeper on today's Optuna, which the published plugin does not take.

Hydra finds plugins in this namespace alone. Optuna is imported when a search begins.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class Direction(Enum):
    """Which values of the metric are better."""

    minimize = 0
    maximize = 1


@dataclass
class OptunaSweeperConf:
    """Settings of the sweeper.

    Attributes:
        metric: a number in the jobs' summaries. Default: best_score of trainings, score of evaluations.
        direction: maximize or minimize the metric.
        n_trials: number of trials.
        batch: trials proposed at once, whose jobs can run side by side.
        n_startup_trials: trials drawn at random before the scores count.
        seed: of all random draws.
        storage: address of the study's database. Default: study.db in the folder.
        study_name: of the study, for a database that holds several.
        shared: whether other processes search in the same study, each in a folder of its own; ``n_trials`` are those
            of all.
        pruner: `_target_` and arguments of an Optuna pruner. Default: no trial is pruned.
        params: ranges by option, in Hydra's grammar: ``choice(..)``, ``range(..)``, ``interval(..)``,
            ``int(interval(..))``, ``tag(log, interval(..))``.
    """

    _target_: str = "hydra_plugins.bbrgym_sweeper.OptunaSweeper"
    metric: Optional[str] = None  # noqa: UP045 - OmegaConf reads it
    direction: Direction = Direction.maximize
    n_trials: int = 32
    batch: int = 4
    n_startup_trials: int = 10
    seed: int = 1
    storage: Optional[str] = None  # noqa: UP045
    study_name: str = "bbrgym"
    shared: bool = False
    pruner: Any = None
    params: dict[str, str] = field(default_factory=dict)


ConfigStore.instance().store(group="hydra/sweeper", name="bbrgym_optuna", node=OptunaSweeperConf, provider="bbrgym")


class OptunaSweeper(Sweeper):  # type: ignore[misc] # Hydra has no types here
    """Searches the intervals of the command line and of ``hydra.sweeper.params``.

    Args:
        settings: as in `OptunaSweeperConf`.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Prepare the launcher; see Hydra's class."""
        self.config = config
        self.hydra_context = hydra_context
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Run all trials, and return what the launcher returned of each batch."""
        from bbrgym.sweeps.search import search

        return search(self, arguments)
