# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym path``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from bbrgym.cli.composition import compose_config
from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import print_results
from bbrgym.errors import ConfigError
from bbrgym.paths.detect import FORMATS, read_log
from bbrgym.paths.fit import FittedValue, PathFit
from bbrgym.paths.fit_figure import fit_figures
from bbrgym.paths.fitted_scenario import write_scenario
from bbrgym.paths.mirror import checked_fit
from bbrgym.paths.samples import PathLog
from bbrgym.report.figure_spec import FigureSpec
from bbrgym.runs.drawing import reason_not_to_draw
from bbrgym.scenario.files import read_scenario
from bbrgym.scenario.shipped import MIX

DESCRIPTION = f"""\
Makes a scenario of the log of a transfer on a real path, for the other commands: scenario=path.yaml. Several logs make
a distribution, each draw of which is one of them. It prints what the logs tell, with intervals of 95 %, and draws a run
of each fitted path over its log, beside the scenario. A fit that a run with the log's own congestion control refutes,
or that cannot be checked so, tells bounds alone.

A log is known by its content:
{"".join(f"{chr(10)}  {one}" for one in FORMATS)}

A log tells most if the transfer takes at least 10 s, fills the path, and is watched where its data comes from.

examples:
  iperf3 -c HOST -t 20 -C bbr --json > upload.json
  while sleep 0.1; do date +%s.%N; ss -tin dst HOST; done > upload.ss
  bbrgym path upload.ss output=mine.yaml
  bbrgym evaluate scenario=mine.yaml
"""
WORDS = Words("LOG ...", 1, math.inf)

_SHARES: dict[tuple[bool | None, bool | None], str] = {
    (None, None): "not seen",
    (False, None): "steady",
    (False, False): "steady",
    (True, False): "varies",
    (True, True): "shared with other traffic, or varies all the time",
}


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Read the logs, fit the paths, write the scenario and print the results."""
    output = Path(str(compose_config("path", given)["output"]))
    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"output: is {str(output)!r}, expected the name of a file that ends in .yaml")
    logs, fits = read_logs(words)
    written = [f"{'trace' if index else 'scenario'}: {file}" for index, file in enumerate(write_scenario(fits, output))]
    fields = read_scenario(output)
    figures = fit_figures(logs, fits, fields.get(MIX, [fields]), output.stem)
    print_results(fit_table(fits), *fit_notes(fits), *written, *_draw(figures, output.parent))


def _draw(figures: Sequence[FigureSpec], folder: Path) -> list[str]:
    """Draw figures; return a line for people on each, or on why there is none."""
    missing = reason_not_to_draw()
    if missing is not None:
        return [missing]
    from bbrgym.report.matplotlib_renderer import write_figures  # Matplotlib, which only the end of a command needs

    write_figures(folder, figures)
    return [f"figure: {folder / figure.name}.png" for figure in figures]


def read_logs(names: Sequence[str]) -> tuple[dict[str, PathLog], dict[str, PathFit]]:
    """Return logs, and fits of their paths, by the names of the files."""
    if len(set(names)) < len(names):
        raise ConfigError("a log is given twice, expected each once")
    logs = {name: read_log(Path(name)) for name in names}
    return logs, {name: checked_fit(log) for name, log in logs.items()}


def fit_table(fits: dict[str, PathFit]) -> Table:
    """Return what was found of each log."""
    table = Table(title="Paths", title_justify="left")
    for heading in ("log", "format", "watched", "base RTT", "capacity", "buffer", "random loss", "rate"):
        table.add_column(heading, overflow="fold")
    for log, fit in fits.items():
        count = f", {fit.connections} connections" if fit.connections > 1 else ""
        table.add_row(
            log,
            fit.format,
            f"{fit.duration_s:.1f} s{count}",
            _shown(fit.base_rtt_s, 1e3, "ms"),
            _shown(fit.rate_mbps, 1, "Mbit/s"),
            _shown(fit.buffer_bytes, 1e-3, "kB"),
            _shown(fit.random_loss, 1e2, "%"),
            _SHARES[fit.varies, fit.competitor],
        )
    return table


def fit_notes(fits: Mapping[str, PathFit]) -> list[str]:
    """Return a line for each log of which there is more to say."""
    return [f"{log}: {'; '.join(fit.notes)}" for log, fit in fits.items() if fit.notes]


def _shown(estimate: FittedValue, times: float, unit: str) -> str:
    low, high = estimate.low * times, estimate.high * times
    if not estimate.is_seen:
        if math.isfinite(low):
            return f"at least {low:.4g} {unit}"
        if math.isfinite(high):
            return f"at most {high:.4g} {unit}"
        return "not seen"
    if not math.isfinite(low):
        return f"{estimate.value * times:.4g} {unit}, at most {high:.4g}"
    return f"{estimate.value * times:.4g} {unit} ({low:.4g} to {high:.4g})"
