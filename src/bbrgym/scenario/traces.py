# SPDX-License-Identifier: GPL-2.0-only
"""Link traces from files, in one of two formats.

Mahimahi's: a line is a time in ms at which 1500 bytes may leave, and at the last time the trace repeats.

A rate trace has two columns, a time and a rate in Mbit/s of IP bytes, between them blanks or a comma. Each rate holds
until the next time, the last one as long as the one before it. It is read as the opportunities of 1500 bytes that it
gives. The first line may name the columns, ``time_s,rate_mbps`` or ``time_ms,rate_mbps``. Default: the times are in s.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.shipped import SHIPPED_PREFIX
from bbrgym.untrusted_files import opened, read_text

#: Before the name of a trace that the package ships, where a path is expected.
OPPORTUNITY_BYTES = 1500
MAX_LINES = 50_000_000  # ten minutes at 1 Gbit/s; 8 bytes each in memory
MAX_BYTES = MAX_LINES * 12  # digits and line ending
MAX_TIME_MS = 1_000_000_000
MAX_RATE_BYTES = 32 * 2**20  # of a rate trace, as text: a row a second for more than a week

_LONGEST_LINE = 2**10
_LINE = re.compile(r"[ \t]*\d{1,12}[ \t]*\r?")
_LINES = re.compile(rf"(?:{_LINE.pattern}\n)*+(?:{_LINE.pattern})?")
_NUMBER = re.compile(r"[-+.eE\d]{1,24}")  # shown in an error: no other content of a file is
_DELAY = re.compile(r"\d{1,12}(?:\.\d{1,12})?")
_COLUMNS = re.compile(r"\s*[,;\t ]\s*")
_UNITS_MS = {"time_s": 1e3, "time_ms": 1.0}
_LONGEST_STEP_S = 10.0  # of times without a unit: longer ones may be ms
_HIGHEST_RATE = 10_000.0  # of rates without a unit: higher ones may be kbit/s
_EXPECTED = (
    "expected a first line time_s,rate_mbps or time_ms,rate_mbps, or Mahimahi's format, into which Pensieve's "
    "convert_mahimahi_format.py converts such files"
)


class AscendingTimes(Sequence[float]):
    """Times in an array, 8 bytes each, that cannot be changed; equal to any sequence with the same ones."""

    __slots__ = ("_array",)

    def __init__(self, times: NDArray[Any]) -> None:
        self._array = times
        self._array.flags.writeable = False

    @classmethod
    def of(cls, times: Iterable[float]) -> AscendingTimes:
        """Return the times of any iterable."""
        return times if isinstance(times, AscendingTimes) else cls(np.array(tuple(times), np.float64))

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> AscendingTimes: ...
    def __getitem__(self, index: int | slice) -> float | AscendingTimes:
        return AscendingTimes(self._array[index]) if isinstance(index, slice) else self._array[index].item()

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[float]:
        return itertools.chain.from_iterable(
            self._array[at : at + 2**16].tolist() for at in range(0, len(self._array), 2**16)
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self._array.astype(self._array.dtype if dtype is None else dtype, copy=bool(copy))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and bool(np.array_equal(self._array, np.asarray(other)))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:4]))
        return f"({shown}, ... {len(self)} times)" if len(self) > 4 else f"({shown})"


@dataclass(frozen=True)
class LinkTrace:
    """Delivery opportunities of a link."""

    times_ms: AscendingTimes  # ascending times of the delivery opportunities in ms, repeats allowed
    period_ms: int  # after this time in ms the trace starts again
    opportunity_bytes: int  # IP bytes that each opportunity carries


def read_trace(path: str) -> LinkTrace:
    """Read a trace file, or a shipped one named ``bbrgym:NAME``.

    Raises:
        ConfigError: it cannot be read or a line is not what the format asks for.
    """
    file = _shipped(path.removeprefix(SHIPPED_PREFIX)) if path.startswith(SHIPPED_PREFIX) else Path(path)
    with opened(file, MAX_BYTES) as content:
        first_line = content.readline(_LONGEST_LINE).decode("ascii", "replace").strip()
    if len(_COLUMNS.split(first_line)) > 1:
        return _opportunities(*_read_rates(file, path), path)
    times_ms = AscendingTimes(_read_times(file, path))
    if not times_ms or times_ms[-1] == 0:
        raise ConfigError(f"{path} has no time above 0, expected lines of times in ms")
    return LinkTrace(times_ms, int(times_ms[-1]), OPPORTUNITY_BYTES)


def read_delays(path: str) -> tuple[float, ...]:
    """Read a file with a delay in ms in each line, as LeoReplayer's.

    Raises:
        ConfigError: it cannot be read or a line is not such a delay.
    """
    lines = read_text(Path(path), MAX_RATE_BYTES, "ascii").split()
    most = BOUNDS["delay_ms"].high
    for number, line in enumerate(lines, start=1):
        if not _DELAY.fullmatch(line) or float(line) > most:
            found = f"is {line!r}" if _NUMBER.fullmatch(line) else "is no number"
            raise ConfigError(f"line {number} of {path} {found}, expected a delay in ms from 0 to {most:g}")
    if not 0 < len(lines) <= BOUNDS["delay_steps"].high:
        raise ConfigError(f"{path} has {len(lines)} delays, expected 1 to {BOUNDS['delay_steps'].high:.0f}")
    return tuple(map(float, lines))


# ---- Mahimahi's format ------------------------------------------------------------------------------------


def _read_times(file: Path, path: str) -> NDArray[np.int64]:
    """Return the times of a file, [lines]."""
    text = read_text(file, MAX_BYTES, "ascii")
    if text.count("\n") > MAX_LINES:
        raise ConfigError(f"{path} has more than {MAX_LINES} lines, the most allowed")
    times_ms = np.fromstring(text, np.int64, sep=" ") if _LINES.fullmatch(text) else None
    if times_ms is None or times_ms.max(initial=0) > MAX_TIME_MS:
        lines = enumerate(text.split("\n"), start=1)
        number, line = next((at, one) for at, one in lines if not _LINE.fullmatch(one) or int(one) > MAX_TIME_MS)
        shown = line.strip()
        found = "is empty, " if not shown else f"is {shown!r}, " if _NUMBER.fullmatch(shown) else ""
        raise ConfigError(f"line {number} of {path} {found}expected a time in whole ms up to {MAX_TIME_MS}")
    falls = np.flatnonzero(np.diff(times_ms) < 0)
    if len(falls) > 0:
        above, time_ms = times_ms[falls[0] : falls[0] + 2]
        raise ConfigError(
            f"line {falls[0] + 2} of {path} is {time_ms}, expected a time not before the line above, {above}"
        )
    return times_ms


# ---- rate traces ------------------------------------------------------------------------------------------


def _read_rates(file: Path, path: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the times in ms, from 0 on, and the rates in Mbit/s: [rows] both."""
    lines = read_text(file, MAX_RATE_BYTES, "ascii").splitlines()
    first, *_ = names = _COLUMNS.split(lines[0].strip().lower())
    has_names = first in _UNITS_MS and names[1:] == ["rate_mbps"]
    rows = np.array(list(_rows_of(lines[has_names:], 1 + has_names, path)))
    if len(rows) < 2:
        raise ConfigError(f"{path} has {len(rows)} rows of a time and a rate, expected at least 2")
    steps, rates_mbps = np.diff(rows[:, 0]), rows[:, 1]
    if not has_names and np.median(steps) >= _LONGEST_STEP_S:
        raise ConfigError(f"the times of {path} are {np.median(steps):g} apart, which may be s or ms; {_EXPECTED}")
    if not has_names and rates_mbps.max() > _HIGHEST_RATE:
        raise ConfigError(f"the rates of {path} reach {rates_mbps.max():g}, which may be Mbit/s or kbit/s; {_EXPECTED}")
    return (rows[:, 0] - rows[0, 0]) * _UNITS_MS.get(first, 1e3), rates_mbps


def _rows_of(lines: Sequence[str], first_number: int, path: str) -> Iterator[tuple[float, float]]:
    before = -np.inf
    for number, line in enumerate(lines, start=first_number):
        columns = _COLUMNS.split(line.strip())
        if not line.strip():
            raise ConfigError(f"line {number} of {path} is empty, expected a time and a rate in Mbit/s")
        try:
            time, rate_mbps = map(float, columns)
        except ValueError:
            raise ConfigError(f"line {number} of {path} is not a time and a rate in Mbit/s; {_EXPECTED}") from None
        if not before < time < np.inf:
            raise ConfigError(f"line {number} of {path} has the time {time:g}, expected one after the line above")
        if not 0 <= rate_mbps <= BOUNDS["rate_mbps"].high:
            most = BOUNDS["rate_mbps"].high
            raise ConfigError(f"line {number} of {path} has the rate {rate_mbps:g}, expected 0 to {most:g} Mbit/s")
        before = time
        yield time, rate_mbps


def _opportunities(times_ms: NDArray[np.float64], rates_mbps: NDArray[np.float64], path: str) -> LinkTrace:
    """Return the trace with an opportunity whenever the rates have carried an opportunity's bytes."""
    ends_ms = np.append(times_ms[1:], 2 * times_ms[-1] - times_ms[-2])
    if ends_ms[-1] > MAX_TIME_MS:
        raise ConfigError(f"{path} lasts {ends_ms[-1]:g} ms, expected at most {MAX_TIME_MS}")
    bytes_until = np.cumsum(rates_mbps * 125 * (ends_ms - times_ms))
    count = int(bytes_until[-1] * (1 + 1e-12) // OPPORTUNITY_BYTES)
    if not 0 < count <= MAX_LINES:
        raise ConfigError(
            f"{path} carries {bytes_until[-1]:.0f} bytes, expected {OPPORTUNITY_BYTES} to "
            f"{MAX_LINES * OPPORTUNITY_BYTES}"
        )
    given = np.minimum(np.arange(1, count + 1) * float(OPPORTUNITY_BYTES), bytes_until[-1])
    row = np.searchsorted(bytes_until, given)
    exact_ms = ends_ms[row] - (bytes_until[row] - given) / (rates_mbps[row] * 125)
    whole_ms = np.ceil(exact_ms - 1e-6).astype(np.int64)
    return LinkTrace(AscendingTimes(whole_ms), int(np.ceil(ends_ms[-1] - 1e-6)), OPPORTUNITY_BYTES)


def _shipped(name: str) -> Path:
    folder = Path(str(resources.files("bbrgym") / "conf" / "trace"))
    known = sorted(path.name for path in folder.glob("*.down"))
    if name not in known:
        raise ConfigError(f"no trace {name!r} is shipped; {nearest(name, known)}")
    return folder / name
