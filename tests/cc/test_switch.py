# SPDX-License-Identifier: GPL-2.0-only
"""Variant `switch`: another algorithm on an open connection, as Linux's tcp_set_congestion_control."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from twin_harness import flow, scenario

import bbrgym
from bbrgym.cli.main import main
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import ConfigError
from bbrgym.tunables import ARMS
from bbrgym.worlds import VectorWorld, World

MSS_BITS = 1448 * 8
HIGH_GAIN = 2885 / 1000  # bbr_high_gain: 2 / ln 2
SLOW_START, AVOIDANCE, STARTUP = 16, 17, 0


def world_of(cc: str, arm: str | None = None, loss: float = 0.003) -> World:
    tunables = {} if arm is None else {"switch_arm": float(ARMS.index(arm))}
    flows = [flow(cc=cc, tunables=tunables), flow("b", "cubic", rtt_ms=60.0, start_s=1.0)]
    one = scenario(*flows, duration_s=30.0, rate_mbps=20.0, loss={"kind": "bernoulli", "rate": loss})
    return bbrgym.make_world("twin", {**one, "warmup_s": 1.0}, seed=3)


def switch(world: World, arm: str, seconds: float = 1e-6) -> dict[str, float]:
    """Change the algorithm and return what is measured after so long."""
    world.set_tunables("a", {"switch_arm": float(ARMS.index(arm))})
    world.advance(seconds)
    return dict(zip(world.flow_fields, world.flow_stats()[0].tolist(), strict=True))


@pytest.mark.parametrize(
    ("cc", "arm"), [*(("switch", arm) for arm in ARMS), ("cubic-scaled", "cubic"), ("bbr-scaled", "bbr")]
)
def test_without_a_switch_or_a_factor_it_is_the_algorithm_to_the_byte(cc: str, arm: str) -> None:
    shown = []
    for variant, chosen in ((arm, None), (cc, arm if cc == "switch" else None)):
        with world_of(variant, chosen) as world:
            rows = []
            while not world.done:
                world.advance(0.5)
                rows.append(world.flow_stats().tobytes())
            shown.append(rows)
    assert shown[0] == shown[1]


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("former", ARMS)
def test_a_switch_keeps_the_window_and_of_a_loss_based_one_ssthresh(former: str, arm: str) -> None:
    with world_of("switch", former) as world:
        world.advance(6.0)
        before = switch(world, former)
        after = switch(world, arm)
    assert after["cwnd_pkts"] == before["cwnd_pkts"]
    assert after["in_flight_pkts"] == before["in_flight_pkts"]
    if arm == former:
        assert after["phase"] == before["phase"]
    elif arm in ("bbr", "bbr3"):
        assert after["phase"] == STARTUP
        assert after["bw_mbps"] == 0, "what the former one knew of the path is gone"
    else:  # a loss-based one leaves its own ssthresh, BBR the BDP at which it left STARTUP (bbr_check_drain)
        assert after["phase"] == AVOIDANCE


@pytest.mark.parametrize("former", ["bbr", "bbr3"])
def test_from_startup_slow_start_follows(former: str) -> None:
    """BBR begins with an infinite ssthresh (bbr_init), which a loss-based algorithm finds."""
    with world_of("switch", former, loss=0.0) as world:
        world.advance(0.15)
        assert switch(world, former)["phase"] == STARTUP
        assert switch(world, "cubic")["phase"] == SLOW_START


def test_bbr_begins_with_the_window_and_the_smoothed_rtt_that_it_finds() -> None:
    """It takes at least three rounds of no growth to leave STARTUP; those of former packets do not count."""
    with world_of("switch", "cubic", loss=0.0) as world:
        world.advance(6.0)
        found = switch(world, "bbr")
        rate_mbps = HIGH_GAIN * found["cwnd_pkts"] * MSS_BITS / (found["srtt_ms"] * 1000)
        assert found["pacing_mbps"] == pytest.approx(rate_mbps, rel=0.02)  # less 1 %, in us (bbr_init_pacing_rate)
        world.advance(2 * found["srtt_ms"] / 1000)
        assert switch(world, "bbr")["phase"] == STARTUP


def test_runs_with_switches_repeat_and_continue_from_a_snapshot() -> None:
    outcomes = set()
    for _ in range(2):
        rng = np.random.default_rng(5)
        with world_of("switch", "bbr", loss=0.02) as world:
            snapshot = None
            while not world.done:
                arm = ARMS[rng.integers(len(ARMS))]
                found = switch(world, arm, float(rng.uniform(0.01, 0.7)))
                assert found["cwnd_pkts"] >= 1
                snapshot = snapshot or (world.now_s > 15 and (world.save(), arm))
            outcomes.add(world.flow_stats().tobytes())
            goodput = world.summary()[0][0, world.flow_summary_fields.index("goodput_mbps")]
    assert len(outcomes) == 1
    assert goodput > 1
    with world_of("switch", "cubic") as first, world_of("switch", "cubic") as second:
        assert snapshot
        for world in (first, second):
            world.restore(snapshot[0])
            switch(world, "reno", 3.0)
        assert first.flow_stats().tobytes() == second.flow_stats().tobytes()


# ---- actions ------------------------------------------------------------------------------------------------


def test_an_action_chooses_the_algorithm() -> None:
    env = TuneEnv(
        scenario="steady", variant="switch", action_kind="switch", arms=["bbr", "reno", "cubic"], hold_intervals=2
    )
    env.reset(seed=1)
    assert str(env.action_space) == "Discrete(3)"
    for action, phases in ((1, (SLOW_START, AVOIDANCE)), (0, (STARTUP, 1, *range(8, 16)))):
        info = env.step(np.int64(action))[4]  # type: ignore[arg-type]
        assert info["flow_stats"][0][VectorWorld.flow_fields.index("phase")] in phases
    env.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"arms": ["bbr", "vegas"]}, "arms: 'vegas': allowed are cubic, reno, bbr, bbr3"),
        ({"arms": ["bbr"]}, r"arms: \['bbr'\], expected two or more"),
        ({"arms": ["bbr", "bbr"]}, "each once"),
        ({}, r"arms: \[\], expected two or more"),
        ({"arms": ["bbr", "reno"], "variant": "bbr"}, "with variant 'bbr', expected variant 'switch' and arms"),
        (
            {"arms": ["bbr", "bbr3"], "world": "linux"},
            "arms: 'bbr3', which world 'linux' does not have, .* cubic",
        ),
        ({"arms": ["bbr", "reno"], "action_kind": "absolute"}, "arms: .* allowed is 'switch'"),
    ],
)
def test_wrong_arms_are_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        TuneEnv(**{"scenario": "steady", "variant": "switch", "action_kind": "switch", **options})


def test_train_switches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["num_envs=2", "agent.n_steps=4", "agent.batch_size=8", "validation.draws=1", "output_dir=out"]
    assert main(["train", "variant=switch", "action=switch", "scenario=steady", "total_steps=16", *few]) == 0
    settings = (tmp_path / "out" / "config.yaml").read_text()
    assert "kind: switch" in settings
    evaluated = ["scenario=steady", "world=twin", "variants=[cubic]", "agent=out", "output_dir=eval"]
    assert main(["evaluate", *evaluated, "scenario.duration_s=10", "figures.format=null"]) == 0
