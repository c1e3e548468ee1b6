# SPDX-License-Identifier: GPL-2.0-only
import sys
from pathlib import Path

import pytest
import yaml

sys.path.append(str(Path(__file__).parent / "support"))


@pytest.fixture
def experiment_file(tmp_path: Path) -> Path:
    """A small experiment in a file of the paper ``mine``."""
    from small_experiment import FIELDS

    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "fig1.yaml"
    path.write_text(yaml.safe_dump(FIELDS))
    return path
