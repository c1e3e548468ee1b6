# SPDX-License-Identifier: GPL-2.0-only
"""Libraries: few settings of a variant's tunables, one of which an action chooses.

A search writes a library, a person may too::

    variant: bbr-mix
    units:
      bbr_cwnd_gain: ratio
      use_probe_cap: switch
    settings:
      preset: {}
      draining: {bbr_cwnd_gain: 1.24, use_probe_cap: 1}

Values are in natural units; a tunable that a setting does not name has the variant's own value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import yaml
from pydantic import Field, model_validator

from bbrgym.envs.discrete import MAX_COMBINATIONS
from bbrgym.envs.scaling import NOT_BELOW
from bbrgym.errors import ConfigError, nearest
from bbrgym.runs.atomic_files import write_text
from bbrgym.scenario.flow import check_tunables
from bbrgym.schema import FieldProblem, Float, Model, shown, validated
from bbrgym.tunables import ARMS, TUNABLES, VARIANTS, nearest_variant
from bbrgym.untrusted_files import read_yaml
from bbrgym.worlds import Table, world_spec

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=64)]


class Library(Model):
    """Named settings of a variant's tunables."""

    variant: str  # name of the variant
    # unit of each tunable in the settings, checked against the table of tunables. Default: not checked
    units: dict[str, str] = Field(default_factory=dict)
    # values of tunables by the name of the setting, in the order of the actions
    settings: Annotated[dict[_Name, dict[str, Float]], Field(min_length=1, max_length=MAX_COMBINATIONS)]
    origin: Any = None  # how the library was found; not read

    @model_validator(mode="after")
    def _check(self) -> Library:
        if self.variant not in VARIANTS:
            raise FieldProblem("variant", f"is {shown(self.variant)}; {nearest_variant(self.variant)}")
        for setting, values in self.settings.items():
            try:
                check_tunables(self.variant, values)
            except FieldProblem as problem:
                path = problem.path.removeprefix("tunables.")
                raise FieldProblem(f"settings.{setting}.{path}", problem.problem) from None
            whole = {**VARIANTS[self.variant].preset, **values}
            for upper, lower in NOT_BELOW.items():
                if upper in whole and whole[upper] < whole[lower]:
                    raise FieldProblem(
                        f"settings.{setting}.{upper}",
                        f"is {whole[upper]:g}, expected at least {lower} = {whole[lower]:g}",
                    )
        for name, unit in self.units.items():
            if name not in self.tunables:
                raise FieldProblem(f"units.{name}", f"is {shown(unit)}, but no setting has it; have {self.tunables}")
            if unit != TUNABLES[name].unit:
                raise FieldProblem(f"units.{name}", f"is {shown(unit)}, expected {TUNABLES[name].unit!r}")
        if not self.tunables:
            raise FieldProblem("settings", f"is {shown(self.settings)}, expected one with a tunable at least")
        return self

    @property
    def tunables(self) -> tuple[str, ...]:
        """Names of the tunables in the settings, in the order of the variant's."""
        named = {name for values in self.settings.values() for name in values}
        return tuple(name for name in VARIANTS[self.variant].preset if name in named)

    def values(self, tunables: Sequence[str]) -> Table:
        """Return the values of tunables in each setting, [settings, tunables]."""
        preset = VARIANTS[self.variant].preset
        return np.array([[values.get(name, preset[name]) for name in tunables] for values in self.settings.values()])

    def plain(self) -> dict[str, Any]:
        """Return the library in the form of a library file, with all units."""
        fields = self.model_dump(mode="json", exclude_none=True)
        return {**fields, "units": {name: TUNABLES[name].unit for name in self.tunables}}


LibrarySource: TypeAlias = str | Path | Mapping[str, Any] | Library
"""A file (YAML or JSON), its contents, or a library."""


def load_library(source: LibrarySource, variant: str | None = None) -> Library:
    """Return a library.

    Args:
        source: what holds it.
        variant: name of the variant that it must be of. Default: any.

    Raises:
        ConfigError: the file cannot be read, or a field has a value that is not allowed.
    """
    library = source if isinstance(source, Library) else _read(source)
    if variant is not None and library.variant != variant:
        raise ConfigError(f"library.variant: is {library.variant!r}, expected that of the environment, {variant!r}")
    return library


def library_of_arms(arms: Sequence[str], variant: str, library: LibrarySource | None) -> Library:
    """Return the settings of variant ``switch`` that run one algorithm each, in the order of the actions.

    Raises:
        ConfigError: the variant is another one, an algorithm is not of it or stands twice, or there is a library.
    """
    if variant != "switch" or library is not None:
        given = f"variant {variant!r}" if library is None else "a library"
        raise ConfigError(f"action_kind: 'switch' with {given}, expected variant 'switch' and arms")
    for arm in arms:
        if arm not in ARMS:
            raise ConfigError(f"arms: {arm!r}: {nearest(str(arm), ARMS)}")
    if len(arms) < 2 or len(set(arms)) < len(arms):
        raise ConfigError(f"arms: {list(arms)}, expected two or more of {', '.join(ARMS)}, each once")
    return Library(variant=variant, settings={arm: {"switch_arm": float(ARMS.index(arm))} for arm in arms})


def check_arms(world: str, variant: str, library: Library | None) -> None:
    """Check that a world has the algorithms that actions may choose.

    Raises:
        ConfigError: it does not.
    """
    have, arms = world_spec(world).arms, set(ARMS if variant == "switch" else ())
    if library is not None:
        arms = {ARMS[int(values.get("switch_arm", 0))] for values in library.settings.values()} & arms
    for arm in sorted(arms - set(have)):
        raise ConfigError(f"arms: {arm!r}, which world {world!r} does not have, expected some of {', '.join(have)}")


def _read(source: str | Path | Mapping[str, Any]) -> Library:
    fields = read_yaml(Path(source)) if isinstance(source, str | Path) else source
    if not isinstance(fields, Mapping):
        given = f"file {str(source)!r} holds no mapping" if isinstance(source, str | Path) else f"is {shown(source)}"
        raise ConfigError(f"library: {given}, expected a file or a mapping with variant and settings")
    return validated(Library, dict(fields), "library.")


def write_library(path: Path, library: Library) -> None:
    """Write a library as YAML; the same library gives the same bytes.

    Raises:
        OSError: the file cannot be written.
    """
    write_text(path, yaml.safe_dump(library.plain(), sort_keys=False, default_flow_style=None, width=120))
