# SPDX-License-Identifier: GPL-2.0-only
"""The shipped experiments by paper and name, and experiments from other files."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bbrgym.errors import ConfigError, nearest
from bbrgym.papers.experiment import Experiment
from bbrgym.papers.names import PAPERS, experiment_names, folder
from bbrgym.papers.published_csv import expand_published
from bbrgym.scenario.files import is_scenario_file
from bbrgym.schema import first_problem, shown
from bbrgym.untrusted_files import read_yaml

#: Fields that ``like`` takes from another file.
_LIKE = (
    *("scenario", "sweep", "variants", "compared", "behind_radio", "recording", "interval_s", "figure", "seeds"),
    "notes",
)
#: Those in which only what differs need be given.
_MERGED = ("scenario", "sweep", "behind_radio")


def load_experiment(source: str) -> Experiment:
    """Load and check an experiment by name or from a file.

    Args:
        source: ``<paper>/<id>`` of a shipped experiment, or a file (.yaml) in a folder that is named after the paper.

    Raises:
        ConfigError: there is no such experiment, or a field of it is wrong.
    """
    if source in experiment_names():
        return _read(folder() / f"{source}.yaml", source)
    if is_scenario_file(source) and source.endswith((".yaml", ".yml")):
        return _read(Path(source), source)
    problem = f"is {shown(source)}; {nearest(source, experiment_names())}"
    raise ConfigError(f"experiment: {problem}, or a file (.yaml)")


def select_experiments(paper: str | None, names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of a paper but for those that run `by_name_only`, those of these names, or all.

    Raises:
        ConfigError: see `load_experiment`; both are given; or there is no such paper.
    """
    if names:
        if paper is not None:
            raise ConfigError(f"paper: is {shown(paper)} beside experiment, expected one of them")
        if len(set(names)) < len(names):
            raise ConfigError(f"experiment: is {shown(list(names))}, expected each once")
        return [load_experiment(name) for name in names]
    if paper is not None and paper not in PAPERS:
        raise ConfigError(f"paper: is {shown(paper)}; {nearest(paper, PAPERS)}")
    shipped = [load_experiment(name) for name in experiment_names() if paper in (None, name.split("/")[0])]
    return [one for one in shipped if paper is None or not one.by_name_only]


def _read(path: Path, source: str) -> Experiment:
    fields = _whole(path, source)
    try:
        numbers = list(expand_published(fields.get("published"), path.parent))
    except ConfigError as error:
        raise ConfigError(f"experiment {source}: {error}") from error
    if numbers:
        fields["published"] = [number for number, _ in numbers]
    if isinstance(fields.get("claims"), list):
        fields["claims"] = [one for claim in fields["claims"] for one in _claims_of(claim, fields)]
    try:
        return Experiment.model_validate({"paper": path.absolute().parent.name, "id": path.stem, **fields})
    except ValidationError as error:
        problem = ": ".join(first_problem(error, Experiment))
        raise ConfigError(f"experiment {source}: {_with_files(problem, numbers)}") from None


def _with_files(problem: str, numbers: Sequence[tuple[Any, str]]) -> str:
    """Return a problem with the place in a file of each published number that it names by the place in the model."""

    def place(match: re.Match[str]) -> str:
        where = numbers[int(match[1])][1]
        return where + (f"{', column ' if where.startswith(chr(39)) else '.'}{match[2]}" if match[2] else "")

    return re.sub(r"\bpublished\[(\d+)\](?:\.(\w+))?", place, problem)


def _whole(path: Path, source: str, *before: Path) -> dict[str, Any]:
    """Return the fields of a file, merged over those of the experiment named ``like``, except ``before``."""
    fields = _fields_in(path, source)
    if "like" not in fields:
        return fields
    other = path.parent / f"{fields.pop('like')}.yaml"
    if other in (path, *before):
        raise ConfigError(f"experiment {source}: like: is {other.stem}, which is like this one")
    shared = _whole(other, f"{source}: like", path, *before)
    parts = {name: _merged(shared[name], fields[name]) for name in _MERGED if name in shared and name in fields}
    if isinstance(parts.get("sweep"), dict) and {"at", "set"} <= fields["sweep"].keys():
        parts["sweep"]["set"] = fields["sweep"]["set"]  # points of its own have values of their own
    return {**{name: shared[name] for name in _LIKE if name in shared}, **fields, **parts}


def _fields_in(path: Path, source: str) -> dict[str, Any]:
    fields = read_yaml(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"experiment {source}: holds no mapping, expected the fields of an experiment")
    return fields


def _claims_of(claim: Any, fields: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a claim; one with ``each_at`` for each of these points and each variant named in braces."""
    if isinstance(claim, dict) and "figure" in fields:
        claim = {"source": fields["figure"], **claim}
    if not isinstance(claim, dict) or not isinstance(claim.get("each_at"), list):
        yield claim
        return
    for at, variant in itertools.product(claim["each_at"], fields.get("variants", ())):
        place = {"variant": variant, "at": at}
        sides = {side: {**claim[side], **place} for side in ("less", "than") if isinstance(claim.get(side), Mapping)}
        own = {name: value for name, value in claim.items() if name != "each_at"}
        yield {
            **own,
            **sides,
            "text": str(claim.get("text", "")).replace("{at}", str(at)).replace("{variant}", variant),
        }


def _merged(shared: Any, own: Any) -> Any:
    """Return mappings merged recursively; anything else, and a part of another kind, is the experiment's own."""
    if not isinstance(shared, dict) or not isinstance(own, dict) or shared.get("kind") != own.get("kind"):
        return own
    return {**shared, **{name: _merged(shared.get(name), value) for name, value in own.items()}}
