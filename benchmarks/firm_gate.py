# SPDX-License-Identifier: GPL-2.0-only
"""Adds to a trained portfolio of flows three settings, and a gate that holds them by who the others are.

usage: python benchmarks/firm_gate.py AGENT FOLDER, such as shipped/flow of d7a04436 and agents/shipped/flow

A classifier tells by the features of a choice whether others, or most flows, are of BBR, which a flow that drains
loses to, from CUBIC and Reno, which one that is firm takes from, and from no others. Two settings are firm; a gentle
one probes less where losses are many and nobody is of BBR. It learns from training draws in turns: after each the
flows hold what it chose. Gate and settings become units of the selector's own networks, with weights for 16 bits.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from torch import Tensor, nn

from bbrgym.agents.deploy.export_agent import integer_form
from bbrgym.agents.deploy.policy_file import policy_file
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.agents.portfolio.stages import LIBRARY
from bbrgym.agents.rollout import options_for, validation_rollout
from bbrgym.agents.shipped import POLICY, SHIPPED
from bbrgym.agents.training.checkpoints import SUFFIX
from bbrgym.agents.training.folder import CHECKPOINTS
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.runs.checksum import add_checksum
from bbrgym.scenario.distribution import load_distribution, split_seeds

FIRM = {"use_forced_drain": 0, "acd_verdict": 0, "use_congestion_detect": 0, "bbr_probe_rtt_interval_us": 1e7}
SPECIALS = (  # two firm settings and a gentle one, by what differs from another
    ("setting-1", {**FIRM, "bbr_cwnd_gain": 1.3}),
    ("setting-1", {**FIRM, "bbr_cwnd_gain": 2.0}),
    ("setting-3", {"bbr_up_gain": 1.05}),
)
FIRM_ODDS, GENTLE_ODDS = 1.0, -3.0  # log odds that to be firm is right, from which, and up to which, each is held
DEEP = 0.62  # of the feature of the largest queue: 2.3 of the smallest RTT, from where CUBIC sets the delay
LOST = 0.03  # of the mean feature of losses, from where the gentle one is held
# Weights of the tasks that it learns from: above 0 where it is right to be firm.
TASKS = {"deployed_90": 1.0, "deployed_50": 0.4, "alone": -0.8, "beside_loss_based": -3.0, "wan_mix": -1.0}
SCALING = TunableScaling("bbr-mix", None)
_TURNS, _DRAWS, _FIRST = 3, 60, 940_000
_HIDDEN, _STEPS, _BATCH, _RATE, _DECAY = 32, 2500, 2048, 5e-3, 0.3
_SPAN = 0.02  # of the feature of losses in which what it adds rises


def main(source: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SHIPPED.get(source, source), target)
    checkpoint = target / CHECKPOINTS / f"best{SUFFIX}"
    found = torch.load(checkpoint, weights_only=True)
    library = yaml.safe_load((target / LIBRARY).read_text())
    plain = found["state"]
    settings = [  # as they are stored
        SCALING.to_values(SCALING.from_values({**library["settings"][base], **changed})) for base, changed in SPECIALS
    ]
    seen: dict[str, list[Tensor]] = {task: [] for task in TASKS}
    for turn in range(_TURNS):
        for task, rows in seen.items():
            rows.append(features_seen(target, task, _FIRST + 10_000 * turn))
        agent: Any = load_agent(target)[0]
        found["state"] = gated(plain, settings, fitted(seen, plain["selector"], turn), agent.network().features.names)
        with checkpoint.open("w+b") as file:
            torch.save(found, file)
            add_checksum(file)
    for values in settings:
        library["settings"][f"setting-{len(library['settings']) + 1}"] = values
    (target / LIBRARY).write_text(yaml.safe_dump(library, sort_keys=False, default_flow_style=None, width=128))
    (target / POLICY).write_bytes(policy_file(integer_form(*load_agent(target))))


def features_seen(folder: Path, task: str, first: int) -> Tensor:
    """Return the features of all choices of an agent in training draws of a task, [choices, features]."""
    agent: Any
    agent, arguments = load_agent(folder)
    rows: list[Tensor] = []
    agent.network().selector.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0]))
    source: Any = load_benchmark().tasks[task].source()
    source = load_distribution(source) if isinstance(source, str) else source
    options = options_for(agent, **{**arguments, "world": "twin", "flow_capacity": None})
    rollout = validation_rollout(options, source, split_seeds("train", _DRAWS, first))
    rollout.scores(agent.make_policy)
    rollout.close()
    return torch.cat(rows)


def fitted(seen: dict[str, list[Tensor]], selector: dict[str, Tensor], seed: int) -> tuple[nn.Linear, nn.Linear]:
    """Return the gate, from standardised features but for the held setting to the log odds that to be firm is right."""
    torch.manual_seed(seed)
    parts = [
        (found, weight / len(turns) / len(found))
        for weight, turns in zip(TASKS.values(), seen.values(), strict=True)
        for found in turns
    ]
    inputs = Selector(selector).inputs(torch.cat([found for found, _ in parts]))[:, : -len(SCALING.names)]
    weights = torch.cat([torch.full((len(found),), weight) for found, weight in parts])
    targets, ends = (weights > 0).float(), weights.abs().double().cumsum(0)
    first, last = nn.Linear(inputs.shape[1], _HIDDEN), nn.Linear(_HIDDEN, 1)
    gate = nn.Sequential(first, nn.ReLU(), last)
    optimiser = torch.optim.AdamW(gate.parameters(), _RATE, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, _STEPS)
    for _ in range(_STEPS):
        batch = torch.searchsorted(ends, torch.rand(_BATCH).double() * ends[-1]).clamp(max=len(targets) - 1)
        loss = nn.functional.binary_cross_entropy_with_logits(gate(inputs[batch])[:, 0], targets[batch])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    return first, last


@torch.no_grad()
def gated(
    plain: dict[str, Any], settings: list[dict[str, float]], gate: tuple[nn.Linear, nn.Linear], names: Any
) -> dict[str, Any]:
    """Return what a checkpoint holds, with the settings, and the gate in units of the selector's first network."""
    first, last = gate
    selector, hidden = dict(plain["selector"]), first.out_features
    mean, deviation = selector["mean"], selector["deviation"]
    queue, lost = names.index("max_queue at the end"), names.index("lost, mean")
    new, added = _wider(selector, 0, hidden + 3)
    new[0, : first.in_features, -hidden - 3 : -3], added[0, 0, -hidden - 3 : -3] = first.weight.T, first.bias
    new[0, queue, -3], added[0, 0, -3] = deviation[queue], mean[queue]
    new[0, lost, -2:] = 0.4 * deviation[lost] / _SPAN  # they differ by 0 below LOST, by 0.4 above it
    added[0, 0, -2:] = 0.4 * ((mean[lost] - LOST) / _SPAN + torch.tensor([0.5, -0.5]))
    new, added = _wider(selector, 1, 7, hidden + 3)
    for unit, sign, odds in ((-7, 1.0, FIRM_ODDS), (-5, -1.0, GENTLE_ODDS)):  # two that differ by 2 beyond the odds
        new[0, -hidden - 3 : -3, unit : unit + 2] = 2 * sign * last.weight.T
        added[0, 0, unit : unit + 2] = 2 * (sign * (last.bias - odds) + torch.tensor([0.5, -0.5]))
    new[0, -3:, -3:] = torch.eye(3) * torch.tensor([1.0, 2.0, 2.0])
    new, added = _wider(selector, 2, 3, 7)
    new[0, -7:, -3:] = len(new) * torch.tensor(  # to the merits, which without are within 1
        [[1.0, 1.0, 0], [-1.0, -1.0, 0], [0, 0, 1.0], [0, 0, -1.0], [0, 0.5, 0], [0, 0, 2.5], [0, 0, -2.5]]
    )
    added[..., -3:] = torch.tensor([-1.0, -1.0 - 0.5 * DEEP, -3.0])
    privileged = dict(plain["privileged"])
    end = max(int(name.split("_")[1]) for name in privileged if name.startswith("weights_"))
    _wider(privileged, end, 3)[1][..., -3:] = -4.0
    library = torch.from_numpy(np.stack([SCALING.from_values(values) for values in settings]))
    return {**plain, "library": torch.cat([plain["library"], library]), "selector": selector, "privileged": privileged}


def _wider(tables: dict[str, Tensor], place: int, outputs: int, inputs: int = 0) -> tuple[Tensor, Tensor]:
    """Give a layer more outputs and inputs, of which nothing comes yet; return its weights and biases."""
    weights = nn.functional.pad(tables[f"weights_{place}"], (0, outputs, 0, inputs))
    biases = nn.functional.pad(tables[f"biases_{place}"], (0, outputs))
    tables[f"weights_{place}"], tables[f"biases_{place}"] = weights, biases
    return weights, biases


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
