# SPDX-License-Identifier: GPL-2.0-only
"""Minutes that the first page and the tutorial take: each command and block of Python on them, as it stands.

usage: python benchmarks/page_minutes.py [--only TEXT] [--checkout DIR] [--write]

They run in the pages' order, those that set up first, in a fresh clone without a compiler cache, as root. --only runs
those that contain TEXT; --checkout runs them in a checkout that is set up; --write puts the minutes on the pages.
W&B is offline. `wandb sweep`, which needs a login, is left out, and `bbrgym kernel` without a BPF file system at
/sys/fs/bpf.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from path_logs import log_simulation
from report import Bystanders, measured_on

import bbrgym
from bbrgym.runs.atomic_files import write_text

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/tutorial.md")
BEGIN, END = "<!-- begin minutes -->\n", "<!-- end minutes -->"
BBRGYM = (
    "(?:sudo )?bbrgym (?:adversary|advise|bench|conformance|doctor|evaluate|export|kernel|list|path|report|reproduce|"
    "scenario|serve|trace|train)"
)
SHOWN = rf"(?:{BBRGYM}|make|wandb sweep|pip install|(?:\.venv/bin/)?python benchmarks/\w+\.py)(?= |$)"
STEP = re.compile(
    rf"^```python\n(?P<python>.*?)^```|^(?: {{4}})?(?P<line>{SHOWN}[^\n]*)$|`(?!\w+ \w+`)(?P<code>{SHOWN}[^`\n]+)`",
    re.MULTILINE | re.DOTALL,
)
AGENT = "import gymnasium, bbrgym; gymnasium.make('bbrgym/Ns3Gym-v0', {}).reset()"  # of `bbrgym serve`


def steps_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each step of a page, `python` or `shell`, and its text without comments."""
    for found in STEP.finditer(re.sub(r"\\\n\s*", " ", text)):
        if found["python"]:
            yield "python", found["python"]
        else:
            yield "shell", re.sub(r"\s+[#>] .*", "", found["line"] or found["code"])


def script_of(kind: str, text: str) -> str:
    """Return the shell's script of a step, with what a reader does beside it."""
    if kind == "python":
        return f"python -c {shlex.quote(text)}"
    if text.startswith("bbrgym serve"):
        port = next(word for word in text.split() if word.startswith("port="))
        return f"{text} & python -c {shlex.quote(AGENT.format(port))} && wait $!"
    if text.startswith("sudo bbrgym kernel load"):
        name = text.partition(" name=")[2] or f"gym_{text.split()[4]}"
        return f"{text.removeprefix('sudo ')} && bbrgym kernel unload {name}"
    return text


def run(script: str, checkout: Path, *, timeout_s: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a step's script in a checkout by the programs of its .venv, with options of `subprocess.Popen`."""
    path = f"{checkout / '.venv' / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CCACHE_DISABLE": "1", "WANDB_MODE": "offline"}
    bash = ["bash", "-c", script]
    with subprocess.Popen(bash, cwd=checkout, env=environment, text=True, start_new_session=True, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what the shell has started
    return subprocess.CompletedProcess(bash, process.returncode, output, errors)


def write_log(folder: Path) -> None:
    """Write the log of the pages' reader, upload.ss."""
    with tempfile.TemporaryDirectory() as logs:
        log_simulation(bbrgym.load_scenario("steady"), "twin", 1, Path(logs))
        shutil.copy(Path(logs) / "a.ss", folder / "upload.ss")


def main() -> None:
    """Run the steps, and print or write the minutes of each page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    bystanders, left_out = Bystanders(), ("wandb sweep", *(() if os.path.ismount("/sys/fs/bpf") else ("sudo",)))
    minutes: dict[str, dict[str, float]] = {page: {} for page in PAGES}
    with tempfile.TemporaryDirectory() as folder:
        checkout = asked.checkout or Path(folder) / "bbrgym"
        if asked.checkout is None:
            subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True, timeout=600)
        write_log(checkout)
        for page, of_page in minutes.items():
            steps = steps_of((ROOT / page).read_text(encoding="utf-8"))
            for kind, text in sorted(steps, key=lambda step: not step[1].startswith(("make", "pip"))):
                if asked.only in text and not text.startswith(left_out):
                    began_s = time.monotonic()
                    run(script_of(kind, text), checkout, timeout_s=7200).check_returncode()
                    of_page[text] = (time.monotonic() - began_s) / 60
                    print(f"{of_page[text]:7.2f} min  {text.splitlines()[0]}", flush=True)
    about = f"`python benchmarks/page_minutes.py`, {measured_on()}; {bystanders.phrase()}"
    for page, of_page in minutes.items():
        text = f"{sentence(of_page)} ({about})."
        print(f"{page}: {text}")
        if asked.write:
            before, _, rest = (ROOT / page).read_text(encoding="utf-8").partition(BEGIN)
            write_text(ROOT / page, f"{before}{BEGIN}\n{text}\n\n{END}{rest.partition(END)[2]}")


def sentence(minutes: Mapping[str, float]) -> str:
    """Return the minutes of each `make`, and of all else together."""
    make = {text: one for text, one in minutes.items() if text.startswith("make")}
    rest = sum(minutes.values()) - sum(make.values())
    parts = [f"`{text}` takes {one:.1f} minutes" for text, one in make.items()]
    return ", ".join([*parts, f"{'all else on this page' if make else 'All on this page takes'} {rest:.1f} minutes"])


if __name__ == "__main__":
    main()
