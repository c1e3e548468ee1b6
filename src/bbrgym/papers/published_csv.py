# SPDX-License-Identifier: GPL-2.0-only
"""Published numbers in a CSV file beside an experiment, a row for each number.

    published: [{csv: fifo.csv, flow: l4s}]             # fields that all rows share

    variant,metric,unit,source,at,value,lowest,highest  # fifo.csv: the fields that differ
    beside cubic,share,ratio,cubic.json,0.5,0.466,0.432,0.5
    beside cubic,share,ratio,cubic.json,1,0.425,0.362,0.5

Rows that differ in numbers alone become one entry of ``published``, in the order of their first rows. An empty cell
means that the field is not given. ``causes`` gives the ``cause`` of the entries of a variant, by its name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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


@dataclass(frozen=True)
class Entry:
    """An entry of ``published``."""

    fields: Any  # of a `Published`, not validated
    path: str  # where it stands in the experiment's file, e.g. ``published[0]``
    rows: str = ""  # the file and the rows that it is from. Default: the experiment's file alone
    columns: tuple[str, ...] = ()  # of that file

    def where(self, field: str) -> str:
        """Return the place of a field for an error; of the entry if the name is empty."""
        if not field:
            return self.rows or self.path
        if field in self.columns or (self.rows and field not in self.fields):
            return f"{self.rows}, column {field}"
        return f"{self.path}.{field}"


def expand_published(published: Any, folder: Path) -> list[Entry]:
    """Return the entries of ``published``, with those that name a CSV file replaced by the entries in it.

    Raises:
        ConfigError: a file cannot be read, or a column or cell of it is wrong.
    """
    entries: list[Entry] = []
    for index, fields in enumerate(published if isinstance(published, list) else ()):
        path = f"published[{index}]"
        if isinstance(fields, dict) and "csv" in fields:
            entries += _entries_in(folder, fields, path)
        else:
            entries.append(Entry(fields, path))
    return entries


def _entries_in(folder: Path, fields: Mapping[str, Any], path: str) -> list[Entry]:
    shared = {name: value for name, value in fields.items() if name not in ("csv", "causes")}
    if not isinstance(fields["csv"], str):
        raise ConfigError(f"{path}.csv: is {shown(fields['csv'])}, expected the name of a file beside the experiment")
    file = folder / fields["csv"]
    table = cells_of(file)
    _check_columns(table.columns, shared, file, path)
    if table.is_empty():
        raise ConfigError(f"{str(file)!r}: has no rows, expected one for each number")
    cells = table.to_dict(as_series=False)
    series: dict[tuple[str | None, ...], list[int]] = {}
    for index in range(table.height):
        key = tuple(column[index] for name, column in cells.items() if name in _TEXTS)
        series.setdefault(key, []).append(index)
    entries = []
    for indices in series.values():
        own = shared | _fields(cells, indices, file)
        rows = f"row {indices[0] + _FIRST_ROW}" if len(indices) == 1 else f"rows from {indices[0] + _FIRST_ROW} on"
        entries.append(Entry(own, path, f"{str(file)!r}: {rows}", tuple(table.columns)))
    _add_causes(entries, fields.get("causes", {}), path)
    return entries


def _add_causes(entries: list[Entry], causes: Any, path: str) -> None:
    if not isinstance(causes, dict):
        raise ConfigError(f"{path}.causes: is {shown(causes)}, expected texts by variant")
    variants = dict.fromkeys(str(entry.fields.get("variant")) for entry in entries)
    for variant in causes:
        if variant not in variants:
            problem = nearest(shortened(variant), variants, "the file")
            raise ConfigError(f"{path}.causes: has variant {shown(variant)}; {problem}")
    for entry in entries:
        variant = str(entry.fields.get("variant"))
        if variant in causes:
            entry.fields["cause"] = causes[variant]


_FIRST_ROW = 2  # the names of the columns are row 1


def cells_of(file: Path) -> pl.DataFrame:
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


def _fields(cells: Mapping[str, list[str | None]], indices: list[int], file: Path) -> dict[str, Any]:
    """Return the fields of the rows of one entry: texts that they share, and a list for each column of numbers."""
    fields: dict[str, Any] = {}
    for name, column in cells.items():
        if all(column[index] is None for index in indices):
            continue
        if name in _TEXTS:
            fields[name] = column[indices[0]]
        else:
            fields[name] = [_number(column[index], file, index, name) for index in indices]
    return fields


def _number(cell: str | None, file: Path, index: int, column: str) -> float:
    try:
        number = float(cell or "")
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        problem = "is empty" if cell is None else f"is {shown(cell)}"
        raise ConfigError(f"{str(file)!r}: row {index + _FIRST_ROW}, column {column}: {problem}, expected a number")
    return number
