# SPDX-License-Identifier: GPL-2.0-only
"""Link traces in Mahimahi's format: a line is a time in ms at which 1500 bytes may leave; then it repeats."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from bbrgym.errors import ConfigError

#: Before the name of a trace that the package ships, where a path is expected.
SHIPPED_PREFIX = "bbrgym:"
OPPORTUNITY_BYTES = 1500
MAX_LINES = 5_000_000  # a day at 60 Mbit/s is well below; more is not a trace but a mistake
MAX_TIME_MS = 1_000_000_000


@dataclass(frozen=True)
class LinkTrace:
    """When a link can carry how much.

    Attributes:
        times_ms: ascending times of the delivery opportunities in ms, repeats allowed.
        period_ms: after this time in ms the trace starts again.
        opportunity_bytes: IP bytes that each opportunity carries.
    """

    times_ms: tuple[int, ...]
    period_ms: int
    opportunity_bytes: int


def read_trace(path: str) -> LinkTrace:
    """Reads a trace file, or a shipped one named ``bbrgym:NAME``.

    Raises:
        ConfigError: if it cannot be read or a line is not what the format asks for.
    """
    times_ms: list[int] = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not (text.isascii() and text.isdigit()) or int(text[:12]) > MAX_TIME_MS:
            raise ConfigError(
                f"line {number} of {path} is {text[:40]!r}, expected a time in whole ms up to {MAX_TIME_MS}"
            )
        time_ms = int(text)
        if times_ms and time_ms < times_ms[-1]:
            raise ConfigError(
                f"line {number} of {path} is {time_ms}, expected a time not before the line above, {times_ms[-1]}"
            )
        if number > MAX_LINES:
            raise ConfigError(f"{path} has more than {MAX_LINES} lines, the most allowed")
        times_ms.append(time_ms)
    if not times_ms or times_ms[-1] == 0:
        raise ConfigError(f"{path} has no time above 0, expected lines of times in ms")
    return LinkTrace(tuple(times_ms), times_ms[-1], OPPORTUNITY_BYTES)


def _read_text(path: str) -> str:
    try:
        if path.startswith(SHIPPED_PREFIX):
            return _shipped(path.removeprefix(SHIPPED_PREFIX)).read_text(encoding="ascii")
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError) as error:  # ValueError: not ASCII, or a path with a null byte
        raise ConfigError(f"cannot read the trace {path!r}: {error}") from error


def _shipped(name: str) -> Path:
    folder = Path(str(resources.files("bbrgym") / "conf" / "trace"))
    known = sorted(path.name for path in folder.glob("*.down"))
    if name not in known:
        raise ConfigError(f"no trace {name!r} is shipped, allowed are {', '.join(known)}")
    return folder / name
