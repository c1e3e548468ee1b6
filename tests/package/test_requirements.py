# SPDX-License-Identifier: GPL-2.0-only
"""Everything that is required is pinned, once for every Python version."""

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
PIN = re.compile(r'(?P<name>[\w.-]+)==[\w.+]+( ; python_version (?P<operator><|>=) "3\.11")?')


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def needed(requirements: list[str], python: str) -> set[str]:
    """Names required under one Python version; the only marker in use is tomli's."""
    return {plain(text) for text in requirements if ";" not in text or python == "3.10"}


def plain(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def pins(python: str) -> list[str]:
    """Names pinned for one Python version; every line of the file must be understood."""
    names = []
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        pin = PIN.fullmatch(line)
        assert pin is not None, line
        is_old = python == "3.10"
        if pin["operator"] is None or (pin["operator"] == "<") == is_old:
            names.append(pin["name"])
    return names


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_once(python: str) -> None:
    pinned = pins(python)
    assert len(pinned) == len(set(pinned))
    metadata = project()["project"]
    extras = [name for extra in metadata["optional-dependencies"].values() for name in extra]
    required = needed(metadata["dependencies"] + extras, python)
    assert required - set(pinned) == set()


def test_build_requirements_are_pinned_too() -> None:
    required = {plain(name) for name in project()["build-system"]["requires"]} - {"pip"}
    assert required - set(pins("3.11")) == set()


def test_lower_bounds_only() -> None:
    for requirement in project()["project"]["dependencies"]:
        assert re.fullmatch(r"[\w-]+>=[\d.]+", requirement), requirement
