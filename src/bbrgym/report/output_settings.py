# SPDX-License-Identifier: GPL-2.0-only
"""Settings of a command's output beside tables: format and style of figures, and copies of records as CSV."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Literal

from pydantic import Field

from bbrgym.runs.drawing import chosen_by_environment
from bbrgym.schema import Model, validated


class FigureSettings(Model):
    """Files of the figures."""

    # of each file in figures/. Default: png, and no files unless a style or BBRGYM_FIGURES asks for them
    format: Literal["png", "pdf", "svg"] | None = None
    # ``paper`` is for a two-column paper: widths of 3.35 or 7 inches, letters of 7 points, and no heading, in whose
    # place a paper has a caption
    style: Literal["screen", "paper"] = "screen"

    @property
    def are_asked_for(self) -> bool:
        """Wish for the figures of a page as files too."""
        return self.format is not None or self.style != "screen" or chosen_by_environment() == "all"


class RecordSettings(Model):
    """Copies of the records."""

    csv: bool = False  # whether each Parquet file has a CSV file beside it


class OutputSettings(Model):
    """Settings of the files that a command writes beside tables."""

    figures: FigureSettings = Field(default_factory=FigureSettings)
    records: RecordSettings = Field(default_factory=RecordSettings)


#: Options of a command on which its records do not depend.
OUTPUT_OPTIONS = tuple(OutputSettings.model_fields)


def taken_output_settings(config: MutableMapping[str, Any]) -> OutputSettings:
    """Take the settings out of a command's options, and check them."""
    return validated(OutputSettings, {name: config.pop(name) for name in OUTPUT_OPTIONS if name in config})
