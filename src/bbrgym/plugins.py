# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls in one C file of the user's (cc/plugin.h): checked, compiled, and variants from then on.

Example:
    >>> import bbrgym
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from bbrgym.plugins import new_controller
    >>> with TemporaryDirectory() as folder:
    ...     name = bbrgym.load_controller(new_controller(Path(folder) / "aimd.c"))
    >>> name, bbrgym.VARIANTS[name].preset["aimd_keep"]
    ('aimd.c', 0.5)
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import bbrgym._cc as _cc
from bbrgym.controller import Controller, check_class, class_of, split_file
from bbrgym.errors import ConfigError
from bbrgym.processes import describe_exit
from bbrgym.tunables import PYTHON_ALGORITHM, VARIANTS, add_variant
from bbrgym.untrusted_files import MAX_TEXT_BYTES, read_text

_PACKAGE = Path(__file__).resolve().parent
_FILES = _PACKAGE / "plugin_files"
_FLAGS = ("-std=gnu11", "-fno-strict-aliasing", "-Wall", "-Werror=implicit-function-declaration")
_SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0:handle_abort=1:handle_sigill=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
_COMPILE_TIMEOUT_S = 600.0  # 5 s alone; 120 were not enough beside a dozen others
_CHECK_TIMEOUT_S = 120.0
_CHECK_SEED, _CHECK_EVENTS = 1, 200_000
_SUFFIXES = (".c", ".so")
_EXPECTED = "expected a name that ends with .c, .so, .py or .py:CLASS"
_KINDS = {
    "heap-buffer-overflow": "reads or writes outside its state",
    "FPE": "division by zero",
    "ABRT": "calls abort",
    "ILL": "runs an instruction that ends it",
    "SEGV": "reads or writes outside its state",
}

_loaded: dict[str, str] = {}
#: What each loaded variant is in: a shared object; of a class FILE.py:CLASS, or nothing if it was given as such.
PLUGINS: Mapping[str, str] = MappingProxyType(_loaded)

_classes: dict[str, type[Controller]] = {}


def headers(of_tree: str = "cc") -> Path:
    """Return the folder of the public headers, or other sources: of the package, or of the tree that it is run from."""
    installed = _PACKAGE / "_bpf_source"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / of_tree


def bpf_sources() -> Path:
    """Return the folder of the sources of the program for the kernel."""
    return headers("linux/bpf")


def is_file(name: Any) -> bool:
    """Return whether a variant's name is that of a file to load."""
    return isinstance(name, str) and (name.endswith(_SUFFIXES) or split_file(name) is not None)


def new_controller(file: str | Path) -> Path:
    """Write a commented AIMD to begin with, and return its path.

    Raises:
        ConfigError: the file exists, or its name does not end with .c.
        OSError: it cannot be written.
    """
    path = Path(file)
    if path.suffix != ".c":
        raise ConfigError(f"file: is {str(file)!r}, expected a name that ends with .c")
    try:
        with path.open("x", encoding="utf-8") as target:
            target.write((_FILES / "skeleton.c").read_text(encoding="utf-8"))
    except FileExistsError:
        raise ConfigError(f"file: {str(file)!r} exists, expected a new one") from None
    return path


def load_controller(file: str | Path | type[Controller], *, trust: bool = False) -> str:
    """Make a congestion control of the user's a variant and return its name, which is the file's or the class's.

    A C file is checked (`check_controller`) and compiled; the result is kept in the user's cache folder, so that the
    same file is not checked again. Loading a changed file of the same name replaces the variant in the runs to come.

    Args:
        file: a C file, or a shared object with the same interface; a class derived from `bbrgym.Controller`, for the
            twin alone, or FILE.py:CLASS, which runs the file; :CLASS may be left out where there is one.
        trust: whether a shared object, which cannot be checked, may run.

    Raises:
        ConfigError: there is no file or compiler, the file breaks a law, or its tunables are wrong.

    Example:
        >>> import bbrgym
        >>> bbrgym.load_controller("mine.rs")
        Traceback (most recent call last):
        bbrgym.errors.ConfigError: file: is 'mine.rs', expected a name that ends with .c, .so, .py or .py:CLASS
    """
    if isinstance(file, type) or split_file(str(file)) is not None:
        return _load_class(file)
    path = Path(file)
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"file: is {str(file)!r}, {_EXPECTED}")
    if path.suffix == ".so" and not trust:
        raise ConfigError(f"{path.name}: is compiled, so that nothing checks what it does; trust=true runs it")
    if not path.is_file():
        raise ConfigError(f"file: {str(file)!r} is not a file")
    built = str(path.resolve()) if path.suffix == ".so" else _checked_and_compiled(path)
    try:
        algorithm, base, own = _cc.load_plugin(path.name, built)
    except ValueError as error:
        raise ConfigError(f"{path.name}: {error}") from None
    add_variant(path.name, algorithm, f"{path.name}, {_digest(Path(built).read_bytes())}", base, own)
    _loaded[path.name] = built
    return path.name


def _load_class(what: str | Path | type[Any]) -> str:
    kind = check_class(what if isinstance(what, type) else class_of(str(what)))
    if isinstance(what, type):
        name, place = kind.__name__, ""
        if name in VARIANTS and name not in _classes:
            raise ConfigError(f"controller: {name!r} is the name of another variant")
        text = inspect.getsource(kind) if hasattr(sys.modules.get(kind.__module__), "__file__") else repr(kind)
    else:
        file = Path(str(what).rpartition(":")[0] if ".py:" in str(what) else what)
        name, place = Path(what).name, f"{file.resolve()}:{kind.__name__}"
        text = _read(file)
    add_variant(name, PYTHON_ALGORITHM, f"{name}, {_digest(text.encode())}", (), {})
    _classes[name], _loaded[name] = kind, place
    return name


def check_controller(file: str | Path) -> str:
    """Hold a C file to the laws of every controller, in a process of its own with sanitizers.

    Returns:
        what was done, in words.

    Raises:
        ConfigError: the file does not compile, or the first law that it breaks.
    """
    if Path(file).suffix != ".c":
        raise ConfigError(f"{Path(file).name}: expected a C file; a Python class is held to the laws as it runs")
    _checked_and_compiled(Path(file), again=True)
    return f"{_CHECK_EVENTS} random events under sanitizers"


def _check(path: Path, source: Path, cache: Path) -> None:
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        # The laws take seconds to compile, as much as ten files, and are the same for each file.
        laws = _built(path, _preprocessed(_FILES / "check.c", folder, "check.i"), cache, ".o", [*_SANITIZED, "-c"])
        program = Path(folder) / "check"
        _compile(path, [*_SANITIZED, str(laws), str(source), "-o", str(program)])
        command = [str(program), str(_CHECK_SEED), str(_CHECK_EVENTS)]
        done = _run(path, command, _CHECK_TIMEOUT_S, f"{_CHECK_EVENTS} events take", cwd=folder, env=_SANITIZERS)
    if done.returncode != 0:
        raise ConfigError(f"{path.name}: {_why(path.name, done)}")


def load_into(engine: str, plugins: Mapping[str, str]) -> None:
    """Load shared objects and classes, by the names of their variants, into the native module of an engine's class."""
    module = importlib.import_module(engine.rpartition(".")[0])
    for name, built in plugins.items() if hasattr(module, "load_plugin") else ():
        if name not in _classes:
            module.load_plugin(name, built)
        elif hasattr(module, "load_class"):
            module.load_class(name, _classes[name])


def _checked_and_compiled(path: Path, *, again: bool = False) -> str:
    """Return the shared object of a C file in the cache, where only checked ones are.

    What is checked is what is compiled: one preprocessed text, with all that the file includes.
    """
    cache = _cache()
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        source = _preprocessed(path, folder, f"{path.stem}.i")
        if again or not _target(source, cache, ".so").exists():
            _check(path, source, cache)
        return str(_built(path, source, cache, ".so", ["-O2", "-fPIC", "-shared"]))


def compiled(path: Path, include: Sequence[str], libraries: Sequence[str]) -> str:
    """Return the shared object of a C file of this package, compiled once, by the flags of its libraries."""
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        source = _preprocessed(path, folder, f"{path.stem}.i", include)
        return str(_built(path, source, _cache(), ".so", ["-O2", "-fPIC", "-shared", *libraries]))


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bbrgym" / "plugins"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    return cache


def _preprocessed(path: Path, folder: str, name: str, include: Sequence[str] = ()) -> Path:
    """Write a C file with what it includes as one text into a folder, and return the text's path."""
    _read(path)
    source = Path(folder) / name
    _compile(path, [*include, "-E", str(path.resolve()), "-o", str(source)])
    return source


def _target(source: Path, cache: Path, suffix: str) -> Path:
    what = "\0".join([_compiler(source), source.read_text(encoding="utf-8", errors="surrogateescape")])
    return cache / f"{source.stem}-{_digest(what.encode(errors='surrogateescape'))}{suffix}"


def _built(path: Path, source: Path, cache: Path, suffix: str, flags: Sequence[str]) -> Path:
    """Return what a text is compiled to: what is in the cache, or what is put there."""
    target = _target(source, cache, suffix)
    if not target.exists():
        with TemporaryDirectory(dir=cache) as building:
            built = Path(building) / target.name
            _compile(path, [*flags, str(source), "-o", str(built)])
            built.rename(target)
    return target


def _compile(path: Path, arguments: Sequence[str]) -> None:
    command = [_compiler(path), *_FLAGS, f"-I{headers()}", *arguments]
    done = _run(path, command, _COMPILE_TIMEOUT_S, "compiling takes")
    if done.returncode != 0:
        raise ConfigError(f"{path.name}: cannot be compiled: {first_error(path.name, done.stderr)}")


def _run(
    path: Path, command: Sequence[str], timeout_s: float, what: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    fixed: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "check": False}
    try:
        return subprocess.run(command, timeout=timeout_s, **fixed, **options)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{path.name}: {what} more than {timeout_s:g} s") from None


def first_error(name: str, stderr: str) -> str:
    """Return the first error of a compiler or linker, with its line, and its file if it is another one."""
    if "undefined reference to `bbrgym_plugin'" in stderr:
        return "it has no line CC_PLUGIN(...), which names its functions"
    what = r"((?:fatal )?error: |(?=undefined reference|multiple definition))(?P<what>[^;]*)"
    for line in stderr.splitlines():
        found = re.search(rf"(?:(?P<file>[^\s/:]+):(?P<line>\d+):(?:\d+:)? )?{what}", line)
        if found:
            file = "" if found["file"] == name else f"{found['file']}, "
            return (f"{file}line {found['line']}: " if found["file"] else "") + found["what"]
    return (stderr.strip().splitlines() or ["no reason"])[-1]


def _compiler(path: Path) -> str:
    for name in ("cc", "gcc", "clang"):
        if (found := shutil.which(name)) is not None:
            return found
    raise ConfigError(f"{path.name}: needs a C compiler on this machine (Debian: gcc)")


def _why(name: str, done: subprocess.CompletedProcess[str]) -> str:
    """Return why a check ended: the law that it printed, or what a sanitizer found, with the file's line."""
    kind = re.search(r"runtime error: (.*)|AddressSanitizer: ([\w-]+)", done.stderr)
    if kind is None and done.stdout.strip():
        return done.stdout.strip().splitlines()[-1]
    if kind is None:
        return f"the check {describe_exit(done.returncode)}"
    line = re.search(rf"{re.escape(name)}:(\d+)", done.stderr)
    return (f"line {line[1]}: " if line else "") + (kind[1] or _KINDS.get(kind[2], kind[2]))


def _read(path: Path) -> str:
    return read_text(path, MAX_TEXT_BYTES)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
