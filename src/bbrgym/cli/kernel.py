# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym kernel``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from bbrgym.cli.plain_command import Words, values_of
from bbrgym.cli.terminal import named_table, new_run_dir, print_results, print_run_folder, take_run_dir
from bbrgym.errors import ConfigError, nearest
from bbrgym.host.controls import LoadedControl, find, kernel_errors, load, loaded, set_values, unload, unregistered
from bbrgym.host.floor import NAMES, Floor
from bbrgym.host.system import default_control
from bbrgym.schema import Float, Model, is_number, shown, validated

_DAY_S = 86_400.0
FLOOR = ", ".join(f"{name}={value:g}" for name, value in zip(NAMES, Floor().values(), strict=True))

DESCRIPTION = f"""\
Loads a congestion control of ours into the running kernel, where every program of this machine may use it by its name,
until it is unloaded or the machine is restarted. It needs root.

actions:
  load VARIANT|FILE.c|shipped/NAME|RUN_DIR|POLICY.o [TUNABLE=VALUE ...]
                            name=gym_NAME; default=true: new sockets take it, unloading puts the old default back;
                            of a policy {FLOOR}
  list                      shows what is loaded
  set NAME TUNABLE=VALUE ...    changes tunables or a policy's floor, of its open connections too
  watch [NAME]              shows connections, live, until Ctrl-C: interval=1 (s), log=FILE (Parquet, a row per
                            connection and interval)
  compare A B               compares two controls, loaded or the kernel's own, on this machine's traffic, until Ctrl-C:
                            share=0.5 of the connections get B; ports=80,443 of services (default: all); cgroup=PATH
                            below the root of cgroups (default: all processes); least_bytes=N of data, below which a
                            connection is not compared (default: 0); output_dir=DIR, or resume=DIR of an interrupted one
  unload NAME|all           takes a control out of the kernel; force=true moves the sockets that use it to the default

examples:
  sudo bbrgym kernel load bbq bbq_alpha_us=1000        its name is gym_bbq, unless name=gym_MINE is given
  iperf3 -c HOST -C gym_bbq
  sudo bbrgym kernel set gym_bbq bbq_alpha_us=2000     its connections take it with their next packet
  sudo bbrgym kernel load shipped/flow                 a trained policy that comes along, as gym_flow
  sudo bbrgym kernel load runs/mine floor_rtt=3        its flows fall back to the preset below a floor; 0 s: never
  sudo bbrgym kernel watch gym_bbq log=flows.parquet
  sudo bbrgym kernel compare bbr gym_bbq ports=443     new connections get one at random, until Ctrl-C; then a report
  sudo bbrgym kernel unload gym_bbq                    or: unload all
"""
WORDS = Words("ACTION ...", 1, math.inf)
HAS_OPTIONS = True


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Do what the action says."""
    action, *words = words
    if action not in _ACTIONS:
        raise ConfigError(f"ACTION: is {action!r}; {nearest(action, _ACTIONS)}")
    expected, work = _ACTIONS[action]
    expected.check(f"kernel {action}", words)
    work(words, values_of(given))


class _LoadOptions(Model):
    name: str | None = None
    default: bool = False


class _WatchOptions(Model):
    interval: Annotated[Float, Field(gt=0, le=_DAY_S)] = 1.0
    log: str | None = None


class _UnloadOptions(Model):
    force: bool = False


def _load(words: Sequence[str], values: dict[str, Any]) -> None:
    own = validated(_LoadOptions, {one: values.pop(one) for one in _LoadOptions.model_fields if one in values})
    control = load(words[0], _numbers(values), name=own.name, is_default=own.default)
    default = ", the default of new sockets" if own.default else ""
    print_results(f"loaded: {control.name}{default}", *unregistered().values())


@kernel_errors()
def _list(_: Sequence[str], values: dict[str, Any]) -> None:
    validated(Model, values)  # it has none
    table = named_table("Loaded congestion controls", "name", "variant", "connections", "default", "tunables", "by")
    for one in loaded():
        default = "yes" if default_control() == one.name else ""
        if not one.is_ours:
            table.add_row(one.name, "?", "?", default, "?", f"another build: bbrgym {one.version}")
            continue
        connections = str(len(one.connections()))
        table.add_row(one.name, one.variant, connections, default, _settings(one), f"bbrgym {one.version}")
    print_results(table if table.row_count else "nothing is loaded", *unregistered().values())


def _set(words: Sequence[str], values: dict[str, Any]) -> None:
    set_values(words[0], _numbers(values))
    print_results(f"{words[0]}: {_settings(find(words[0]))}")


def _settings(control: LoadedControl) -> str:
    """Return a policy with its floor, or the tunables."""
    values = dict(zip(NAMES, control.floor().values(), strict=True)) if control.policy else control.tunables()
    return ", ".join([*filter(None, [control.policy]), *(f"{name}={value:g}" for name, value in values.items())])


@kernel_errors()
def _watch(words: Sequence[str], values: dict[str, Any]) -> None:
    asked = validated(_WatchOptions, values)
    from bbrgym.host.watch import watch  # imports Polars, which no other action needs

    watch(words[0] if words else None, interval_s=asked.interval, log=None if asked.log is None else Path(asked.log))


def _compare(words: Sequence[str], values: dict[str, Any]) -> None:
    from bbrgym.host.comparison import ComparisonFolder, ComparisonRequest  # Polars, which no other action needs
    from bbrgym.host.comparison_report import write_comparison_report

    again = ["kernel", "compare", *words, *(f"{name}={value}" for name, value in values.items())]
    path, resume = take_run_dir(values := {"output_dir": None, "resume": False, **values})
    if is_number(values.get("ports")):
        values["ports"] = [values["ports"]]
    request = validated(ComparisonRequest, {"a": words[0], "b": words[1], **values})
    folder = ComparisonFolder(path or new_run_dir("compare"))
    with folder.opened(resume=resume):
        request = folder.begin(request)
        folder.gather(request)
        tables = write_comparison_report(folder, request, shlex.join(["bbrgym", *again]))
    print_results(*tables)
    print_run_folder(folder.path)


def _unload(words: Sequence[str], values: dict[str, Any]) -> None:
    is_forced = validated(_UnloadOptions, values).force
    names = [one.name for one in loaded() if one.is_ours] if words[0] == "all" else words
    for name in names:
        moved = unload(name, is_forced=is_forced, tell=print_results)
        print_results(f"unloaded: {name}{f', {moved} sockets now have {default_control()}' if moved else ''}")
    if not names:
        print_results("nothing is loaded", *unregistered().values())


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    for name, value in values.items():
        if not is_number(value):
            raise ConfigError(f"{name}: is {shown(value)}, expected a number")
    return {name: float(value) for name, value in values.items()}


_ACTIONS = {
    "load": (Words("VARIANT|shipped/NAME|RUN_DIR|POLICY.o"), _load),
    "list": (Words("", 0, 0), _list),
    "set": (Words("NAME"), _set),
    "watch": (Words("[NAME]", 0), _watch),
    "compare": (Words("A B", 2, 2), _compare),
    "unload": (Words("NAME or all"), _unload),
}
