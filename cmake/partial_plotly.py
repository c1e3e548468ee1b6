# SPDX-License-Identifier: GPL-2.0-only
"""Cuts plotly.min.js down to the traces that pages draw: ``partial_plotly.py plotly.min.js partial.js TRACE...``

plotly.min.js is esbuild's: one function of modules that do nothing before they are called.

    var a=COMMON((exports,module)=>{...});    a CommonJS module, which others name in a() alone
    var b,c=LAZY(()=>{...});EXPORTS(d,{...})  an ES module, which others name in c() and COMMON_OF(d)

The last module registers all kinds of traces. Here it registers those wanted, and the parts that it then no longer
reaches are left out; a part is a CommonJS module with the ES modules behind it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_NAME = r"([\w$]+)"
_END = re.compile(rf"return {_NAME}\(\);\}}\)\(\);")
_COMMON = re.compile(rf"var {_NAME}=\(e,t\)=>\(\)=>\{{try\{{return t\|\|e\(\(t=\{{exports:\{{\}}\}}\)")
_LAZY = re.compile(rf"var {_NAME}=\(e,t,r\)=>\(\)=>\{{if\(r\)throw r\[0\]")
_EXPORTS = re.compile(rf"[ ,]{_NAME}=\(e,t\)=>\{{for\(var r in t\)[\w$]+\(e,r,\{{get:t\[r\],enumerable:!0\}}\)\}}")
_REGISTER = re.compile(r"\.register\(\[([\w$(),]*)\]\)")
_TRACE = re.compile(rf'moduleType[=:]"trace",.{{0,80}}?\bname[=:]"{_NAME}"')
_STANDS_FOR = re.compile(rf"(?:\.exports|var [\w$]+)={_NAME}\(\)")
_USED = re.compile(rf"{_NAME}\(\)|\({_NAME}\)")  # called, or the argument of COMMON_OF


def partial(text: str, wanted: list[str]) -> str:
    """Return the bundle with the traces that are wanted."""
    end = _found(_END, text)
    common, lazy, exports = (re.escape(_found(helper, text)[1]) for helper in (_COMMON, _LAZY, _EXPORTS))
    parts = re.split(rf"(?=var [\w$]+={common}\((?:\(\w|[\w$]+=>))", text[: end.start()])
    declares = re.compile(rf"^var {_NAME}=|[ ,]{_NAME}=(?:{lazy})\(\(\)=>|[;}}]{exports}\({_NAME},\{{")
    place = {name: at for at, part in enumerate(parts) if at for name in _names(declares, part)}
    last = place[end[1]]
    modules = _found(_REGISTER, parts[last])[1].split(",")
    by_trace = {_trace(parts, place, module.removesuffix("()")): module for module in modules}
    unknown = set(wanted) - set(by_trace)
    if unknown:
        sys.exit(f"partial_plotly.py: traces are {wanted}, expected some of {sorted(by_trace)}")
    parts[last] = _REGISTER.sub(f".register([{','.join(by_trace[trace] for trace in wanted)}])", parts[last])
    kept, waiting = {0}, [last]
    while waiting:
        at = waiting.pop()
        if at not in kept:
            kept.add(at)
            waiting += [place[name] for name in _names(_USED, parts[at]) if name in place]
    return "".join(parts[at] for at in sorted(kept)) + text[end.start() :]


def _names(pattern: re.Pattern[str], part: str) -> set[str]:
    return {name for found in pattern.finditer(part) for name in found.groups() if name}


def _trace(parts: list[str], place: dict[str, int], module: str) -> str:
    """Return the name of the trace that a module registers: its own, or that of the module that it stands for."""
    for _ in range(3):
        part = parts[place[module]]
        trace, other = _TRACE.search(part), _STANDS_FOR.search(part)
        if trace is not None or other is None:
            break
        module = other[1]
    return module if trace is None else trace[1]


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        sys.exit(f"partial_plotly.py: the bundle has no {pattern.pattern}, expected one of esbuild's")
    return found


if __name__ == "__main__":
    source, target, *traces = sys.argv[1:]
    Path(target).write_text(partial(Path(source).read_text(encoding="utf-8"), traces), encoding="utf-8")
