# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym kernel``."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bbrgym.cli.terminal import named_table, new_run_dir, print_results, print_run_folder, take_run_dir
from bbrgym.errors import ConfigError
from bbrgym.host.controls import LoadedControl, find, kernel_errors, load, loaded, set_values, unload, unregistered
from bbrgym.host.floor import NAMES, Floor
from bbrgym.host.system import default_control
from bbrgym.schema import validated

_DAY_S = 86_400.0
FLOOR = ", ".join(f"{name}={value:g}" for name, value in zip(NAMES, Floor().values(), strict=True))

DESCRIPTION = """\
Loads a congestion control of ours into the running kernel, where every program of this machine may use it by its name,
until it is unloaded or the machine is restarted. It needs root.

examples:
  sudo bbrgym kernel load bbq bbq_alpha_us=1000        its name is gym_bbq, unless name=gym_MINE is given
  iperf3 -c HOST -C gym_bbq
  sudo bbrgym kernel set gym_bbq bbq_alpha_us=2000     its connections take it with their next packet
  sudo bbrgym kernel load shipped/flow                 a trained policy that comes along, as gym_flow
  sudo bbrgym kernel load runs/mine floor_rtt=3        its flows fall back to the preset below a floor; 0 s: never
  sudo bbrgym kernel watch gym_bbq --log flows.parquet
  sudo bbrgym kernel compare bbr gym_bbq ports=443     new connections get one at random, until Ctrl-C; then a report
  sudo bbrgym kernel unload gym_bbq                    or: unload all
"""

_COMPARE_OPTIONS = (
    "share=0.5 of the connections that get B; ports=80,443 of services (default: all); cgroup=PATH below the root of "
    "cgroups (default: all processes); least_bytes=N of data, below which a connection is not compared (default: 0); "
    "output_dir=DIR, or resume=DIR of an interrupted comparison"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    actions = parser.add_subparsers(required=True, dest="action", metavar="ACTION")
    one = actions.add_parser("load", help="load a variant of BBR, a shipped agent, or a policy")
    one.add_argument("target", metavar="VARIANT|shipped/NAME|RUN_DIR|POLICY.o")
    one.add_argument("values", nargs="*", metavar="TUNABLE=VALUE", help=f"name=gym_NAME, and of a policy {FLOOR}")
    one.add_argument("--default", action="store_true", help="new sockets take it; unloading puts the old default back")
    one.set_defaults(run_command=_load)
    actions.add_parser("list", help="show what is loaded").set_defaults(run_command=_list)
    one = actions.add_parser("set", help="change tunables or a policy's floor, of its open connections too")
    one.add_argument("name")
    one.add_argument("values", nargs="+", metavar="TUNABLE=VALUE")
    one.set_defaults(run_command=_set)
    one = actions.add_parser("watch", help="show connections, live, until Ctrl-C")
    one.add_argument("name", nargs="?", help="of the control (default: all)")
    one.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="default: 1")
    one.add_argument("--log", type=Path, metavar="FILE", help="Parquet, a row per connection and interval")
    one.set_defaults(run_command=_watch)
    one = actions.add_parser("compare", help="compare two controls on this machine's traffic, until Ctrl-C")
    one.add_argument("a", metavar="A", help="name of a control, loaded or the kernel's own")
    one.add_argument("b", metavar="B")
    one.add_argument("values", nargs="*", metavar="OPTION=VALUE", help=_COMPARE_OPTIONS)
    one.set_defaults(run_command=_compare)
    one = actions.add_parser("unload", help="take a control out of the kernel")
    one.add_argument("name", help="or: all")
    one.add_argument("--force", action="store_true", help="move the sockets that use it to the default")
    one.set_defaults(run_command=_unload)


def _load(options: argparse.Namespace) -> None:
    values = dict(_assignment(one) for one in options.values)
    name = values.pop("name", None)
    control = load(options.target, _numbers(values), name=name, is_default=options.default)
    default = ", the default of new sockets" if options.default else ""
    print_results(f"loaded: {control.name}{default}", *unregistered().values())


@kernel_errors()
def _list(options: argparse.Namespace) -> None:  # noqa: ARG001
    table = named_table("Loaded congestion controls", "name", "variant", "connections", "default", "tunables", "by")
    for one in loaded():
        default = "yes" if default_control() == one.name else ""
        if not one.is_ours:
            table.add_row(one.name, "?", "?", default, "?", f"another build: bbrgym {one.version}")
            continue
        connections = str(len(one.connections()))
        table.add_row(one.name, one.variant, connections, default, _settings(one), f"bbrgym {one.version}")
    print_results(table if table.row_count else "nothing is loaded", *unregistered().values())


def _set(options: argparse.Namespace) -> None:
    set_values(options.name, _numbers(dict(_assignment(one) for one in options.values)))
    print_results(f"{options.name}: {_settings(find(options.name))}")


def _settings(control: LoadedControl) -> str:
    """Return a policy with its floor, or the tunables."""
    values = dict(zip(NAMES, control.floor().values(), strict=True)) if control.policy else control.tunables()
    return ", ".join([*filter(None, [control.policy]), *(f"{name}={value:g}" for name, value in values.items())])


@kernel_errors()
def _watch(options: argparse.Namespace) -> None:
    if not 0 < options.interval <= _DAY_S:
        raise ConfigError(f"--interval: is {options.interval:g}, expected more than 0, and at most {_DAY_S:g} s")
    from bbrgym.host.watch import watch  # imports Polars, which no other action needs

    watch(options.name, interval_s=options.interval, log=options.log)


def _compare(options: argparse.Namespace) -> None:
    from bbrgym.host.comparison import ComparisonFolder, ComparisonRequest  # Polars, which no other action needs
    from bbrgym.host.comparison_report import write_comparison_report

    values: dict[str, Any] = dict(_assignment(one) for one in options.values)
    run_dir = {name: values.pop(name, default) for name, default in (("output_dir", None), ("resume", "false"))}
    run_dir["resume"] = {"true": True, "false": False}.get(run_dir["resume"], run_dir["resume"])
    path, resume = take_run_dir(run_dir)
    if "share" in values:
        values.update(_numbers({"share": values["share"]}))
    if "ports" in values:
        values["ports"] = [int(one) if one.isdecimal() else one for one in values["ports"].split(",")]
    if values.get("least_bytes", "").isdecimal():
        values["least_bytes"] = int(values["least_bytes"])
    request = validated(ComparisonRequest, {"a": options.a, "b": options.b, **values})
    folder = ComparisonFolder(path or new_run_dir("compare"))
    with folder.opened(resume=resume):
        request = folder.begin(request)
        folder.gather(request)
        again = ["kernel", "compare", options.a, options.b, *options.values]
        tables = write_comparison_report(folder, request, shlex.join(["bbrgym", *again]))
    print_results(*tables)
    print_run_folder(folder.path)


def _unload(options: argparse.Namespace) -> None:
    names: Sequence[str] = [options.name]
    if options.name == "all":
        names = [one.name for one in loaded() if one.is_ours]
    for name in names:
        moved = unload(name, is_forced=options.force, tell=print_results)
        print_results(f"unloaded: {name}{f', {moved} sockets now have {default_control()}' if moved else ''}")
    if not names:
        print_results("nothing is loaded", *unregistered().values())


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"{text!r}: expected NAME=VALUE")
    return name, value


def _numbers(values: dict[str, str]) -> dict[str, float]:
    numbers = {}
    for name, value in values.items():
        try:
            numbers[name] = float(value)
        except ValueError:
            raise ConfigError(f"{name}: is {value!r}, expected a number") from None
    return numbers
