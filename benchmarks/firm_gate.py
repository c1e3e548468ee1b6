# SPDX-License-Identifier: GPL-2.0-only
"""Adds to a trained portfolio of flows two firm settings, and a gate that holds them where others are BBR's.

usage: python benchmarks/firm_gate.py AGENT FOLDER

A classifier tells by the features of a choice whether others, or most flows, are of BBR, which a flow that drains loses
to, from CUBIC and Reno, which one that is firm takes from, and from no others. It learns from training draws in turns:
after each the flows hold what it chose. Gate and settings become units of the selector's own networks.
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

from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioPolicy
from bbrgym.agents.portfolio.stages import LIBRARY
from bbrgym.agents.rollout import batch_of, options_for
from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.agents.training.checkpoints import SUFFIX
from bbrgym.agents.training.folder import CHECKPOINTS
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.runs.checksum import add_checksum
from bbrgym.scenario.distribution import load_distribution, split_seeds
from bbrgym.scenario.files import with_variant

FIRM = {"use_forced_drain": 0, "acd_verdict": 0, "use_congestion_detect": 0, "bbr_probe_rtt_interval_us": 1e7}
GAINS = (1.3, 2.0)  # window gain of shipped/fixed with `FIRM`; the second one where the own queue has been deep
LEAST = (1.0, 0.5)  # log odds of the gate from which each is held
DEEP = 0.62  # of the feature: 2.3 of the smallest RTT, from where CUBIC sets the delay
TASKS = {"deployed_90": (1, 1.0), "deployed_50": (1, 0.4), "alone": (0, 0.8), "beside_loss_based": (0, 3.0)}
"""Whether to be firm in each task of deployment, and its weight."""
_TURNS, _DRAWS, _FIRST = 3, 60, 940_000
_HIDDEN, _STEPS, _BATCH, _RATE, _DECAY = 32, 2500, 2048, 5e-3, 0.3
_STEEP, _SURE = 0.1, 4.0  # log odds in which the gate opens; what it adds to, or takes from, a firm setting's merit


def main(source: str, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SHIPPED.get(source, source), target)
    checkpoint = target / CHECKPOINTS / f"best{SUFFIX}"
    found = torch.load(checkpoint, weights_only=True)
    plain, settings = found["state"], firm_settings()
    seen: dict[str, list[Tensor]] = {task: [] for task in TASKS}
    for turn in range(_TURNS):
        for task, rows in seen.items():
            rows.append(features_seen(target, task, _FIRST + 10_000 * turn))
        agent: Any = load_agent(target)[0]
        found["state"] = gated(plain, settings, fitted(seen, plain["selector"], turn), agent.network().features.names)
        with checkpoint.open("w+b") as file:
            torch.save(found, file)
            add_checksum(file)
    library = yaml.safe_load((target / LIBRARY).read_text())
    for values in settings:
        library["settings"][f"setting-{len(library['settings']) + 1}"] = values
    (target / LIBRARY).write_text(yaml.safe_dump(library, sort_keys=False, default_flow_style=None, width=128))


def firm_settings() -> list[dict[str, float]]:
    _, fixed = shipped_setting(SHIPPED["shipped/fixed"]) or ("", {})
    scaling = TunableScaling("bbr-mix", None)
    return [
        scaling.to_values(scaling.from_values({**fixed, **FIRM, "bbr_cwnd_gain": gain})) for gain in GAINS
    ]  # as they are stored


@torch.no_grad()
def features_seen(folder: Path, task: str, first: int) -> Tensor:
    """Return the features of all choices of an agent in training draws of a task, [choices, features]."""
    agent: Any
    agent, arguments = load_agent(folder)
    network, rows = agent.network(), []

    def choose(histories: Any) -> Any:
        rows.append(network.features(torch.from_numpy(histories)))
        return agent.library[network.selector(rows[-1]).argmax(-1).numpy()]

    source: Any = load_benchmark().deployment[task].source()
    source = load_distribution(source) if isinstance(source, str) else source
    seeds = split_seeds("train", _DRAWS, first)
    scenarios = [with_variant(source(seed), arguments["variant"]) for seed in seeds]
    options = options_for(agent, **{**arguments, "world": "twin", "scenario": scenarios, "flow_capacity": None})
    batch: Any = batch_of(_DRAWS, options)
    observations, ended = batch.reset(range(_DRAWS), seeds), np.zeros(_DRAWS, np.bool_)
    flows = batch.will_act.shape
    policy, has_begun = PortfolioPolicy(batch.will_act.size, agent.routine, choose), np.zeros(flows, np.bool_)
    while not ended.all():
        starts, has_begun = batch.will_act & ~has_begun, has_begun | batch.will_act
        actions = policy.act(observations.reshape(starts.size, -1), starts.ravel())
        batch.act(actions.reshape(*flows, -1))
        observations = batch.observe()
        again = np.flatnonzero(batch.episodes.has_ended)
        ended[again] = True
        if len(again) and not ended.all():  # all advance together; what is chosen in another run counts too
            observations, has_begun[again] = batch.reset(again.tolist(), [seeds[index] for index in again]), False
    batch.episodes.close()
    return torch.cat(rows)


def fitted(seen: dict[str, list[Tensor]], selector: dict[str, Tensor], seed: int) -> nn.Sequential:
    """Return the gate, from standardised features but for the held setting to the log odds that to be firm is right."""
    torch.manual_seed(seed)
    rows, is_firm, weights = [], [], []
    for task, (firm, weight) in TASKS.items():
        for found in seen[task]:
            rows.append(((found - selector["mean"]) / selector["deviation"]).clamp(-5, 5))
            is_firm.append(torch.full((len(found),), float(firm)))
            weights.append(torch.full((len(found),), weight / len(seen[task]) / len(found)))
    inputs, targets = torch.cat(rows)[:, : -len(TunableScaling("bbr-mix", None).names)], torch.cat(is_firm)
    ends = torch.cat(weights).double().cumsum(0)
    gate = nn.Sequential(nn.Linear(inputs.shape[1], _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))
    optimiser = torch.optim.AdamW(gate.parameters(), _RATE, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, _STEPS)
    for _ in range(_STEPS):
        batch = torch.searchsorted(ends, torch.rand(_BATCH).double() * ends[-1]).clamp(max=len(targets) - 1)
        loss = nn.functional.binary_cross_entropy_with_logits(gate(inputs[batch])[:, 0], targets[batch])
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    return gate


@torch.no_grad()
def gated(plain: dict[str, Any], settings: list[dict[str, float]], gate: nn.Sequential, names: Any) -> dict[str, Any]:
    """Return what a checkpoint holds, with the settings, and the gate in units of the selector's first network."""
    first, last = gate[0], gate[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    queue, hidden = names.index("max_queue at the end"), first.out_features
    selector = dict(plain["selector"])
    mean, deviation = (selector[name][queue] for name in ("mean", "deviation"))
    steep = _STEEP / 5  # of the feature of the queue
    new, added = _wider(selector, 0, hidden + 2)
    new[0, : first.in_features, -hidden - 2 : -2], added[0, 0, -hidden - 2 : -2] = first.weight.T, first.bias
    new[0, queue, -2:] = deviation / steep  # the last two units differ by 0 below DEEP, by 1 above it
    added[0, 0, -2:] = (mean - DEEP) / steep - torch.tensor([0.0, 1.0])
    new, added = _wider(selector, 1, 4, hidden + 2)
    for place, (least, sign) in enumerate(zip(LEAST, (-1.0, 1.0), strict=True)):
        unit = 2 * place - 4  # of two, which differ by 1 where the gate is open, and the queue of the setting's kind
        for part in (unit, unit + 1):
            new[0, -hidden - 2 : -2, part] = last.weight[0] / _STEEP
            new[0, -2:, part] = torch.tensor([sign, -sign]) * 600
            added[0, 0, part] = (last.bias[0] - least) / _STEEP - (part - unit) - 600 * (sign > 0)
    new, added = _wider(selector, 2, 2, 4)
    added[..., -2:] = -_SURE
    for place in (0, 1):
        new[0, 2 * place - 4, place - 2] = 2 * _SURE * len(new)
        new[0, 2 * place - 4 + 1 if place == 0 else -1, place - 2] = -2 * _SURE * len(new)
    privileged = dict(plain["privileged"])
    end = max(int(name.split("_")[1]) for name in privileged if name.startswith("weights_"))
    _wider(privileged, end, 2)[1][..., -2:] = -_SURE
    scaling = TunableScaling("bbr-mix", None)
    library = torch.from_numpy(np.stack([scaling.from_values(values) for values in settings]))
    return {**plain, "library": torch.cat([plain["library"], library]), "selector": selector, "privileged": privileged}


def _wider(tables: dict[str, Tensor], place: int, outputs: int, inputs: int = 0) -> tuple[Tensor, Tensor]:
    """Give a layer more outputs and inputs, of which nothing comes yet; return its weights and biases."""
    weights = nn.functional.pad(tables[f"weights_{place}"], (0, outputs, 0, inputs))
    biases = nn.functional.pad(tables[f"biases_{place}"], (0, outputs))
    tables[f"weights_{place}"], tables[f"biases_{place}"] = weights, biases
    return weights, biases


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
