# SPDX-License-Identifier: GPL-2.0-only
"""The command ``bbrgym``.

Exit codes: 0 done, 1 a run broke, 2 the request is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import bbrgym
from bbrgym.cli import evaluate, export, listing, scenario, serve, sweep, train
from bbrgym.cli.terminal import error_console
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, TrainingError
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.worlds import WorldError

_COMMANDS = (evaluate, train, export, sweep, serve, listing, scenario)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.run is not serve.run:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    options.others = others
    errors = error_console()
    try:
        options.run(options)
    except (ConfigError, MissingExtraError) as error:
        errors.print(f"bbrgym: {error}")
        return 2
    except (ProtocolError, SweepError, TrainingError, WorldError) as error:
        errors.print(f"bbrgym: {error}")
        return 1
    except KeyboardInterrupt:
        errors.print(f"bbrgym: interrupted{options.left}")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bbrgym", description="A Gymnasium for tuning BBR-family congestion control.")
    parser.add_argument("--version", action="version", version=f"bbrgym {bbrgym.__version__}")
    parser.set_defaults(left="; what is finished is kept, and resume=true with output_dir=DIR goes on")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    return parser
