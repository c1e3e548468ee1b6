# SPDX-License-Identifier: GPL-2.0-only
"""Selectors of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bbrgym.agents.portfolio.network_selector import NetworkSelector
from bbrgym.agents.portfolio.tree_selector import TreeSelector

Selector: TypeAlias = TreeSelector | NetworkSelector


def selector_of(tables: Mapping[str, Tensor]) -> Selector:
    """Return the selector whose state this is."""
    return (TreeSelector if "threshold" in tables else NetworkSelector)(tables).eval()


def choices(selector: Selector, features: Tensor) -> npt.NDArray[np.intp]:
    """Return the setting with the highest prediction, [N]."""
    with torch.no_grad():
        chosen: npt.NDArray[np.intp] = selector.eval()(features).argmax(-1).numpy()
    return chosen
