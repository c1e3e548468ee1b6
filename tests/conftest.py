# SPDX-License-Identifier: GPL-2.0-only
import signal
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "support"))


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """SIGINT as in a terminal, for all that tests start: the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def sb3_logs(tmp_path_factory: pytest.TempPathFactory):
    """Where Stable-Baselines3, used by itself, puts its logs: otherwise into a folder of its own that it leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))
        yield
