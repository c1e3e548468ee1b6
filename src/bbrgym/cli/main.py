# SPDX-License-Identifier: GPL-2.0-only
"""The command ``bbrgym``.

Exit codes: 0 done, 1 a run broke or the machine has no room for it, 2 the request is wrong, 130 interrupted by Ctrl-C
or SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import signal
import sys
from collections.abc import Collection, Sequence
from typing import NoReturn

import bbrgym
from bbrgym.cli.interrupts import came, interrupt, interruptible
from bbrgym.cli.terminal import error_console
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, TrainingError, one_line
from bbrgym.host.errors import HostError
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.runs import drawing
from bbrgym.worlds import WorldError

#: What each command is for; its module is imported when it is asked for.
_COMMANDS = {
    "evaluate": "compare variants on a scenario",
    "bench": "run the frozen benchmark, or check its results",
    "reproduce": "run the papers' experiments",
    "trace": "write every packet and every ACK's decision of a run",
    "conformance": "run the test cases of BBR's Internet-Draft",
    "train": "train an agent",
    "adversary": "search for networks where an entrant loses most",
    "explain": "say what a trained agent does",
    "export": "write a trained agent's network",
    "report": "make the tables, figures and page of a multirun",
    "serve": "let an ns3-gym agent drive a world",
    "list": "show all names to choose from: variants, tunables, scenarios, experiments, worlds, agents",
    "scenario": "print a scenario's resolved JSON",
    "path": "make a scenario of measurements of a real path",
    "advise": "compare congestion controls on a measured path",
    "kernel": "let every program of this machine use our congestion controls",
    "doctor": "tell what worlds miss on this machine",
}
_MODULES = {"list": "listing", "report": "report_multirun"}  # of another name than the command
_PROGRAMS = ("evaluate", "reproduce", "trace", "train", "serve", "adversary")  # Hydra programs
_KEEPING = ("evaluate", "reproduce", "train", "adversary")
_INTERRUPTED = 130
_NO_THREAD = "can't start new thread"  # Python's RuntimeError


def program() -> NoReturn:
    """Run the command as this process and end it; a Ctrl-C after the first does not change the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    try:
        code = main()
    except KeyboardInterrupt:  # while main reports the first one
        code = _INTERRUPTED
    except Exception:
        if not came:
            raise
        error_console().print("bbrgym: interrupted")
        code = _INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter takes a while to end
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    errors = error_console()
    is_keeping = False
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if given[:1] and given[0] in ("-sc", "--shell-completion"):
            importlib.import_module("bbrgym.cli.completion").complete(given[1:], list(_COMMANDS), _PROGRAMS, _parsed)
            return 0
        options = _parsed(given)
        drawing.are_left_out()  # what it is must be known before anything runs
        is_keeping = options.command in _KEEPING
        with interruptible():
            (options.run_command if "run_command" in options else options.run)(options)
        sys.stdout.flush()
    except (ConfigError, MissingExtraError) as error:
        errors.print(f"bbrgym: {error}")
        return 2
    except (HostError, ProtocolError, SweepError, TrainingError, WorldError) as error:
        errors.print(f"bbrgym: {error}")
        return 1
    except (OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != _NO_THREAD:
            raise
        kept = "; what is finished is kept" if is_keeping else ""
        errors.print(f"bbrgym: {_shortage(error)}{kept}")
        _discard_output()
        return 1
    except KeyboardInterrupt as error:
        errors.print(f"bbrgym: interrupted{f'; {error}' if str(error) else ''}")
        return _INTERRUPTED
    return 0


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    parser = _parser([name for name in _COMMANDS if name in given])
    options, others = parser.parse_known_args(given)
    translate = getattr(options, "other_flags", None)
    if "overrides" in options:  # argparse takes no more of them after a flag
        options.overrides += [translate(one) if translate and one.startswith("-") else one for one in others]
        others = [] if translate else [one for one in others if one.startswith("-")]
        options.overrides = [one for one in options.overrides if one not in others]
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return options


def _shortage(error: OSError | MemoryError | RuntimeError) -> str:
    """Return a sentence on a file, a descriptor, memory or a thread that the system refuses."""
    if isinstance(error, RuntimeError):
        return "a thread cannot be started: ulimit -u sets how many a user may have, ulimit -v the memory for them"
    if isinstance(error, MemoryError):
        return f"out of memory{f': {one_line(error)}' if str(error) else ''}"
    file = f": {str(error.filename)!r}" if error.filename is not None else ""
    remedy = ", ulimit -n sets how many may be open" if error.errno == errno.EMFILE else ""
    return f"{error.strerror or one_line(error)}{file}{remedy}"


def _discard_output() -> None:
    """Discard output that cannot be written, so that the interpreter does not try again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _parser(asked: Collection[str] = _COMMANDS) -> argparse.ArgumentParser:
    """Return the parser, with the options of those commands that are asked for."""
    parser = argparse.ArgumentParser(prog="bbrgym", description="A Gymnasium for tuning BBR-family congestion control.")
    completion = 'completion: eval "$(bbrgym -sc install=bash)", or install=fish, zsh'
    parser.add_argument("-sc", "--shell-completion", action="store_true", help=completion)
    parser.add_argument("--version", action="version", version=f"bbrgym {bbrgym.__version__}")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    for name, purpose in _COMMANDS.items():
        if name not in asked:
            commands.add_parser(name, help=purpose)
            continue
        module = importlib.import_module(f"bbrgym.cli.{_MODULES.get(name, name)}")
        if name in _PROGRAMS:
            importlib.import_module("bbrgym.cli.hydra_program").add_program(commands, name, purpose, module)
            continue
        text = getattr(module, "DESCRIPTION", None)
        command = commands.add_parser(
            name, help=purpose, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.set_defaults(run=module.run)
        if hasattr(module, "add_arguments"):
            module.add_arguments(command)
    return parser
