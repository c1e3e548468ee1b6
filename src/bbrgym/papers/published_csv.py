# SPDX-License-Identifier: GPL-2.0-only
"""Published numbers in a CSV file beside an experiment, a row for each number.

    published: [{csv: fifo.csv, flow: l4s}]             # fields that all rows share

    variant,metric,unit,source,at,value,lowest,highest  # fifo.csv: the fields that differ
    beside cubic,share,ratio,cubic.json,0.5,0.466,0.432,0.5
    beside cubic,share,ratio,cubic.json,1,0.425,0.362,0.5

An empty cell means that the field is not given. ``causes`` gives the ``cause`` of the numbers of each variant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.errors import ConfigError, nearest
from bbrgym.papers.experiment import Published
from bbrgym.schema import shown
from bbrgym.untrusted_files import read_text

MAX_CSV_BYTES = 2**22

_NUMBERS = ("at", "value", "lowest", "highest", "model")
_FIRST_ROW = 2  # the names of the columns are row 1


def expand_published(published: Any, folder: Path) -> Iterator[tuple[Any, str]]:
    """Yield the fields of each number, not validated, and where it stands: each point of a list, each row of a file.

    Raises:
        ConfigError: a list has another length than ``at``, or a CSV file cannot be used.
    """
    for index, fields in enumerate(published if isinstance(published, list) else ()):
        path = f"published[{index}]"
        if isinstance(fields, dict) and "csv" in fields:
            yield from _rows_of(folder, fields, path)
        elif isinstance(fields, dict):
            yield from ((one, path) for one in _each_point(fields, path))
        else:
            yield fields, path


def _each_point(fields: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    lists = {name: fields[name] for name in _NUMBERS if name in fields}
    lists = {name: values if isinstance(values, list) else [values] for name, values in lists.items()}
    points = len(lists.get("at", [None]))
    for name, values in lists.items():
        if len(values) != points:
            raise ConfigError(f"{path}.{name}: has {len(values)} values, expected one for each of {points} points")
    for index in range(points):
        yield {**fields, **{name: values[index] for name, values in lists.items()}}


def _rows_of(folder: Path, fields: Mapping[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    shared, causes = {name: fields[name] for name in fields if name not in ("csv", "causes")}, fields.get("causes", {})
    if not isinstance(fields["csv"], str) or not isinstance(causes, dict):
        given = f"csv {shown(fields['csv'])} and causes {shown(causes)}"
        raise ConfigError(f"{path}: has {given}, expected the name of a file and texts by variant")
    file = folder / fields["csv"]
    text = read_text(file, MAX_CSV_BYTES)
    try:
        table = pl.read_csv(text.encode(), infer_schema=False)
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise ConfigError(f"cannot read {str(file)!r}: no CSV") from None  # the error's text may quote the file
    for number, name in enumerate(table.columns, 1):
        if name not in Published.model_fields:  # which is not shown: the file may be another one
            hint = nearest(name, Published.model_fields, "help(bbrgym.papers.experiment.Published)")
            raise ConfigError(f"{str(file)!r}: row 1, column {number}: is not a field; {hint}")
    if twice := shared.keys() & set(table.columns):
        raise ConfigError(f"{str(file)!r}: column {min(twice)} stands in {path} too, expected it in one of them")
    if table.is_empty():
        raise ConfigError(f"{str(file)!r}: has no rows, expected one for each number")
    rows = [{**shared, **_given(cells)} for cells in table.iter_rows(named=True)]
    variants = dict.fromkeys(str(row.get("variant")) for row in rows)
    for variant in causes:
        if variant not in variants:
            raise ConfigError(f"{path}.causes: has variant {shown(variant)}; {nearest(str(variant), variants)}")
    for number, row in enumerate(rows, _FIRST_ROW):
        cause = causes.get(row.get("variant"))
        yield {**row, **({} if cause is None else {"cause": cause})}, f"{str(file)!r}: row {number}"


def _given(cells: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the cells that are not empty, numbers as numbers where they are; the model refuses others."""
    given: dict[str, Any] = {name: cell for name, cell in cells.items() if cell is not None}
    for name in given.keys() & set(_NUMBERS):
        with suppress(ValueError):
            given[name] = float(given[name])
    return given
