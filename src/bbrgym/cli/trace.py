# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym trace``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import astuple
from typing import Annotated, ClassVar

from pydantic import Field
from rich.table import Table

from bbrgym.cli.scenario import draw_of, scenario_of
from bbrgym.cli.terminal import BarState, new_run_dir, print_results, print_run_folder, progress_bar, take_output_dir
from bbrgym.config.overrides import parse_override
from bbrgym.errors import ConfigError
from bbrgym.runs.run_folder import RunFolder
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Float, Model, Whole, validated
from bbrgym.trace.tracing import FORMATS, TracedFlowCounts, checked_formats, write_trace
from bbrgym.worlds import WorldSettings

DESCRIPTION = f"""\
Runs a scenario once and writes every packet and every ACK's decision of the run:
{"".join(f"{chr(10)}  format={name:9} trace{one.suffix:8} {one.meaning}" for name, one in FORMATS.items())}

A list of formats writes several files of the same run. The files get their names when the run is over.

examples:
  bbrgym trace scenario=steady variant=bbr3
  bbrgym trace scenario=rtt_fairness scenario.duration_s=10 world=ns3 'format=[qlog,pcapng,csv]'
  bbrgym trace scenario=mine.yaml variant=null format=pcapng output_dir=runs/look
"""


class TraceSettings(Model):
    """Options of a trace."""

    variant: str | None  # of the tuned flows. None: as the scenario says.
    tunables: dict[str, Float]  # of the tuned flows
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)]  # of the run
    split: str  # of a distribution
    world: Annotated[dict[str, WorldSettings], Field(min_length=1, max_length=1)]  # settings of the world, by its name


class TraceFolder(RunFolder):
    """The run folder of a trace: the files, and at last ``config.yaml``."""

    command: ClassVar[str] = "trace"


MODELS = (TraceSettings,)


def run(options: argparse.Namespace) -> None:
    """Run the scenario, write the trace, and print the run's counts."""
    config = dict(options.config)
    _check_isolation(options.overrides)
    formats = checked_formats(config["format"])
    source = scenario_of(config["scenario"])
    path = take_output_dir(dict(config), options.run_dir)
    settings = validated(TraceSettings, {name: config[name] for name in TraceSettings.model_fields})
    scenario = _with_variant(draw_of(source, config["draw"], settings.split), settings)
    world, world_settings = next(iter(settings.world.items()))
    folder = TraceFolder(path or new_run_dir(f"trace-{scenario.name}"))
    total_s = scenario.duration_s
    bar = progress_bar(lambda now_s: BarState(now_s, total_s, f"{now_s:.1f} of {total_s:g} simulated s"))
    with folder.opened(resume=False), bar as show:
        result = write_trace(
            scenario,
            folder.path,
            formats=formats,
            world=world,
            seed=settings.seed,
            timeout_s=world_settings.timeout_s,
            options=world_settings.options,
            on_progress=show,
        )
        folder.write_config({**config, "scenario": scenario.model_dump(mode="json")})
    print_results(_table(result.flows), *(f"{name}: {path}" for name, path in result.files.items()))
    print_run_folder(folder.path, has_page=False)


def _check_isolation(overrides: Sequence[str]) -> None:
    for text in overrides:
        key = parse_override(text).key_or_group
        if key.startswith("world.") and key.endswith(".isolation"):
            raise ConfigError(f"{key}: is given, but a trace runs in this process; expected without it")


def _with_variant(scenario: Scenario, settings: TraceSettings) -> Scenario:
    if settings.variant is not None:
        return with_variant(scenario, settings.variant, settings.tunables)
    if settings.tunables:
        raise ConfigError(f"tunables: are {settings.tunables!r} with variant=null, expected a variant with them")
    return scenario


def _table(flows: Sequence[TracedFlowCounts]) -> Table:
    table = Table("flow", "cc")
    for title in ("sent", "sent again", "marked lost", "dropped", "delivered"):
        table.add_column(title, justify="right")
    for flow in flows:
        name, cc, *counts = astuple(flow)
        table.add_row(name, cc, *(f"{count:,}" for count in counts))
    return table
