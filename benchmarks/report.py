# SPDX-License-Identifier: GPL-2.0-only
"""Sections of the pages that benchmarks write."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shlex
import sys
import time
from pathlib import Path

import bbrgym
from bbrgym.evaluate.behaviour import behaviour_mark
from bbrgym.runs.atomic_files import write_text
from bbrgym.runs.provenance import provenance
from bbrgym.worlds import registered_worlds
from bbrgym.worlds.engine import engine_class


def measured_on() -> str:
    """Return date, version, processor and Python in one phrase."""
    return (
        f"{datetime.date.today().isoformat()}, bbrgym {bbrgym.__version__}, {provenance()['cpu']} "
        f"({len(os.sched_getaffinity(0))} cores), {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def ns3_version() -> str:
    """Return the release of ns-3 that the ns-3 world runs, from its libraries' names."""
    engine_class(registered_worlds()["ns3"].engine)  # loads them
    found = re.search(r"/libns(3\.\d+)\S*-core", Path("/proc/self/maps").read_text(encoding="utf-8"))
    return found.group(1) if found else "of unknown version"


def command() -> str:
    """Return the command that runs, as a page shows it."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


class Bystanders:
    """CPU use of the machine's other processes since construction, stated beside a figure."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._busy_s = _machine_busy_s() - _own_s()

    def phrase(self) -> str:
        """Return their mean use in cores."""
        used_s = _machine_busy_s() - _own_s() - self._busy_s
        elapsed_s = max(time.monotonic() - self._began_s, 1e-9)
        return f"other processes used {max(used_s, 0.0) / elapsed_s:.2f} cores meanwhile"


def _machine_busy_s() -> float:
    user, nice, system = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=4)[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def publish(page: Path | None, name: str, section: str, behaviour: str) -> None:
    """Print a section and, given a page, write it there; see `replace_section`."""
    print(section, flush=True)
    if page is not None:
        replace_section(page, name, f"{section.rstrip()}\n", behaviour)


def replace_section(path: Path, name: str, section: str, behaviour: str) -> None:
    """Write ``section`` between the marks of ``name``, or at the end of a page without them.

    `make docs` names it when ``behaviour``, scenarios and entrants as in `bbrgym.evaluate.behaviour`, has changed.
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    block = f"{begin}{behaviour_mark(behaviour)}\n\n{section}{end}"
    if begin in text and end in text:
        before, rest = text.split(begin, 1)
        text = before + block + rest.split(end, 1)[1]
    else:
        text = text.rstrip("\n") + ("\n\n" if text else "") + block
    write_text(path, text)
