# SPDX-License-Identifier: GPL-2.0-only
"""What `make` built and installed: one package, whole, and it is what the tests import."""

import importlib.metadata
import sysconfig
import zipfile
from pathlib import Path

import pytest
from repository import ROOT, tracked

import bbrgym


@pytest.fixture(scope="module")
def wheel() -> Path:
    wheels = list((ROOT / "dist").glob("bbrgym-*.whl"))
    if not wheels:
        pytest.skip("there is no wheel in dist/; `make test` builds one")
    assert len(wheels) == 1
    return wheels[0]


@pytest.fixture(scope="module")
def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_tests_import_the_installed_wheel(wheel: Path) -> None:
    assert wheel.exists()
    installed = Path(sysconfig.get_path("platlib")) / "bbrgym"
    if Path(bbrgym.__path__[0]) != installed:
        pytest.skip(f"these tests import {bbrgym.__path__[0]}; `make test` imports {installed}")
    assert not (installed / "envs").is_symlink()


def test_the_wheel_holds_one_package_and_a_plugin_of_hydra_s(names: list[str]) -> None:
    about = f"bbrgym-{bbrgym.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"bbrgym", "hydra_plugins", about}
    assert [name for name in names if name.startswith("hydra_plugins/")] == ["hydra_plugins/bbrgym_sweeper.py"]


def test_the_wheel_is_whole(names: list[str]) -> None:
    def shipped(folder: Path, into: str) -> set[str]:
        return {
            f"{into}/{name}"
            for name in tracked(folder)
            if not (folder / name).is_symlink() and (folder / name).is_file()
        }

    expected = shipped(ROOT / "src" / "bbrgym", "bbrgym")
    for folder in ("agents", "conf", "envs"):
        expected |= shipped(ROOT / folder, f"bbrgym/{folder}")
    assert expected - set(names) == set()


def test_the_wheel_carries_the_native_parts_and_the_licence(names: list[str]) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert {f"bbrgym/_cc{suffix}", f"bbrgym/_ns3{suffix}"} <= set(names)
    assert {f"bbrgym/_bpf_source/{name}" for name in ("bbrgym.bpf.c", "cc.h", "floor.h", "tunables.def")} <= set(names)
    assert "bbrgym/agents/shipped/flow/exported/policy.bpf.o" in names
    assert "bbrgym/report/templates/plotly.min.js" in names
    assert any(name.startswith("bbrgym/_ns3libs/libns3") for name in names)
    assert {f"bbrgym/_ns3libs/libbbrgym-hop-{kind}.so" for kind in ("wifi", "lte")} <= set(names)
    assert f"bbrgym-{bbrgym.__version__}.dist-info/licenses/LICENSE" in names
    assert {f"bbrgym/_ns3libs/{name}" for name in ("AUTHORS", "LICENSE")} <= set(names)


def test_the_licence_is_declared() -> None:
    try:
        metadata = importlib.metadata.metadata("bbrgym")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("bbrgym is not installed; `make test` installs it")
    assert metadata["License-Expression"] == "GPL-2.0-only"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Version"] == bbrgym.__version__
