# SPDX-License-Identifier: GPL-2.0-only
"""A trained portfolio in integer arithmetic: how often it chooses as the agent does, and what a choice costs.

usage: python benchmarks/integer_portfolio.py RUN [--probes 10000] [--looks 2] [--worlds 500] [--section portfolio]
           [--write docs/policies.md]

RUN is a run folder of `bbrgym train agent=portfolio`. The agent probes draws of its training distribution in the twin;
the integer policy is given the same measurements in whole units, interval after interval. Both choose at the end of
the probe; if the agent looks again, so many times more, each time after what the agent chose was held. Where they
differ, the margin is what the agent's selector predicts for its choice less what it predicts for the policy's. The C is
run on the first 200 of these runs beside Python's model.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from portfolio_run import load_portfolio, parser_of
from report import Bystanders, command, measured_on, replace_section

from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.deploy.quantise_portfolio import given_to, quantise_portfolio
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.integer_policy import Choice, IntegerController, IntegerPolicy
from bbrgym.agents.deploy.integer_probe import Look, Probe
from bbrgym.agents.deploy.integer_trees import IntegerTrees
from bbrgym.agents.deploy.quantise import units_of
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import SPLITS
from bbrgym.tunables import TUNABLES, VARIANTS

_C_RUNS = 200


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("--probes", type=int, default=10_000)
    parser.add_argument("--looks", type=int, default=2, help="looks after each choice that a probe ends with")
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--section", default="portfolio", help="section of the page")
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, options = load_portfolio(asked.run)
    batch = batch_of(asked.worlds, options)
    policy = quantise_portfolio(agent, batch, options)
    record = PortfolioRecord(agent, policy, asked.looks if len(agent.looks) > 1 else 0)
    first = SPLITS["train"][2**30]  # of no training that has fewer draws
    while record.choices[0] < asked.probes:
        record.run(batch, range(first + record.choices[0], first + record.choices[0] + asked.worlds))
        print(record.choices, [len(one) for one in record.margins], file=sys.stderr, flush=True)
    batch.close()
    with tempfile.TemporaryDirectory() as folder:
        header = export(asked.run, "c", output=Path(folder) / "policy.h")
        header_bytes, is_equal = header.stat().st_size, record.equals_c(Path(folder))
        choice_ns, interval_ns = costs(header)
    program, looks = record.probe.program, record.probe.looks
    again = f"; it looks again {asked.looks} times" if record.looks else ""
    rows = [
        ("size of the header", f"{header_bytes / 1e6:.1f} MB"),
        (
            "inputs of the selector: 99.9th percentile of the difference",
            f"{np.percentile(record.errors, 99.9):.1e} standard deviations",
        ),
    ]
    times = ("after a probe", "of later looks")
    for count, margins, alike, when in zip(record.choices, record.margins, record.alike, times, strict=True):
        if count:
            rows += [
                (f"choices {when}", f"{count}"),
                ("... other than the agent's", f"{len(margins)}"),
                ("... which its selector too makes by the policy's inputs", f"{alike}"),
                ("... largest margin in the agent's prediction of the score", f"{max(margins, default=0.0):.1e}"),
            ]
    rows += [
        (f"C equal to Python's model of it, on {_C_RUNS} of these runs", "all" if is_equal else "NOT all"),
        ("ns of an interval of the probe, native (`gcc -O2`), processor time", f"{interval_ns:,.0f}"),
        ("ns of the choice at its end, native, processor time", f"{choice_ns:,.0f}"),
    ]
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Agent {agent.name}, {len(agent.library)} settings of "
        f"{len(policy.tunables)} tunables of `{policy.variant}`, up to {policy.flows} flows{again}; "
        f"{len(program.steps)} steps on {program.inputs} numbers make {' and '.join(map(described, looks))}.\n\n"
        "| | |\n| --- | --- |\n" + "".join(f"| {what} | {found} |\n" for what, found in rows)
    )
    print(section)
    if asked.write:
        replace_section(asked.write, asked.section, section)


def described(look: Look) -> str:
    """Return the size of what chooses."""
    if isinstance(look.selector, IntegerTrees):
        trees = look.selector
        return f"{look.count} inputs of {len(trees.roots)} trees ({len(trees.values)} leaves, {trees.depth} deep)"
    return f"{look.count} inputs of {sum(layer.weights.size for layer in look.selector)} weights"


class PortfolioRecord:
    """Choices of both on the same measurements.

    Args:
        agent: the agent.
        policy: the same in integers.
        looks: times that it looks again after each probe.

    Attributes:
        looks: as given.
        probe: the policy's.
        choices: number of choices after a probe, and of later looks.
        margins: of the choices of each kind that differ.
        alike: number of these that the agent's selector makes too by the policy's inputs: a number near a threshold, or
            outputs near each other, decided.
        errors: differences of the selector's inputs, in standard deviations.
    """

    def __init__(self, agent: PortfolioAgent, policy: IntegerPolicy, looks: int) -> None:
        if policy.probe is None:
            raise ConfigError("the policy does not probe")
        self._agent, self.looks = agent, looks
        self.probe: Probe = replace(policy.probe, watched=-1)  # all choose at the same times
        self._policy = replace(policy, probe=self.probe)
        self.choices, self.margins, self.alike = [0, 0], (list[float](), list[float]()), [0, 0]
        self.errors: Any = np.zeros(0)
        self._kept: list[list[Any]] = []

    def run(self, batch: Any, seeds: range) -> None:
        """Run the agent on a draw in each environment."""
        if not isinstance(batch, TuneBatch):
            raise ConfigError("the portfolio acts for each flow, expected one for all flows")
        policy, routine = self._policy, self._agent.routine
        batch.reset(range(len(seeds)), list(seeds))
        worlds: Any = batch.worlds
        columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
        per_unit = np.array([field.per_unit for field in policy.fields])
        learners: list[Any] = [spec.learners for spec in batch._specs if spec is not None]
        groups = [[i for i, one in enumerate(learners) if len(one) == count] for count in range(1, policy.flows + 1)]
        groups = [group for group in groups if group]
        controllers = [IntegerController(policy, np.repeat(preset(policy), len(group), axis=0)) for group in groups]
        fields: list[list[Any]] = [[] for _ in seeds]

        def decide() -> None:
            whole = np.floor(np.nan_to_num(worlds.flow_stats[:, :, columns]) * per_unit + 0.5).astype(np.int64)
            for index, rows in enumerate(whole):
                fields[index].append(rows[learners[index]])
            for group, controller in zip(groups, controllers, strict=True):
                controller.decide(np.stack([fields[index][-1] for index in group]))

        decide()
        actions = np.tile(routine.setting, (len(seeds), 1))
        for turn in range(1 + self.looks):
            views = []
            parts = [controller.parts for controller in controllers]
            for _ in range(routine.intervals):
                batch.simulate(actions)
                views.append(np.asarray(batch.observe())[:, -routine.width :])
                decide()
            best = self._compare(min(turn, 1), np.stack(views, axis=1), groups, controllers, parts)
            actions = self._agent.library[best]
        self._kept = [*self._kept, *fields][:_C_RUNS]

    def _compare(
        self, look: int, views: Any, groups: list[list[int]], controllers: list[IntegerController], parts: list[Any]
    ) -> Any:
        """Compare the choices by some intervals, [worlds, intervals, numbers]; return the agent's, which both hold."""
        network, place = self._agent.looks[look], self.probe.looks[look]
        with torch.no_grad():
            history = torch.from_numpy(views)
            given = given_to([network])(history).numpy()[:, : place.count]
            predicted = network.selector(network.features(history)).numpy()
            settings = network(history.flatten(1)).numpy()
        best = np.abs(settings[:, None] - self._agent.library).sum(2).argmin(1)
        std = np.maximum(given.std(0), 1e-3)
        for group, controller, held in zip(groups, controllers, parts, strict=True):
            inputs = np.stack([one.inputs(row) for one, row in zip(controller._probes, held, strict=True)])
            found = self.probe.program.run(inputs)[:, place.first : place.first + place.count] / 2**20
            self.errors = np.append(self.errors, np.abs((found - given[group]) / std).ravel().astype(np.float32))
            with torch.no_grad():
                by_inputs = network.selector(torch.from_numpy(found).float()).argmax(1).numpy()
            for row, index in enumerate(group):
                chosen = int(controller.chosen[row])
                if chosen != best[index]:
                    self.margins[look].append(float(predicted[index, best[index]] - predicted[index, chosen]))
                    self.alike[look] += int(by_inputs[row] == chosen)
                controller._probes[row].held = int(best[index])
            head = self._policy.head
            controller.chosen = best[group]
            controller.parts = head.parts[best[group]] if isinstance(head, Choice) else controller.parts
        self.choices[look] += len(best)
        return best

    def equals_c(self, folder: Path) -> bool:
        """Return whether the C chooses as the model does."""
        from policies import program, run

        made = program(self._policy, folder)
        for flows in {len(rows[0]) for rows in self._kept}:
            runs = np.array([rows for rows in self._kept if len(rows[0]) == flows])
            controller = IntegerController(self._policy, np.repeat(preset(self._policy), len(runs), axis=0))
            by_model = np.stack([controller.decide(fields) for fields in runs.swapaxes(0, 1)], axis=1)
            padded = np.pad(runs, ((0, 0), (0, 0), (0, self._policy.flows - flows), (0, 0)))
            for rows, found in zip(padded, by_model, strict=True):
                by_c, _ = run(made, self._policy, preset(self._policy), rows, np.full(len(rows), flows))
                if (by_c != found).any():
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
