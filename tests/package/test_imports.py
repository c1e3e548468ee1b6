# SPDX-License-Identifier: GPL-2.0-only
"""Imports run one way: from the scenario up to the command, never back, and no files import each other in a circle.

Late imports and those for type checkers count. The rooms in envs/ and agents/ are read through their symlinks, as the
package has them.
"""

import ast
import functools
import graphlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bbrgym"

#: Each may import itself and what stands before it. Modules directly in the package are the base of all.
ROOMS = (
    "base",
    "config",
    "runs",
    "loggers",
    "scenario",
    "ns3gym",
    "worlds",
    "envs",
    "agents",
    "evaluate",
    "report",
    "papers",
    "trace",
    "conformance",
    "paths",
    "host",
    "sweeps",
    "cli",
)
#: Modules directly in the package that stand above the base.
NATIVE = {"bbrgym._bpf", "bbrgym._cc", "bbrgym._linux", "bbrgym._ns3", "bbrgym._twin"}
ABOVE_THE_BASE = {"bbrgym": "cli", "bbrgym.__main__": "cli"}


def modules() -> dict[str, Path]:
    """Return every module of the package by its name."""
    found = {}
    for folder in (PACKAGE, PACKAGE / "envs", PACKAGE / "agents"):
        for path in folder.rglob("*.py"):  # rglob does not enter symlinks below where it begins
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports_of(module: str, text: str, known: set[str]) -> Iterator[str]:
    """Yield the modules of the package that a text imports anywhere."""
    package = module if MODULES.get(module, Path("x.py")).name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                source = importlib.util.resolve_name("." * node.level + source, package)
            names = [f"{source}.{alias.name}" for alias in node.names]
            yield from (name for name in names if name in known)
            if source in known and not all(name in known or name in NATIVE for name in names):
                yield source
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from (one.value for one in node.args if isinstance(one, ast.Constant) and one.value in known)


@functools.cache
def all_imports() -> dict[str, set[str]]:
    known = set(MODULES)
    return {name: set(imports_of(name, path.read_text(encoding="utf-8"), known)) for name, path in MODULES.items()}


def room(module: str) -> str:
    if module in ABOVE_THE_BASE:
        return ABOVE_THE_BASE[module]
    parts = module.split(".")
    return parts[1] if parts[1] in ROOMS else "base"


def test_the_package_has_these_rooms() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert folders == set(ROOMS) - {"base"}
    assert len(MODULES) > 100
    assert "bbrgym.envs.tune_env" in MODULES
    assert "bbrgym.agents.training.settings" in MODULES


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_import_runs_back(module: str) -> None:
    back = {other for other in all_imports()[module] if ROOMS.index(room(other)) > ROOMS.index(room(module))}
    assert back == set()


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {module: imports - {"bbrgym", module} for module, imports in all_imports().items()}
    assert tuple(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the circle


def test_a_forbidden_import_would_be_seen() -> None:
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from bbrgym.envs.tune_env import TuneEnv\n"
        "def late():\n    from bbrgym.agents import base\n    import bbrgym.cli.main\n"
        "def by_name():\n    importlib.import_module('bbrgym.evaluate.evaluation')\n"
    )
    seen = set(imports_of("bbrgym.worlds.world", text, set(MODULES)))
    assert seen == {"bbrgym.envs.tune_env", "bbrgym.agents.base", "bbrgym.cli.main", "bbrgym.evaluate.evaluation"}


def test_the_tests_have_the_same_folders() -> None:
    folders = {
        path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and not path.name.startswith((".", "_"))
    }
    ours = set(ROOMS) - {"base"} | {"cc", "linux", "world", "tcp", "twin", "ns3-scratch", "packetdrill"}
    assert folders - {"support"} == ours | {"docs", "package"}


def test_contributing_names_every_folder_and_the_order_of_imports() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = set(re.findall(r"`([\w-]+(?:/[\w-]+)*/)`", text))
    top = {f"{path.name}/" for path in ROOT.iterdir() if path.is_dir() and tracked(path)}
    rooms = {f"src/bbrgym/{name}/" for name in set(ROOMS) - {"base", "envs", "agents"}}
    assert top | rooms <= table | {"src/"}
    assert f"the modules directly in the package, {', '.join(ROOMS[1:])}." in " ".join(text.split())


def tracked(folder: Path) -> bool:
    ignored = ("build", "dist", "runs", "outputs")  # and links, such as `reference` for `bbrgym reproduce`
    return not folder.is_symlink() and not folder.name.startswith((".", "_")) and not folder.name.startswith(ignored)


def test_no_two_classes_share_a_name() -> None:
    classes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(module)
    assert {name: found for name, found in classes.items() if len(found) > 1} == {}
