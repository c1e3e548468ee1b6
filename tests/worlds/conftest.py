# SPDX-License-Identifier: GPL-2.0-only
from collections.abc import Iterator

import pytest
from odd_engine import odd_scenario

import bbrgym
from bbrgym.worlds import register_world
from bbrgym.worlds.specs import _SPECS


@pytest.fixture(scope="package", autouse=True)
def _odd_world() -> Iterator[None]:
    before = dict(_SPECS)
    register_world("odd", "odd_engine.OddEngine", "misbehaves", isolation="process", options=("deed",))
    yield
    _SPECS.clear()
    _SPECS.update(before)


@pytest.fixture
def make_odd(closed):
    """Makes worlds that misbehave from 1 s on."""
    return lambda deed, **options: closed(bbrgym.make_world("odd", odd_scenario(deed), **options))


@pytest.fixture
def busy_scenario():
    """Keeps an ns-3 worker busy for minutes in each simulated second: no test sees the end of an advance."""
    return {
        "name": "busy",
        "duration_s": 1000.0,
        "link": {"rate_mbps": 10_000.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "flow", "count": 8, "cc": "bbr", "rtt_ms": 20.0}],
    }


@pytest.fixture
def short_scenario():
    """Two flows with different algorithms for 3 s; a few ms of work each second."""
    return {
        "name": "short",
        "duration_s": 3.0,
        "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}, "loss": {"kind": "bernoulli", "rate": 0.01}},
        "flows": [
            {"name": "tuned", "cc": "bbq", "rtt_ms": 20.0},
            {"name": "other", "cc": "cubic", "rtt_ms": 40.0, "role": "fixed"},
        ],
    }
