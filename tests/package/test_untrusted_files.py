# SPDX-License-Identifier: GPL-2.0-only
"""A stranger's files cost little to refuse, and nothing of this machine or of them leaks."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from special_files import BOMB

import bbrgym
from bbrgym.errors import nearest
from bbrgym.untrusted_files import MAX_YAML_BYTES, MAX_YAML_DEPTH, read_yaml

SECRET = "hunter2-of-the-environment"


def refusal(path: Path) -> str:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(path)
    return str(caught.value)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "has more than 1000000 values"),
        ("a: " + "[" * 10_000, f"nests deeper than {MAX_YAML_DEPTH} levels"),
        ("a: " + "{a: " * 10_000, f"nests deeper than {MAX_YAML_DEPTH} levels"),
        ("- 1\n" * (MAX_YAML_BYTES // 4 + 1), f"has more than {MAX_YAML_BYTES} bytes"),
        ("link: &a [*a]", "contains itself"),
        ("a: 1\na: 2", "line 2, column 1: the key 'a' stands twice"),
        ("a: !!python/object/apply:os.system [echo]", "line 1, column 4: no YAML"),
        ("? [1, 2]\n: 3", "no YAML"),
    ],
)
def test_a_file_made_to_be_slow_is_refused_soon(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "strange.yaml"
    path.write_text(text)
    began_s = cpu_s()
    assert says in refusal(path)
    assert cpu_s() - began_s < 20  # a bomb takes minutes, or all memory


def test_an_interpolation_is_refused_and_not_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BBRGYM_SECRET", SECRET)
    path = tmp_path / "thief.yaml"
    path.write_text("name: ${oc.env:BBRGYM_SECRET}\nduration_s: 1\n")
    text = refusal(path)
    assert "name holds '${', expected no interpolation" in text
    assert SECRET not in text
    command = [sys.executable, "-m", "bbrgym", "scenario", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr


def test_what_people_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text("a: 1e6\nb: 1.5e-3\nc: .5\nd: 2026-11-21\ne: &x {f: 1_000}\ng: *x\nh: [1, 2.0, true, null, ~]\n")
    assert read_yaml(path) == {
        "a": 1e6,
        "b": 1.5e-3,
        "c": 0.5,
        "d": "2026-11-21",
        "e": {"f": 1000},
        "g": {"f": 1000},
        "h": [1, 2.0, True, None, None],
    }


@pytest.mark.parametrize(
    ("name", "known", "says"),
    [
        ("rate", ["rate_mbps", "delay_ms", "queue"], "did you mean rate_mbps? allowed are rate_mbps, delay_ms, queue"),
        ("lr", ["gamma", "learning_rate"], "did you mean learning_rate? allowed are gamma, learning_rate"),
        ("xyz", ["gamma"], "allowed are gamma"),
        (
            "stedy",
            ["steady", "steamy", "steadily", *(f"other-{index}" for index in range(57))],
            "did you mean steady, steadily or steamy? bbrgym list shows all 60",
        ),
        ("xyz", [f"other-{index}" for index in range(60)], "bbrgym list shows all 60"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_names(name: str, known: list[str], says: str) -> None:
    assert nearest(name, known) == says


def test_all_errors_are_shown_at_most_ten() -> None:
    fields = {f"field_{index}": 1 for index in range(12)}
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(fields)
    text = str(caught.value)
    assert [f"field_{index}: is not a field" in text for index in range(12)] == [True] * 10 + [False] * 2
    assert text.endswith("; and 5 more")
