# SPDX-License-Identifier: GPL-2.0-only
"""Each command and block of Python of the first page and of the tutorial runs, in order, shortened where it is long.

So do the other pages' blocks of Python; test_python_blocks.py has those that need more.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import page_minutes
import pytest
import yaml
from kernel_scripts import NAME, needs_bpf_fs
from kernel_world import needs_bpf
from machine_needs import needs_modules
from owners import free_port
from pages import PAGES
from repository import ROOT

from bbrgym.tunables import TUNABLES

pytestmark = needs_modules(
    *("stable_baselines3", "onnxscript", "wandb", "zmq", "matplotlib", "pettingzoo"), reason="the pages use them"
)

FEWER = {
    "python": {r"env\).learn\(10_000\)": "env, n_steps=64).learn(64)"},
    "shell": {
        r"total_steps=\S+": "total_steps=200",
        r" draws=\d+": " draws=2 scenario.duration_s=3",
        "seed=1,2": "seed=1",
        "benchmarks/": f"{ROOT}/benchmarks/",
    },
}
BRIEF = "scenario.duration_s=3 num_envs=2 validation.draws=2 agent.batch_size=20"
#: Words that are added to commands that begin so; the first one counts.
MORE = {
    "bbrgym train resume=": "",
    "bbrgym train --help": "",
    "bbrgym train agent=sac": f"{BRIEF} agent.learning_starts=150",
    "bbrgym train": f"{BRIEF} agent.n_steps=10",
    "bbrgym reproduce": "seeds=1",
    "bbrgym advise": "draws=1",
    "sudo bbrgym kernel load": f"name={NAME}",
    "python": "--output .",
}


FIRST = [ROOT / page for page in page_minutes.PAGES]
#: In blocks that plot a file, need a compiled policy, or show ns3-gym's own way.
ELSEWHERE = ("matplotlib", 'options={"policy"', "from ns3gym import")


def marks_of(page: Path, text: str) -> list[pytest.MarkDecorator]:
    if "kernel load" in text:
        return [needs_bpf, needs_bpf_fs]
    return [pytest.mark.slow] if page.name != "README.md" or re.search("train|ppo|PPO|sweep", text) else []


STEPS = [
    pytest.param(kind, text, id=f"{page.stem}-{number}", marks=marks_of(page, text))
    for page in [*FIRST, *(page for page in PAGES if page not in FIRST)]
    for number, (kind, text) in enumerate(page_minutes.steps_of(page.read_text(encoding="utf-8")))
    if (page in FIRST or kind == "python") and not text.startswith(("make", "pip"))
    if not any(mark in text for mark in ELSEWHERE)
]


def sweep_command(file: str) -> str:
    """Return the command that an agent of `wandb sweep` starts first; test_wandb_sweep.py has W&B's own words."""
    config = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    words = [word for word in config["command"] if word not in ("${env}", "${args_no_hyphens}")]
    values = {name: one["values"][0] if "values" in one else one["min"] for name, one in config["parameters"].items()}
    return shlex.join([*words, *(f"{name}={value}" for name, value in values.items())])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the reader's log, and with the programs of this Python."""
    folder = tmp_path_factory.mktemp("pages")
    page_minutes.write_log(folder)
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name, module in {"python": "-W error", "bbrgym": "-m bbrgym"}.items():
        program = folder / ".venv" / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return folder


def run(kind: str, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script, pipe = page_minutes.script_of(kind, text), subprocess.PIPE
    done = page_minutes.run(script, folder, timeout_s=400, stdout=pipe, stderr=pipe)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(("kind", "text"), STEPS)
def test_a_step_runs(kind: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if text.startswith("wandb sweep"):
        monkeypatch.setenv("WANDB_RUN_ID", "page")
        text = sweep_command(text.split()[-1])
    text = text.replace("port=5555", f"port={free_port()}")
    for pattern, fewer in FEWER[kind].items():
        text = re.sub(pattern, fewer, text)
    run(kind, f"{text} {next((more for begin, more in MORE.items() if text.startswith(begin)), '')}", folder)


@pytest.mark.slow
def test_the_steps_leave_what_the_pages_say(folder: Path) -> None:
    assert (folder / "mine.yaml").exists()
    assert len(list(folder.glob("runs/*/wandb/offline-run-*"))) == 2  # logger=wandb, and of the sweep's file
    assert len(list(folder.glob("runs/multirun-*/*/wandb/offline-run-*"))) == 2
    assert len(list(folder.glob("runs/multirun-*/report.html"))) == 2
    for left in ("bbq-ppo/figures/curve.png", "ranking/report.html", "bbq-ppo/exported/ppo.onnx"):
        assert (folder / "runs" / left).exists()


def test_the_first_picture_shows_the_learned_policy_ahead(folder: Path) -> None:
    shown = run("shell", f"python {ROOT}/benchmarks/first_page.py flows --output .", folder).stdout
    scores = {row[1].strip(): float(row[-2]) for row in (line.split("|") for line in shown.splitlines()[2:5])}
    assert scores["BBR"] < scores["BBQ"] < scores["learned"]
    assert (folder / "flows.png").stat().st_size > 20_000


def test_the_papers_symbols_are_those_of_their_tunables() -> None:
    rows = re.findall(r"^\| .* `bbr.*$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    shown = [found for row in rows for found in re.findall(r"([A-Za-z ]+): `(\w+)`", row)]
    assert len(shown) >= 6
    assert all(TUNABLES[name].symbol.startswith(symbol.strip()) for symbol, name in shown)
