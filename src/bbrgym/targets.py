# SPDX-License-Identifier: GPL-2.0-only
"""Classes chosen in configurations by import path, under Hydra's key `_target_`.

Files in conf/agent, conf/logger and conf/rollouts name a class and give its fields beside it. A class of
your own needs a file there, or `agent._target_=my_module.MyTrainer` on the command line.

Importing a module runs its code. So a configuration that was only found, such as the config.yaml of a run folder, may
name classes of this package and of those that its extras train with, of modules that are imported already, and of those
in the environment variable BBRGYM_TRUSTED_MODULES (separated by commas).
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from importlib import resources
from typing import Any, ClassVar, TypeVar

import yaml

from bbrgym.errors import ConfigError, MissingExtraError, nearest
from bbrgym.schema import Model, shown, validated

KEY = "_target_"
TRUSTED_MODULES = "BBRGYM_TRUSTED_MODULES"

_PACKAGE = __name__.partition(".")[0]
_KNOWN = (_PACKAGE, "stable_baselines3", "sb3_contrib", "torch")  # a run folder may name their classes


class Target(Model):
    """Base of the classes that `_target_` may name: a field per option."""

    # functions that make a class of this kind from one of another package: the import path of the function by that of
    # the base of the other classes
    adapters: ClassVar[Mapping[str, str]] = {}

    name: str = ""  # name of the file in conf/, or one of the user's own


TargetT = TypeVar("TargetT", bound=Target)
ClassT = TypeVar("ClassT")


def build(
    group: str, options: Mapping[str, Any], base: type[TargetT], *, extra: str | None = None, is_trusted: bool = True
) -> TargetT:
    """Return an instance of the class that options name, with the other options as fields.

    Args:
        group: name of the options in error messages, e.g. ``agent``.
        options: `_target_` and fields of the class.
        base: class that it must be derived from.
        extra: extra of bbrgym with the packages that train, and that this package's modules of the group import.
        is_trusted: whether the options are the user's own, not just found.

    Raises:
        ConfigError: there is no such class, it may not be imported, or a field has a value that is not allowed.
        MissingExtraError: its module imports a package that is not installed.
    """
    found = class_of(group, options, base, extra=extra, is_trusted=is_trusted)
    fields = {name: value for name, value in options.items() if name != KEY}
    return validated(found, fields, f"{group}.")


def class_of(
    group: str,
    options: Mapping[str, Any],
    base: type[ClassT],
    *,
    extra: str | None = None,
    is_trusted: bool = True,
    key: str = KEY,
) -> type[ClassT]:
    """Return the class that options name under a key; see `build`."""
    target = options.get(key)
    where = f"{group}.{key}: is {shown(target)}"
    module_name, _, class_name = target.rpartition(".") if isinstance(target, str) else ("", "", "")
    if not module_name or not class_name:
        raise ConfigError(f"{where}, expected the import path of a class, such as {base.__module__}.{base.__name__}")
    if not is_trusted:
        check_package(f"{where}, a class", module_name)
    found = getattr(_module(where, group, options, module_name, extra), class_name, None)
    if not isinstance(found, type):
        raise ConfigError(f"{where}: module {module_name} has no class {class_name}")
    if issubclass(base, Target):
        found = _adapted(found, base)
    if not issubclass(found, base) or inspect.isabstract(found):
        bases = [f"{base.__module__}.{base.__name__}", *(base.adapters if issubclass(base, Target) else ())]
        raise ConfigError(f"{where}, expected a class derived from {' or '.join(bases)}")
    return found


def _adapted(found: type, base: type[Target]) -> type:
    """Return the class that one of base's adapters makes of another package's class; otherwise the class itself."""
    for one in found.__mro__:
        path = base.adapters.get(f"{one.__module__}.{one.__qualname__}")
        if path is not None:
            module_name, _, name = path.rpartition(".")
            made: type = getattr(importlib.import_module(module_name), name)(found)
            return made
    return found


def _module(where: str, group: str, options: Mapping[str, Any], name: str, extra: str | None) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if extra is not None and missing in _KNOWN:
            raise MissingExtraError(f"{group}={options.get('name', name)}", extra, error) from error
        if name == missing or name.startswith(f"{missing}."):
            raise ConfigError(
                f"{where}: no module {missing} is found; a module of your own must be installed, or lie in a folder "
                f"of PYTHONPATH"
            ) from error
        if extra is None or not _is_of(_PACKAGE, name):
            raise
        raise MissingExtraError(f"{group}={options.get('name', name)}", extra, error) from error


def check_package(what: str, module_name: str) -> None:
    """Check that a module which was only found, as in a run folder, may be imported.

    Args:
        what: is in the module, with its option and value, for the error.
        module_name: of the module.

    Raises:
        ConfigError: it is none of this package's, is not imported already, and not in BBRGYM_TRUSTED_MODULES.
    """
    if module_name in sys.modules or any(_is_of(one, module_name) for one in _KNOWN) or is_trusted_module(module_name):
        return
    raise ConfigError(
        f"{what} outside {_PACKAGE} named by a run folder; loading it runs its code. If you trust it, import "
        f"{module_name} first, or set the environment variable {TRUSTED_MODULES}={module_name}"
    )


def is_trusted_module(module_name: str) -> bool:
    """Return whether BBRGYM_TRUSTED_MODULES has a module, or one of the module's packages."""
    trusted = os.environ.get(TRUSTED_MODULES, "").split(",")
    return any(_is_of(one.strip(), module_name) for one in trusted if one.strip())


def _is_of(package: str, module_name: str) -> bool:
    return f"{module_name}.".startswith(f"{package}.")


# ---- the files in conf/ -------------------------------------------------------------------------------


def with_shipped(group: str, options: Any) -> Any:
    """Complete options by those of the named file in conf/.

    Args:
        group: folder in conf/.
        options: name of a file; mapping with such a `name` and the options that differ from the file's; or a mapping
            with `_target_`, which is complete and returned unchanged, as is any other value.

    Raises:
        ConfigError: there is no such file.
    """
    if isinstance(options, str):
        return shipped(group, options)
    if isinstance(options, Mapping) and KEY not in options and isinstance(options.get("name"), str):
        return {**shipped(group, options["name"]), **options}
    return options


def shipped(group: str, name: str) -> dict[str, Any]:
    """Return the options in ``conf/<group>/<name>.yaml``.

    Raises:
        ConfigError: there is no such file.
    """
    names = shipped_names(group)
    if name not in names:
        raise ConfigError(f"{group}: is {shown(name)}; {nearest(name, names)}")
    file = resources.files("bbrgym") / "conf" / group / f"{name}.yaml"
    options: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return options


def shipped_names(group: str) -> list[str]:
    """Return the names of the files in ``conf/<group>``, sorted."""
    folder = resources.files("bbrgym") / "conf" / group
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))
