# SPDX-License-Identifier: GPL-2.0-only
"""A scenario and a distribution whose runs take a moment."""

from typing import Any

SHORT: dict[str, Any] = {
    "name": "short",
    "duration_s": 3.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "near", "rtt_ms": 20.0}, {"name": "far", "rtt_ms": 60.0, "start_s": 0.5}],
}
MIX: dict[str, Any] = {
    "name": "mix",
    "variables": {"rate_mbps": {"log_uniform": [2, 20]}},
    "duration_s": 1.5,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [10, 80]}}},
    "flows": [
        {"name": "flow", "number": {"integer": [1, 3]}, "rtt_ms": {"uniform": [10, 50]}},
        {"name": "cubic", "number": {"choice": [0, 1]}, "cc": "cubic", "role": "fixed", "rtt_ms": 30.0},
    ],
}
