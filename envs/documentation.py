# SPDX-License-Identifier: GPL-2.0-only
"""Tables in the docstrings of environments, from what declares the features and the arguments."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import TypeVar

from bbrgym.envs.observation import FEATURES
from bbrgym.envs.options import Options

C = TypeVar("C", bound=type)


def documented(options: type[Options], without: type[Options] | None = None) -> Callable[[C], C]:
    """Return a class decorator that replaces "See ..." in a docstring by the table of features or the arguments.

    What reads the source alone finds the way there.

    Args:
        options: of the environment, whose fields are its arguments.
        without: options whose fields are left out. Default: none.
    """

    def fill(kind: C) -> C:
        if kind.__doc__:  # there is none under `python -OO`
            text = inspect.cleandoc(kind.__doc__).replace("See `bbrgym.envs.observation.FEATURES`.", _features())
            source = f"See `{options.__module__}.{options.__name__}`."
            kind.__doc__ = text.replace(source, _arguments(options, without))
        return kind

    return fill


def _features() -> str:
    heads = ("index", "feature", "meaning", "unit", "scale", "low", "high")
    rows = [(i, f.name, f.meaning, f.unit, f.scale, f"{f.low:g}", f"{f.high:g}") for i, f in enumerate(FEATURES)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows))


def _arguments(options: type[Options], without: type[Options] | None) -> str:
    declared_in = [inspect.getdoc(one) or "" for one in options.__mro__ if dataclasses.is_dataclass(one)]
    meanings = {
        name: text for one in declared_in for name, text in parse_attributes(one.partition("Attributes:\n")[2]).items()
    }
    others = set() if without is None else {field.name for field in dataclasses.fields(without)}
    shown = [
        f"* `{field.name}={field.default!r}`: {meanings[field.name]}.".replace("'", '"')
        for field in dataclasses.fields(options)
        if field.name not in others
    ]
    wrapper = textwrap.TextWrapper(116, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(map(wrapper.fill, shown))


def parse_attributes(docstring: str) -> dict[str, str]:
    """Return the entries of a docstring's list by name."""
    found = re.split(r"\n(?=\w)", "\n" + textwrap.dedent(docstring).rstrip())
    pairs = (entry.split(":", 1) for entry in found if ":" in entry)
    return {name.strip(): " ".join(meaning.split()).removesuffix(".").replace("``", "`") for name, meaning in pairs}
