# SPDX-License-Identifier: GPL-2.0-only
"""world=ns3gym: programs that serve a world, as worlds like the others."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from build_tree import program
from owners import another_owner, children, nothing_left
from waiting import wait_until

import bbrgym
from bbrgym.cli.main import main
from bbrgym.errors import MissingExtraError
from bbrgym.worlds import World, make_vector_world

pytestmark = pytest.mark.usefixtures("undrawn_file", "own_children")

SCENARIO: dict[str, Any] = {
    "name": "served",
    "duration_s": 1.25,
    "warmup_s": 0.25,
    "link": {"rate_mbps": 8, "queue": {"size_bdp": 1.5}, "loss": {"kind": "bernoulli", "rate": 0.003}},
    "flows": [
        {"name": "mix", "cc": "bbr-mix", "role": "tuned", "rtt_ms": 20.2},
        {"name": "late", "cc": "bbq", "role": "tuned", "rtt_ms": 45, "start_s": 0.3},
        {"name": "stock", "cc": "ns3-linux-reno", "rtt_ms": 25, "role": "background"},
    ],
}
ALONE: dict[str, Any] = {**SCENARIO, "name": "alone", "flows": SCENARIO["flows"][:1]}
ENDLESS: dict[str, Any] = {**ALONE, "duration_s": 80_000.0}


@pytest.fixture(scope="module")
def command() -> list[str]:
    return [program("bbrgym-scenario"), "--serve"]


def served(command: Any, scenario: Any = SCENARIO, seed: int = 1, *, isolation: Any = None, **options: Any) -> World:
    return bbrgym.make_world("ns3gym", scenario, seed, isolation=isolation, options={"command": command, **options})


def bytes_of(world: World) -> tuple[Any, ...]:
    flows, link = world.summary()
    tables = (world.flow_stats(), world.link_stats(), world.tunables(), flows, link)
    return (world.now_s, world.done, *(table.tobytes() for table in tables))


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_run_is_the_ns3_world_s_bit_for_bit(command: list[str], isolation: Any) -> None:
    """Run it also through a program that closes all other descriptors, as ./ns3 run does."""
    wrapped = [sys.executable, "-c", f"import subprocess; subprocess.run({command!r}, check=True)"]
    with (
        bbrgym.make_world("ns3", SCENARIO, seed=5) as there,
        served(wrapped if isolation == "none" else command, seed=5, isolation=isolation) as here,
    ):
        assert bytes_of(here) == bytes_of(there)
        for step, seconds in enumerate((0.1, 0.05, 0.3, 0.1, 0.1, 2.0, 1.0)):
            for world in (here, there):
                world.set_tunables("mix", {"bbr_up_gain": 1.1 + step / 10, "use_probe_cap": float(step % 2)})
                world.advance(seconds)
            assert bytes_of(here) == bytes_of(there)
        assert here.done
        for arguments in ({"scenario": ALONE, "seed": 2**63 - 1}, {}):
            for world in (here, there):
                world.reset(**arguments)
                world.advance(1.0)
            assert bytes_of(here) == bytes_of(there)


def test_many_run_side_by_side(command: list[str]) -> None:
    with (
        make_vector_world("ns3", 3, [SCENARIO, ALONE, SCENARIO], 7) as there,
        make_vector_world("ns3gym", 3, [SCENARIO, ALONE, SCENARIO], 7, threads=2, options={"command": command}) as here,
    ):
        mask = np.array([True, False, True])
        for worlds in (here, there):
            worlds.advance(0.2)
            worlds.advance(0.2, mask)
            worlds.reserve(5)  # while they run
            worlds.reset(2, ALONE, 4)
            worlds.advance(0.2)
        for table in ("tunables", "flow_stats", "link_stats", "now_s", "done"):
            assert getattr(here, table).tobytes() == getattr(there, table).tobytes()


def test_evaluations_and_trainings_run_on_it(command: list[str], tmp_path: Path) -> None:
    scenario = tmp_path / "short.json"
    scenario.write_text(bbrgym.load_scenario(ALONE).model_dump_json(exclude_none=True), encoding="utf-8")
    option = f"world.ns3gym.options.command={' '.join(command)}"
    asked = [f"scenario={scenario}", "seeds=[1,2]", "variants=[bbr,bbq]", "jobs=2", option]
    assert main(["evaluate", *asked, "world=[ns3,ns3gym]", f"output_dir={tmp_path / 'evaluation'}"]) == 0
    summary = pl.read_parquet(tmp_path / "evaluation" / "summary.parquet")
    here, there = (summary.filter(world=world).drop("world") for world in ("ns3gym", "ns3"))
    assert len(here) == 4
    assert here.sort(here.columns).equals(there.sort(there.columns))
    train = [f"scenario={scenario}", "variant=bbq", "agent=grid", "agent.draws=2", "agent.levels=2", option]
    train += ["world=ns3gym", "validation.world=ns3gym", "validation.draws=1", "action.tunables=[bbq_beta]"]
    assert main(["train", *train, "total_steps=1000", f"output_dir={tmp_path / 'training'}"]) == 0
    assert pl.read_parquet(tmp_path / "training" / "metrics.parquet").height > 0


# ---- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"^command: is missing, expected the command that starts the world's program$"),
        ({"comand": ["true"]}, r"^options: 'comand' is not an option of world 'ns3gym'; did you mean command\?"),
        ({"command": "true", "cwd": "/no/such/folder"}, r"^cwd: '/no/such/folder' is not a folder$"),
        ({"command": "true", "log": "/no/folder/log"}, r"^log: '/no/folder/log' cannot be written: No such file or di"),
    ],
    ids=str,
)
def test_wrong_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        bbrgym.make_world("ns3gym", SCENARIO, options=options)


def test_a_wrong_tunable_breaks_nothing(command: list[str]) -> None:
    with served(command) as world:
        vector = world._vector
        vector.tunables[0, 1, world.tunable_names.index("bbq_beta")] = 7.0
        with pytest.raises(bbrgym.ConfigError, match=r"^flow 'late': bbq_beta = 7 is outside "):
            world.advance(0.1)
        assert world.now_s == 0.0
        world.set_tunables("late", {"bbq_beta": 0.02})
        world.advance(0.1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sh", "-c", "echo no network; exit 3"], r"the program exited with code 3; it last wrote:\nno network$"),
        (["sh", "-c", "echo hello; sleep 600"], r"no answer within 3 s \(timeout_s .*; it last wrote:\nhello$"),
    ],
)
def test_what_serves_no_world(words: list[str], says: str) -> None:
    with nothing_left(), pytest.raises(bbrgym.WorldError, match=says):
        bbrgym.make_world("ns3gym", SCENARIO, timeout_s=3.0, options={"command": words})


def test_a_program_of_another_version_is_refused(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bbrgym.worlds.ns3gym_engine.TUNABLE_NAMES", ("bbr_up_gain",))
    with pytest.raises(
        bbrgym.WorldError, match="the program has other tunables or fields than this bbrgym: build it from"
    ):
        served(command)


def test_a_program_that_is_not_started_by_the_world_says_so(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "bbrgym-scenario: the standard input is not that of a program of bbrgym's world ns3gym" in done.stderr


def runs(owner_pid: int | None = None) -> list[Any]:
    return children(lambda child: "bbrgym-scenario" in child.name(), owner_pid, recursive=True)


def test_a_program_that_dies_is_one_error(command: list[str]) -> None:
    with served(command, ALONE) as world:
        world.advance(0.1)
        runs()[-1].send_signal(signal.SIGABRT)  # of the program and its run
        with pytest.raises(bbrgym.WorldError, match=r"at 0\.1 s: the program was killed by SIGABRT$"):
            world.advance(0.1)
        with pytest.raises(ValueError, match="not running"):
            world.advance(0.1)
        world.reset()
        world.advance(0.1)
    assert runs() == []


def ends_with(command: list[str], end: Callable[[World], None]) -> list[Exception]:
    """Return the errors of an advance without an end that is ended meanwhile."""
    world = served(command, ENDLESS)
    errors: list[Exception] = []

    def advance() -> None:
        try:
            world.advance(80_000.0)
        except Exception as error:  # noqa: BLE001 - any will do
            errors.append(error)

    thread = threading.Thread(target=advance)
    thread.start()
    wait_until(lambda: runs()[-1].cpu_times().user > 0.5)
    end(world)
    thread.join(60.0)
    assert not thread.is_alive()
    return errors


def test_close_ends_a_wait_in_another_thread(command: list[str]) -> None:
    assert len(ends_with(command, World.close)) == 1
    assert runs() == []


OWNER = """
import json, sys, bbrgym
command, scenario = json.loads(sys.stdin.readline())
world = bbrgym.make_world("ns3gym", scenario, options={"command": command})
print("ready", flush=True)
world.advance(80_000.0)
"""


def test_a_killed_owner_leaves_nothing(command: list[str]) -> None:
    with another_owner(OWNER, json.dumps([command, ENDLESS])) as owner:
        wait_until(lambda: len(runs(owner.pid)) == 2)
        left = runs(owner.pid)
        owner.kill()
        wait_until(lambda: not any(one.is_running() for one in left))


def test_without_its_extra_it_says_what_to_install(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("bbrgym.ns3gym", "bbrgym.worlds.ns3gym", "psutil"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[ns3gym\]'"):
        served(command)
