# SPDX-License-Identifier: GPL-2.0-only
"""QUIC stacks of other projects, whose connections are flows of the twin: state machines that run in its time."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bbrgym import plugins
from bbrgym.errors import ConfigError, MissingExtraError

SENDER, RECEIVER = 0, 1
"""The ends of a flow, by the direction of its data."""

NGTCP2_PACKAGES = ("libngtcp2-dev", "libngtcp2-crypto-gnutls-dev", "libgnutls28-dev")  # of Debian 12
_NGTCP2_LIBRARIES = ("-Wl,--no-as-needed", "-lngtcp2_crypto_gnutls", "-lngtcp2", "-lgnutls")


class Ends(Protocol):
    """Both ends of a connection, which a stack's ``connect(cc, seed, datagram_bytes, window_bytes, port)`` returns.

    ``port`` is a `bbrgym._twin.Port`: ``send(end, size_bytes, tag)`` lets a datagram leave an end, ``set_timer(end,
    at_ns)`` asks for `due`, ``readable(size_bytes)`` and ``rtt_sample(rtt_ns)`` are measured. What a datagram holds
    stays here, ``tag`` names it. An attribute ``overhead_bytes`` says its headers of IP and UDP. Default: 28.
    """

    def write(self, now_ns: int, size_bytes: int | None) -> None:
        """Take data of the application, None: without an end, 0: no more; connect at the first call."""

    def delivered(self, now_ns: int, end: int, tag: int) -> None:
        """Receive a datagram at an end."""

    def dropped(self, now_ns: int, tag: int) -> None:
        """Forget a datagram, of which the ends know nothing."""

    def due(self, now_ns: int, end: int) -> None:
        """Handle the end's timer."""

    def state(self) -> tuple[float, float, float, float, float]:
        """Return the sender's window and bytes in flight, pacing in B/s, smoothed and smallest RTT in us; or NaN."""


@dataclass(frozen=True)
class Stack:
    """A stack: its congestion controls, and what opens a connection, `Ends` or a library of twin/external_flow.h."""

    controls: tuple[str, ...]
    connect: Callable[[str, int, int, int, Any], Ends | str]


def _open_aioquic(*arguments: Any) -> Ends:
    try:
        stack = importlib.import_module("bbrgym.quic_aioquic")
    except ModuleNotFoundError as error:
        raise MissingExtraError("quic=aioquic", "quic", error) from error
    ends: Ends = stack.AioquicEnds(*arguments)
    return ends


def _open_ngtcp2(*_: Any) -> str:
    files = Path(plugins.__file__).resolve().parent / "plugin_files"
    include = [f"-I{folder}" for folder in (files, files.parents[2] / "twin")]
    try:
        return plugins.compiled(files / "ngtcp2.c", include, _NGTCP2_LIBRARIES)
    except ConfigError as error:
        raise ConfigError(f"quic=ngtcp2 needs Debian's {', '.join(NGTCP2_PACKAGES)}: {error}") from None


#: The stacks by name; a user may add one, which the twin then opens for flows with that ``quic``.
STACKS: dict[str, Stack] = {
    "aioquic": Stack(("reno", "cubic"), _open_aioquic),
    "ngtcp2": Stack(("reno", "cubic", "bbr", "bbr2"), _open_ngtcp2),
}


def open_stack(name: str, *arguments: Any) -> Ends | str:
    """Open a connection of a stack, see `Ends`; for the twin.

    Raises:
        ConfigError: the stack is not known here, or its packages are not.
        MissingExtraError: its Python packages are not installed.
    """
    if name not in STACKS:
        raise ConfigError(f"quic={name}: is not a stack of this process, allowed are {', '.join(STACKS)}")
    return STACKS[name].connect(*arguments)
