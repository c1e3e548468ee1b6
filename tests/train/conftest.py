# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="what is tested trains with it")
sys.path.append(str(Path(__file__).parent / "support"))
