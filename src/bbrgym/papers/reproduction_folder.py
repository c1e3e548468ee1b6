# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping

from bbrgym.evaluate.records import EvaluationFolder


class ReproductionFolder(EvaluationFolder):
    """Run folder of a reproduction.

    It holds jobs/, failures.json (why runs broke, by their keys), numbers.parquet, measurements.parquet, figures/ and
    report.html.
    """

    command = "reproduce"

    def read_failures(self) -> dict[str, str]:
        """Return why runs broke in the last attempt, by their keys.

        Raises:
            ConfigError: the file is damaged.
        """
        return self.read_json("failures.json")

    def write_failures(self, reasons: Mapping[str, str]) -> None:
        """Write why runs broke, by their keys."""
        self.write_json("failures.json", reasons)
