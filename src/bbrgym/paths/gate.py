# SPDX-License-Identifier: GPL-2.0-only
"""Confidence in what rules propose of a path: small networks, trained on logs of simulated networks.

``benchmarks/path_gate.py`` makes the logs, with all that spoils logs in the field, fits the networks to whether each
proposal's interval holds the truth, and sets for each a threshold above which nearly all of those do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

HEADS = ("rate", "buffer", "buffer_low", "loss", "loss_high", "shared", "steps", "longer")
"""Propositions: the intervals of capacity, buffer and random loss hold the truth, the lower bound of the buffer and the
upper one of the loss too; another sender shares the link; its rate changes; its delay changes."""

_MOST_DEVIATIONS = 6.0
LONGER, STEADY = 0.08, ("buffer", "loss")
"""Probability of a delay that changes, from which on some propositions are not trusted: it looks like a queue."""


@dataclass(frozen=True)
class _Networks:
    """Weights of networks with one hidden layer, whose outputs are averaged."""

    mean: NDArray[np.float64]  # [features]
    deviation: NDArray[np.float64]  # [features]
    hidden: NDArray[np.float64]  # [networks, features + 1, units]; the last row is the bias
    output: NDArray[np.float64]  # [networks, units + 1, heads]
    thresholds: NDArray[np.float64]  # [heads]

    def probabilities(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each head, [heads]."""
        inputs = np.clip((features - self.mean) / self.deviation, -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
        units = np.maximum(np.append(inputs, 1.0) @ self.hidden, 0.0)
        logits = np.concatenate((units, np.ones((len(units), 1))), axis=1)[:, None, :] @ self.output
        return np.asarray((1.0 / (1.0 + np.exp(-logits[:, 0, :]))).mean(axis=0))


def trusted(features: NDArray[np.float64]) -> dict[str, bool]:
    """Return which propositions can be trusted, by their names in `HEADS`."""
    networks = _networks()
    probabilities = networks.probabilities(features)
    is_trusted = dict(zip(HEADS, (probabilities >= networks.thresholds).tolist(), strict=True))
    if probabilities[HEADS.index("longer")] >= LONGER:
        is_trusted |= dict.fromkeys(STEADY, False)
    return is_trusted


@cache
def _networks() -> _Networks:
    with files("bbrgym.paths").joinpath("gate.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return _Networks(**{name: arrays[name].astype(np.float64) for name in arrays.files})
