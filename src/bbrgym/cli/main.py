# SPDX-License-Identifier: GPL-2.0-only
"""The command ``bbrgym``.

Exit codes: 0 done, 1 a run broke or the machine has no room for it, 2 the request is wrong, 130 interrupted by Ctrl-C
or SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import os
import signal
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple, NoReturn

from bbrgym.cli.interrupts import came, interrupt, interruptible
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, TrainingError, WorldError, nearest, one_line
from bbrgym.host.errors import HostError
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.runs import drawing
from bbrgym.version import __version__


class _Command(NamedTuple):
    purpose: str
    module: str = ""  # Default: the command's name
    is_program: bool = False  # of Hydra
    keeps: bool = False  # what is finished when it breaks off


#: Their modules are imported when they are asked for.
_COMMANDS = {
    "evaluate": _Command("compare variants on a scenario", is_program=True, keeps=True),
    "bench": _Command("run the frozen benchmark, or check its results"),
    "reproduce": _Command("run the papers' experiments", is_program=True, keeps=True),
    "trace": _Command("write every packet and every ACK's decision of a run", is_program=True),
    "conformance": _Command("run the test cases of BBR's Internet-Draft"),
    "cc": _Command("write and check a congestion control of your own"),
    "train": _Command("train an agent", is_program=True, keeps=True),
    "adversary": _Command("search for networks where an entrant loses most", is_program=True, keeps=True),
    "export": _Command("write a trained agent's network"),
    "report": _Command("make the tables, figures and page of a multirun", module="report_multirun"),
    "serve": _Command("let an ns3-gym agent drive a world", is_program=True),
    "list": _Command(
        "show all names to choose from: variants, tunables, scenarios, experiments, worlds, agents", module="listing"
    ),
    "scenario": _Command("print a scenario's resolved JSON"),
    "path": _Command("make a scenario of measurements of a real path"),
    "advise": _Command("compare congestion controls on a measured path"),
    "kernel": _Command("let every program of this machine use our congestion controls"),
    "doctor": _Command("tell what worlds miss on this machine"),
}
_INTERRUPTED = 130
_GARBAGE = 400_000  # objects until a collection: imports and figures make many, and little garbage
#: Environment of a process that starts soon: NumPy's idle threads sleep at once, and Pydantic looks for no plugins.
_SAVING = {"OPENBLAS_THREAD_TIMEOUT": "4", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
_NO_THREAD = "can't start new thread"  # Python's RuntimeError


def program() -> NoReturn:
    """Run the command as this process and end it; a Ctrl-C after the first does not change the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupt)
    gc.set_threshold(_GARBAGE)
    for name, value in _SAVING.items():
        os.environ.setdefault(name, value)
    try:
        code = main()
    except KeyboardInterrupt:  # while main reports the first one
        code = _INTERRUPTED
    except Exception:
        if not came:
            raise
        _tell("interrupted")
        code = _INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the interpreter takes a while to end
        gc.freeze()  # a shorter one without a last collection
    sys.exit(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    is_keeping = False
    try:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if given[:1] and given[0] in ("-sc", "--shell-completion"):
            programs = [name for name, command in _COMMANDS.items() if command.is_program]
            importlib.import_module("bbrgym.cli.completion").complete(given[1:], list(_COMMANDS), programs, _parsed)
            return 0
        options = _plain(given) or _parsed(given)
        drawing.chosen_by_environment()  # what it is must be known before anything runs
        is_keeping = _COMMANDS[options.command].keeps
        with interruptible():
            options.run_command(options)
        sys.stdout.flush()
    except (ConfigError, MissingExtraError) as error:
        _tell(f"{error}")
        return 2
    except (HostError, ProtocolError, SweepError, TrainingError, WorldError) as error:
        if (text := getattr(error.__cause__, "traceback_text", None)) is not None:  # of a user's Python class
            sys.stderr.write(f"{text}\n")
        _tell(f"{error}")
        return 1
    except (OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != _NO_THREAD:
            raise
        kept = "; what is finished is kept" if is_keeping else ""
        _tell(f"{_shortage(error)}{kept}")
        _discard_output()
        return 1
    except KeyboardInterrupt as error:
        _tell(f"interrupted{f'; {error}' if str(error) else ''}")
        return _INTERRUPTED
    return 0


def _tell(sentence: str) -> None:
    """Print a sentence on standard error."""
    from bbrgym.cli.terminal import error_console  # with Rich, which not every command has need of

    error_console().print(f"bbrgym: {sentence}")


def _plain(given: Sequence[str]) -> argparse.Namespace | None:
    """Return the options of a plain command line of an evaluation; None if it is for Hydra."""
    if given[:1] != ["evaluate"]:
        return None
    module = importlib.import_module("bbrgym.cli.evaluate")
    overrides = list(given[1:])
    config = importlib.import_module("bbrgym.cli.plain_composition").plain_config("evaluate", overrides, module.MODELS)
    if config is None:
        return None

    def run(options: argparse.Namespace) -> None:
        importlib.import_module("bbrgym.cli.polars_threads").start_polars()
        module.run(options)

    return argparse.Namespace(command="evaluate", overrides=overrides, config=config, run_dir=None, run_command=run)


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    if given and not given[0].startswith("-") and given[0] not in _COMMANDS:
        raise ConfigError(f"command {given[0]!r}: {nearest(given[0], _COMMANDS, 'bbrgym --help')}")
    parser = _parser([name for name in _COMMANDS if name in given])
    options, others = parser.parse_known_args(given)
    translate = getattr(options, "other_flags", None)
    if "overrides" in options:  # argparse takes no more of them after a flag
        options.overrides += [translate(one) if translate and one.startswith("-") else one for one in others]
        others = [] if translate else [one for one in others if one.startswith("-")]
        options.overrides = [one for one in options.overrides if one not in others]
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}; options are written OPTION=VALUE")
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
    parser.add_argument("--version", action="version", version=f"bbrgym {__version__}")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    for name, (purpose, of, is_program, _) in _COMMANDS.items():
        if name not in asked:
            commands.add_parser(name, help=purpose)
            continue
        module = importlib.import_module(f"bbrgym.cli.{of or name}")
        if is_program:
            importlib.import_module("bbrgym.cli.hydra_program").add_program(commands, name, purpose, module)
        else:
            importlib.import_module("bbrgym.cli.plain_command").add_plain_command(commands, name, purpose, module)
    return parser
