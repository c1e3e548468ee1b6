# SPDX-License-Identifier: GPL-2.0-only
"""Classes that configurations name by `_target_`."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.targets import Target, build

BASE = "bbrgym.targets.Target"
OWN = """
from bbrgym.schema import Whole
from bbrgym.targets import Target

class Mine(Target):
    size: Whole = 3

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that can be imported."""
    (tmp_path / "own_targets.py").write_text(OWN)
    (tmp_path / "needy_targets.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_targets", None)


def test_a_class_is_made_of_the_other_options(own: Path) -> None:
    made = build("agent", {"_target_": "own_targets.Mine", "name": "mine", "size": 4}, Target)
    assert (type(made).__name__, made.model_dump()) == ("Mine", {"name": "mine", "size": 4})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, f"agent._target_: is None, expected the import path of a class, such as {BASE}"),
        ({"_target_": [1]}, r"agent._target_: is \[1\], expected the import path"),
        ({"_target_": "Mine"}, "agent._target_: is 'Mine', expected the import path"),
        ({"_target_": "own_targts.Mine"}, "agent._target_: is 'own_targts.Mine': no module own_targts is found"),
        ({"_target_": "own_targets.Mien"}, "agent._target_: is 'own_targets.Mien': module own_targets has no class"),
        ({"_target_": "own_targets.number"}, "module own_targets has no class number"),
        ({"_target_": "pathlib.Path"}, f"agent._target_: is 'pathlib.Path', expected a class derived from {BASE}"),
        ({"_target_": "own_targets.Mine", "size": "big"}, "agent.size: is 'big', expected a whole number"),
        ({"_target_": "own_targets.Mine", "siz": 4}, "agent.siz: is not a field; did you mean size"),
    ],
)
def test_a_wrong_target_is_one_clear_error(own: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build("agent", options, Target)


def test_a_found_configuration_runs_no_code_of_others(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"_target_": "own_targets.Mine"}
    with pytest.raises(ConfigError, match="a class outside bbrgym named by a run folder; loading it runs its code"):
        build("agent", options, Target, is_trusted=False)
    assert "own_targets" not in sys.modules
    monkeypatch.setenv("BBRGYM_TRUSTED_MODULES", "others, own_targets")
    build("agent", options, Target, is_trusted=False)
    monkeypatch.delenv("BBRGYM_TRUSTED_MODULES")
    build("agent", options, Target, is_trusted=False)  # its code has run already
    build("agent", {"_target_": BASE}, Target, is_trusted=False)


def test_a_package_that_is_missing_is_named_with_the_extra_that_has_it(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        build("agent", {"_target_": "needy_targets.Mine"}, Target, extra="train")
    monkeypatch.setattr("bbrgym.targets._PACKAGE", "needy_targets")
    expected = r"agent=mine needs no-such-package: pip install no-such-package, .* pip install '\.\[train\]'"
    with pytest.raises(MissingExtraError, match=expected):
        build("agent", {"_target_": "needy_targets.Mine", "name": "mine"}, Target, extra="train")


def test_so_is_a_package_whose_classes_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    expected = r"agent=tqc needs sb3-contrib: pip install sb3-contrib, .* pip install '\.\[train\]'"
    with pytest.raises(MissingExtraError, match=expected):
        build("agent", {"_target_": "sb3_contrib.TQC", "name": "tqc"}, Target, extra="train")
