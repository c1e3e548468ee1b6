# SPDX-License-Identifier: GPL-2.0-only
"""A trained policy in integer arithmetic: how near its decisions are to the agent's, and what one costs.

usage: python benchmarks/integer_policies.py RUN [--decisions 10000] [--worlds 64] [--write docs/policies.md]

RUN is a run folder of `bbrgym train env=multi agent.acts=mean`. The agent acts in runs of its distribution in
the twin. On each observation the policy decides too, from the same measurements in whole units and with the tunables
that the agent had set; then the C decides, by itself, on the same measurements of each flow, beside Python's model.
The cost is measured natively, and with clang, libbpf and root in the kernel, on a transfer over the loopback device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from report import Bystanders, command, measured_on, replace_section

from bbrgym import _bpf
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import batch_of, options_for
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.integer_policy import IntegerController, IntegerPolicy
from bbrgym.agents.deploy.integer_tables import Q16
from bbrgym.agents.deploy.quantise import quantise, units_of
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.errors import ConfigError
from bbrgym.tunables import TUNABLES

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))
sys.path.append(str(ROOT / "tests" / "agents" / "support"))
sys.path.append(str(ROOT / "tests" / "linux"))

TOLERANCE = Q16 // 1000
"""Of a part of a tunable's range, in Q16: a thousandth."""


def main() -> None:
    """Print the section, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, arguments = load_agent(asked.run)
    options = options_for(agent, **{**arguments, "world": "twin"})
    batch = batch_of(asked.worlds, options)
    if not isinstance(batch, FlowBatch):
        raise ConfigError(f"{asked.run!r} acts for all flows of a world, allowed is an agent of env=multi")
    policy = quantise(agent.network(), batch, options, agent.name)  # type: ignore[attr-defined]
    record = Record(policy)
    record.fill(batch, agent, asked.decisions)
    with tempfile.TemporaryDirectory() as folder:
        header = export(asked.run, "c", output=Path(folder) / "policy.h")
        is_equal = record.equals_c(Path(folder))
        native_ns, kernel = cost_native(header), cost_in_kernel(policy, header)
    weights = sum(layer.weights.size for layer in policy.layers)
    widths = [policy.layers[0].weights.shape[1], *(len(layer.biases) for layer in policy.layers)]
    shape, errors = " x ".join(map(str, widths)), np.concatenate(record.part_errors)
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Agent {agent.name}, {shape} ({weights} weights), "
        f"{len(policy.tunables)} tunables of `{policy.variant}`.\n\n"
        "| | |\n| --- | --- |\n"
        f"| decisions | {record.decisions} |\n"
        f"| observations: largest difference | {record.input_error:.1e} of 1 |\n"
        f"| parts of continuous tunables: largest difference | {record.part_error / Q16:.1e} of the range |\n"
        f"| ... 99.9th percentile | {np.percentile(errors, 99.9) / Q16:.1e} of the range |\n"
        f"| ... more than a thousandth of the range | {record.too_far} of {record.continuous} |\n"
        f"| whole-numbered tunables: other value | {record.unequal} of {record.whole} |\n"
        f"| ... farther than a thousandth of the range from where both meet | {record.no_tie} |\n"
        f"| C equal to Python's model of it | {'all' if is_equal else 'NOT all'} |\n"
        f"| ns per decision, native (`gcc -O2`) | {native_ns:,.0f} |\n"
        f"| ns per decision, in the kernel (BPF) | {kernel} |\n"
    )
    print(section)
    if asked.write:
        replace_section(asked.write, "policies", section)


class Record:
    """Decisions of both on what the agent observes."""

    def __init__(self, policy: IntegerPolicy) -> None:
        self.policy = policy
        self.is_whole = np.array([tunable.scale == "whole" for tunable in policy.tunables])
        self.sequences: list[tuple[Any, list[Any]]] = []
        self.decisions = self.unequal = self.no_tie = self.too_far = self.continuous = self.whole = 0
        self.input_error = self.part_error = 0.0
        self.part_errors: list[Any] = []

    def fill(self, batch: FlowBatch, agent: Any, count: int) -> None:
        """Let the agent act in worlds until there are so many decisions."""
        first_seed = 0
        while self.decisions < count:
            seeds = list(range(first_seed, first_seed + batch.num_envs))
            self._act(batch, agent, seeds, count)
            first_seed += batch.num_envs
        batch.close()

    def _act(self, batch: FlowBatch, agent: Any, seeds: list[int], count: int) -> None:
        observations = batch.reset(range(batch.num_envs), seeds)
        controllers: dict[tuple[int, int], tuple[IntegerController, list[Any]]] = {}
        units = np.array([units_of(TUNABLES[one.name]) for one in self.policy.tunables])
        columns = [batch.worlds.flow_fields.index(field.source) for field in self.policy.fields]  # type: ignore[union-attr]
        per_unit = np.array([field.per_unit for field in self.policy.fields])
        while not batch.has_ended.all() and self.decisions < count:
            actions = np.zeros((*batch.will_act.shape, len(self.policy.tunables)), np.float32)
            for place in map(tuple, np.argwhere(batch.will_act).tolist()):
                observation = observations[place][None]
                actions[place] = agent.tuner([0]).act(observation, np.ones(1, np.bool_))[0]
                flow = batch._specs[place[0]].learners[place[1]]  # type: ignore[union-attr]
                stats = batch.worlds.flow_stats[place[0], flow, columns]  # type: ignore[union-attr]
                fields = np.floor(stats * per_unit + 0.5).astype(np.int64)
                if place not in controllers:
                    values = np.rint(batch._values[place] * units).astype(np.int64)[None]
                    controllers[place] = (IntegerController(self.policy, values), [])
                    self.sequences.append((values, controllers[place][1]))
                controllers[place][1].append(fields)
                current = batch._coordinates[place]
                self._compare(controllers[place][0], fields, current, observation, batch, actions[place])
            batch.simulate(actions)
            observations = batch.observe()

    def _compare(
        self, controller: IntegerController, fields: Any, current: Any, observation: Any, batch: FlowBatch, action: Any
    ) -> None:
        controller.parts = _parts(current)[None]
        controller.decide(fields[None, None])
        inputs: Any = controller._inputs
        self.input_error = max(self.input_error, float(np.abs(inputs / Q16 - observation).max()))
        reached = batch.action.apply(action[None], current[None])[1]
        error = np.abs(controller.parts - _parts(reached))[0]
        continuous = error[~self.is_whole]
        self.part_errors.append(continuous)
        self.part_error = max(self.part_error, float(continuous.max(initial=0)))
        self.too_far += int((continuous > TOLERANCE).sum())
        self.continuous += len(continuous)
        differs = self.is_whole & (error > 2)
        self.unequal += int(differs.sum())
        self.whole += int(self.is_whole.sum())
        self.no_tie += sum(self._is_no_tie(index, float(action[index])) for index in np.flatnonzero(differs))
        self.decisions += 1

    def _is_no_tie(self, index: int, coordinate: float) -> bool:
        tunable = self.policy.tunables[index]
        count = tunable.high - tunable.low + 1
        place = (coordinate + 1.0) / 2.0 * count
        return abs(place - round(place)) / count > TOLERANCE / Q16

    def equals_c(self, folder: Path) -> bool:
        """Return whether the C decides as the model does on the measurements of every flow."""
        from policies import program, run

        made = program(self.policy, folder)
        for values, rows in self.sequences:
            fields = np.stack(rows)[:, None]
            found, parts = run(made, self.policy, values, fields, np.ones(len(rows), np.int64))
            controller = IntegerController(self.policy, values)
            for step, row in enumerate(fields):
                if controller.decide(row[None])[0].tolist() != found[step].tolist():
                    return False
                if controller.parts[0].tolist() != parts[step].tolist():
                    return False
        return True


def _parts(coordinates: Any) -> Any:
    return np.rint((coordinates.astype(np.float64) + 1.0) * (Q16 / 2)).astype(np.int64)


def cost_native(header: Path) -> float:
    """Return the least ns of a decision of five runs."""
    source, made = ROOT / "benchmarks" / "policy_speed.c", header.with_name("speed")
    subprocess.run(["gcc", "-O2", f'-DPOLICY="{header}"', str(source), "-o", str(made)], check=True, timeout=300)
    runs = [subprocess.run([made], capture_output=True, text=True, check=True, timeout=300).stdout for _ in range(5)]
    return min(float(one.split()[0]) for one in runs)


def cost_in_kernel(policy: IntegerPolicy, header: Path) -> str:
    """Return the mean ns of a decision in BPF and what the verifier went through, or why there is none."""
    why_not = _bpf.why_not()
    if why_not:
        return f"not measured: {why_not}"
    from test_bpf_policy import compiled

    target = compiled(policy, header.parent)
    script = ROOT / "tests" / "linux" / "bpf_transfer.py"
    asked = ["unshare", "--net", sys.executable, str(script), policy.variant, "20", str(target)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=300)
    result = json.loads(done.stdout)
    decisions, spent_ns, _ = result["policy"]
    verified = {row["name"]: row["verified"] for row in result["costs"]}["cong_control"]
    return f"{spent_ns / decisions:,.0f} (mean of {decisions}); {verified:,} instructions verified of 1,000,000"


if __name__ == "__main__":
    main()
