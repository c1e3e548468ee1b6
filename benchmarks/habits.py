# SPDX-License-Identifier: GPL-2.0-only
"""The habits of users of Hydra, Stable-Baselines3, W&B and tcpdump, one command each with what it prints.

python benchmarks/habits.py [--only WORDS] [--docs docs]

Runs the commands of each part of habits.yaml in one fresh folder, in order, as a new user's shell would, with
the bbrgym of this Python, and ends with the first that fails. With `--docs` it writes docs/habits.md.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from report import measured_on

import bbrgym
from bbrgym.runs.atomic_files import write_text

ROOT = Path(__file__).resolve().parents[1]
HABITS = Path(__file__).with_suffix(".yaml")
_TIMEOUT_S = 1200
_WIDTH = 118  # of the lines shown
_SHOWN = 8  # lines, unless a habit says otherwise
_PREAMBLE = """\
<!-- Written by benchmarks/habits.py, which runs every command. -->

# Habits, one command each

{parts}

The commands of a part ran in this order in one fresh folder, with the extras `train`, `tensorboard`, `wandb`, `onnx`
and `slurm`; below each is what it printed, an ellipsis where lines are left out. The files of one's own, `mine/`,
`my_agents.py` and `outside.py`, are in [habits.yaml](../benchmarks/habits.yaml).

    python benchmarks/habits.py --docs docs

runs all again and writes this page.
"""


@dataclass(frozen=True)
class Habit:
    """A habit of habits.yaml, which says what its fields are."""

    name: str
    command: str
    shown: str = ""
    lines: int = _SHOWN
    status: int = 0


def main() -> None:
    """Run the habits, print them, and write their page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the parts to run")
    parser.add_argument("--docs", type=Path, help="folder whose habits.md is written; parts that do not run stay")
    options = parser.parse_args()
    asked = yaml.safe_load(HABITS.read_text(encoding="utf-8"))
    page = None if options.docs is None else options.docs / "habits.md"
    parts = parts_of(page.read_text(encoding="utf-8")) if page is not None and page.exists() else {}
    for title, habits in asked["parts"].items():
        if options.only in title:
            with tempfile.TemporaryDirectory() as name:
                write_files(asked["files"], Path(name))
                parts[title] = section([Habit(**habit) for habit in habits], Path(name))
            if page is not None:
                kept = {one: parts[one] for one in asked["parts"] if one in parts}
                write_text(page, page_of(kept))


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write files of the user's own into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def parts_of(page: str) -> dict[str, str]:
    """Return the parts of a page by their titles."""
    _, *parts = page.split("\n## ")
    return {title: text.rstrip("\n") for title, _, text in (part.partition("\n\n") for part in parts)}


def page_of(parts: Mapping[str, str]) -> str:
    """Return the page with parts by their titles."""
    links = " · ".join(f"[{title}](#{anchor(title)})" for title in parts)
    return "\n".join([_PREAMBLE.format(parts=links), *(f"## {title}\n\n{text}\n" for title, text in parts.items())])


def section(habits: Sequence[Habit], folder: Path) -> str:
    """Run habits in a folder; return their part of the page."""
    blocks = []
    for habit in habits:
        print(f"$ {habit.command}", flush=True)
        shown = output_of(habit, folder)
        print("\n".join(shown), flush=True)
        blocks.append("\n".join([f"{habit.name}:\n", "```text", f"$ {habit.command}", *shown, "```"]))
    return f"{measured_on()}.\n\n" + "\n\n".join(blocks)


def output_of(habit: Habit, folder: Path) -> list[str]:
    """Run a habit; return the lines that are shown.

    Raises:
        SystemExit: it ends otherwise than it should.
    """
    here = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": str(_WIDTH),
        "TIMEFORMAT": "real %R s",
    }
    done = subprocess.run(
        ["bash", "-c", habit.command],
        cwd=folder,
        env={**os.environ, **here, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != habit.status:
        raise SystemExit(f"{habit.command}\nended with {done.returncode}, not {habit.status}:\n{done.stdout}")
    lines = [line.rstrip() for line in plain(done.stdout, folder).splitlines() if line.strip()]
    kept = [line for line in lines if re.search(habit.shown, line)]
    if not kept:
        raise SystemExit(f"{habit.command}\nprinted nothing that is shown:\n{done.stdout}")
    shown = [line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…" for line in kept[: habit.lines]]
    return shown if len(kept) == len(lines) == len(shown) else [*shown, "…"]


def plain(text: str, folder: Path) -> str:
    """Return an output without colours, progress that was written over, and the machine's own folders."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))
    package = Path(bbrgym.__path__[0])
    for path, name in ((str(folder), "."), (str(package), "bbrgym"), (str(ROOT), "checkout")):
        text = text.replace(path, name)
    return text


def anchor(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    main()
