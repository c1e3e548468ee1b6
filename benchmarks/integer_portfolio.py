# SPDX-License-Identifier: GPL-2.0-only
"""A trained portfolio in integer arithmetic: how often it chooses as the agent does, and what a choice costs.

usage: python benchmarks/integer_portfolio.py RUN [--probes 10000] [--worlds 500] [--write docs/policies.md]

RUN is a run folder of `bbrgym train agent=portfolio`. The agent probes draws of its training distribution in the twin;
the integer policy is given the same measurements in whole units, interval after interval. Both choose at the end of
the probe. Where they differ, the margin is what the agent's networks predict for its choice less
what they predict for the policy's. The C is run on the first 200 of these probes beside Python's model.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from portfolio_run import load_portfolio, parser_of
from report import Bystanders, command, measured_on, replace_section

from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.quantise_portfolio import prepared_inputs, quantise_portfolio
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.export_agent import export
from bbrgym.agents.training.integer_policy import IntegerController, IntegerPolicy
from bbrgym.agents.training.quantise import units_of
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import SPLITS
from bbrgym.tunables import TUNABLES, VARIANTS

_C_PROBES = 200


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--worlds", type=int, default=500)
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, options = load_portfolio(asked.run)
    batch = batch_of(asked.worlds, options)
    policy = quantise_portfolio(agent, batch, options)
    record = PortfolioRecord(agent, policy)
    first = SPLITS["train"][2**30]  # of no training that has fewer draws
    while record.probes < asked.probes:
        record.probe(batch, range(first + record.probes, first + record.probes + asked.worlds))
    batch.close()
    with tempfile.TemporaryDirectory() as folder:
        header = export(asked.run, "c", output=Path(folder) / "policy.h")
        is_equal = record.equals_c(Path(folder))
        choice_ns, interval_ns = costs(header)
    program = policy.probe.program  # type: ignore[union-attr]
    margins = np.array(record.margins)
    weights = sum(layer.weights.size for layer in policy.layers)
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Agent {agent.name}, {len(agent.library)} settings of "
        f"{len(policy.tunables)} tunables of `{policy.variant}`, up to {policy.flows} flows; {len(program.steps)} "
        f"steps on {program.inputs} numbers make {len(program.outputs)} inputs of {weights} weights.\n\n"
        "| | |\n| --- | --- |\n"
        f"| probes | {record.probes} |\n"
        f"| inputs of the networks: 99.9th percentile of the difference | {np.percentile(record.errors, 99.9):.1e} "
        "standard deviations |\n"
        f"| other choice | {len(margins)} |\n"
        f"| ... largest margin in the agent's prediction of the score | {margins.max(initial=0.0):.1e} |\n"
        f"| C equal to Python's model of it, on {_C_PROBES} probes | {'all' if is_equal else 'NOT all'} |\n"
        f"| ns of an interval of the probe, native (`gcc -O2`), processor time | {interval_ns:,.0f} |\n"
        f"| ns of the choice at its end, native, processor time | {choice_ns:,.0f} |\n"
    )
    print(section)
    if asked.write:
        replace_section(asked.write, "portfolio", section)


class PortfolioRecord:
    """Choices of both on the same probes."""

    def __init__(self, agent: PortfolioAgent, policy: IntegerPolicy) -> None:
        self._agent, self._policy = agent, policy
        self._network = agent.looks[0]
        self.probes = 0
        self.margins: list[float] = []
        self.errors: Any = np.zeros(0)
        self._kept: list[list[Any]] = []

    def probe(self, batch: Any, seeds: range) -> None:
        """Probe a draw in each environment."""
        if not isinstance(batch, TuneBatch):
            raise ConfigError("the portfolio acts for each flow, expected one for all flows")
        policy, routine = self._policy, self._agent.routine
        batch.reset(range(len(seeds)), list(seeds))
        worlds: Any = batch.worlds
        columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
        per_unit = np.array([field.per_unit for field in policy.fields])
        learners: list[Any] = [spec.learners for spec in batch._specs if spec is not None]
        groups = [[i for i, one in enumerate(learners) if len(one) == count] for count in range(1, policy.flows + 1)]
        controllers = [IntegerController(policy, np.repeat(preset(policy), len(group), axis=0)) for group in groups]
        fields: list[list[Any]] = [[] for _ in seeds]
        views = []
        for interval in range(routine.intervals + 1):
            whole = np.floor(np.nan_to_num(worlds.flow_stats[:, :, columns]) * per_unit + 0.5).astype(np.int64)
            for index, rows in enumerate(whole):
                fields[index].append(rows[learners[index]])
            for group, controller in zip(groups, controllers, strict=True):
                if group:
                    controller.decide(np.stack([fields[index][-1] for index in group]))
            if interval < routine.intervals:
                batch.simulate(np.tile(routine.setting, (len(seeds), 1)))
                views.append(np.asarray(batch.observe())[:, -routine.width :])
        history = torch.from_numpy(np.stack(views, axis=1))
        with torch.no_grad():
            inputs = prepared_inputs(self._network, self._network.selector)(history).numpy()
            predicted = self._network.selector(self._network.features(history)).numpy()
        for group, controller in zip(groups, controllers, strict=True):
            if group:
                histories = np.stack([np.concatenate(one.history) for one in controller._probes])
                found = policy.probe.program.run(histories) / 2**20  # type: ignore[union-attr]
                self.errors = np.append(self.errors, np.abs(found - inputs[group]).ravel())
            for index, chosen in zip(group, controller.chosen.tolist(), strict=True):
                best = int(predicted[index].argmax())
                if best != chosen:
                    self.margins.append(float(predicted[index, best] - predicted[index, chosen]))
                self._kept.append(fields[index])
        self.probes += len(seeds)

    def equals_c(self, folder: Path) -> bool:
        """Return whether the C chooses as the model does."""
        from policies import program, run

        made = program(self._policy, folder)
        for rows in self._kept[:_C_PROBES]:
            flows = len(rows[0])
            padded = np.stack([np.pad(row, ((0, self._policy.flows - flows), (0, 0))) for row in rows])
            found, _ = run(made, self._policy, preset(self._policy), padded, np.full(len(rows), flows))
            controller = IntegerController(self._policy, preset(self._policy))
            if any((controller.decide(row[None])[0] != one).any() for row, one in zip(rows, found, strict=True)):
                return False
        return True


def preset(policy: IntegerPolicy) -> Any:
    """Return the variant's own tunables in whole units, [1, tunables]."""
    values = VARIANTS[policy.variant].preset
    return np.array([[round(values[one.name] * units_of(TUNABLES[one.name])) for one in policy.tunables]])


def costs(header: Path) -> tuple[float, float]:
    """Return the least ns of a choice, and of another interval, of five runs."""
    source, made = Path(__file__).with_name("choice_speed.c"), header.with_name("choice")
    subprocess.run(["gcc", "-O2", f'-DPOLICY="{header}"', str(source), "-o", str(made)], check=True, timeout=300)
    runs = [subprocess.run([made], capture_output=True, text=True, check=True, timeout=300).stdout for _ in range(5)]
    choice_ns, interval_ns, _ = np.array([one.split() for one in runs], np.float64).min(axis=0)
    return float(choice_ns), float(interval_ns)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "agents" / "support"))
    main()
