# SPDX-License-Identifier: GPL-2.0-only
"""world=ns3gym: programs that serve a world, as worlds like the others."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from build_tree import program
from owners import children, free_port

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


@pytest.fixture(scope="module")
def opengym() -> str:
    return program("bbrgym-opengym")


@pytest.fixture
def options(opengym: str) -> dict[str, Any]:
    return {"command": [opengym]}


def served(options: dict[str, Any], scenario: Any = SCENARIO, **arguments: Any) -> World:
    return bbrgym.make_world("ns3gym", scenario, options=options, **arguments)


def bytes_of(world: World) -> tuple[Any, ...]:
    flows, link = world.summary()
    tables = (world.flow_stats(), world.link_stats(), world.tunables(), flows, link)
    return (world.now_s, world.done, *(table.tobytes() for table in tables))


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_run_is_the_ns3_world_s_bit_for_bit(options: dict[str, Any], isolation: Any) -> None:
    with (
        bbrgym.make_world("ns3", SCENARIO, seed=5) as there,
        served(options, seed=5, isolation=isolation) as here,
    ):
        assert bytes_of(here) == bytes_of(there)
        for step, seconds in enumerate((0.1, 0.05, 0.3, 0.1, 0.1, 2.0)):
            for world in (here, there):
                world.set_tunables("mix", {"bbr_up_gain": 1.1 + step / 10, "use_probe_cap": float(step % 2)})
                world.advance(seconds)
            assert bytes_of(here) == bytes_of(there)
        assert here.done
        here.advance(1.0)  # nothing changes any more
        assert bytes_of(here) == bytes_of(there)
        for world in (here, there):
            world.reset(ALONE, seed=2**63 - 1)
        assert bytes_of(here) == bytes_of(there)
        for world in (here, there):
            world.advance(1.0)
        assert bytes_of(here) == bytes_of(there)


def test_many_run_side_by_side(options: dict[str, Any]) -> None:
    with (
        make_vector_world("ns3", 3, [SCENARIO, ALONE, SCENARIO], 7) as there,
        make_vector_world("ns3gym", 3, [SCENARIO, ALONE, SCENARIO], 7, threads=2, options=options) as here,
    ):
        mask = np.array([True, False, True])
        for worlds in (here, there):
            worlds.advance(0.2)
            worlds.advance(0.2, mask)
            worlds.reset(2, ALONE, 4)
            worlds.advance(0.2)
        for table in ("tunables", "flow_stats", "link_stats", "now_s", "done"):
            assert getattr(here, table).tobytes() == getattr(there, table).tobytes()


def test_evaluations_and_trainings_run_on_it(opengym: str, tmp_path: Path) -> None:
    scenario = tmp_path / "short.json"
    scenario.write_text(bbrgym.load_scenario(ALONE).model_dump_json(exclude_none=True), encoding="utf-8")
    command = f"world.ns3gym.options.command=[{opengym}]"
    asked = [f"scenario={scenario}", "seeds=[1,2]", "variants=[bbr,bbq]", "jobs=2", command]
    assert main(["evaluate", *asked, "world=[ns3,ns3gym]", f"output_dir={tmp_path / 'evaluation'}"]) == 0
    summary = pl.read_parquet(tmp_path / "evaluation" / "summary.parquet")
    here, there = (summary.filter(world=world).drop("world") for world in ("ns3gym", "ns3"))
    assert len(here) == 4
    assert here.sort(here.columns).equals(there.sort(there.columns))
    train = [f"scenario={scenario}", "variant=bbq", "agent=grid", "agent.draws=2", "agent.levels=2", command]
    train += ["world=ns3gym", "validation.world=ns3gym", "validation.draws=1", "action.tunables=[bbq_beta]"]
    assert main(["train", *train, "total_steps=1000", f"output_dir={tmp_path / 'training'}"]) == 0
    assert pl.read_parquet(tmp_path / "training" / "metrics.parquet").height > 0


def test_the_command_may_be_a_text_with_placeholders(opengym: str) -> None:
    text = f"{opengym} --simSeed={{seed}} --openGymPort={{port}} '--scenario={{scenario}}'"
    with bbrgym.make_world("ns3", ALONE, seed=3) as there, served({"command": text}, ALONE, seed=3) as here:
        assert bytes_of(here) == bytes_of(there)


# ---- a program that is started elsewhere ------------------------------------------------------------------


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.json"
    path.write_text(bbrgym.load_scenario(ALONE).resolved_json(), encoding="utf-8")
    return path


@pytest.fixture
def start(opengym: str, scenario_file: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def start(port: int, seed: int) -> subprocess.Popen[str]:
        words = [opengym, f"--scenario={scenario_file}", f"--openGymPort={port}", f"--simSeed={seed}"]
        started.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_it_may_be_waited_for(start: Any) -> None:
    port = free_port()
    first = start(port, 3)
    with bbrgym.make_world("ns3", ALONE, seed=3) as there, served({"port": port}, ALONE, seed=3) as here:
        here.advance(0.5)
        there.advance(0.5)
        assert bytes_of(here) == bytes_of(there)
        second = start(port, 3)
        here.reset()
        assert here.now_s == 0.0
        assert first.wait(60) == 0
    assert second.wait(60) == 0


def test_another_run_than_asked_for_is_refused(start: Any) -> None:
    port = free_port()
    start(port, 4)
    with pytest.raises(bbrgym.WorldError, match=r"the program's info: seed is 4, expected 3$"):
        served({"port": port}, ALONE, seed=3)
    start(port, 3)
    renamed = {**ALONE, "flows": [{**ALONE["flows"][0], "name": "other"}]}
    with pytest.raises(bbrgym.WorldError, match=r"the program's info: flows is \['mix'\], expected \['other'\]$"):
        served({"port": port}, renamed, seed=3)


# ---- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"^command: None and port: 0, expected the program's command, or the port it connects to$"),
        ({"comand": ["true"]}, r"^options: 'comand' is not an option of world 'ns3gym'; did you mean command\?"),
        ({"command": "true", "cwd": "/no/such/folder"}, r"^cwd: '/no/such/folder' is not a folder$"),
        ({"port": 5555, "log": "file"}, r"^log: 'file' is for a command, and there is none$"),
        ({"command": ["true", "{port}"]}, r"^arguments: --scenario=.* has no place in the command"),
    ],
    ids=str,
)
def test_wrong_options_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        served(options)


def test_tunables_are_checked_before_they_are_sent(options: dict[str, Any]) -> None:
    with served(options) as world:
        vector = world._vector
        vector.tunables[0, 1, world.tunable_names.index("bbq_beta")] = 7.0
        with pytest.raises(ValueError, match=r"^flow 'late': tunables.bbq_beta is 7"):
            world.advance(0.1)
        assert world.now_s == 0.0
        world.set_tunables("late", {"bbq_beta": 0.02})
        world.advance(0.1)  # nothing ran, nothing broke
        vector.tunables[0, 2, 0] = 1.0
        with pytest.raises(ValueError, match=r"^flow 'stock': "):
            world.advance(0.1)


def test_a_program_that_dies_is_one_error(options: dict[str, Any]) -> None:
    with served(options, ALONE) as world:
        world.advance(0.1)
        [victim] = children(lambda child: "bbrgym-opengym" in child.name(), recursive=True)
        victim.send_signal(signal.SIGABRT)
        with pytest.raises(bbrgym.WorldError, match=r"at 0\.1 s: the simulation .*: it was killed by SIGABRT"):
            world.advance(0.1)
        with pytest.raises(ValueError, match="not running"):
            world.advance(0.1)
        world.reset()
        world.advance(0.1)


def test_what_serves_no_world_is_refused() -> None:
    serve = f'{sys.executable} -m bbrgym serve world=twin scenario=steady port="$1"'
    command = ["sh", "-c", serve, "serve", "{port}", "{scenario}"]
    with pytest.raises(
        bbrgym.WorldError, match=r"the program's observation space is Box\(0\.0, 1\.0, .*, expected Dict"
    ):
        served({"command": command})


def test_close_ends_a_wait_in_another_thread(options: dict[str, Any]) -> None:
    world = served(options, {**ALONE, "duration_s": 80_000.0})
    errors: list[Exception] = []

    def advance() -> None:
        try:
            world.advance(80_000.0)
        except Exception as error:  # noqa: BLE001 - any will do
            errors.append(error)

    thread = threading.Thread(target=advance)
    thread.start()
    time.sleep(1.0)
    world.close()
    thread.join(60.0)
    assert not thread.is_alive()
    assert len(errors) == 1


def test_without_its_extra_it_says_what_to_install(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("bbrgym.ns3gym", "bbrgym.worlds.ns3gym", "zmq"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "zmq", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[ns3gym\]'"):
        served(options)
