# SPDX-License-Identifier: GPL-2.0-only
"""Run the tests under the conditions of other machines, and add a row for each run to docs/tests.md.

usage: .venv/bin/python benchmarks/test_matrix.py [CONDITION ...] [--repeats 3] [--tests PATH ...] [--timeout-s 14400]

    idle         nothing else runs; not checked, the row's load average shows it
    busy         beside two busy loops
    pinned       on one core, as `taskset -c` on the first that this process may use
    user         as another user than root, in a clone and a build tree of that user's own
    no-runtime   with a clang that has no compiler-rt
    clang        with clang and its compiler-rt
    no-clang     with a PATH in which there is no clang

`make test` comes first: it sets up .venv/ and the build tree. The first four run all tests; the others, which differ in
what compiles, run the files of tests that use a compiler (`compiling_tests`). Where a condition has rows of the last
commit that changed more than docs/, only the missing repetitions are run, so the matrix can be made in pieces.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bbrgym.runs.atomic_files import write_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tests.md"
HEAD = ("date", "commit", "condition", "repetition", "cores", "passed", "skipped", "failed", "seconds", "load average")
NOBODY = 65534  # nobody and nogroup, on every Linux
COMPILERS = {"gcc", "g++", "clang", "clang++"}


@dataclass(frozen=True)
class Setting:
    """Start of pytest: words before its own, environment variables, folder."""

    prefix: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: Path = ROOT


def main() -> None:
    """Run what is missing in the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conditions", nargs="*", metavar="CONDITION", help=f"of {', '.join(CONDITIONS)}; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="rows that each condition is to have")
    parser.add_argument("--tests", nargs="*", help="files or folders of tests; default: those of the condition")
    parser.add_argument("--page", type=Path, default=PAGE, help="page whose last table gets the rows")
    parser.add_argument("--timeout-s", type=float, default=14400.0, help="of a run, which is ended then")
    asked = parser.parse_args()
    unknown = set(asked.conditions) - set(CONDITIONS)
    if unknown:
        parser.error(f"CONDITION: is {', '.join(sorted(unknown))}, expected some of {', '.join(CONDITIONS)}")
    commit = tested_commit()
    for name in asked.conditions or CONDITIONS:
        condition, tests = CONDITIONS[name]
        for repetition in range(rows_of(asked.page, commit, name) + 1, asked.repeats + 1):
            with condition() as setting:
                outcome = run(setting, asked.tests or tests(), asked.timeout_s)
            row = (datetime.date.today().isoformat(), commit, name, str(repetition), *outcome)
            line = f"| {' | '.join(row)} |\n"
            with asked.page.open("a", encoding="utf-8") as page:
                page.write(line)
            print(line, end="", flush=True)


def run(setting: Setting, tests: Sequence[str], timeout_s: float) -> tuple[str, ...]:
    """Run pytest as `make test` does; return the row's cores, counts, seconds and load averages before and after."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        results = Path(folder) / "results.xml"
        cores = 1 if setting.prefix[:1] == ("taskset",) else len(os.sched_getaffinity(0))
        workers = ["-n", str(cores + 1), "--dist", "loadfile", "--no-loadscope-reorder"]
        pytest = [sys.executable, "-m", "pytest", *workers]
        options = ["-p", "no:cacheprovider", f"--junitxml={results}"]
        binaries = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "BBRGYM_BUILD_DIR": str(build_dir())}
        environment = {**os.environ, **binaries, **dict(setting.environment)}
        before, began_s = load(), time.monotonic()
        process = subprocess.Popen(
            [*setting.prefix, *pytest, *options, *tests], cwd=setting.folder, env=environment, start_new_session=True
        )
        try:
            process.wait(timeout_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
        seconds = time.monotonic() - began_s
        if not results.exists():
            sys.exit(f"pytest ended with exit code {process.returncode} and no results")
        (suite,) = ElementTree.parse(results).iter("testsuite")
    count = {name: int(suite.attrib[name]) for name in ("tests", "skipped", "failures", "errors")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - count["skipped"] - failed
    return (str(cores), str(passed), str(count["skipped"]), str(failed), f"{seconds:.0f}", f"{before} to {load()}")


# ---- conditions ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def as_it_is() -> Iterator[Setting]:
    """Change nothing."""
    yield Setting()


@contextlib.contextmanager
def beside_busy_loops() -> Iterator[Setting]:
    """Keep two cores busy, until this process ends at the latest."""
    loop = f"import os\nwhile os.getppid() == {os.getpid()}: pass"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.callback(subprocess.Popen([sys.executable, "-c", loop]).kill)
        yield Setting()


@contextlib.contextmanager
def pinned() -> Iterator[Setting]:
    """Use one core."""
    yield Setting(prefix=("taskset", "-c", str(min(os.sched_getaffinity(0)))))


@contextlib.contextmanager
def as_another_user() -> Iterator[Setting]:
    """Be nobody, in a clone with a build tree of its own; a user who is not root is another user already."""
    if os.getuid() != 0:
        yield Setting()
        return
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, NOBODY, NOBODY)
        (Path(home) / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")  # git clones nothing of another's else
        clone, tree = Path(home) / "bbrgym", Path(home) / "bbrgym" / "build"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = (("HOME", home), ("PATH", path), ("BBRGYM_BUILD_DIR", str(tree)))
        configure = ("cmake", "-S", ".", "-B", str(tree), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}")
        for folder, command in (
            (home, ("git", "clone", "--quiet", str(ROOT), str(clone))),
            (str(clone), configure),
            (str(clone), ("cmake", "--build", str(tree))),
        ):
            own = {**os.environ, **dict(environment)}
            made = subprocess.run(
                [*prefix, *command], cwd=folder, env=own, capture_output=True, text=True, timeout=3600
            )
            if made.returncode != 0:
                sys.exit(f"{' '.join(command)}:\n{made.stdout}{made.stderr}")
        yield Setting(prefix, environment, clone)


@contextlib.contextmanager
def with_clang() -> Iterator[Setting]:
    """Check that there is a clang with its runtime."""
    if not sanitizes("clang"):
        sys.exit("clang or its compiler-rt is not installed: Debian's packages are clang and libclang-rt-dev")
    yield Setting()


@contextlib.contextmanager
def without_runtime() -> Iterator[Setting]:
    """Put clangs first in the PATH that look for their runtime where there are only headers."""
    clang = shutil.which("clang") or sys.exit("clang is not installed")
    shown = subprocess.run([clang, "-print-resource-dir"], capture_output=True, text=True, check=True, timeout=60)
    with tempfile.TemporaryDirectory() as folder:
        bare, links = Path(folder) / "resources", Path(folder) / "bin"
        bare.mkdir()
        links.mkdir()
        (bare / "include").symlink_to(Path(shown.stdout.strip()) / "include")
        for name in ("clang", "clang++"):
            wrapper = links / name
            wrapper.write_text(f'#!/bin/sh\nexec {shutil.which(name)} -resource-dir={bare} "$@"\n')
            wrapper.chmod(0o755)
        if sanitizes(str(links / "clang")):
            sys.exit(f"{clang} finds its runtime without its resource folder: this condition cannot be made here")
        yield Setting(environment=(("PATH", f"{Path(sys.executable).parent}:{links}:{os.environ['PATH']}"),))


@contextlib.contextmanager
def without_clang() -> Iterator[Setting]:
    """Make a PATH of links to all programs but clang's."""
    with tempfile.TemporaryDirectory() as folder:
        for place in filter(os.path.isdir, os.environ["PATH"].split(":")):
            for program in Path(place).iterdir():
                link = Path(folder) / program.name
                if not program.name.startswith("clang") and not link.is_symlink():
                    link.symlink_to(program)
        yield Setting(environment=(("PATH", f"{Path(sys.executable).parent}:{folder}"),))


def sanitizes(clang: str) -> bool:
    """Return whether a clang links a program with AddressSanitizer."""
    if shutil.which(clang) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = [clang, "-fsanitize=address", "-x", "c", "-", "-o", f"{folder}/program"]
        made = subprocess.run(command, input="int main(void) { return 0; }", text=True, capture_output=True, timeout=60)
    return made.returncode == 0


# ---- tests --------------------------------------------------------------------------------------------


def all_tests() -> list[str]:
    """Return the folder of all tests."""
    return ["tests"]


def compiling_tests() -> list[str]:
    """Return the files of tests that use a compiler.

    A file does if it imports tests/support/compilers.py or names a compiler in a string of its own, or if it imports
    such a file, or if the conftest.py beside it does.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("*.py")}
    imported = {path: imports(tree) for path, tree in trees.items()}
    using = {path for path, tree in trees.items() if path.stem == "compilers" or names_a_compiler(tree)}
    while True:
        modules = {path.stem for path in using}
        folders = {path.parent for path in using if path.name == "conftest.py"}
        more = {path for path, names in imported.items() if path.parent in folders or names & modules}
        if more <= using:
            return sorted(str(path.relative_to(ROOT)) for path in using if path.name.startswith("test_"))
        using |= more


def names_a_compiler(tree: ast.Module) -> bool:
    """Return whether a string of a module is a compiler's name."""
    return any(isinstance(node, ast.Constant) and node.value in COMPILERS for node in ast.walk(tree))


def imports(tree: ast.Module) -> set[str]:
    """Return the names of the modules that a module imports."""
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


CONDITIONS: dict[str, tuple[Callable[[], AbstractContextManager[Setting]], Callable[[], list[str]]]] = {
    "idle": (as_it_is, all_tests),
    "busy": (beside_busy_loops, all_tests),
    "pinned": (pinned, all_tests),
    "user": (as_another_user, all_tests),
    "no-runtime": (without_runtime, compiling_tests),
    "clang": (with_clang, compiling_tests),
    "no-clang": (without_clang, compiling_tests),
}


# ---- the page and the checkout ------------------------------------------------------------------------


def rows_of(page: Path, commit: str, condition: str) -> int:
    """Return the number of rows of a commit and condition; begin the page's table if there is none."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    head = f"| {' | '.join(HEAD)} |\n| {' | '.join('---' for _ in HEAD)} |\n"
    if head not in text:
        write_text(page, text + head)
    return len(re.findall(rf"^\| [\d-]+ \| {commit} \| {condition} \|", text, re.MULTILINE))


def tested_commit() -> str:
    """Return the last commit that changed more than docs/; end where the checkout has other changes."""
    beyond = (".", ":!docs")
    if git("status", "--porcelain", "--untracked-files=no", "--", *beyond):
        sys.exit("the checkout has uncommitted changes: a row names the commit that was tested")
    return git("log", "-1", "--format=%h", "--abbrev=8", "--", *beyond)


def git(*words: str) -> str:
    """Return what git prints."""
    command = ["git", "-c", "safe.directory=*", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout.strip()


def build_dir() -> Path:
    """Return the build tree that `make test` uses, or the one that BBRGYM_BUILD_DIR names."""
    named = os.environ.get("BBRGYM_BUILD_DIR")
    trees = [path.parent for path in ROOT.glob("build/*/CMakeCache.txt")]
    if named is None and not trees:
        sys.exit("there is no build tree: make test")
    return Path(named) if named is not None else max(trees, key=lambda tree: tree.stat().st_mtime)


def load() -> str:
    """Return the load average over a minute."""
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
