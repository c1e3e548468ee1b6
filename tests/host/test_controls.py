# SPDX-License-Identifier: GPL-2.0-only
"""Controls in the running kernel, from loading to unloading; needs root and BPF, and skips without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_scripts import NAME, needs_loading, of_script
from machine_needs import needs
from special_files import put_special_file
from tiny import run

from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.errors import ConfigError
from bbrgym.host import controls, pins, system
from bbrgym.host.floor import Floor
from bbrgym.tunables import VARIANTS


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return of_script("kernel_control.py", str(tmp_path_factory.mktemp("watch") / "flows.parquet"))


@needs_loading
def test_any_socket_may_use_it(result: Any) -> None:
    assert len(result["flows"]) == 3
    for flow in result["flows"]:
        assert flow["control"] == NAME
        assert flow["acked_bytes"] > 0
        assert 0 < flow["min_rtt_us"] < 1_000_000
        assert 0 < flow["age_us"] < 10_000_000
        assert flow["tunables"]["bbq_alpha_us"] == 1500
    assert result["alphas"] == [2500, 2500, 2500], "open connections take what is set"
    assert "plus_alpha is not a tunable of bbq" in result["unknown"]


@needs_loading
def test_a_log_has_a_row_per_connection_and_look(result: Any) -> None:
    rows = [row for row in result["log"] if row["delivered_bytes"] > 0]
    by_connection: dict[int, list[int]] = {}
    for row in rows:
        assert row["peer"].startswith("127.0.0.1:")
        assert row["bbq_alpha_us"] == 2500
        assert row["min_rtt_ms"] <= row["srtt_ms"]
        by_connection.setdefault(row["connection"], []).append(row["delivered_bytes"])
    assert len(by_connection) == 3
    for delivered in by_connection.values():
        assert delivered == sorted(delivered)


@needs_loading
def test_it_stays_while_sockets_use_it_unless_they_are_moved_and_another_build_touches_nothing(result: Any) -> None:
    assert result["again"].startswith(f"{NAME} is loaded already")
    assert result["unload"].startswith(f"{NAME} is used by ")
    assert result["moved"] >= 3
    assert result["used"] == [result["default_before"]] * 3
    assert result["left"] == []
    assert (result["default_loaded"], result["default_after"]) == (NAME, result["default_before"])
    refusal, is_there = result["foreign"]
    assert refusal.startswith(f"{NAME} was loaded by another build of the package")
    assert is_there


@needs_loading
def test_what_hands_a_control_out_after_it_was_unloaded_is_told(result: Any) -> None:
    result = result["what_is_left"]
    process, default = result["other"]
    assert default != NAME
    assert result["told"] == [
        f"new sockets in the network namespace of process {process} have {default} again",
        f"new sockets in the network namespace of this process have reno: {NAME}x, the one before, is gone",
        f"{NAME}: its program is no longer registered, but in use: sockets keep it until they close",
    ]
    places = f"listens at {result['address']} in the network namespace of this process, the default in the network"
    assert result["unload"].startswith(f"{NAME}: its program is no longer registered, but in use: ")
    assert places in result["unload"]
    assert result["again"].startswith(f"{NAME}: an earlier program of this name is no longer registered, ")
    assert result["ended"] == [NAME, 0]
    assert result["moved"] == 1


def test_what_is_no_network_namespace_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("fifo", "zero", "folder"):
        put_special_file(kind, tmp_path / kind)
    (tmp_path / "file").touch()
    (tmp_path / "other").symlink_to("/proc/self/ns/uts")
    monkeypatch.setattr(system, "_NAMED", tmp_path)
    names = [name for name, _ in system.network_namespaces()]
    assert names[0] == "the network namespace of this process"
    assert not any(name.endswith(one.name) for name in names for one in tmp_path.iterdir())


@needs_loading
@needs("iproute2", "iperf3", "curl")
def test_other_programs_use_it_and_take_what_is_set() -> None:
    result = of_script("kernel_programs.py")
    assert result["iperf3"]["sender_tcp_congestion"] == NAME
    assert result["iperf3"]["sum_received"]["bytes"] > 0
    assert result["curl"]["bytes"] == 1_000_000
    assert set(result["curl"]["used"]) == {NAME}
    assert result["set"]["changed"] > 0
    assert result["set"]["late"] == 0
    assert NAME not in {*controls.available_controls(), *controls.loaded_names()}


@needs_loading
@needs("clang", "iproute2")
def test_a_policy_s_flow_below_the_floor_has_its_preset(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", env={"name": "multi"}, total_steps=32)
    result = of_script("kernel_policy.py", str(folder))
    preset = dict(VARIANTS["bbq"].preset)
    for floor, policy in (("none", "acts"), ("goodput", "fell back: goodput"), ("rtt", "fell back: RTT")):
        assert len(result[floor]) == 3
        for flow in result[floor]:
            assert flow["policy"] == policy
            assert ({name: flow["tunables"][name] for name in preset} == preset) == (policy != "acts")
    assert result["refused"].startswith(f"{NAME}: its policy sets its tunables, every interval")


@needs_loading
@needs("iproute2")
def test_shipped_agents_are_loaded_without_a_compiler() -> None:
    result = of_script("kernel_shipped.py")
    assert result["found"] == [None, False]
    assert result["kept"] == ["acts"], "a queue of few ms, or a receiver's pause, took the policy"
    assert [result[name]["policy"] for name in ("shipped/fixed", "shipped/flow")] == ["", "shipped/flow"]
    setting = shipped_setting(SHIPPED["shipped/fixed"])
    assert setting is not None
    variant, tunables = setting
    assert len(result["shipped/fixed"]["flows"]) == len(result["shipped/flow"]["flows"]) == 3
    for flow in result["shipped/fixed"]["flows"]:
        assert {name: flow["tunables"][name] for name in tunables} == pytest.approx(
            {**tunables, "plus_alpha": 0.9}, rel=1e-3
        )
    preset = VARIANTS[variant].preset
    for flow in result["shipped/flow"]["flows"]:
        assert flow["policy"] == "acts"
        assert {name: flow["tunables"][name] for name in preset} != pytest.approx(preset, rel=1e-3)
    assert result["wan"] == "shipped/wan acts for all flows of a bottleneck together, of which a socket knows one"


@needs_loading
def test_a_killed_command_leaves_nothing_to_the_next_one() -> None:
    script = (
        "import os, signal; from bbrgym.host import controls, pins\n"
        "pins.Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"controls.load('bbr', {{}}, name='{NAME}k')"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=60, check=False).returncode == -9
    with pins.alone():
        assert not list(pins.FOLDER.glob(f"*{NAME}k"))
    assert f"{NAME}k" not in controls.loaded_names()


def test_a_request_that_cannot_be_met_is_refused_before_the_kernel_is_asked() -> None:
    for target, values, name, says in (
        ("cubic", {}, None, "cubic is not a variant of BBR, a shipped agent, a run folder or a file"),
        ("bbr", {}, "bbr", "name: is 'bbr', expected gym_ and 1 to 11"),
        ("bbq", {"bbq_alpha_us": -1}, None, r"bbq_alpha_us: is -1, expected \d+ to \d+ us"),
        ("bbq", {"floor_rtt": 2}, None, "floor_rtt: bbq has no policy that could fall back"),
    ):
        with pytest.raises(ConfigError, match=says):
            controls.load(target, values, name=name)
    with pytest.raises(ConfigError, match=r"floor_goodput: is 1\.5, expected 0 to 1"):
        Floor().changed({"goodput": 1.5})


def test_every_variant_has_a_name_that_the_kernel_takes() -> None:
    for one in VARIANTS.values():
        if one.algorithm in ("bbr", "bbr2", "bbr3"):
            assert controls.is_name(controls.name_of(one.name)), one.name
