# SPDX-License-Identifier: GPL-2.0-only
"""The language of packetdrill's scripts (the grammar of its syntax.md): text to events.

Keywords are words wherever the grammar has a word, so the parser takes a little more than the grammar does. Of packets
of other protocols, and of those within others, it reads the kind alone; they end with their line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class ScriptError(Exception):
    """A script says what the language does not have; the message begins with file and line."""


# ---- tokens -------------------------------------------------------------------------------------------

#: Kinds and their patterns; the longest match counts, of equal ones the first.
_PATTERNS = [
    ("space", re.compile(r"[ \t\r\n]+")),
    ("space", re.compile(r"//[^\n]*")),
    ("space", re.compile(r"/\*.*?\*/", re.DOTALL)),
    ("code", re.compile(r"%\{.*?\}%", re.DOTALL)),
    ("ellipsis", re.compile(r"\.\.\.")),
    ("option", re.compile(r'--[a-zA-Z0-9_]+(?:=(?:"[^"]*"|`[^`]*`|[^\s"`])+)?')),
    ("float", re.compile(r"-?[0-9]*\.[0-9]+")),
    ("integer", re.compile(r"-?[0-9]+")),
    ("hex", re.compile(r"0x[0-9a-fA-F]+")),
    ("word", re.compile(r"[a-zA-Z0-9_]+#?")),
    ("string", re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)),
    ("command", re.compile(r"`(?:\\.|[^`\\])*`", re.DOTALL)),
    ("sign", re.compile(r"[^ \t\n]")),
]


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int

    @property
    def integer(self) -> int:
        return int(self.text, 16 if self.kind == "hex" else 10)


def tokens(text: str, name: str = "script", defines: Mapping[str, str] | None = None) -> list[Token]:
    """Return the tokens of a script, the last of kind "end"; a word that `defines` has is replaced."""
    found = []
    at, line = 0, 1
    while at < len(text):
        if text[at] in '`"' and not re.compile(r"([`\"])(?:\\.|(?!\1)[^\\])*\1", re.DOTALL).match(text, at):
            raise ScriptError(f"{name}:{line}: {text[at]} is never closed")
        if text.startswith("%{", at) and "}%" not in text[at:]:
            raise ScriptError(f"{name}:{line}: %{{ is never closed by }}%")
        matches = ((kind, match.group()) for kind, pattern in _PATTERNS if (match := pattern.match(text, at)))
        kind, matched = max(matches, key=lambda one: len(one[1]), default=("sign", text[at]))
        if kind == "word" and defines and matched in defines:
            found += [Token(one.kind, one.text, line) for one in tokens(defines[matched], name)[:-1]]
        elif kind != "space":
            found.append(Token(kind, matched, line))
        at += len(matched)
        line += matched.count("\n")
    return [*found, Token("end", "the end", line)]


# ---- what a script says ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Time:
    """When an event happens: "+" from the one before, "=" from the start, "*" at any time; seconds."""

    kind: str
    at_s: float = 0.0
    until_s: float | None = None


@dataclass(frozen=True)
class Option:
    """A TCP option; `blocks` of a SACK."""

    name: str
    values: tuple[Any, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Tcp:
    flags: str
    begin: int
    end: int
    size: int
    ack: int | None = None
    window: int | None = None
    urgent: int | None = None
    options: tuple[Option, ...] | None = ()  #: None: <...>, any


@dataclass(frozen=True)
class Packet:
    """A packet that arrives ("<") or leaves (">")."""

    direction: str
    tcp: Tcp | None = None  #: None: another protocol's, or within another packet
    other: str = ""  #: which, as udp or gre
    ip: Mapping[str, Any] = field(default_factory=dict)  #: ecn, tos, ttl, flowlabel


@dataclass(frozen=True)
class Anything:
    """What the script leaves open."""


@dataclass(frozen=True)
class Word:
    text: str


@dataclass(frozen=True)
class Text:
    text: str
    is_open: bool = False  #: "..." follows


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Operation:
    sign: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Struct:
    """A brace: named fields, in order, or nameless ones."""

    fields: tuple[tuple[str, Any], ...]

    def get(self, name: str) -> Any:
        return dict(self.fields).get(name)


@dataclass(frozen=True)
class Syscall:
    name: str
    arguments: tuple[Any, ...]
    result: Any
    errno: str = ""
    note: str = ""
    until_s: float | None = None  #: it blocks until then


@dataclass(frozen=True)
class Command:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


Action = Packet | Syscall | Command | Code


@dataclass(frozen=True)
class Event:
    line: int
    time: Time
    action: Action


@dataclass(frozen=True)
class Script:
    name: str
    options: tuple[tuple[str, Any], ...]
    setup: str
    events: tuple[Event, ...]
    cleanup: str


# ---- the parser -----------------------------------------------------------------------------------------

_OTHERS = ("udp", "icmp", "ipv4", "ipv6", "gre", "GREv0", "mpls")
_ECN = ("noecn", "ect0", "ect1", "ce", "ect01")


class _Parser:
    def __init__(self, name: str, found: list[Token]) -> None:
        self._name = name
        self._tokens = found
        self._at = 0

    # Tokens.

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _ahead(self, count: int) -> Token:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def _is(self, *texts: str) -> bool:
        return self._next.text in texts and self._next.kind in ("sign", "word", "ellipsis")

    def _fail(self, wanted: str, token: Token | None = None) -> ScriptError:
        token = token or self._next
        return ScriptError(f"{self._name}:{token.line}: {wanted} expected, {token.text!r} found")

    def _take(self, *kinds: str) -> Token:
        if self._next.kind not in kinds:
            raise self._fail(" or ".join(kinds))
        self._at += 1
        return self._tokens[self._at - 1]

    def _sign(self, *texts: str) -> str:
        if not self._is(*texts):
            raise self._fail(" or ".join(repr(text) for text in texts))
        self._at += 1
        return self._tokens[self._at - 1].text

    def _skips(self, *texts: str) -> bool:
        is_there = self._is(*texts)
        self._at += is_there
        return is_there

    def _integer(self) -> int:
        return self._take("integer", "hex").integer

    # A script.

    def script(self) -> Script:
        options = []
        while self._next.kind == "option":
            options.append(self._option())
        setup = self._take("command").text[1:-1] if self._next.kind == "command" else ""
        events: list[Event] = []
        cleanup = ""
        while self._next.kind != "end":
            if self._next.kind == "command" and self._ahead(1).kind == "end":
                cleanup = self._take("command").text[1:-1]
            else:
                events.append(self._event())
        if not events:
            raise self._fail("an event")
        return Script(self._name, tuple(options), setup, tuple(events), cleanup)

    def _option(self) -> tuple[str, Any]:
        name, is_set, value = self._take("option").text[2:].partition("=")
        if name == "define":
            word, _, meaning = value.partition("=")
            return name, (word, meaning)
        return name, value.strip('"') if is_set else True

    def _event(self) -> Event:
        line = self._next.line
        return Event(line, self._time(), self._action())

    def _time(self) -> Time:
        if self._skips("*"):
            return Time("*")
        kind = "+" if self._skips("+") else "="
        at_s = self._seconds()
        if not self._skips("~"):
            return Time(kind, at_s)
        if kind == "+":
            self._sign("+")
        return Time(kind, at_s, self._seconds())

    def _seconds(self) -> float:
        return float(self._take("float", "integer").text)

    def _action(self) -> Action:
        if self._next.kind == "command":
            return Command(self._take("command").text[1:-1])
        if self._next.kind == "code":
            return Code(self._take("code").text[2:-2])
        if self._is("<", ">"):
            return self._packet()
        return self._syscall()

    # Packets.

    def _packet(self) -> Packet:
        direction = self._sign("<", ">")
        ip = self._ip_info()
        if not self._is(*_OTHERS):
            return Packet(direction, tcp=self._tcp(), ip=ip)
        first = self._take("word")
        while self._next.kind != "end" and self._next.line == first.line:  # what nothing here runs is not read either
            self._at += 1
        return Packet(direction, other=first.text, ip=ip)

    def _ip_info(self) -> dict[str, Any]:
        if not self._is("(", "["):
            return {}
        closing = {"(": ")", "[": "]"}[self._sign("(", "[")]
        info: dict[str, Any] = {}
        while not self._skips(closing):
            name = self._take("word").text
            if name in _ECN:
                info["ecn"] = name
            elif name in ("tos", "flowlabel", "ttl"):
                info[name] = self._integer()
            else:
                raise self._fail(" or ".join([*_ECN, "tos", "flowlabel", "ttl"]), self._tokens[self._at - 1])
            self._skips(",")
        return info

    def _words_until(self, closing: str) -> str:
        words = []
        while not self._is(closing):
            if self._next.kind == "end":
                raise self._fail(repr(closing))
            words.append(self._next.text)
            self._at += 1
        self._sign(closing)
        return " ".join(words)

    def _skip_ports(self) -> None:
        if self._next.kind == "integer" and self._ahead(1).text == ">":
            self._integer()
            self._sign(">")
            self._integer()

    def _tcp(self) -> Tcp:
        self._skip_ports()
        flags = self._flags()
        begin = self._integer()
        self._sign(":")
        end = self._integer()
        self._sign("(")
        size = self._integer()
        line = self._next
        self._sign(")")
        if begin + size != end and (begin + size) % 2**32 != end:
            raise self._fail(f"{begin}:{begin + size}({size})", line)
        ack = self._integer() if self._skips("ack") else None
        window = self._integer() if self._skips("win") else None
        urgent = self._integer() if self._skips("urg") else None
        options = self._options() if self._skips("<") else ()
        return Tcp(flags, begin, end, size, ack, window, urgent, options)

    def _flags(self) -> str:
        if self._skips("-"):
            return ""
        if self._skips("."):
            return "."
        flags = self._take("word")
        if not re.fullmatch("[FSRPUEWA0-9]+", flags.text):
            raise self._fail("flags of F, S, R, P, U, E, W, A or .", flags)
        return flags.text + "." * self._skips(".")

    def _options(self) -> tuple[Option, ...] | None:
        if self._skips("..."):
            self._sign(">")
            return None
        options = [self._tcp_option()]
        while self._skips(","):
            options.append(self._tcp_option())
        self._sign(">")
        return tuple(options)

    def _tcp_option(self) -> Option:
        word = self._take("word")
        name = word.text
        if name in ("nop", "eol", "sackOK"):
            return Option(name)
        if name in ("mss", "wscale"):
            return Option(name, (self._integer(),))
        if name == "TS":
            self._sign("val")
            value = self._integer()
            self._sign("ecr")
            return Option(name, (value, self._integer()))
        if name == "sack":
            blocks = []
            while self._next.kind == "integer":
                begin = self._integer()
                self._sign(":")
                blocks.append((begin, self._integer()))
            return Option(name, (), tuple(blocks))
        if name in ("md5", "FO", "FOEXP", "ECN"):
            values = []
            while not self._is(",", ">"):
                values.append(self._take("word", "integer", "hex").text)
            return Option(name, tuple(values))
        raise self._fail("nop, eol, mss, wscale, sackOK, sack, md5, TS, FO, FOEXP or ECN", word)

    # System calls.

    def _syscall(self) -> Syscall:
        until_s = self._seconds() if self._skips("...") else None
        name = self._take("word").text
        self._sign("(")
        arguments = self._list(")")
        self._sign("=")
        result = self._expression()
        errno = note = ""
        if self._next.kind == "word":
            errno = self._take("word").text
        if self._skips("("):
            note = self._words_until(")")
        elif errno:
            raise self._fail(f"'(' and a note after {errno}")
        return Syscall(name, arguments, result, errno, note, until_s)

    def _list(self, closing: str) -> tuple[Any, ...]:
        items = []
        while not self._skips(closing):
            items.append(self._expression())
            if not self._is(closing):
                self._sign(",")
        return tuple(items)

    def _expression(self) -> Any:
        left = self._primary()
        while self._is("|", "=") and (self._is("|") or isinstance(left, Word | Call)):
            left = Operation(self._sign("|", "="), left, self._expression())
        return left

    def _primary(self) -> Any:
        parsers: dict[str, Callable[[], Any]] = {"[": lambda: list(self._list("]")), "{": self._struct}
        if self._skips("..."):
            return Anything()
        if self._is(*parsers):
            return parsers[self._sign(*parsers)]()
        token = self._take("integer", "hex", "string", "word")
        if token.kind in ("integer", "hex"):
            return token.integer
        if token.kind == "string":
            return Text(token.text[1:-1], self._skips("..."))
        if self._skips("("):
            return Call(token.text, self._list(")"))
        return Word(token.text)

    def _struct(self) -> Struct:
        fields = []
        for item in self._list("}"):
            is_named = isinstance(item, Operation) and item.sign == "="
            name = (item.left.name if isinstance(item.left, Call) else item.left.text) if is_named else ""
            fields.append((name, item.right if is_named else item))
        return Struct(tuple(fields))


def parse(text: str, name: str = "script", defines: Mapping[str, str] | None = None) -> Script:
    """Return what a script says.

    Args:
        text: the script.
        name: its name, for errors.
        defines: words and the text that replaces each, as of the option -D; the script's own come on top.

    Raises:
        ScriptError: a construct that the language does not have, with file and line.
    """
    script = _Parser(name, tokens(text, name, defines)).script()
    own = dict(value for option, value in script.options if option == "define" and isinstance(value, tuple))
    if own:
        script = _Parser(name, tokens(text, name, {**(defines or {}), **own})).script()
    return script
