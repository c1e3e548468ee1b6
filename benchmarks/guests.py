# SPDX-License-Identifier: GPL-2.0-only
"""Run released versions of other libraries with the environments, each set in a virtual environment.

python benchmarks/guests.py [--venvs FOLDER] [--only WORDS] [--write docs/environments.md]

Installs the libraries and the checkout, runs each check of guest_checks.py in a process of its own, and prints a table
of what ran with which version and what came out; `--write` puts it into a page. What is installed already stays.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import guest_checks
from report import command, measured_on, publish

from bbrgym.report.markdown import markdown_table

ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_S = 1800
#: Requirements of each environment, first PyTorch: one that is not pinned brings its gigabytes for GPUs.
VENVS = {
    "most": (
        "torch==2.13.0",
        "gymnasium[other] stable-baselines3 sb3-contrib rl-zoo3 requests pettingzoo supersuit torchrl tianshou[eval]",
    ),
    "rllib": ("torch==2.13.0", "ray[rllib] pettingzoo"),  # it wants another version of Gymnasium
}
#: Checks of each library, with its name as a package and its environment.
GUESTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "Gymnasium": ("gymnasium", "most", ("gymnasium_checkers", "gymnasium_wrappers", "gymnasium_vectors")),
    "Stable-Baselines3": ("stable-baselines3", "most", ("sb3_checker", "sb3_algorithms")),
    "sb3-contrib": ("sb3-contrib", "most", ("contrib_algorithms",)),
    "rl-zoo3": ("rl-zoo3", "most", ("zoo",)),
    "PettingZoo": ("pettingzoo", "most", ("pettingzoo_tests",)),
    "SuperSuit": ("supersuit", "most", ("supersuit_wrappers",)),
    "RLlib": ("ray", "rllib", ("rllib_local", "rllib_remote", "rllib_agents")),
    "TorchRL": ("torchrl", "most", ("torchrl_env", "torchrl_collectors", "torchrl_agents")),
    "Tianshou": ("tianshou", "most", ("tianshou_collectors", "tianshou_ppo")),
}


def main() -> None:
    """Install, run and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, help="folder of the virtual environments. Default: a temporary one")
    parser.add_argument("--only", default="", help="part of the names of the libraries")
    parser.add_argument("--wheel", default=str(ROOT), help="what pip installs as bbrgym. Default: this checkout")
    parser.add_argument("--write", type=Path, help="page whose table is written")
    options = parser.parse_args()
    chosen = {name: guest for name, guest in GUESTS.items() if options.only.lower() in name.lower()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.venvs or Path(temporary)
        installed = {
            venv: install(folder / venv, options.wheel)
            for venv in dict.fromkeys(venv for _, venv, _ in chosen.values())
        }
        rows = [
            [name, version(folder / venv, package), *outcome(folder / venv, check, installed[venv])]
            for name, (package, venv, checks) in chosen.items()
            for check in checks
        ]
    table = markdown_table(["library", "version", "what ran", "result"], rows)
    publish(options.write, "guests", f"`{command()}`, {measured_on()}:\n\n{table}", "steady / bbq random")


def install(venv: Path, wheel: str) -> str:
    """Fill a virtual environment; return pip's last line if it fails, else nothing."""
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=_TIMEOUT_S)
    for requirements in (*VENVS[venv.name], wheel):
        words = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements.split()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            return f"cannot be installed: {last_line(done.stderr)}"
    return ""


def version(venv: Path, package: str) -> str:
    """Return the installed version of a package."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run(
        [venv / "bin" / "python", "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or "-"


def outcome(venv: Path, check: str, problem: str) -> tuple[str, str]:
    """Return what a check runs, and whether it went well; if not, the last line of its output."""
    what = (guest_checks.CHECKS[check].__doc__ or "").strip()
    if problem:
        return what, problem
    words = [str(venv / "bin" / "python"), str(Path(guest_checks.__file__)), check]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return what, f"not done within {_TIMEOUT_S} s"
    return what, "passed" if done.returncode == 0 else f"failed: {last_line(done.stderr)}"


def last_line(text: str) -> str:
    """Return the last line with words."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output")


if __name__ == "__main__":
    main()
