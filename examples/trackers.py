# SPDX-License-Identifier: GPL-2.0-only
"""Log a training to MLflow or trackio, by a callback that bbrgym calls with its progress.

usage: python examples/trackers.py mlflow|trackio [--total-steps 100000] [--scenario wan_mix] [--output-dir DIR]

It needs `pip install mlflow` or `pip install trackio`. MLFLOW_TRACKING_URI and TRACKIO_DIR say where they keep it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import bbrgym

Log = Callable[[int, dict[str, float]], object]


def begin_mlflow(config: dict[str, Any]) -> tuple[Log, Callable[[], object]]:
    """Begin a run; return what logs numbers at a step, and what ends the run."""
    import mlflow

    mlflow.set_experiment("bbrgym")
    mlflow.start_run()
    mlflow.log_params(config)
    return lambda step, values: mlflow.log_metrics(values, step=step), mlflow.end_run


def begin_trackio(config: dict[str, Any]) -> tuple[Log, Callable[[], object]]:
    """Begin a run; see `begin_mlflow`."""
    import trackio

    trackio.init(project="bbrgym", config=config)
    return lambda step, values: trackio.log(values, step=step), trackio.finish


TRACKERS = {"mlflow": begin_mlflow, "trackio": begin_trackio}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tracker", choices=TRACKERS)
    parser.add_argument("--total-steps", type=int, default=100_000)
    parser.add_argument("--scenario", default="wan_mix")
    parser.add_argument("--output-dir", default="runs/tracked")
    given = vars(parser.parse_args())
    tracker, output_dir = given.pop("tracker"), given.pop("output_dir")
    config = {**given, "variant": "bbr-mix", "agent": "torch_ppo", "num_envs": 16}
    log, finish = TRACKERS[tracker](config)

    def track(progress: Any) -> None:
        if progress.is_checkpoint:
            values = {"score": progress.score, "best_score": progress.best_score, "reward": progress.reward}
            log(progress.step, {name: value for name, value in values.items() if math.isfinite(value)})
            print(f"steps {progress.step:8d}  score {progress.score:.3f}")

    try:
        bbrgym.train(output_dir=output_dir, on_progress=track, **config)
    finally:
        finish()


if __name__ == "__main__":
    main()
