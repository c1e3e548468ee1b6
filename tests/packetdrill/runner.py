# SPDX-License-Identifier: GPL-2.0-only
"""Scripts by file, and the table of their results."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from binding import Binding
from interpreter import PRESETS, Verdict, run
from language import ScriptError, parse

RESULTS = (
    "passes",
    "as Linux 6.18",
    *(f"passes as {preset}" for preset in list(PRESETS)[1:]),
    "out of scope",
    "not run",
    "wrong",
)


def scripts(paths: Iterable[Path]) -> list[Path]:
    """Return the scripts of files and, in the order of their names, of folders."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob("*.pkt")) if path.is_dir() else [path]
    return found


def run_file(path: Path, binding: Binding, defines: Mapping[str, str] | None = None) -> Verdict:
    """Return the result of a script in a file; one that cannot be read is "not run"."""
    try:
        script = parse(path.read_text(encoding="utf-8"), str(path), defines)
    except ScriptError as error:
        return Verdict(str(path), "not run", 0, str(error))
    return run(script, binding)


def table(verdicts: Iterable[Verdict]) -> str:
    """Return a table of results, a row a script."""
    rows = [(one.name, one.result, f"line {one.line}: {one.reason}" if one.line else one.reason) for one in verdicts]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "\n".join(f"{name:<{widths[0]}}  {result:<{widths[1]}}  {reason}".rstrip() for name, result, reason in rows)
