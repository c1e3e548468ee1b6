# SPDX-License-Identifier: GPL-2.0-only
"""The language of packetdrill's scripts (the grammar of its syntax.md): text to events.

Keywords are words wherever the grammar has a word, so the parser takes a little more than the grammar does. Of packets
of other protocols, and of those within others, it reads the kind alone; they end with their line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyparsing as pp


class ScriptError(Exception):
    """A script says what the language does not have; the message begins with file and line."""


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


# ---- the grammar ----------------------------------------------------------------------------------------


def _enclosed(opening: str, body: str, closing: str) -> pp.ParserElement:
    """Return what reads a text between two marks."""
    whole = pp.Regex(re.escape(opening) + f"({body})" + re.escape(closing), re.DOTALL)
    whole.set_parse_action(lambda found: found[0][len(opening) : -len(closing)])
    return whole | pp.Literal(opening) - pp.NoMatch().set_name(f"a closing {closing}")


def _quoted(mark: str) -> pp.ParserElement:
    return _enclosed(mark, rf"(?:\\.|[^{mark}\\])*", mark)


def _listed(opening: str, item: pp.ParserElement, closing: str) -> pp.ParserElement:
    """Return what reads items between two signs, as a list."""
    items = pp.Optional(pp.DelimitedList(item, allow_trailing_delim=True))
    whole = pp.Suppress(opening) + items - pp.Suppress(closing)
    return whole.set_parse_action(lambda found: [list(found)])


def _follows(word: str, name: str, item: pp.ParserElement) -> pp.ParserElement:
    return pp.Optional(pp.Suppress(pp.Keyword(word)) - item(name))


def _number(found: pp.ParseResults) -> int:
    return int(found[0], 16 if found[0].startswith("0x") else 10)


_INTEGER = pp.Regex(r"0x[0-9a-fA-F]+|-?[0-9]+").set_name("integer").set_parse_action(_number)
_SECONDS = pp.Regex(r"-?(?:[0-9]*\.)?[0-9]+").set_name("seconds").set_parse_action(lambda found: float(found[0]))
_WORD = pp.Regex(r"[a-zA-Z_][a-zA-Z0-9_]*#?").set_name("word")
_COMMAND = _quoted("`")
_ELLIPSIS = pp.Literal("...")
#: A word, or what holds no words to replace.
_REPLACEABLE = re.compile(r'"(?:\\.|[^"\\])*"|`(?:\\.|[^`\\])*`|%\{.*?\}%|--\S+|[a-zA-Z0-9_]+', re.DOTALL)


def _script_option(found: pp.ParseResults) -> tuple[str, Any]:
    name, is_set, value = found[0][2:].partition("=")
    return name, value.strip('"') if is_set else True


_SCRIPT_OPTION = pp.Regex(r'--[a-zA-Z0-9_]+(?:=(?:"[^"]*"|`[^`]*`|[^\s"`])+)?').set_parse_action(_script_option)

_TIME = (
    pp.Literal("*").set_parse_action(lambda: Time("*"))
    | (pp.Literal("+") - _SECONDS + pp.Optional(pp.Suppress("~") - pp.Suppress("+") - _SECONDS)).set_parse_action(
        lambda found: Time(*found)
    )
    | (_SECONDS + pp.Optional(pp.Suppress("~") - _SECONDS)).set_parse_action(lambda found: Time("=", *found))
).set_name("an event")

# Packets.

_OTHER = pp.Regex(r"(?:udp|icmp|ipv4|ipv6|gre|GREv0|mpls)\b[^\n]*")
_ECN = ("noecn", "ect0", "ect1", "ce", "ect01")
_IP_FIELD = pp.one_of(_ECN, as_keyword=True).set_parse_action(lambda found: [("ecn", found[0])]) | (
    pp.one_of("tos flowlabel ttl", as_keyword=True) - _INTEGER
).set_parse_action(lambda found: [tuple(found)])
_IP_FIELD.set_name(" or ".join([*_ECN, "tos", "flowlabel", "ttl"]))
_IP = pp.MatchFirst([pp.Suppress(o) - pp.DelimitedList(_IP_FIELD) - pp.Suppress(c) for o, c in ("()", "[]")])
_IP.set_parse_action(lambda found: dict(list(found)))

_RANGE = (_INTEGER + pp.Suppress(":") - _INTEGER).set_parse_action(lambda found: [tuple(found)])
_TCP_OPTION = (
    pp.one_of("nop eol sackOK", as_keyword=True)
    | pp.one_of("mss wscale", as_keyword=True) - _INTEGER
    | pp.Keyword("TS") - pp.Suppress("val") - _INTEGER - pp.Suppress("ecr") - _INTEGER
    | pp.one_of("md5 FO FOEXP ECN", as_keyword=True) - pp.ZeroOrMore(pp.Regex("[a-zA-Z0-9]+"))
).set_parse_action(lambda found: Option(found[0], tuple(found[1:]))) | (
    pp.Keyword("sack") - pp.ZeroOrMore(_RANGE)
).set_parse_action(lambda found: Option("sack", (), tuple(found[1:])))
_TCP_OPTION.set_name("nop, eol, mss, wscale, sackOK, sack, md5, TS, FO, FOEXP or ECN")
_TCP_OPTIONS = pp.Suppress("<") - (
    (_ELLIPSIS + pp.Suppress(">")).set_parse_action(lambda: [None])
    | (_TCP_OPTION - pp.ZeroOrMore(pp.Suppress(",") - _TCP_OPTION) - pp.Suppress(">")).set_parse_action(
        lambda found: [tuple(found)]
    )
).set_name(_TCP_OPTION.name)
_PORTS = pp.Suppress(pp.Regex(r"\d+\s*>\s*\d+"))
_FLAGS = pp.Regex(r"[FSRPUEWA0-9]+\.?|\.|-").set_name("flags of F, S, R, P, U, E, W, A or .")


def _tcp(text: str, at: int, found: pp.ParseResults) -> Tcp:
    begin, end, size = found.begin, found.end, found.size
    if (begin + size - end) % 2**32 != 0:
        raise pp.ParseFatalException(text, at, f"Expected {begin}:{begin + size}({size})")
    options = found.options[0] if "options" in found else ()
    numbers = found.as_dict()
    ack, window, urgent = (numbers.get(name) for name in ("ack", "win", "urg"))
    return Tcp(found.flags.replace("-", ""), begin, end, size, ack, window, urgent, options)


_TCP = (
    pp.Optional(_PORTS)
    - _FLAGS("flags")
    - (_INTEGER("begin") - pp.Suppress(":") - _INTEGER("end"))
    - (pp.Suppress("(") - _INTEGER("size") - pp.Suppress(")"))
    - _follows("ack", "ack", _INTEGER)
    - _follows("win", "win", _INTEGER)
    - _follows("urg", "urg", _INTEGER)
    - pp.Optional(pp.Group(_TCP_OPTIONS)("options"))
).set_parse_action(_tcp)
_PACKET = (pp.one_of("< >")("direction") - pp.Optional(_IP("ip")) - (_OTHER("other") | _TCP("tcp"))).set_parse_action(
    lambda found: Packet(found.direction, found.get("tcp"), "".join(found.other.split()[:1]), found.get("ip", {}))
)

# System calls.

_EXPRESSION = pp.Forward()
_TEXT = (_quoted('"') + pp.Optional(_ELLIPSIS)).set_parse_action(lambda found: Text(found[0], len(found) > 1))
_CALL = (_WORD + _listed("(", _EXPRESSION, ")")).set_parse_action(lambda found: Call(found[0], tuple(found[1])))


def _struct(found: pp.ParseResults) -> Struct:
    fields = []
    for item in found[0]:
        is_named = isinstance(item, Operation) and item.sign == "="
        name = (item.left.name if isinstance(item.left, Call) else item.left.text) if is_named else ""
        fields.append((name, item.right if is_named else item))
    return Struct(tuple(fields))


_PRIMARY = (
    _ELLIPSIS.copy().set_parse_action(lambda: Anything())
    | _listed("[", _EXPRESSION, "]")
    | _listed("{", _EXPRESSION, "}").add_parse_action(_struct)
    | _INTEGER
    | _TEXT
    | _CALL
    | _WORD.copy().set_parse_action(lambda found: Word(found[0]))
).set_name("an expression")
_EXPRESSION <<= (_PRIMARY + pp.Optional(pp.one_of("| =") - _EXPRESSION)).set_parse_action(
    lambda found: Operation(found[1], found[0], found[2]) if len(found) > 1 else found
)
_NOTE = pp.Suppress(pp.Regex(r"\([^)]*\)").set_name("'(' and a note"))
_SYSCALL = (
    pp.Optional(pp.Suppress(_ELLIPSIS) - _SECONDS("until_s"))
    + _WORD("name")
    - pp.Group(_listed("(", _EXPRESSION, ")"))("arguments")
    - pp.Suppress("=")
    - pp.Group(_EXPRESSION)("result")
    - pp.Optional(_WORD("errno") - _NOTE | _NOTE)
).set_parse_action(
    lambda found: Syscall(found.name, tuple(found.arguments[0]), found.result[0], found.errno, found.get("until_s"))
)

# A script.

_CODE = _enclosed("%{", ".*?", "}%").add_parse_action(lambda found: Code(found[0]))
_TIMED_COMMAND = _COMMAND.copy().add_parse_action(lambda found: Command(found[0]))
_EVENT = (_TIME - (_TIMED_COMMAND | _CODE | _PACKET | _SYSCALL)).set_parse_action(
    lambda text, at, found: Event(pp.lineno(at, text), *found)
)
_SCRIPT = (
    pp.Group(pp.ZeroOrMore(_SCRIPT_OPTION))("options")
    + pp.Optional(_COMMAND)("setup")
    + pp.Group(pp.OneOrMore(_EVENT))("events")
    + pp.Optional(_COMMAND)("cleanup")
).ignore(pp.cpp_style_comment)
_SCRIPT.parse_with_tabs()


def parse(text: str, name: str = "script", defines: Mapping[str, str] | None = None) -> Script:
    """Return what a script says.

    Args:
        text: the script.
        name: its name, for errors.
        defines: words and the text that replaces each, as of the option -D; the script's own come on top.

    Raises:
        ScriptError: a construct that the language does not have, with file and line.
    """
    own = dict(re.findall(r"^--define=(\w+)=(\S+)", text, re.MULTILINE))
    meanings = {**(defines or {}), **own}
    text = _REPLACEABLE.sub(lambda found: meanings.get(found[0], found[0]), text)
    try:
        found = _SCRIPT.parse_string(text, parse_all=True)
    except pp.ParseBaseException as error:
        wanted = error.msg.removeprefix("Expected ")
        raise ScriptError(f"{name}:{error.lineno}: {wanted} expected, {error.found} found") from error
    return Script(name, tuple(found.options), found.setup, tuple(found.events), found.cleanup)
