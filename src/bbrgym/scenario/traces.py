# SPDX-License-Identifier: GPL-2.0-only
"""Link traces in Mahimahi's format: a line is a time in ms at which 1500 bytes may leave; then it repeats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from bbrgym.errors import ConfigError, nearest
from bbrgym.untrusted_files import read_text

#: Before the name of a trace that the package ships, where a path is expected.
SHIPPED_PREFIX = "bbrgym:"
OPPORTUNITY_BYTES = 1500
MAX_LINES = 5_000_000  # a day at 60 Mbit/s is well below; more is not a trace but a mistake
MAX_TIME_MS = 1_000_000_000
MAX_BYTES = MAX_LINES * 12  # digits and line ending

_NUMBER = re.compile(r"[-+.eE\d]{1,24}")  # shown in an error: no other content of a file is


@dataclass(frozen=True)
class LinkTrace:
    """Delivery opportunities of a link.

    Attributes:
        times_ms: ascending times of the delivery opportunities in ms, repeats allowed.
        period_ms: after this time in ms the trace starts again.
        opportunity_bytes: IP bytes that each opportunity carries.
    """

    times_ms: tuple[int, ...]
    period_ms: int
    opportunity_bytes: int


def read_trace(path: str) -> LinkTrace:
    """Read a trace file, or a shipped one named ``bbrgym:NAME``.

    Raises:
        ConfigError: it cannot be read or a line is not what the format asks for.
    """
    times_ms: list[int] = []
    for number, line in enumerate(_read_text(path).splitlines(), start=1):
        text = line.strip()
        if not (text.isascii() and text.isdigit()) or int(text[:12]) > MAX_TIME_MS:
            found = f"is {text!r}, " if _NUMBER.fullmatch(text) else ""
            raise ConfigError(f"line {number} of {path} {found}expected a time in whole ms up to {MAX_TIME_MS}")
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
    file = _shipped(path.removeprefix(SHIPPED_PREFIX)) if path.startswith(SHIPPED_PREFIX) else Path(path)
    return read_text(file, MAX_BYTES, "ascii")


def _shipped(name: str) -> Path:
    folder = Path(str(resources.files("bbrgym") / "conf" / "trace"))
    known = sorted(path.name for path in folder.glob("*.down"))
    if name not in known:
        raise ConfigError(f"no trace {name!r} is shipped; {nearest(name, known)}")
    return folder / name
