# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym trace``: a run folder of whole files, and one clear line for each mistake."""

from pathlib import Path

import pytest
import yaml

from bbrgym.cli.main import main

SHORT = ["trace", "scenario=steady", "scenario.duration_s=1"]


def test_it_writes_a_run_folder_and_shows_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "look"
    options = ["variant=bbq", "tunables.bbq_alpha_us=1000", "format=[pcapng,csv]", f"output_dir={folder}", "seed=4"]
    assert main([*SHORT, *options]) == 0
    said = capsys.readouterr().out
    assert "marked lost" in said
    assert f"pcapng: {folder / 'trace.pcapng'}" in said.replace("\n", "")
    names = {path.name for path in folder.iterdir() if path.name != ".lock"}
    assert names == {"config.yaml", "provenance.json", "trace.pcapng", "trace.csv"}
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    assert config["scenario"]["flows"][0]["cc"] == "bbq"
    assert config["seed"] == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["format=qlgo"], "format: is 'qlgo'; did you mean qlog?"),
        (["format=[csv,csv]"], "format: is ['csv', 'csv'], expected each once"),
        (["format=3"], "format: is 3, expected one of qlog, pcapng, csv, or a list of them"),
        (["variant=bbrr"], "did you mean bbr"),
        (["variant=null", "tunables.bbq_alpha_us=1000"], "tunables: are {'bbq_alpha_us': 1000.0} with variant=null"),
        (["seed=-1"], "seed: is -1, expected a number >= 0"),
        (["world=[twin,ns3]"], "world: "),
        (["world=linux"], "world: is 'linux', which has no trace of packets; allowed are ns3, twin"),
        (["world.twin.isolation=process"], "world.twin.isolation: is given, but a trace runs in this process"),
    ],
)
def test_a_mistake_is_one_clear_line(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*SHORT, *options]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("bbrgym: ")
    assert "\n" not in error
    assert says in error
    assert list(tmp_path.rglob("*")) == [] or [path.name for path in tmp_path.rglob("trace.*")] == []


def test_a_distribution_needs_a_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["trace", "scenario=wan_mix", f"output_dir={tmp_path / 'drawn'}"]
    assert main(options) == 2
    assert "wan_mix is a distribution, expected the number of a draw" in capsys.readouterr().err
    assert main([*options, "draw=3", "scenario.duration_s=5", "scenario.link.rate_mbps=2", "format=csv"]) == 0
    assert (tmp_path / "drawn" / "trace.csv").stat().st_size > 10_000
