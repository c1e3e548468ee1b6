# SPDX-License-Identifier: GPL-2.0-only
import pytest
from kinds import KINDS, OPTIONS


@pytest.fixture
def short_scenario():
    """Two tuned flows and a competitor for 3 s on a lossy link with a small queue."""
    return {
        "name": "short",
        "duration_s": 3.0,
        "link": {"rate_mbps": 8.0, "queue": {"size_bdp": 0.5}, "loss": {"kind": "bernoulli", "rate": 0.005}},
        "flows": [
            {"name": "near", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0},
            {"name": "competitor", "cc": "cubic", "rtt_ms": 40.0, "role": "background"},
            {"name": "far", "cc": "bbr", "role": "tuned", "rtt_ms": 60.0, "start_s": 0.5, "stop_s": 2.5},
        ],
    }


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__.removeprefix("make_"))
def make_any(request, closed):
    """Makes environments of one kind."""
    return lambda **options: closed(request.param(**{**OPTIONS, **options}))
