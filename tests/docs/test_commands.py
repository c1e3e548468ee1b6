# SPDX-License-Identifier: GPL-2.0-only
"""Every command that a page shows is one that this version takes."""

import re
import shlex
from importlib import metadata
from pathlib import Path

import page_minutes
import pytest
from hydra.types import RunMode
from pages import PAGES
from repository import ROOT

from bbrgym.cli.composition import Loader, compose_config
from bbrgym.cli.main import _parser

TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
#: A file of the reader's own.
OWN = {"scenario=mine.yaml": "scenario=steady", "agent=mine.yaml": "agent=ppo", "agent=clipped_value": "agent=ppo"}


def source_of(script: Path) -> str:
    """Return the text of a script and of the modules beside it that it imports, where some options stand."""
    text = script.read_text(encoding="utf-8")
    beside = [script.with_name(f"{name}.py") for name in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)]
    return "".join([text, *(path.read_text(encoding="utf-8") for path in beside if path.exists())])


SHOWN_BY = [
    (page, text)
    for page in PAGES
    for kind, text in page_minutes.steps_of(page.read_text(encoding="utf-8"))
    if kind == "shell" and "NAME" not in text and "DIR" not in text
]
EACH = [
    pytest.param(page, command, marks=() if page.name == "README.md" else pytest.mark.slow, id=f"{page.stem}-{number}")
    for number, (page, command) in enumerate(SHOWN_BY)
]


def test_the_pages_show_commands() -> None:
    assert len({page for page, _ in SHOWN_BY}) >= 12
    assert len(SHOWN_BY) >= 60


@pytest.mark.parametrize(("page", "command"), EACH)
def test_a_command_is_taken(page: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = command.removeprefix("sudo ")
    program, *words = (word for word in shlex.split(shown) if word not in ("...", ".venv/bin/python"))
    if program == "make":
        assert set(words) <= set(TARGETS)
    elif program == "pip":
        asked_for = set(re.findall(r"\w+(?=[,\]])", words[-1]))
        assert asked_for <= set(metadata.metadata("bbrgym").get_all("Provides-Extra"))
    elif program == "wandb":
        assert Path(words[-1]).exists()  # tests/sweeps/test_wandb_sweep.py checks it
    elif program != "bbrgym":
        script, *options = words if program == "python" else (program, *words)
        source = source_of(ROOT / script)
        assert [option for option in options if option.startswith("--") and f'"{option}"' not in source] == []
    else:
        asked = _parser().parse_args(words)
        given = getattr(asked, "overrides", [word for word in vars(asked).get("arguments", []) if "=" in word])
        options = [OWN.get(word, word) for word in given]
        if getattr(asked, "multirun", False):
            Loader().load_configuration(words[0], options, RunMode.MULTIRUN)
        elif words[0] != "kernel" and options:
            compose_config(words[0], options)
