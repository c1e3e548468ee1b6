# SPDX-License-Identifier: GPL-2.0-only
"""Cuts plotly.min.js down to the traces that pages draw: ``partial_plotly.py plotly.min.js partial.js TRACE...``

plotly.min.js is esbuild's: one function whose statements only declare, and do nothing before they are called.

    var a=COMMON((exports,module)=>{...})     a CommonJS module, which others name in a() alone
    var b,c,d=LAZY(()=>{...})                 variables of an ES module, and the function that sets them
    function f(){...}                         its functions
    EXPORTS(g,{name:()=>b})                   its exports, which a CommonJS module names in COMMON_OF(g)

The last module registers all kinds of traces. Here it registers those wanted, and the statements that it then no longer
reaches are left out. A name counts as used unless the statement declares it inside, as a parameter or a variable.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<name>[\w$]+|\\u\w{4})|(?P<sign>=>|\+\+|--|\.\.\.|[^\w\s"'`])""",
    re.DOTALL,
)
_REGEX = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_TEMPLATE = re.compile(r"[`}](?:[^`\\$]|\\.|\$(?!\{))*(?P<end>`|\$\{)", re.DOTALL)
_VALUES = {")", "]", "}", "++", "--"}  # signs after which a slash divides
_OPERATORS = frozenset(
    (
        "return",
        "typeof",
        "case",
        "in",
        "of",
        "delete",
        "void",
        "throw",
        "new",
        "else",
        "do",
        "instanceof",
        "yield",
        "await",
    )
)
_DECLARING = ("var", "let", "const")
_BODIES = ("function", "class", "async")  # with which a statement begins that ends with its body

_BEGIN = "var Plotly=(()=>{"
_END = re.compile(r"return (?P<last>[\w$]+)\(\);\}\)\(\);")
_REGISTER = re.compile(r"\.register\(\[(?P<traces>[\w$(),]*)\]\)")
_TRACE = re.compile(r'moduleType[=:]"trace",.{0,80}?\bname[=:]"(?P<trace>\w+)"')
_HELPERS = {
    "common": re.compile(r"var ([\w$]+)=\(e,t\)=>\(\)=>\{try\{return t\|\|e\(\(t=\{exports:\{\}\}\)"),
    "lazy": re.compile(r"var ([\w$]+)=\(e,t,r\)=>\(\)=>\{if\(r\)throw r\[0\]"),
    "exports": re.compile(r"[ ,]([\w$]+)=\(e,t\)=>\{for\(var r in t\)[\w$]+\(e,r,\{get:t\[r\],enumerable:!0\}\)\}"),
    "common_of": re.compile(r'[ ,]([\w$]+)=e=>[\w$]+\([\w$]+\(\{\},"__esModule",\{value:!0\}\),e\)'),
}


class Token(NamedTuple):
    """A word or sign, its place and the number of brackets around it."""

    kind: str
    text: str
    at: int
    depth: int


@dataclass
class Statement:
    """A statement of the bundle's function: its text, the names it declares and those it uses."""

    text: str
    declares: list[str]
    uses: set[str]


def tokens(text: str, at: int, end: int) -> Iterator[Token]:
    """Yield the words and signs of JavaScript between two places; a template's parts are tokens too."""
    last, depth, braces = Token("sign", ";", at, 0), 0, list[int]()  # braces open in each template's ${}
    while at < end:
        if text[at] == "`" or (text[at] == "}" and braces and braces[-1] == 0):
            found, kind = _TEMPLATE.match(text, at), "template"
            if text[at] == "}":
                braces.pop()
            if found and found["end"] == "${":
                braces.append(0)
        elif text[at] == "/" and text[at + 1] not in "/*" and _begins_value(last):
            found, kind = _REGEX.match(text, at), "regex"
        else:
            found = _TOKEN.match(text, at)
            kind = (found and found.lastgroup) or ""
        if found is None:
            sys.exit(f"partial_plotly.py: cannot read {text[at : at + 40]!r} at {at}, expected JavaScript")
        at = found.end()
        if kind == "space":
            continue
        token = found[0]
        if kind == "sign" and token in ")]}":
            depth -= 1
        last = Token(kind, token, found.start(), depth)
        yield last
        if kind == "sign" and token in "([{":
            depth += 1
        if kind == "sign" and token in "{}" and braces:
            braces[-1] += 1 if token == "{" else -1


def _begins_value(last: Token) -> bool:
    """Return whether a value may begin after a token, so that a slash opens a regular expression there."""
    if last.kind == "template":
        return last.text.endswith("${")
    return last.text not in _VALUES if last.kind == "sign" else last.text in _OPERATORS


def statements(text: str, at: int, end: int) -> Iterator[list[Token]]:
    """Yield the tokens of each statement."""
    own: list[Token] = []
    for token in tokens(text, at, end):
        own.append(token)
        is_body = token.text == "}" and own[0].text in _BODIES
        if token.kind == "sign" and token.depth == 0 and (token.text == ";" or is_body):
            yield own
            own = []
    if own:
        sys.exit(f"partial_plotly.py: the statement at {own[0].at} has no end")


def declared(own: list[Token]) -> list[str]:
    """Return the names that a statement declares."""
    if own[0].text in _BODIES:
        return [next(token.text for token in own if token.kind == "name" and token.text not in _BODIES)]
    return [
        two.text
        for one, two in pairwise(own)
        if two.kind == "name" and two.depth == 0 and one.text in (*_DECLARING, ",")
    ]


def declared_inside(own: list[Token]) -> set[str]:
    """Return the parameters and variables of the functions in a statement."""
    names: set[str] = set()
    for index, token in enumerate(own):
        if token.text in _DECLARING and token.depth > 0:
            names |= _variables(own, index)
        elif token.text in ("function", "catch"):
            opening = next(at for at in range(index, len(own)) if own[at].text in "({")
            names |= _parameters(own, opening) if own[opening].text == "(" else set()
        elif token.text == "=>":
            names |= _arrow_parameters(own, index)
    return names


def _arrow_parameters(own: list[Token], arrow: int) -> set[str]:
    """Return the names before an arrow."""
    last = own[arrow - 1]
    if last.text != ")":
        return {last.text}
    before = range(arrow - 1, -1, -1)
    return _parameters(own, next(at for at in before if own[at].text == "(" and own[at].depth == last.depth))


def _variables(own: list[Token], index: int) -> set[str]:
    """Return the names that follow ``var``, ``let`` or ``const``."""
    depth, names = own[index].depth, {own[index + 1].text}
    for one, two in pairwise(own[index + 1 :]):
        if one.depth < depth or (one.depth == depth and one.text in (";", "of", "in")):
            break
        if one.depth == depth and one.text == ",":
            names.add(two.text)
    return names


def _parameters(own: list[Token], opening: int) -> set[str]:
    """Return the names between a bracket and its end that are not defaults or parts of patterns."""
    depth, names = own[opening].depth, set()
    for one, two in pairwise(own[opening:]):
        if two.depth == depth:
            break
        if two.kind == "name" and two.depth == depth + 1 and one.text in ("(", ",", "..."):
            names.add(two.text)
    return names


def read_statements(text: str, at: int, end: int) -> tuple[list[Statement], int]:
    """Return the statements of a bundle, and how many helpers of esbuild's they begin with."""
    helpers = {name: _found(pattern, text, f"helper {name}")[1] for name, pattern in _HELPERS.items()}
    all_tokens = list(statements(text, at, end))
    modules = {
        one.text
        for own in all_tokens
        for one, sign, two in zip(own, own[1:], own[2:], strict=False)
        if sign.text == "=" and two.text in (helpers["common"], helpers["lazy"]) and one.depth == 0
    }
    read = []
    for own in all_tokens:
        words = [
            (number, token.text)
            for number, token in enumerate(own)
            if token.kind == "name" and own[number - 1].text != "."
        ]
        is_common = len(own) > 4 and own[3].text == helpers["common"]
        if is_common:
            uses = {text for number, text in words if text in modules and _is_called(own, number)}
            uses |= {text for number, text in words if own[number - 2].text == helpers["common_of"]}
            uses |= {text for _, text in words if text in helpers.values()}
        else:
            uses = {text for _, text in words} - declared_inside(own)
        is_export = own[0].text == helpers["exports"]
        names = [own[2].text] if is_export else declared(own)
        if not names:
            sys.exit(f"partial_plotly.py: the statement at {own[0].at} declares nothing, expected declarations alone")
        read.append(Statement(text[own[0].at : own[-1].at + len(own[-1].text)], names, uses))
    first = next(number for number, own in enumerate(all_tokens) if own[3].text == helpers["common"])
    return read, first


def _is_called(own: list[Token], number: int) -> bool:
    return [token.text for token in own[number + 1 : number + 3]] == ["(", ")"]


def partial(text: str, wanted: list[str]) -> str:
    """Return the bundle with the traces that are wanted."""
    begin, end = text.index(_BEGIN) + len(_BEGIN), _found(_END, text, "end")
    all_statements, helpers = read_statements(text, begin, end.start())
    by_name: dict[str, list[Statement]] = {}
    for statement in all_statements:
        for name in statement.declares:
            by_name.setdefault(name, []).append(statement)
    (last,) = by_name[end["last"]]
    registered = _found(_REGISTER, last.text, "list of traces")
    modules = registered["traces"].replace("()", "").split(",")
    by_trace = {_trace(module, by_name): module for module in modules}
    kept = [by_trace[trace] for trace in wanted if trace in by_trace]
    if len(kept) < len(wanted):
        sys.exit(f"partial_plotly.py: traces are {wanted}, expected some of {sorted(by_trace)}")
    last.text = last.text.replace(registered[0], f".register([{','.join(f'{module}()' for module in kept)}])")
    last.uses = (last.uses - set(modules)) | set(kept)

    reached = {id(statement) for statement in all_statements[:helpers]}
    names, seen = [end["last"]], set[str]()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        for statement in by_name.get(name, ()):
            if id(statement) not in reached:
                reached.add(id(statement))
                names += statement.uses
    body = "".join(statement.text for statement in all_statements if id(statement) in reached)
    return text[:begin] + body + text[end.start() :]


def _trace(module: str, by_name: dict[str, list[Statement]]) -> str:
    """Return the name of the trace that a module registers: its own, or that of the module that it stands for."""
    for _ in range(3):
        text = by_name[module][0].text
        trace, other = _TRACE.search(text), re.search(r"(?:\.exports|var [\w$]+)=([\w$]+)\(\)", text)
        if trace is not None or other is None:
            break
        module = other[1]
    return trace["trace"] if trace is not None else module


def _found(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        sys.exit(f"partial_plotly.py: the bundle has no {what}, expected one of esbuild's")
    return found


if __name__ == "__main__":
    source, target, *traces = sys.argv[1:]
    Path(target).write_text(partial(Path(source).read_text(encoding="utf-8"), traces), encoding="utf-8")
