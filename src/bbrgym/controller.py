# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls that are a Python class, for prototypes in the twin."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from bbrgym.errors import ConfigError, one_line

if TYPE_CHECKING:
    import numpy as np

Decision: TypeAlias = tuple[float, float | None]
"""Congestion window in packets, 1 to 2^30, and pacing rate in Mbit/s of payload; None: as Linux paces a window."""

_FILE = re.compile(r"(?P<file>.*\.py)(?::(?P<name>[A-Za-z_]\w*))?")


class Controller:
    """Base of a congestion control in Python: derive from it and define `on_ack`.

    Each flow has an object of the class, made without arguments when the run begins. All that it remembers is in its
    attributes, which must be copyable by `copy.deepcopy` if the world is to be saved. It decides window and pacing rate
    on each ACK, in recovery too; what is lost is sent again by the stack, and after a timeout one packet leaves.

    Optional methods that may return a decision too, or None: ``on_rto()``, at a timeout; ``on_restart(now_us,
    is_app_limited)``, before the first packet after a pause; ``on_loss_state(old, new)``, numbers of ``cc_ca_state`` in
    cc/types.h. A class method ``on_acks(controllers, samples)`` gets ACKs of several worlds of a vector at once: a list
    of the flows' objects and a structured array [N] of their samples, whose numbers are signed; it returns windows [N]
    and pacing rates [N], infinite or None where Linux paces, as each would get alone. A lone ACK goes to `on_ack`,
    where the class defines that, too.

    Attributes:
        rng: random numbers of the flow, from a stream of the run's seed.
        flow: name of the flow.
        mss_bytes: payload of a packet, from the connection's start on.

    Example:
        >>> import bbrgym
        >>> class Fixed(bbrgym.Controller):
        ...     def on_ack(self, sample):
        ...         return 20, None
        >>> scenario = {
        ...     "link": {"rate_mbps": 10, "queue": {"size_bdp": 1}},
        ...     "flows": [{"name": "mine", "cc": bbrgym.load_controller(Fixed), "rtt_ms": 40}],
        ...     "duration_s": 5,
        ... }
        >>> with bbrgym.make_world("twin", scenario, isolation="none") as world:
        ...     world.advance(5)
        ...     float(world.flow_stats()[0, world.flow_fields.index("cwnd_pkts")])
        20.0
    """

    rng: np.random.Generator
    flow: str
    mss_bytes: int

    def on_ack(self, sample: Any) -> Decision:
        """Return window and pacing rate after an ACK.

        Args:
            sample: fields of ``cc_sample`` in cc/types.h, units in the names; valid during the call.
        """
        raise NotImplementedError


def split_file(name: str) -> tuple[Path, str | None] | None:
    """Return the file and the class that ``FILE.py:CLASS`` names, the class None if it does not; None of others."""
    found = _FILE.fullmatch(name)
    return None if found is None else (Path(found["file"]), found["name"])


def class_of(name: str) -> type[Controller]:
    """Run a Python file and return the class that ``FILE.py:CLASS`` names; without ``:CLASS`` the only one there.

    Raises:
        ConfigError: there is no file or class, or the file raises an exception, which is the cause.
    """
    file, wanted = split_file(name) or (Path(name), None)
    if not file.is_file():
        raise ConfigError(f"file: {str(file)!r} is not a file")
    spec: Any = importlib.util.spec_from_file_location(f"bbrgym_own_{file.stem}", file.resolve())
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses and pickle look there
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"{file.name}: {type(error).__name__}: {one_line(error)}{_line_of(error, file)}") from error
    finally:
        sys.path.remove(str(file.resolve().parent))
    own: dict[str, type[Controller]] = {key: one for key, one in vars(module).items() if _is_own(one, module.__name__)}
    if wanted is None and len(own) == 1:
        return next(iter(own.values()))
    if wanted not in own:
        raise ConfigError(
            f"{name}: expected one of the classes derived from bbrgym.Controller: {', '.join(own) or '-'}"
        )
    return own[wanted]


def check_class(kind: Any) -> type[Controller]:
    """Return a class that can be a congestion control.

    Raises:
        ConfigError: it cannot.
    """
    if not (inspect.isclass(kind) and issubclass(kind, Controller)):
        raise ConfigError(f"controller: is {kind!r}, expected a class derived from bbrgym.Controller")
    if kind.on_ack is Controller.on_ack and not hasattr(kind, "on_acks"):
        raise ConfigError(f"{kind.__name__}: expected a method on_ack(self, sample)")
    return kind


def _is_own(one: Any, module: str) -> bool:
    return inspect.isclass(one) and issubclass(one, Controller) and one.__module__ == module


def _line_of(error: BaseException, file: Path) -> str:
    trace, line = error.__traceback__, ""
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == file.name:
            line = f" (line {trace.tb_lineno})"
        trace = trace.tb_next
    return line


# ---- called by the twin ---------------------------------------------------------------------------------------------


def make(kind: type[Controller], flow: str, seed: int) -> Controller:
    """Return a new object for a flow, whose stream of random numbers has a seed."""
    import numpy as np  # which those who name a control alone do without

    made = kind.__new__(kind)
    made.flow, made.rng = flow, np.random.default_rng(seed)
    made.__init__()  # type: ignore[misc] # after the attributes, which it may use
    return made


def copied(name: str, controller: Controller) -> Controller:
    """Return a copy of a flow's object.

    Raises:
        ValueError: it cannot be copied.
    """
    try:
        return copy.deepcopy(controller)
    except Exception as error:
        raise ValueError(f"{name}: cannot be copied: {type(error).__name__}: {one_line(error)}") from error
