# SPDX-License-Identifier: GPL-2.0-only
"""What holds for all tests: the environment is the same whoever runs them, on whatever machine."""

import contextlib
import functools
import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import machine_needs
import pytest
from hypothesis import HealthCheck, settings
from owners import only_own_children

# Settings of the user's own that commands and libraries would obey: logins, clusters, the width of help texts, colours.
USERS = ("WANDB_", "RAY_", "SLURM_", "SUBMITIT_", "HYDRA_", "GIT_", "OPTUNA_", "NETRC", "MPLBACKEND", "PYTHONWARNINGS")
USERS += ("BBRGYM_FIGURES",)
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

#: The longest files, which begin first: no process is left with one of them when the others have no more to do.
LONGEST = (
    *("twin/test_fuzz.py", "twin/test_traces.py", "twin/test_instructions.py", "sweeps/test_launchers.py"),  # if slow
    *("linux/test_kernel_world.py", "twin/test_differential.py", "sweeps/test_multirun.py", "linux/test_bpf.py"),
    *("cc/test_plugins.py", "cli/test_cli.py", "docs/test_first_pages.py", "docs/test_examples.py"),
    *("sweeps/test_resume.py", "agents/training/test_resume.py", "agents/deploy/test_export_c.py"),
    *("linux/test_bpf_policy.py", "sweeps/test_search.py", "agents/portfolio/test_portfolio.py"),
    *("ns3gym/test_driving.py", "evaluate/test_bench.py", "ns3-scratch/test_last_hop.py"),
    *("agents/training/test_rollouts.py", "report/test_report.py", "loggers/test_loggers.py"),
    *("cli/test_hydra_program.py", "evaluate/test_bench_dataset.py"),
    *("agents/training/test_hostile_models.py", "agents/test_sb3.py", "ns3gym/test_leaks.py", "docs/test_site.py"),
)
_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first."""
    rank = {_TESTS / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last, in one line, what to install for the tests that were skipped, and list them for `.ci/run`."""
    yield
    reasons = {report.nodeid: str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])}
    if reasons:
        terminalreporter.write_line(machine_needs.advice(reasons.values()))
    if "BBRGYM_SKIPPED" in os.environ:
        names = (f"{name}\n" for name, reason in reasons.items() if machine_needs.packages_of(reason))
        Path(os.environ["BBRGYM_SKIPPED"]).write_text("".join(names), encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave modules and tests, which stay, out of every collection of garbage, and collect as seldom as the command."""
    gc.disable()
    gc.set_threshold(200_000)
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes of `-n auto`: one for each core that the tests may use."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


@pytest.fixture
def own_controls() -> Iterator[None]:
    """Takes the users' congestion controls of a test out of what there is."""
    from bbrgym import plugins, tunables

    registries: list[dict[str, Any]] = [tunables._variants, tunables._tunables, tunables._columns]
    kept = [(held, dict(held)) for held in [*registries, plugins._loaded, plugins._classes]]
    yield
    for held, before in kept:
        held.clear()
        held.update(before)


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """Let SIGINT interrupt all that tests start, as in a terminal: the background of a shell ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _nothing_drawn() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BBRGYM_FIGURES", "none")
        yield


#: For a test, or a file of tests, that does not look at figures/, whose drawing takes most of a short command's time.
undrawn = pytest.fixture(_nothing_drawn)
undrawn_file = pytest.fixture(_nothing_drawn, scope="module")


@pytest.fixture(scope="session")
def operators_once() -> Iterator[None]:
    """Lets PyTorch read ONNX's operators, which takes it a second, once for all exports."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(functools.cache(ONNXRegistry.from_torchlib)))
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this run of the tests share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture
def own_children() -> Iterator[None]:
    """For a test that looks for children of this process: those that earlier tests left are not among them."""
    with only_own_children():
        yield


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
