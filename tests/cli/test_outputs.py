# SPDX-License-Identifier: GPL-2.0-only
"""What commands write replaces regular files alone: never a device, a FIFO, a link or a folder."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from repository import ROOT
from special_files import put_special_file

from bbrgym.agents.shipped import SHIPPED
from bbrgym.cli.main import main

pytestmark = pytest.mark.usefixtures("undrawn")

LOG = ROOT / "tests" / "paths" / "cases" / "iperf3_bbr_shallow_60ms.json"
#: An evaluation of a second.
SHORT = ["evaluate", "scenario=steady", "scenario.duration_s=1", "variants=[bbr]", "world=twin"]
#: Commands with a file to write, and with a folder.
FILES = {
    "bench": ["bench", "bbr", "output={out}"],
    "export": ["export", str(SHIPPED["shipped/flow"]), "format=c", "output={out}"],
    "path": ["path", "{log}", "output={out}.yaml"],
    "record": ["scenario", "wifi", "record={out}", "seconds=0.1"],
}
FOLDERS = {
    "evaluate": [*SHORT, "output_dir={out}"],
    "train": ["train", "scenario=steady", "agent=grid", "variant=bbq", "output_dir={out}"],
    "trace": ["trace", "scenario=steady", "scenario.duration_s=1", "output_dir={out}"],
    "advise": ["advise", "{log}", "output_dir={out}"],
    "multirun": [*SHORT, "-m", "seeds=[1],[2]", "hydra.sweep.dir={out}"],
}
KINDS = ("device", "fifo", "link", "zero", "folder")


def put(kind: str, path: Path) -> None:
    if kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    elif kind == "link":
        path.with_name("other").write_text("precious")
        path.symlink_to(path.with_name("other"))
    else:
        put_special_file(kind, path)


def everything_in(folder: Path) -> dict[Path, tuple[int, int, int]]:
    found = {path: path.lstat() for path in folder.rglob("*")}
    return {path: (one.st_mode, one.st_rdev, one.st_size) for path, one in found.items()}


@pytest.mark.parametrize(
    ("command", "kind"),
    [(command, kind) for command in [*FILES, *FOLDERS] for kind in KINDS if command in FILES or kind != "folder"],
)
def test_an_output_that_is_no_regular_file_is_one_sentence_and_stays(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    put(kind, out.with_suffix(".yaml") if command == "path" else out)
    before = everything_in(tmp_path)
    arguments = [word.format(out=out, log=LOG) for word in {**FILES, **FOLDERS}[command]]
    assert main(arguments) in (1, 2)
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert str(out) in said
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_so_is_one_in_a_run_folder(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, run = [*SHORT, f"output_dir={tmp_path / 'run'}"], tmp_path / "run"
    assert main(command) == 0
    for name in ("timing.csv", "report.html"):
        (run / name).rename(run / "kept")
        put(kind, run / name)
        planted = everything_in(run)
        assert main([*command, "resume=true"]) in (1, 2)
        *_, said = capsys.readouterr().err.splitlines()
        assert said.startswith("bbrgym: ")
        assert name in said
        found = everything_in(run)
        assert all(found.get(path) == planted.get(path) for path in (run / name, run / "other"))
        shutil.rmtree(run / name) if kind == "folder" else (run / name).unlink()
        (run / "kept").rename(run / name)
