# SPDX-License-Identifier: GPL-2.0-only
"""Traces of last hops, so that worlds without a radio can follow one."""

from __future__ import annotations

from pathlib import Path

from bbrgym.errors import ConfigError
from bbrgym.runs.atomic_files import write_text
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.traces import OPPORTUNITY_BYTES
from bbrgym.worlds.vector_world import check_seed

MAX_SECONDS = 600
_TIMEOUT_S = 3600.0  # wall time; a second of a hop takes about one


def record_last_hop(scenario: Scenario, path: Path, *, seconds: float, seed: int) -> float:
    """Write the delivery opportunities of a scenario's last hop to a file in Mahimahi's format.

    The hop alone runs in the ns-3 world, in this process, with more UDP packets of 1500 bytes than it can carry. A line
    is the time in ms, rounded up, at which such a packet reached the station.

    Args:
        scenario: with ``link.last_hop``.
        path: file to write.
        seconds: length of the recording, which begins a second after the start: the station is connected by then.
        seed: of the radio's random streams.

    Returns:
        The mean rate in Mbit/s of IP bytes.

    Raises:
        ConfigError: an argument is out of range, or the scenario has no hop that this installation can run.
        OSError: the file cannot be written.
    """
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= MAX_SECONDS:
        raise ConfigError(f"seconds: is {seconds!r}, expected a number above 0 and at most {MAX_SECONDS}")
    check_seed(seed)
    from bbrgym import _ns3  # loads ns-3

    try:
        arrivals_ns = _ns3.record_last_hop(scenario.resolved_json(), seed, seconds, OPPORTUNITY_BYTES, _TIMEOUT_S)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not arrivals_ns:
        raise ConfigError(
            f"{scenario.name}: no packet crossed link.last_hop in {seconds:g} s, expected a shorter distance_m"
        )
    write_text(path, "".join(f"{-(-time_ns // 1_000_000)}\n" for time_ns in arrivals_ns))
    return len(arrivals_ns) * OPPORTUNITY_BYTES * 8 / seconds / 1e6
