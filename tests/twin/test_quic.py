# SPDX-License-Identifier: GPL-2.0-only
"""The stacks of other projects as flows: closed forms, the same bytes twice, tables."""

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import pytest
from machine_needs import needs
from twin_harness import flow, scenario

import bbrgym
from bbrgym import quic

FIELDS = bbrgym.World.flow_summary_fields


@pytest.fixture(params=["aioquic", pytest.param("ngtcp2", marks=needs(*quic.NGTCP2_PACKAGES))])
def stack(request):
    """The name of a stack whose packages are there."""
    return request.param


def summary(mapping, seed=1):
    with bbrgym.make_world("twin", mapping, seed=seed) as world:
        world.advance(mapping["duration_s"])
        flows, link = world.summary()
    rows = [dict(zip(FIELDS, row, strict=True)) for row in flows]
    return rows, hashlib.sha256(flows.tobytes() + link.tobytes()).hexdigest()


def test_reno_has_the_sawtooth_of_its_queue(stack):
    """Windows from half of pipe and queue to both, in rounds: so much of the link is used."""
    bdp, queue = 10e6 * 0.08 / 8 / 1488, 0.25
    most, pkts = bdp * (1 + queue), 1488
    mapping = scenario(
        flow("q", cc="reno", rtt_ms=80.0, quic=stack), duration_s=25.0, queue={"size_bytes": round(queue * bdp * pkts)}
    )
    (row,), _ = summary(mapping)
    queued = (most**2 - bdp**2) / 2
    used = ((bdp**2 - (most / 2) ** 2) / 2 + queued) / (bdp * (bdp - most / 2) + queued)
    assert row["throughput_mbps"] == pytest.approx(10 * used, rel=0.02)
    assert 80 < row["rtt_min_ms"] < 83
    assert row["rtt_mean_ms"] < 80 * (1 + queue) + 3
    assert math.isnan(row["lost_pkts"])


def test_a_transfer_ends_and_its_seconds_are_measured(stack):
    size = 200_000
    mapping = scenario(flow("q", cc="cubic", quic=stack, app={"kind": "bulk", "size_bytes": size}), duration_s=5.0)
    (row,), _ = summary(mapping | {"warmup_s": 0})
    assert row["completed"] == 1
    assert row["goodput_mbps"] * row["stop_s"] * 125_000 == pytest.approx(math.ceil(size / 1448) * 1448)
    assert row["slowdown"] > 1


def test_an_application_limits_it(stack):
    app = {"kind": "onoff", "rate_mbps": 2.0, "on_s": 1.0, "off_s": 1.0}
    (row,), _ = summary(scenario(flow("q", cc="cubic", quic=stack, app=app), duration_s=10.0) | {"warmup_s": 2})
    assert row["goodput_mbps"] == pytest.approx(1.0, rel=0.02)
    assert row["dropped_pkts"] == 0


def test_the_same_seed_gives_the_same_bytes_in_another_process(stack):
    mapping = scenario(
        flow("q", cc="cubic", quic=stack), flow("ours"), duration_s=4.0, loss={"kind": "bernoulli", "rate": 0.01}
    )
    rows, digest = summary(mapping, seed=7)
    assert all(row["goodput_mbps"] > 0.1 for row in rows)
    assert summary(mapping, seed=8)[1] != digest
    path = [str(Path(__file__).parent), *sys.path]
    program = f"import sys; sys.path = {path!r}; import test_quic; print(test_quic.summary({mapping!r}, seed=7)[1])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.split()[-1] == digest


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(quic, "_NGTCP2_LIBRARIES", ("-lngtcp2_of_nobody",))
    monkeypatch.setitem(sys.modules, "bbrgym.quic_aioquic", None)
    with pytest.raises(bbrgym.ConfigError, match="quic=ngtcp2 needs Debian's libngtcp2-dev, libngtcp2-crypto"):
        bbrgym.make_world("twin", scenario(flow(cc="bbr2", quic="ngtcp2")))
    with pytest.raises(ModuleNotFoundError, match="quic=aioquic needs"):
        bbrgym.make_world("twin", scenario(flow(cc="reno", quic="aioquic")))


def test_an_evaluation_names_the_stack(stack):
    mapping = scenario(flow("q", cc="reno", quic=stack), {"name": "t", "rtt_ms": 40.0}, duration_s=3.0)
    row = bbrgym.evaluate(mapping, ["bbr"], world="twin", seeds=1).row(0, named=True)
    assert row["cc"] == f"{stack}-reno"
    assert row["goodput_mbps"] > 0.5
    assert row["retransmit_rate"] is None
