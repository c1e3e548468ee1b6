# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios for many environments at once, and the comparison of what they return."""

import numpy as np


def scenario(duration_s=1.0, others=1, rate_mbps=8.0, **link):
    """Two tuned flows, and competitors before, between and behind them."""
    flows = [{"name": f"other-{i}", "cc": "cubic", "rtt_ms": 30.0, "role": "background"} for i in range(others)]
    flows.insert(others // 2, {"name": "near", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0})
    flows.insert(others - others // 3, {"name": "far", "cc": "bbr", "role": "tuned", "rtt_ms": 60.0, "start_s": 0.05})
    return {
        "name": f"with-{others}",
        "duration_s": duration_s,
        "link": {"rate_mbps": rate_mbps, "queue": {"size_bdp": 0.5}, **link},
        "flows": flows,
    }


def crowd(tuned, duration_s=0.5):
    """Some tuned flows, a competitor among them."""
    flows = [{"name": f"tuned-{i}", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0 + 15.0 * i} for i in range(tuned)]
    flows.insert(tuned // 2, {"name": "other", "cc": "cubic", "rtt_ms": 30.0, "role": "background"})
    if tuned > 2:
        flows[-1] |= {"start_s": 0.15, "stop_s": 0.35}
    return {
        "name": f"crowd-of-{tuned}",
        "duration_s": duration_s,
        "link": {"rate_mbps": 8.0, "queue": {"size_bdp": 0.5}},
        "flows": flows,
    }


def coming_and_going(duration_s=1.0):
    """Flows that overlap, one that comes where no other is, competitors, and nobody at the end."""
    times = {"first": (0.0, 0.3), "second": (0.2, 0.4), "third": (0.65, 0.85), "ever": (0.0, None)}
    flows = [{"name": n, "rtt_ms": 20.0, "start_s": start, "stop_s": stop} for n, (start, stop) in times.items()]
    flows[-1] |= {"cc": "cubic", "role": "background"}
    return {
        "name": "coming-and-going",
        "duration_s": duration_s,
        "link": {"rate_mbps": 8.0, "queue": {"size_bdp": 1.0}},
        "flows": flows,
    }


class Crowds:
    """Another number of tuned flows for each seed."""

    max_tuned = 4

    def __repr__(self):
        return "Crowds of 1 to 4"

    def __call__(self, seed):
        rng = np.random.default_rng(seed)
        return crowd(int(rng.integers(1, self.max_tuned + 1)), float(rng.choice([0.3, 0.5])))


def drawn(seed):
    """Another rate for each seed, and another number of flows."""
    rng = np.random.default_rng(seed)
    loss = {"kind": "bernoulli", "rate": float(rng.uniform(0, 0.02))}
    return scenario(float(rng.choice([0.5, 0.8])), int(rng.integers(0, 3)), float(rng.uniform(2, 12)), loss=loss)


def assert_same(ours, theirs):
    """Compare whatever environments return, to the bit and the type."""
    assert isinstance(theirs, type(ours))  # Stable-Baselines3 has ordered dicts
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert_same(ours[name], theirs[name])
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        if ours.dtype == object:
            assert_same(ours.tolist(), theirs.tolist())
        else:
            assert ours.tobytes() == theirs.tobytes()
    else:
        assert ours == theirs
