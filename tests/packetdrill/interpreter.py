# SPDX-License-Identifier: GPL-2.0-only
"""Runs a script of packetdrill on tcp/, in virtual time.

Time goes on only to the next event of the script or of the connection. A packet that leaves waits until the script
expects one, as in packetdrill: with what it expects it must agree in flags, numbers, options and, within the script's
tolerance, in time; packets that leave one after the other count as one if the script expects one of their size.
"""

import contextlib
import functools
import io
import textwrap
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import info
from binding import Binding
from connection import NS, Connection, Sent, in_scope
from language import Anything, Code, Command, Event, Operation, Packet, Script, Struct, Syscall, Tcp, Text, Word
from settings import Settings
from verdicts import NotRunError, OutOfScopeError, WrongError

_TOLERANCE_NS = 4_000_000
_TOLERANCE_PERCENT = 12.5
_PATIENCE_NS = 2 * NS  # after the time at which a packet is expected

#: Calls that are about something else than TCP's sender and receiver, and what; the same of options of sockets.
_OTHER_CALLS = {
    **dict.fromkeys(("epoll_create", "epoll_ctl", "epoll_wait"), "epoll"),
    "ioctl": "ioctl()",
    "open": "files",
    "pipe": "pipes",
    "poll": "poll",
    "sendfile": "sendfile",
    "splice": "splice",
}
_OTHER_OPTIONS = {"SO_ZEROCOPY": "zero copy", "TCP_INQ": "control messages", "TCP_USER_TIMEOUT": "TCP_USER_TIMEOUT"}
#: Options of sockets, and arguments of packetdrill, that change nothing here.
_IGNORED_OPTIONS = {
    *("SO_REUSEADDR", "SO_LINGER", "SO_PRIORITY", "SO_MARK", "SO_KEEPALIVE", "SO_RCVLOWAT", "IP_TOS"),
    *("IP_MTU_DISCOVER", "IP_TTL", "TCP_NOTSENT_LOWAT", "TCP_DEFER_ACCEPT"),
}
_IGNORED_ARGUMENTS = {
    *("ip_version", "mss", "define", "tcp_ts_tick_usecs", "tcp_ts_ecr_scaled", "verbose", "debug"),
    *("send_omit_free"),
}


@dataclass(frozen=True)
class Verdict:
    """The result of a script: passes, out of scope, not run, or wrong; `line` and reason unless it passes."""

    name: str
    result: str
    line: int = 0
    reason: str = ""

    def __str__(self) -> str:
        at = f"{self.name}:{self.line}" if self.reason else self.name
        return f"{at}: {self.result}" + (f": {self.reason}" if self.reason else "")


#: The stack that a script is run on, and those of older kernels for one that is wrong there: preset and other facts.
PRESETS: dict[str, tuple[str, dict[str, object]]] = {
    "linux-6": ("linux-6", {}),
    "linux-6.13": ("linux-6", {"hystart_rounds": "from_16"}),
    "linux-5.10": ("linux-5.10", {}),
}
#: Scripts that Linux itself fails, and what it does: found with packetdrill on Linux 6.18.44.
ON_LINUX = {
    "fr-4pkt-fack-last-mss.pkt": ("leaves at 0.227", "the timer goes off after 31.1 ms, with 250 ticks a second")
}


def run(script: Script, binding: Binding) -> Verdict:
    """Return the result of a script: on the newest stack, or of one that is wrong there, on an older kernel's."""
    newest, *older = PRESETS
    verdict = _run(script, binding, newest)
    if verdict.result != "wrong":
        return verdict
    for name in older:
        if _run(script, binding, name).result == "passes":
            return Verdict(script.name, f"passes as {name}", verdict.line, verdict.reason)
    here, there = ON_LINUX.get(Path(script.name).name, ("", ""))
    if here and here in verdict.reason:
        return Verdict(script.name, "as Linux 6.18", verdict.line, f"{verdict.reason}; on Linux {there}")
    return verdict


def _run(script: Script, binding: Binding, preset: str) -> Verdict:
    interpreter = _Interpreter(script, binding, preset)
    try:
        interpreter.run()
    except OutOfScopeError as error:
        return Verdict(script.name, "out of scope", interpreter.line, str(error))
    except NotRunError as error:
        return Verdict(script.name, "not run", interpreter.line, str(error))
    except WrongError as error:
        return Verdict(script.name, "wrong", interpreter.line, str(error))
    return Verdict(script.name, "passes")


def _peer_cuts(script: Script) -> list[int]:
    """Return where the segments of the peer begin and end."""
    cuts = {1}
    for event in script.events:
        if isinstance(event.action, Packet) and event.action.direction == "<" and event.action.tcp is not None:
            tcp = event.action.tcp
            if tcp.size > 0 and "S" not in tcp.flags:
                cuts |= {tcp.begin, tcp.begin + tcp.size}
    return sorted(cut for cut in cuts if cut >= 1)


class _Interpreter:
    def __init__(self, script: Script, binding: Binding, preset: str) -> None:
        self.line = 0
        self._script = script
        self._settings = Settings()
        self._tolerance_ns = _TOLERANCE_NS
        self._tolerance_percent = _TOLERANCE_PERCENT
        self._strict_segments = False
        self._now_ns = 0
        self._last: Event | None = None
        self._last_at_ns = 0
        self._connection = Connection(binding, self._settings, _peer_cuts(script), *PRESETS[preset])
        self._fds: dict[int, str] = {}
        self._names = _Names(self._connection)
        self._read_bytes = 0
        self._waits: list[tuple[str, int | None, Callable[[], bool]]] = []  # calls: name, end, whether it returns now

    def run(self) -> None:
        for name, value in self._script.options:
            self._option(name, value)
        self._settings.run(self._script.setup)
        for event in self._script.events:
            self.line = event.line
            self._event(event)
        with contextlib.suppress(NotRunError, OutOfScopeError):  # the last commands only tidy up
            self._settings.run(self._script.cleanup)

    def _option(self, name: str, value: Any) -> None:
        if name == "tolerance_usecs":
            self._tolerance_ns = int(value) * 1000
        elif name == "tolerance_percent":
            self._tolerance_percent = float(value)
        elif name == "strict_segments":
            self._strict_segments = True
        elif name == "mtu":
            self._settings.mtu = int(value)
        elif name == "ip_version" and value != "ipv4":
            raise OutOfScopeError("IPv6")
        elif name not in _IGNORED_ARGUMENTS:
            raise NotRunError(f"option: --{name} is not known")

    # ---- time ----------------------------------------------------------------------------------------

    def _event(self, event: Event) -> None:
        time, action = event.time, event.action
        start_ns = 0
        if time.kind == "+":
            start_ns = self._last_at_ns if self._are_arrivals(event) else self._now_ns
        at_ns = start_ns + round(time.at_s * NS) if time.kind != "*" else self._now_ns
        until_ns = at_ns if time.until_s is None else start_ns + round(time.until_s * NS)
        if isinstance(action, Packet) and action.direction == ">":
            self._expect(action, at_ns, until_ns, is_any_time=time.kind == "*")
        else:
            self._pass_time(at_ns)
            if isinstance(action, Packet):
                self._arrive(action)
            elif isinstance(action, Command):
                self._settings.run(action.text)
            elif isinstance(action, Code):
                self._code(action)
            else:
                self._syscall(action, start_ns)
        self._last, self._last_at_ns = event, at_ns

    def _are_arrivals(self, event: Event) -> bool:
        """Whether this and the last event are packets that arrive: their times count from each other."""
        both = (event, self._last)
        return all(one and isinstance(one.action, Packet) and one.action.direction == "<" for one in both)

    def _pass_time(self, until_ns: int) -> None:
        """Let happen what happens before a time."""
        while True:
            deadline_ns = self._connection.deadline_ns()
            if deadline_ns < 0 or deadline_ns >= until_ns:
                break
            self._fire(deadline_ns)
        self._now_ns = max(self._now_ns, until_ns)
        self._connection.now_ns = self._now_ns

    def _fire(self, at_ns: int) -> None:
        self._now_ns = max(self._now_ns, at_ns)
        self._connection.now_ns = self._now_ns
        self._connection.fire()

    # ---- packets -------------------------------------------------------------------------------------

    def _arrive(self, packet: Packet) -> None:
        if packet.tcp is not None and packet.ip.get("ecn") == "ect01":
            raise WrongError("[ect01] is for packets that leave")
        self._connection.arrive(packet)
        for wait in list(self._waits):
            name, until_ns, returns = wait
            if returns():
                self._waits.remove(wait)
                if until_ns is not None and abs(self._now_ns - until_ns) > self._tolerance_ns:
                    at_s, expected_s = self._now_ns / NS, until_ns / NS
                    raise WrongError(f"{name}() returns at {at_s:.6f} s, expected at {expected_s:.6f} s")

    def _accepts(self, fd: int) -> bool:
        """Return whether the connection stands; then it has this descriptor."""
        if self._connection.state in ("listen", "syn_recv"):
            return False
        self._fds[fd] = "connection"
        return True

    def _reads(self, name: str, size: int, wanted: int) -> bool:
        """Return whether there is data, or the end of it; then it is read."""
        if self._is_empty():
            return False
        count = min(max(self._connection.received_end - 1 - self._read_bytes, 0), size)
        self._read_bytes += count
        if wanted != count:
            raise WrongError(f"{name}() returns {count}, expected {wanted}")
        return True

    def _expect(self, packet: Packet, at_ns: int, until_ns: int, *, is_any_time: bool) -> None:
        tcp = in_scope(packet)
        for option in tcp.options or ():
            if option.name in ("FO", "FOEXP"):
                raise OutOfScopeError("TCP Fast Open")
            if option.name == "ECN" or "A" in tcp.flags:
                raise OutOfScopeError("accurate ECN (AccECN)")
        found = [self._sniff(tcp, until_ns)]
        while not self._strict_segments and sum(one.size for one in found) < tcp.size:
            found.append(self._sniff(tcp, until_ns))
            same = found[-1].size == found[-2].size or sum(one.size for one in found) >= tcp.size
            if not same or found[-1].begin != found[-2].end:
                raise WrongError(f"{_shown(tcp)} expected, but the packets are {_list(found)}")
        self._compare(tcp, packet.ip, found)
        self._check_time(found[-1].time_ns, at_ns, until_ns, is_any_time=is_any_time)

    def _sniff(self, tcp: Tcp, until_ns: int) -> Sent:
        """Return the next packet that leaves."""
        sent = self._connection.sent
        while not sent:
            deadline_ns = self._connection.deadline_ns()
            if deadline_ns < 0 or deadline_ns > until_ns + _PATIENCE_NS:
                raise WrongError(f"{_shown(tcp)} expected, but nothing leaves")
            self._fire(deadline_ns)
        return sent.pop(0)

    def _compare(self, tcp: Tcp, ip: Mapping[str, Any], found: list[Sent]) -> None:
        first, last = found[0], found[-1]
        flags = (last.flags - {"W"}) | (first.flags & {"W"})
        wanted = frozenset(tcp.flags)
        ack_flag = "." in wanted
        begin = first.begin
        agrees = (
            flags == wanted
            and (begin == tcp.begin or "S" in wanted)
            and sum(one.size for one in found) == tcp.size
            and (not ack_flag or tcp.ack is None or last.ack == tcp.ack)
        )
        if agrees and tcp.options is not None:
            agrees = _options(tcp.options) == _options(last.options)
        if agrees and tcp.window is not None and last.window is not None:
            agrees = tcp.window == last.window
            if not agrees and self._connection.has_oversized:
                raise OutOfScopeError("the window after segments larger than the MSS")
        if agrees and "ecn" in ip:
            agrees = ip["ecn"] == last.ecn or (ip["ecn"] == "ect01" and last.ecn in ("ect0", "ect1"))
        if not agrees:
            raise WrongError(f"{_shown(tcp)} expected, but the packet is {_list(found)}")

    def _check_time(self, actual_ns: int, at_ns: int, until_ns: int, *, is_any_time: bool) -> None:
        if is_any_time:
            return
        tolerance_ns = max(self._tolerance_ns, round(self._tolerance_percent / 100 * (at_ns - self._last_at_ns)))
        if not at_ns - tolerance_ns <= actual_ns <= until_ns + tolerance_ns:
            expected = f"{at_ns / NS:.6f}" + (f" to {until_ns / NS:.6f}" if until_ns > at_ns else "")
            within = f"{tolerance_ns / NS:.6f}"
            raise WrongError(
                f"the packet leaves at {actual_ns / NS:.6f} s, expected at {expected} s, within {within} s"
            )

    # ---- code ----------------------------------------------------------------------------------------

    def _code(self, code: Code) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(textwrap.dedent(code.text.strip(" \t")) + "\n\n", "code", "exec"), {}, self._names)
        except (NotRunError, OutOfScopeError):
            raise
        except AssertionError as error:
            at = traceback.extract_tb(error.__traceback__)[-1].lineno or 1
            lines = code.text.strip(" \t").splitlines()
            said = f" ({error})" if str(error) else ""
            raise WrongError(f"'{lines[at - 1].strip()}' does not hold{said}") from error
        except Exception as error:
            raise NotRunError(f"code: {type(error).__name__}: {error}") from error

    # ---- system calls --------------------------------------------------------------------------------

    def _syscall(self, call: Syscall, start_ns: int) -> None:
        if call.name in _OTHER_CALLS:
            raise OutOfScopeError(f"the interface of sockets: {_OTHER_CALLS[call.name]}")
        handlers: dict[str, Callable[[Syscall], Any]] = {
            "socket": self._socket,
            "bind": lambda _: 0,
            "listen": self._listen,
            "accept": self._accept,
            "connect": self._connect,
            "write": self._write,
            "send": self._write,
            "sendto": self._write,
            "writev": lambda call: self._write_parts(call, call.arguments[1]),
            "sendmsg": self._sendmsg,
            "read": self._read,
            "recv": self._read,
            "close": self._close,
            "shutdown": self._shutdown,
            "setsockopt": self._setsockopt,
            "getsockopt": self._getsockopt,
            "fcntl": lambda call: self._fd(call) and _number(call.result),
        }
        if call.name not in handlers:
            raise NotRunError(f"system call: {call.name}() is not known")
        until_ns = None if call.until_s is None else start_ns + round(call.until_s * NS)
        if call.name in ("read", "recv") and until_ns is not None and self._is_empty():
            self._fd(call)
            reads = functools.partial(self._reads, call.name, _number(call.arguments[2]), _number(call.result))
            self._waits.append((call.name, until_ns, reads))
            return
        if call.name == "accept" and until_ns is not None and self._connection.state in ("listen", "syn_recv"):
            self._fd(call)
            self._waits.append((call.name, until_ns, functools.partial(self._accepts, _number(call.result))))
            return
        result = handlers[call.name](call)
        if call.name == "connect" and self._connection.state == "syn_sent" and until_ns is not None:
            return  # it returns when the handshake is over
        if call.name in ("write", "send", "sendto") and self._connection.waiting > 0 and until_ns is None:
            raise WrongError(f"{call.name}() does not return: the send buffer is full")
        if self._connection.waiting > 0:
            self._waits.append((call.name, until_ns, lambda: self._connection.waiting == 0))
        wanted = call.result
        if isinstance(wanted, int) and isinstance(result, int) and wanted != result:
            raise WrongError(f"{call.name}() returns {result}, expected {wanted}")

    def _is_empty(self) -> bool:
        """Whether there is nothing to read, and no end of the stream either."""
        connection = self._connection
        return connection.peer_fin is None and connection.received_end - 1 <= self._read_bytes

    def _socket(self, call: Syscall) -> int:
        kind = call.arguments[1] if len(call.arguments) > 1 else None
        if isinstance(kind, Word) and kind.text != "SOCK_STREAM":
            raise OutOfScopeError(f"sockets of {kind.text}")
        protocol = call.arguments[2] if len(call.arguments) > 2 else None
        if isinstance(protocol, Word) and protocol.text != "IPPROTO_TCP":
            raise OutOfScopeError(f"sockets of {protocol.text}")
        if self._fds:
            raise NotRunError("a second socket")
        fd = _number(call.result)
        self._fds[fd] = "socket"
        return fd

    def _listen(self, call: Syscall) -> int:
        self._fds[self._fd(call)] = "listener"
        self._connection.state = "listen"
        return 0

    def _accept(self, call: Syscall) -> int:
        self._fd(call)
        fd = _number(call.result)
        if fd < 0:
            raise NotRunError("accept() that fails")
        if "connection" in self._fds.values():
            raise NotRunError("a second connection")
        if self._connection.state in ("listen", "syn_recv"):
            raise NotRunError("accept() before the connection stands")
        self._fds[fd] = "connection"
        return fd

    def _connect(self, call: Syscall) -> int:
        self._fds[self._fd(call)] = "connection"
        if self._connection.state == "syn_sent" or self._connection.state == "established":
            return _number(call.result)
        self._connection.connect()
        return _number(call.result)

    def _fd(self, call: Syscall) -> int:
        fd = _number(call.arguments[0])
        if fd not in self._fds:
            raise WrongError(f"{call.name}(): {fd} is not an open descriptor")
        return fd

    def _write(self, call: Syscall) -> int:
        self._fd(call)
        if call.errno == "EFAULT":
            raise OutOfScopeError("the interface of sockets: bad addresses")
        self._connection.require_one_way(call.name)
        flags = _words(call.arguments[3]) if call.name in ("send", "sendto") and len(call.arguments) > 3 else set()
        self._check_flags(flags)
        if self._connection.waiting:
            raise NotRunError("a write while another one waits")
        size = _number(call.arguments[2])
        self._connection.write(size, more="MSG_MORE" in flags)
        return size

    @staticmethod
    def _check_flags(flags: set[str]) -> None:
        for name, reason in (
            ("MSG_OOB", "urgent data"),
            ("MSG_ZEROCOPY", "the interface of sockets: zero copy"),
            ("MSG_FASTOPEN", "TCP Fast Open"),
            ("MSG_EOR", "the interface of sockets: ends of records (MSG_EOR)"),
        ):
            if name in flags:
                raise OutOfScopeError(reason)

    def _sendmsg(self, call: Syscall) -> int:
        self._fd(call)
        message = call.arguments[1]
        flags = _words(call.arguments[2]) if len(call.arguments) > 2 else set()
        self._check_flags(flags)
        if not isinstance(message, Struct):
            raise NotRunError("sendmsg() without a message")
        if message.get("msg_control") is not None:
            raise OutOfScopeError("the interface of sockets: control messages")
        return self._write_parts(call, message.get("msg_iov"), more="MSG_MORE" in flags)

    def _write_parts(self, call: Syscall, parts: Any, *, more: bool = False) -> int:
        self._fd(call)
        self._connection.require_one_way(call.name)
        sizes = [_number(part.fields[-1][1]) for part in parts if isinstance(part, Struct)]
        self._connection.write(sum(sizes), more=more)
        return sum(sizes)

    def _read(self, call: Syscall) -> int:
        self._fd(call)
        if call.name == "recv" and len(call.arguments) > 3 and _words(call.arguments[3]) - {"MSG_DONTWAIT"}:
            raise OutOfScopeError("the interface of sockets: flags of recv()")
        received = self._connection.received_end
        available = received - 1 - self._read_bytes
        wanted = _number(call.arguments[2])
        if available <= 0:
            if call.errno:
                return -1
            if self._connection.peer_fin is not None:
                return 0
            raise NotRunError(f"{call.name}() that waits for data")
        count = min(available, wanted)
        self._read_bytes += count
        return count

    def _close(self, call: Syscall) -> int:
        fd = self._fd(call)
        kind = self._fds.pop(fd)
        if kind == "connection":
            self._connection.close()
        return 0

    def _shutdown(self, call: Syscall) -> int:
        self._fd(call)
        if _words(call.arguments[1]) & {"SHUT_WR", "SHUT_RDWR"}:
            self._connection.close()
        return 0

    def _setsockopt(self, call: Syscall) -> int:
        self._fd(call)
        name, value = _text(call.arguments[2]), call.arguments[3]
        value = value[0] if isinstance(value, list) and value else value
        connection = self._connection
        if name == "SO_SNDBUF":
            connection.require_one_way("SO_SNDBUF")
            connection.set_send_buffer(_number(value))
        elif name == "SO_RCVBUF":
            if connection.state not in ("closed", "listen", "syn_sent"):
                raise OutOfScopeError("a change of the receive buffer on a connection that stands")
            connection.receive_buffer_bytes = _number(value)
        elif name == "TCP_NODELAY":
            connection.set_nodelay(bool(value))
        elif name == "TCP_CORK":
            connection.corked = bool(value)
            connection.try_send()
        elif name == "TCP_MAXSEG":
            connection.max_segment_bytes = _number(value)
        elif name == "TCP_CONGESTION":
            if connection.state not in ("closed", "listen", "syn_sent"):
                raise OutOfScopeError("a change of the congestion control on a connection that stands")
            self._settings.sysctls["tcp_congestion_control"] = _text(value)
        elif name in _OTHER_OPTIONS:
            raise OutOfScopeError(f"the interface of sockets: {_OTHER_OPTIONS[name]}")
        elif name not in _IGNORED_OPTIONS:
            raise NotRunError(f"setsockopt: {name} is not known")
        return _number(call.result)

    def _getsockopt(self, call: Syscall) -> int:
        self._fd(call)
        name, value = _text(call.arguments[2]), call.arguments[3]
        if name == "SO_SNDBUF" and isinstance(value, list):
            held = 2 * self._connection.send_buffer_bytes
            if value and _number(value[0]) != held:
                raise WrongError(f"SO_SNDBUF is {held}, expected {value[0]}")
        elif name != "SO_ERROR":
            raise NotRunError(f"getsockopt: {name} is not known")
        return 0


class _Names(dict[str, Any]):
    """The variables of code: its own, and the values of tcp_info, read where they are named."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(info.NAMES)
        self._connection = connection

    def __missing__(self, name: str) -> Any:
        if name.startswith(info.PREFIXES):
            return info.value(self._connection, name)
        raise KeyError(name)


def _number(value: Any) -> int:
    """Return a number of a script, or raise."""
    if isinstance(value, int):
        return value
    if isinstance(value, list) and len(value) == 1:
        return _number(value[0])
    if isinstance(value, Word) and value.text == "true":
        return 1
    if isinstance(value, Anything):
        return 0
    raise NotRunError(f"'{value}' where a number belongs")


def _text(value: Any) -> str:
    return value.text if isinstance(value, Word | Text) else str(value)


def _words(value: Any) -> set[str]:
    """Return the words of A|B|C."""
    if isinstance(value, Operation):
        return _words(value.left) | _words(value.right)
    return {value.text} if isinstance(value, Word) else set()


def _options(options: tuple[Any, ...]) -> list[Any]:
    """Options without padding and without the value of a timestamp, whose clock is not the script's."""
    return [
        (one.name, one.values[1:] if one.name == "TS" else one.values, one.blocks)
        for one in options
        if one.name not in ("nop", "eol")
    ]


def _shown(tcp: Tcp) -> str:
    options = "" if not tcp.options else " <" + ",".join(_option(one) for one in tcp.options) + ">"
    ack = "" if tcp.ack is None else f" ack {tcp.ack}"
    window = "" if tcp.window is None else f" win {tcp.window}"
    return f"'{tcp.flags} {tcp.begin}:{tcp.end}({tcp.size}){ack}{window}{options}'"


def _list(found: list[Sent]) -> str:
    return ", ".join(
        _shown(
            Tcp(
                "".join(sorted(one.flags, key="SFRPEWU.".index)),
                one.begin,
                one.begin + one.size,
                one.size,
                one.ack,
                one.window,
                None,
                one.options,
            )
        )
        for one in found
    )


def _option(option: Any) -> str:
    blocks = "".join(f" {begin}:{end}" for begin, end in option.blocks)
    values = "".join(f" {value}" for value in option.values)
    return f"{option.name}{values}{blocks}"
