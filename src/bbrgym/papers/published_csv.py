# SPDX-License-Identifier: GPL-2.0-only
"""Published numbers in a CSV file beside an experiment, a row for each number.

    published: [{csv: fifo.csv, flow: l4s}]             # fields that all rows share

    variant,metric,unit,source,at,value,lowest,highest  # fifo.csv: the fields that differ
    beside cubic,share,ratio,cubic.json,0.5,0.466,0.432,0.5
    beside cubic,share,ratio,cubic.json,1,0.425,0.362,0.5

An empty cell means that the field is not given. ``causes`` gives the ``cause`` of the numbers of each variant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shortened, shown
from bbrgym.untrusted_files import read_text

MAX_CSV_BYTES = 2**22

_TEXTS = ("variant", "metric", "flow", "over", "unit", "source")
_NUMBERS = ("at", "value", "lowest", "highest", "model")
_COLUMNS = (*_TEXTS, *_NUMBERS)
_FIRST_ROW = 2  # the names of the columns are row 1


@dataclass(frozen=True)
class Entry:
    """An entry of ``published``."""

    fields: Any  # of a `Published`, not validated
    path: str  # where it stands in the experiment's file, e.g. ``published[0]``
    row: str = ""  # the file and the row that it is from. Default: the experiment's file alone

    def where(self, field: str) -> str:
        """Return the place of a field for an error; of the entry if the name is empty."""
        if self.row and field in _COLUMNS:
            return f"{self.row}, column {field}"
        return (self.row or self.path) if not field else f"{self.path}.{field}"


def expand_published(published: Any, folder: Path) -> Iterator[Entry]:
    """Yield an entry for each number: for each point of those in ``published``, for each row of a CSV file there.

    Raises:
        ConfigError: a list has another length than ``at``; a file cannot be read, or a column or cell of it is wrong.
    """
    for index, fields in enumerate(published if isinstance(published, list) else ()):
        path = f"published[{index}]"
        if isinstance(fields, dict) and "csv" in fields:
            yield from _entries_in(folder, fields, path)
        elif isinstance(fields, dict):
            yield from (Entry(one, path) for one in _each_point(fields, path))
        else:
            yield Entry(fields, path)


def _each_point(fields: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    lists = {name: fields[name] for name in _NUMBERS if name in fields}
    lists = {name: values if isinstance(values, list) else [values] for name, values in lists.items()}
    points = len(lists.get("at", [None]))
    for name, values in lists.items():
        if len(values) != points:
            raise ConfigError(f"{path}.{name}: has {len(values)} values, expected one for each of {points} points")
    for index in range(points):
        yield {**fields, **{name: values[index] for name, values in lists.items()}}


def _entries_in(folder: Path, fields: Mapping[str, Any], path: str) -> Iterator[Entry]:
    shared = {name: value for name, value in fields.items() if name not in ("csv", "causes")}
    if not isinstance(fields["csv"], str):
        raise ConfigError(f"{path}.csv: is {shown(fields['csv'])}, expected the name of a file beside the experiment")
    file = folder / fields["csv"]
    table = _cells_of(file)
    _check_columns(table.columns, shared, file, path)
    if table.is_empty():
        raise ConfigError(f"{str(file)!r}: has no rows, expected one for each number")
    variants = dict.fromkeys(table["variant"] if "variant" in table.columns else [str(shared.get("variant"))])
    causes = fields.get("causes", {})
    if not isinstance(causes, dict):
        raise ConfigError(f"{path}.causes: is {shown(causes)}, expected texts by variant")
    for variant in causes:
        if variant not in variants:
            problem = nearest(shortened(variant), variants, "the file")
            raise ConfigError(f"{path}.causes: has variant {shown(variant)}; {problem}")
    for number, cells in enumerate(table.iter_rows(named=True), _FIRST_ROW):
        row = f"{str(file)!r}: row {number}"
        own = {name: _number(cell, f"{row}, column {name}", name) for name, cell in cells.items() if cell is not None}
        if "value" not in own:
            raise ConfigError(f"{row}, column value: is empty, expected a number")
        known = {**shared, **own}
        cause = {"cause": causes[known.get("variant")]} if known.get("variant") in causes else {}
        yield Entry({**known, **cause}, path, row)


def _cells_of(file: Path) -> pl.DataFrame:
    """Return the cells of a CSV file as texts, null where they are empty.

    Raises:
        ConfigError: it cannot be read.
    """
    text = read_text(file, MAX_CSV_BYTES)
    try:
        return pl.read_csv(text.encode(), infer_schema=False)
    except (ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise ConfigError(f"cannot read {str(file)!r}: no CSV") from None  # the error's text may quote the file


def _check_columns(columns: list[str], shared: Mapping[str, Any], file: Path, path: str) -> None:
    if "value" not in columns:
        raise ConfigError(f"{str(file)!r}: column value is missing, allowed are {', '.join(_COLUMNS)}")
    for name in columns:
        if name not in _COLUMNS:
            problem = f"column {shortened(name)} is unknown; {nearest(shortened(name), _COLUMNS)}"
            raise ConfigError(f"{str(file)!r}: {problem}")
        if name in shared:
            raise ConfigError(f"{str(file)!r}: column {name} stands in {path} too, expected it in one of them")


def _number(cell: str, where: str, column: str) -> str | float:
    """Return a text as it is, or a number."""
    if column in _TEXTS:
        return cell
    try:
        number = float(cell)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{where}: is {shown(cell)}, expected a number")
    return number
