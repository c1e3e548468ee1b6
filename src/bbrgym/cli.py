# SPDX-License-Identifier: GPL-2.0-only
"""The command ``bbrgym``.

Exit codes: 0 done, 1 a run broke, 2 what was asked for is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

import bbrgym
from bbrgym.compose import compose_config
from bbrgym.distribution import Distribution, is_distribution, load_distribution, split_seeds
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, TrainingError
from bbrgym.evaluation import Progress, run_evaluation
from bbrgym.listing import listing
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import parse_scenario
from bbrgym.tables import speed_table
from bbrgym.worlds import WorldError

_EVALUATE = """\
Runs every variant, and the agents beside them, with every seed on a scenario, or on draws of a distribution; writes a
run folder and shows the tables. With several worlds it also shows how far apart they are, and how fast.

examples:
  bbrgym evaluate scenario=rtt_fairness 'variants=[bbr,bbq]' 'seeds=[1,2,3]' output_dir=runs/mine
  bbrgym evaluate scenario=mine.yaml scenario.link.rate_mbps=50 scenario.duration_s=20
  bbrgym evaluate 'variants=[bbq]' tunables.bbq_alpha_us=1000
  bbrgym evaluate 'world=[ns3,twin]' 'seeds=[1,2,3]'
  bbrgym evaluate scenario=wan_mix draws=100 world=twin 'agent=[runs/mine,random]'
  bbrgym evaluate output_dir=runs/mine resume=true
"""
_TRAIN = """\
Trains an agent to set a variant's tunables; writes a run folder with checkpoints, from which it goes on after an
interruption as if there had been none. `bbrgym evaluate agent=RUN_DIR` compares it.

examples:
  bbrgym train agent=ppo variant=bbr-mix scenario=wan_mix seed=1 total_steps=2_000_000 output_dir=runs/mine
  bbrgym train variant=bbq scenario=rtt_fairness agent.learning_rate=1e-3 'action.tunables=[bbq_alpha_us]'
  bbrgym train env=multi agent=ppo scenario=wan_mix output_dir=runs/multi    (a controller for each flow)
  bbrgym train resume=runs/mine
"""
_EXPORT = """\
Writes the network of a trained agent to one file, ONNX or TorchScript, whose actions are those of the agent.

example:
  bbrgym export runs/mine --format onnx --output tuner.onnx
"""
_SWEEP = """\
Runs bbrgym train (or evaluate, with command=evaluate) once for every combination of options that have several values;
each job has its own process, log and run folder. At the end it shows tables and writes figures and report.html. Jobs
that fail are reported and leave the others alone; an interrupted sweep goes on with resume.

examples:
  bbrgym sweep agent=ppo,sac 'seed=range(1,4)' total_steps=200_000 launcher.n_jobs=2 sweep_dir=runs/mine
  bbrgym sweep hparams_search=ppo seed=1,2 total_steps=100_000 sweep_dir=runs/search
  bbrgym sweep command=evaluate scenario=steady,lossy world=twin launcher=ray
  bbrgym sweep resume=runs/mine
"""
_SERVE = """\
Lets an agent of ns3-gym's, or bbrgym/Ns3Gym-v0, drive a world: connects to the agent's port as ns3-gym's simulations
do, and serves one episode after the other. Options may also be written --option=value, as ns3-gym's scripts do.

examples:
  bbrgym serve scenario=rtt_fairness variant=bbq world=twin port=5555
  bbrgym serve scenario=wan_mix variant=bbr-mix episodes=1000 timeout_s=600 env.stack=1 reward=goodput
  bbrgym serve scenario=steady --openGymPort=5555 --simSeed=3
"""
_SCENARIO = """\
Prints a scenario in its resolved form, the JSON that every world and the standalone program read. Of a distribution it
prints a draw: the one with the number that draw= says, from 0 on, of the train split unless split= says another.

examples:
  bbrgym scenario rtt_fairness scenario.link.rate_mbps=50 > scenario.json
  bbrgym scenario wan_mix draw=5 split=validation
"""

_TASK = """\
Prints a scenario, what an agent sees and sets in it and what it is paid for, as JSON: bbrgym/Tune-v0 for the program
bbrgym-opengym in an ns-3 tree, which ns3-gym's scripts can drive (ns3-scratch/README.md).

example:
  bbrgym task scenario=rtt_fairness variant=bbq env.control_interval_s=0.1 > task.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.run is not _serve:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others = others
    errors = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    try:
        options.run(options)
    except (ConfigError, MissingExtraError) as error:
        errors.print(f"bbrgym: {error}")
        return 2
    except (ProtocolError, SweepError, TrainingError, WorldError) as error:
        errors.print(f"bbrgym: {error}")
        return 1
    except KeyboardInterrupt:
        errors.print(f"bbrgym: interrupted{options.left}")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bbrgym", description="A Gymnasium for tuning BBR-family congestion control.")
    parser.add_argument("--version", action="version", version=f"bbrgym {bbrgym.__version__}")
    parser.set_defaults(left="; what is finished is kept, and resume=true with output_dir=DIR goes on")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    raw = argparse.RawDescriptionHelpFormatter

    _add_composed(commands, "evaluate", "compare variants on a scenario", _EVALUATE, _evaluate)
    _add_composed(commands, "train", "train an agent", _TRAIN, _train)

    command = commands.add_parser(
        "export", help="write a trained agent's network", description=_EXPORT, formatter_class=raw
    )
    command.add_argument("run_dir", metavar="RUN_DIR", help="what bbrgym train left")
    command.add_argument("--format", default="onnx", help="onnx (without) or torchscript")
    command.add_argument("--checkpoint", default="best", help="best (without) or last")
    command.add_argument("--output", metavar="FILE", help="in RUN_DIR/exported without")
    command.set_defaults(run=_export)

    _add_composed(commands, "sweep", "run many trainings or evaluations", _SWEEP, _sweep)
    command = _add_composed(commands, "serve", "let an agent of ns3-gym's drive a world", _SERVE, _serve)
    command.set_defaults(left="")

    command = commands.add_parser(
        "list", help="show what there is to choose from: variants, tunables, scenarios, worlds, agents, rewards"
    )
    command.set_defaults(run=_list)

    command = commands.add_parser(
        "scenario", help="print a scenario's resolved JSON", description=_SCENARIO, formatter_class=raw
    )
    command.add_argument("scenario", metavar="NAME", help="a shipped scenario or a file")
    command.add_argument("overrides", nargs="*", metavar="OPTION=VALUE", help="scenario.FIELD=VALUE, draw= or split=")
    command.set_defaults(run=_scenario)

    _add_composed(commands, "task", "print an environment's JSON for an ns-3 tree", _TASK, _task)
    return parser


def _add_composed(
    commands: Any, name: str, purpose: str, description: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """A command whose options are those of ``conf/<name>.yaml``."""
    options = (resources.files("bbrgym") / "conf" / f"{name}.yaml").read_text(encoding="utf-8")
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=description,
        epilog="options and their defaults:\n\n" + options,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("overrides", nargs="*", metavar="OPTION=VALUE")
    command.set_defaults(run=run)
    return command


def _evaluate(options: argparse.Namespace) -> None:
    config = compose_config("evaluate", options.overrides)
    scenario = _scenario_of(config.pop("scenario"))
    agent = config.pop("agent")
    resume = config.pop("resume")
    if not isinstance(resume, bool):
        raise ConfigError(f"resume: is {resume!r}, expected true or false")
    output_dir = config.pop("output_dir")
    if output_dir is None:
        now = datetime.datetime.now().astimezone()
        output_dir = Path("runs") / f"{scenario.name}-{now:%Y%m%d-%H%M%S}"
    bar = _progress_bar()
    task = bar.add_task("", runs="")

    def show(progress: Progress) -> None:
        runs = f"{progress.done_runs}/{progress.total_runs} runs"
        bar.update(task, total=progress.total_s, completed=progress.done_s, runs=runs)
        bar.start()

    try:
        outcome = run_evaluation(
            scenario,
            config,
            agent=agent,
            output_dir=str(output_dir),
            resume=resume,
            on_progress=show,
            command=shlex.join(["bbrgym", "evaluate", *options.overrides]),
        )
    finally:
        if bar.live.is_started:
            bar.stop()
    console = _console()
    for table in outcome.tables():
        console.print(table)
    if outcome.timing["world"].n_unique() > 1:
        console.print(speed_table(outcome.timing))
    console.print(f"run folder: {output_dir}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {Path(output_dir) / 'report.html'}", markup=False, highlight=False, soft_wrap=True)


def _train(options: argparse.Namespace) -> None:
    from bbrgym.train_command import outcome, train_from  # brings what no other command needs

    output_dir, summary = train_from(options.overrides)
    console = _console()
    console.print(outcome(summary), markup=False, highlight=False, soft_wrap=True)
    console.print(f"run folder: {output_dir}", markup=False, highlight=False, soft_wrap=True)


def _export(options: argparse.Namespace) -> None:
    from bbrgym.agents.export import export  # brings what no other command needs

    path = export(options.run_dir, options.format, checkpoint=options.checkpoint, output=options.output)
    _console().print(f"exported: {path}", markup=False, highlight=False, soft_wrap=True)


def _sweep(options: argparse.Namespace) -> None:
    from bbrgym.sweeps.command import best, refuse_failures, sweep_from  # brings what no other command needs
    from bbrgym.sweeps.results import tables_of

    sweep_dir, results = sweep_from(options.overrides)
    console = _console()
    for table in tables_of(results):
        console.print(table)
    for line in (best(results), f"sweep folder: {sweep_dir}"):
        if line is not None:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    refuse_failures(sweep_dir, results)


def _serve(options: argparse.Namespace) -> None:
    from bbrgym.serve_command import serve_from  # brings what no other command needs

    progress = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
    serve_from(options.overrides, options.others, on_line=progress.print)


def _list(options: argparse.Namespace) -> None:  # noqa: ARG001
    console = _console()
    for table in listing():
        console.print(table)


def _scenario(options: argparse.Namespace) -> None:
    overrides = [f"scenario={options.scenario}", *options.overrides]
    config = compose_config("scenario", overrides)
    source = _scenario_of(config["scenario"])
    scenario = source if isinstance(source, Scenario) else _draw_of(source, config["draw"], config["split"])
    if isinstance(source, Scenario) and config["draw"] is not None:
        raise ConfigError(
            f"draw: is {config['draw']!r}, but {source.name} is a scenario, expected a distribution with it"
        )
    sys.stdout.write(scenario.resolved_json() + "\n")


def _draw_of(distribution: Distribution, number: Any, split: str) -> Scenario:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ConfigError(
            f"draw: is {number!r}, but {distribution.name} is a distribution, expected the number of a draw, from 0 on"
        )
    return distribution(split_seeds(split, 1, number)[0])


def _task(options: argparse.Namespace) -> None:
    from bbrgym.task_command import task_from  # brings what no other command needs

    sys.stdout.write(json.dumps(task_from(options.overrides), indent=2) + "\n")


def _scenario_of(fields: Any) -> Scenario | Distribution:
    source = _mapping(fields, "scenario")
    return load_distribution(source) if is_distribution(source) else parse_scenario(source)


def _console() -> Console:
    """Of the terminal's width; where the output goes to a file or pipe, wide enough for any table."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: is {value!r}, expected a mapping of fields")
    return value


def _progress_bar() -> ProgressBar:
    return ProgressBar(
        TextColumn("{task.fields[runs]}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} simulated s"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
