# SPDX-License-Identifier: GPL-2.0-only
"""Everything that is required is pinned, once."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"(?P<name>[\w.-]+)==[\w.+]+")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def plain(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def pins() -> list[str]:
    """Names pinned; every line of the file must be understood."""
    names = []
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        pin = PIN.fullmatch(line)
        assert pin is not None, line
        names.append(pin["name"])
    return names


def test_every_requirement_is_pinned_once() -> None:
    pinned = pins()
    assert len(pinned) == len(set(pinned))
    metadata = project()["project"]
    extras = [name for extra in metadata["optional-dependencies"].values() for name in extra]
    required = {plain(name) for name in metadata["dependencies"] + extras}
    assert required - set(pinned) == set()


def test_build_requirements_are_pinned_too() -> None:
    required = {plain(name) for name in project()["build-system"]["requires"]} - {"pip"}
    assert required - set(pins()) == set()


def test_lower_bounds_only() -> None:
    for requirement in project()["project"]["dependencies"]:
        assert re.fullmatch(r"[\w-]+>=[\d.]+", requirement), requirement
