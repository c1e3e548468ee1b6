# SPDX-License-Identifier: GPL-2.0-only
"""What holds for all tests: the environment is the same whoever runs them, on whatever machine."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Settings of the user's own that commands and libraries would obey: logins, clusters, the width of help texts, colours.
USERS = ("WANDB_", "RAY_", "SLURM_", "SUBMITIT_", "HYDRA_", "GIT_", "OPTUNA_", "NETRC", "MPLBACKEND", "PYTHONWARNINGS")
TERMINALS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "PYTHON_COLORS")
for _name in list(os.environ):
    if _name.startswith((*USERS, *TERMINALS)):
        del os.environ[_name]
os.environ["TERM"] = "dumb"
# The networks of tests are too small for threads, which wait for each other in loops where other tests want the cores.
os.environ["OMP_NUM_THREADS"] = "1"

# The same examples on every machine, however slow; `--hypothesis-profile=explore` looks for others.
settings.register_profile("explore", deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("tests", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("tests")

MOST_WORKERS = 8  # each takes up to 1 GB


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes of `-n auto`: one for each core that the tests may use."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """Let SIGINT interrupt all that tests start, as in a terminal: the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def closed() -> Iterator[Callable[[Any], Any]]:
    """Return a function that returns its argument, which is closed at the test's end."""
    with contextlib.ExitStack() as stack:
        yield lambda one: stack.enter_context(contextlib.closing(one))


@pytest.fixture(autouse=True, scope="session")
def sb3_logs(tmp_path_factory: pytest.TempPathFactory):
    """Give Stable-Baselines3, where it is used by itself, a folder for its logs: else it makes one that it leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))
        yield
