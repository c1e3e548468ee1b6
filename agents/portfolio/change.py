# SPDX-License-Identifier: GPL-2.0-only
"""Change detection: the path is another one when the flows' bandwidth estimates move far and stay there."""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated

import numpy as np
from pydantic import Field

from bbrgym.agents.portfolio.probe_features import OBSERVED
from bbrgym.envs.features import Observation
from bbrgym.envs.observation import FEATURE_LISTS, FEATURES
from bbrgym.schema import Float, Model

_NAMES = FEATURE_LISTS[OBSERVED]
_WATCHED = _NAMES.index("bw")
_RANGE = next(feature for feature in FEATURES if feature.name == "bw")


class ChangeSettings(Model):
    """Settings of the change detection.

    Attributes:
        ratio: of the bandwidth estimate now to that when the setting was new, or its inverse, that is a change.
        window_s: time over which both are means; the first one begins so long after the setting was chosen.
    """

    ratio: Annotated[Float, Field(gt=1, le=1000)] = 2.0
    window_s: Annotated[Float, Field(gt=0, le=600)] = 3.0


class ChangeDetector:
    """Watches one environment.

    Args:
        settings: of the detection.
        flows: largest number of tuned flows; their features are the first numbers of an observation.
        interval_s: time between two observations.

    Attributes:
        window: number of intervals of a mean.
        threshold: difference of two means that is a change.
        watched: number of the feature that is averaged, among those of a flow.
    """

    watched = _WATCHED

    def __init__(self, settings: ChangeSettings, flows: int, interval_s: float) -> None:
        self.threshold = math.log(settings.ratio) / math.log(_RANGE.high / _RANGE.low)
        self._flows = flows
        self.window = max(1, round(settings.window_s / interval_s))
        self.reset()

    def reset(self) -> None:
        """Begin anew: a setting has been chosen."""
        self._reference = math.nan
        self._seen = 0
        self._recent: deque[float] = deque(maxlen=self.window)

    def has_changed(self, view: Observation) -> bool:
        """Take an interval's observation, [numbers]; return whether the path has changed since the last reset."""
        self._seen += 1
        each = view[: self._flows * len(_NAMES)].reshape(self._flows, len(_NAMES))
        known = each[each[:, _WATCHED] > 0.0, _WATCHED]
        self._recent.append(float(known.mean()) if len(known) else 0.0)
        mean = float(np.mean(self._recent))
        if self._seen == 2 * self.window:
            self._reference = mean
        return self._seen >= 3 * self.window and abs(mean - self._reference) > self.threshold
