# SPDX-License-Identifier: GPL-2.0-only
"""A congestion control that is a Python class: a variant of the twin, held to the laws of every controller."""

import pickle
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import twin_harness
from twin_harness import flow

import bbrgym
from bbrgym.cli.main import main
from bbrgym.errors import ConfigError, WorldError
from bbrgym.plugins import load_controller
from bbrgym.worlds import make_vector_world

pytestmark = pytest.mark.usefixtures("own_controls")

SOURCE = """
import bbrgym

class Alone(bbrgym.Controller):
    def __init__(self):
        self.cwnd_pkts, self.acks, self.timeouts = 10.0, 0, 0

    def decide(self, surplus_pkts, srtt_us):
        self.acks += 1
        self.cwnd_pkts = max(2.0, self.cwnd_pkts + surplus_pkts / self.cwnd_pkts * self.rng.uniform(0.5, 1.5))
        rate = 1.2 * self.cwnd_pkts * self.mss_bytes * 8 / srtt_us
        return self.cwnd_pkts, rate if self.acks % 2 else None

    def on_ack(self, sample):
        return self.decide(sample.acked_pkts - sample.lost_pkts, sample.srtt_us)

    def on_rto(self):
        self.cwnd_pkts = 2.0

class Together(Alone):
    @classmethod
    def on_acks(cls, controllers, samples):
        surplus = samples["acked_pkts"] - samples["lost_pkts"]
        rows = zip(controllers, surplus, samples["srtt_us"])
        return tuple(zip(*(one.decide(int(a), int(s)) for one, a, s in rows)))

class Batches(bbrgym.Controller):
    __init__, decide, on_rto, on_acks = Alone.__init__, Alone.decide, Alone.on_rto, Together.on_acks
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


def scenario(cc: str, other: str = "cubic") -> dict[str, Any]:
    loss = {"kind": "gilbert_elliott", "good_to_bad": 0.005, "bad_to_good": 0.2, "loss_bad": 1.0}
    flows = [flow("a", cc, 30.0), flow("b", cc, 60.0, start_s=1.0), flow("c", other)]
    return twin_harness.scenario(*flows, duration_s=8.0, rate_mbps=12.0, loss=loss) | {"warmup_s": 1.0}


def rows(worlds: Any) -> bytes:
    """Return all that the runs of a vector show."""
    shown = []
    while not worlds.done.all():
        worlds.advance(0.7)
        shown.append(worlds.flow_stats.tobytes())
    return b"".join([*shown, *(worlds.summary(i)[0].tobytes() for i in range(worlds.num_worlds))])


def run(cc: str, num_worlds: int = 1, **options: Any) -> bytes:
    with make_vector_world("twin", num_worlds, scenario(cc), 3, **options) as worlds:
        return rows(worlds)


# ---- runs ---------------------------------------------------------------------------------------------------


def test_acks_of_several_worlds_together_decide_as_each_alone(file: Path) -> None:
    alone, together = (load_controller(f"{file}:{name}") for name in ("Alone", "Together"))
    assert run(alone, 5) == run(together, 5)
    assert run(alone) == run(together) == run(load_controller(f"{file}:Batches"))
    with make_vector_world("twin", 2, [scenario(together), scenario(alone, together)], 3) as mixed:
        one = rows(mixed)
    with make_vector_world("twin", 2, [scenario(alone), scenario(alone, alone)], 3) as mixed:
        assert one == rows(mixed)


def test_a_run_repeats_and_another_seed_draws_others(file: Path) -> None:
    name = load_controller(f"{file}:Alone")
    assert name == "mine.py:Alone"
    assert run(name) == run(name)
    seen = {run(name, threads=threads, isolation=how) for threads in (1, 2) for how in ("none", "process")}
    assert seen == {run(name)}, "in a worker process too"
    draws: list[float] = []

    class Draws(bbrgym.Controller):
        def __init__(self) -> None:
            draws.append(self.rng.random())

        def on_ack(self, sample: Any) -> tuple[float, None]:
            return 10, None

    for seed in (1, 1, 2):
        bbrgym.make_world("twin", scenario(load_controller(Draws)), seed=seed).close()
    assert draws[:2] == draws[2:4]
    assert len(set(draws)) == 4, "a stream for each flow and seed"


def test_save_and_restore_take_the_objects_along(file: Path) -> None:
    name = load_controller(f"{file}:Alone")
    with bbrgym.make_world("twin", scenario(name), seed=2) as world:
        world.advance(3.0)
        saved = world.save()
        outcomes = []
        for snapshot in (saved, saved, pickle.loads(pickle.dumps(saved))):
            world.restore(snapshot)
            world.advance(2.0)
            outcomes.append(world.flow_stats().tobytes())
    assert len(set(outcomes)) == 1


def test_an_object_that_cannot_be_copied_is_named(file: Path) -> None:
    class Locked(bbrgym.Controller):
        def __init__(self) -> None:
            self.lock = threading.Lock()

        def on_ack(self, sample: Any) -> tuple[float, float]:
            return 10, 5.0

    with bbrgym.make_world("twin", scenario(load_controller(Locked))) as world:
        world.advance(1.0)
        with pytest.raises(ConfigError, match=r"Locked: cannot be copied: TypeError: cannot pickle '_thread\.lock'"):
            world.save()
        world.advance(1.0)
        assert 4 < world.flow_stats()[0, world.flow_fields.index("pacing_mbps")] < 6


def test_hooks_may_decide_too(file: Path) -> None:
    seen: list[str] = []

    class Hooked(bbrgym.Controller):
        def on_ack(self, sample: Any) -> tuple[float, float]:
            return 8, 4.0

        def on_rto(self) -> None:
            seen.append("rto")

        def on_restart(self, now_us: int, is_app_limited: bool) -> tuple[float, float]:
            seen.append("restart")
            return 4, 2.0

        def on_loss_state(self, old: int, new: int) -> None:
            seen.append("loss state")

    one = scenario(load_controller(Hooked))
    one["flows"][0]["app"] = {"kind": "onoff", "rate_mbps": 6.0, "on_s": 0.5, "off_s": 1.0}
    one["link"]["loss"]["bad_to_good"] = 0.01
    with bbrgym.make_world("twin", one) as world:
        world.advance(8.0)
    assert set(seen) == {"rto", "restart", "loss state"}


# ---- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "sentence"),
    [
        ("(0, 1.0)", r"cwnd_pkts = 0\.0, expected 1 to 1073741824"),
        ("(2**31, 1.0)", r"cwnd_pkts = 2147483648\.0, expected 1 to 1073741824"),
        ("(float('nan'), 1.0)", r"cwnd_pkts = nan, expected 1 to"),
        ("(-3, 1.0)", r"cwnd_pkts = -3\.0, expected 1 to"),
        ("(10, 0)", r"pacing_mbps = 0\.0, expected more than 0, or None"),
        ("(10, float('nan'))", r"pacing_mbps = nan, expected more"),
        ("10", r"returned 10, expected \(cwnd_pkts, pacing_mbps\)"),
        ("('x', 1.0)", r"TypeError: must be real number, not str"),
    ],
)
def test_a_broken_law_ends_the_run_in_a_sentence(decision: str, sentence: str, file: Path) -> None:
    body = f"class Bad(bbrgym.Controller):\n    def on_ack(self, sample):\n        return {decision}\n"
    file.write_text(f"import bbrgym\n{body}")
    for isolation in ("none", "process"):
        with pytest.raises(WorldError, match=rf"mine\.py:Bad: {sentence}") as error:
            run(load_controller(f"{file}:Bad"), isolation=isolation)
        assert "\n" not in str(error.value)


BROKEN = """
import bbrgym

class Broken(bbrgym.Controller):
    def on_ack(self, sample):
        return self.half_of(sample), None

    def half_of(self, sample):
        return sample.acked_pkts / (sample.now_us < 2_000_000)
"""


def test_an_exception_reaches_the_user_with_its_traceback(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(BROKEN)
    name = load_controller(f"{file}:Broken")
    with make_vector_world("twin", 1, scenario(name)) as worlds:
        with pytest.raises(WorldError, match="Broken: ZeroDivisionError: division by zero") as error:
            rows(worlds)
        worlds.reset(0)
        worlds.advance(0.5)
    cause = error.value.__cause__
    assert cause is not None
    assert isinstance(cause.__cause__, ZeroDivisionError)
    assert [one.name for one in traceback.extract_tb(cause.__cause__.__traceback__)][-2:] == ["on_ack", "half_of"]
    with pytest.raises(WorldError, match="ZeroDivisionError") as error:
        run(name, isolation="process")
    assert "in half_of" in error.value.__cause__.traceback_text  # type: ignore[union-attr]
    monkeypatch.chdir(file.parent)
    assert main(["evaluate", "scenario=steady", "world=twin", "variants=[mine.py]", "output_dir=out"]) == 1
    told = capsys.readouterr().err
    assert 'mine.py", line 9, in half_of' in told
    assert "bbrgym: scenario 'steady', seed 1" in told


def test_what_cannot_be_a_controller_is_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Mine: expected one of the classes .*: Alone, Together, Batches"):
        load_controller(f"{file}:Mine")
    with pytest.raises(ConfigError, match=r"mine\.py: expected one of the classes .*: Alone, Together, Batches"):
        load_controller(file)
    with pytest.raises(ConfigError, match=r"none\.py' is not a file"):
        load_controller(tmp_path / "none.py")
    file.write_text("import bbrgym\nx = 1 / 0\n")
    with pytest.raises(ConfigError, match=r"mine\.py: ZeroDivisionError: division by zero \(line 2\)"):
        load_controller(file)
    with pytest.raises(ConfigError, match=r"expected a class derived from bbrgym\.Controller"):
        load_controller(dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"expected a method on_ack\(self, sample\)"):
        load_controller(type("Idle", (bbrgym.Controller,), {}))


def test_a_class_is_the_twins_alone_and_one_of_this_process_stays_there(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = load_controller(f"{file}:Alone")
    for world in ("ns3", "linux"):
        with pytest.raises(ConfigError, match=rf"Alone', which world '{world}' does not have; it needs world twin"):
            bbrgym.make_world(world, scenario(name))

    for command, sentence in (
        (["kernel", "load"], "is a Python class, which the twin alone runs"),
        (["cc", "check"], "expected a C file"),
    ):
        assert main([*command, str(file)]) == 2
        assert sentence in capsys.readouterr().err.replace("\n", " ")

    class Here(bbrgym.Controller):
        def on_ack(self, sample: Any) -> tuple[float, None]:
            return 10, None

    with pytest.raises(ConfigError, match=r"is 'Here', a class of this process; expected isolation none"):
        run(load_controller(Here), isolation="process")


def test_windows_are_rounded_down_and_rates_bounded() -> None:
    class Edges(bbrgym.Controller):
        def on_ack(self, sample: Any) -> tuple[np.float64, float]:
            return np.float64(12.9), 1e300

    with bbrgym.make_world("twin", scenario(load_controller(Edges))) as world:
        world.advance(2.0)
        assert world.flow_stats()[0, world.flow_fields.index("cwnd_pkts")] == 12
