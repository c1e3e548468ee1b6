# SPDX-License-Identifier: GPL-2.0-only
"""Train the networks by which `bbrgym path` trusts what its rules propose, on logs of simulated networks.

usage: python benchmarks/path_gate.py [--networks 6000] [--first-seed 100000] [--logs FOLDER] [--jobs 2]

It writes src/bbrgym/paths/gate.npz. Networks and nuisances are those of benchmarks/paths.py, of other seeds; three in
ten have two nuisances. Each network gives a log of ss, NDT7 and iperf3, and every fourth a capture. Thresholds are the
lowest above which enough propositions are true over all logs, each format and each nuisance, by networks that were
trained without these logs (5 folds).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from path_logs import log_simulation
from paths import NUISANCES, network, true_loss
from report import command, measured_on

from bbrgym.errors import ConfigError
from bbrgym.paths.detect import read_log
from bbrgym.paths.features import path_features
from bbrgym.paths.fit import LOSS_BURSTS
from bbrgym.paths.gate import HEADS, LONGER, STEADY
from bbrgym.paths.proposals import propose
from bbrgym.paths.series import series_of
from bbrgym.report.markdown import markdown_table

TARGET = Path(__file__).parent.parent / "src" / "bbrgym" / "paths" / "gate.npz"
PRECISION = dict.fromkeys(("buffer_low", "loss_high"), 0.993)
PRECISION |= dict.fromkeys(("shared", "steps", "longer"), 0.95)  # over all logs: a nuisance is one of them or none
DEFAULT_PRECISION, GROUP_PRECISION, LEAST_GROUP = 0.97, 0.95, 30
NETWORKS, UNITS, EPOCHS, BATCH = 6, 64, 80, 256
FOLDS = 5
CAPTURES = 4  # likewise


class Example(NamedTuple):
    """A log: its features, and which of `HEADS` are true of it; NaN: not known."""

    seed: int
    log: str
    nuisance: str
    features: list[float]
    truths: list[float]
    claimed: list[bool]  # whether the rules claim it; a threshold is set by these


def examples(seed: int, folder: Path) -> list[Example]:
    """Return the examples that a network gives."""
    draws = np.random.default_rng([7, seed])
    nuisances = [NUISANCES[seed % len(NUISANCES)]]
    if draws.random() < 0.3:
        nuisances = list(dict.fromkeys((*nuisances, str(draws.choice(NUISANCES)))))
    scenario, watch = network(seed, *nuisances)
    own = folder / str(seed)
    if not own.exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            log_simulation(scenario, "twin", seed, Path(made), watch, formats=("pcap", "ss", "ndt7", "iperf3"))
            Path(made).rename(own)
            Path(made).mkdir()
    return list(_examples(seed, own, scenario, nuisances))


def _examples(seed: int, folder: Path, scenario: Any, nuisances: Sequence[str]) -> Iterator[Example]:
    rates = [scenario.link.rate_mbps, *(one.rate_mbps for one in scenario.link.changes if one.rate_mbps)]
    loss, size = true_loss(scenario), scenario.link.queue.size_bytes
    for log in sorted(folder.glob("a.*")):
        if log.suffix == ".pcap" and seed % CAPTURES:
            continue
        try:
            series = series_of(read_log(log))
        except ConfigError:
            continue
        made = propose(series)
        is_same = max(rates) <= min(rates) * 1.01
        truths = {
            "rate": is_same and made.rate.low <= rates[0] * 125e3 <= made.rate.high if made.rate.is_seen else None,
            "buffer": made.buffer_bytes.low <= size <= made.buffer_bytes.high if made.buffer_bytes.is_seen else None,
            "buffer_low": made.buffer_bytes.low <= size if made.buffer_bytes.low > 0 else None,
            "loss": made.random_loss.low <= loss <= made.random_loss.high if made.random_loss.is_seen else None,
            "loss_high": loss <= made.random_loss.high if made.random_loss.high < 1 else None,
            "shared": "cubic" in nuisances or "bbr" in nuisances,
            "steps": "steps" in nuisances and not made.competitor,
            "longer": "longer" in nuisances,
        }
        known = [np.nan if truths[head] is None else float(truths[head]) for head in HEADS]
        claims = {
            "loss": made.loss_bursts < LOSS_BURSTS,
            "shared": bool(made.competitor),
            "steps": bool(made.varies) and not made.competitor,
        }
        claimed = [claims.get(head, True) for head in HEADS]
        yield Example(seed, log.suffix[1:], nuisances[0], path_features(series, made).tolist(), known, claimed)


def trained(inputs: Any, truths: Any, seed: int) -> torch.nn.Sequential:
    """Return a network that is fitted to the known truths."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(inputs.shape[1], UNITS),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(UNITS, len(HEADS)),
    )
    optimiser = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    steps = EPOCHS * -(-len(inputs) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            known = ~torch.isnan(truths[batch])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                model(inputs[batch])[known], truths[batch][known]
            )
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def probabilities_of(models: Sequence[torch.nn.Sequential], inputs: Any) -> Any:
    """Return the mean of the networks' probabilities, [logs, heads]."""
    with torch.no_grad():
        return torch.stack([model(inputs).sigmoid() for model in models]).mean(0).numpy()


def threshold(probabilities: Any, truths: Any, groups: Sequence[Any], precision: float) -> float:
    """Return the lowest threshold at which all logs, and each large enough group of them, are precise enough."""
    for one in np.arange(0.3, 0.999, 0.005):
        told = (probabilities >= one) & ~np.isnan(truths)
        if not told.any():
            break
        shares = [truths[told & group].mean() for group in groups if (told & group).sum() >= LEAST_GROUP]
        if truths[told].mean() >= precision and all(share >= GROUP_PRECISION for share in shares):
            return float(one)
    return 1.01


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", type=int, default=6000, help="default: 6000")
    parser.add_argument("--first-seed", type=int, default=100_000, help="of the networks (default: 100000)")
    parser.add_argument("--jobs", type=int, default=2, help="networks at once (default: 2)")
    parser.add_argument("--logs", type=Path, help="folder that keeps the logs (default: none)")
    parser.add_argument("--examples", type=Path, help="file that keeps the examples (default: none)")
    options = parser.parse_args(arguments)
    if options.examples and options.examples.exists():
        made = [Example(*one) for one in json.loads(options.examples.read_text())]
    else:
        seeds = range(options.first_seed, options.first_seed + options.networks)
        with tempfile.TemporaryDirectory() as kept, ProcessPoolExecutor(options.jobs) as pool:
            folder = options.logs or Path(kept)
            folder.mkdir(parents=True, exist_ok=True)
            made = list(itertools.chain.from_iterable(pool.map(partial(examples, folder=folder), seeds, chunksize=4)))
        if options.examples:
            options.examples.write_text(json.dumps(made))
    features, truths = (np.array([getattr(one, name) for one in made]) for name in ("features", "truths"))
    folds = np.array([one.seed // len(NUISANCES) % FOLDS for one in made])
    mean, deviation = features.mean(0), features.std(0) + 1e-3
    inputs = torch.tensor(np.clip((features - mean) / deviation, -6, 6), dtype=torch.float32)
    known = torch.tensor(truths, dtype=torch.float32)
    held = np.zeros(truths.shape)
    for fold in range(FOLDS):
        own = folds == fold
        held[own] = probabilities_of(
            [trained(inputs[~own], known[~own], seed) for seed in range(NETWORKS)], inputs[own]
        )
    models = [trained(inputs, known, seed) for seed in range(NETWORKS)]
    truths = np.where(np.array([one.claimed for one in made]), truths, np.nan)
    is_longer = held[:, HEADS.index("longer")] >= LONGER
    for head in STEADY:
        truths[is_longer, HEADS.index(head)] = np.nan
    names = np.array([[one.log, one.nuisance] for one in made])
    groups = [(names == name).any(1) for name in np.unique(names)]
    thresholds = []
    table = []
    for index, head in enumerate(HEADS):
        own = truths[:, index]
        precision = PRECISION.get(head, DEFAULT_PRECISION)
        thresholds.append(threshold(held[:, index], own, () if head in PRECISION else groups, precision))
        told = (held[:, index] >= thresholds[-1]) & ~np.isnan(own)
        if head == "rate":  # without which no buffer is told
            truths[~told, HEADS.index("buffer")] = np.nan
        share = own[told].mean() if told.any() else np.nan
        counts = [(~np.isnan(own)).sum(), f"{np.nanmean(own):.3f}", told.sum(), f"{share:.3f}", f"{thresholds[-1]:.3f}"]
        table.append([head, *map(str, counts)])
    headings = ["proposition", "claimed", "true", "trusted", "of these true", "threshold"]
    print(f"`{command()}`, {measured_on()}\n\n{markdown_table(headings, table)}")
    weights = [[layer.weight.detach().numpy().T for layer in (model[0], model[3])] for model in models]
    biases = [[layer.bias.detach().numpy()[None] for layer in (model[0], model[3])] for model in models]
    hidden, output = (
        np.array([np.concatenate((one[at], bias[at])) for one, bias in zip(weights, biases, strict=True)])
        for at in (0, 1)
    )
    arrays = {"mean": mean, "deviation": deviation, "hidden": hidden, "output": output}
    arrays["thresholds"] = np.array(thresholds)
    np.savez_compressed(TARGET, **{name: array.astype(np.float32) for name, array in arrays.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
