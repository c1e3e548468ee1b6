# SPDX-License-Identifier: GPL-2.0-only
"""Commands that are Hydra programs: Hydra's flags, search path and structured configs, with our errors.

A command is its file in conf/ and a module with a function that takes the composed options: see `add_program`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra._internal.hydra import Hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from bbrgym.cli.composition import Loader, plain_values, search_path_of
from bbrgym.cli.polars_threads import start_polars
from bbrgym.config.option_types import plain_types, type_text
from bbrgym.config.overrides import composing, parse_override
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.untrusted_files import MAX_YAML_BYTES, read_text

_STEPS = "total_steps="
_MORE = re.compile(r"(?<=[=,])\+\d[\d._eE+]*(?=,|$)")  # so many more: Hydra's grammar would drop the sign
_MODE = "hydra.mode"
_HERE = "."  # hydra.run.dir where it is not given: the command chooses its run folder
_VERBOSE = ("hydra.verbose", "hydra.job_logging", "hydra.hydra_logging", "hydra/job_logging", "hydra/hydra_logging")
_EXTRAS = {"joblib": ("joblib", "train"), "submitit": ("submitit", "slurm"), "ray": ("ray", "ray-launcher")}
_FLAGS = """\
  -h, --help             this text; --hydra-help: Hydra's own
  -m, --multirun         run a job for every combination of options with several values, seed=1,2,3
  -c, --cfg job|hydra|all    print the configuration instead of running; --resolve: without references,
                         -p, --package PACKAGE: a part of it
  -i, --info [all|config|defaults|defaults-tree|plugins|searchpath]    print what Hydra knows
  -cd, --config-dir DIR  a folder of your own files, searched last: DIR/agent/mine.yaml is agent=mine
  -cp, --config-path DIR    the same, searched first
  -cn, --config-name NAME   another primary file than {name}, of such a folder
  -sc, --shell-completion   install=bash, fish or zsh prints the shell's command for completion, uninstall=..
"""


class _Hydra(Hydra):
    """Hydra, whose callbacks and folders may refer to its own options, such as ``${hydra:runtime.cwd}``."""

    def compose_config(self, *args: Any, **kwargs: Any) -> DictConfig:
        """Return a configuration, now the current one; see Hydra's class."""
        config: DictConfig = super().compose_config(*args, **kwargs)
        HydraConfig.instance().set_config(config)
        OmegaConf.set_readonly(config.hydra, None)
        return config


def add_program(commands: Any, name: str, purpose: str, module: ModuleType) -> None:
    """Add a command that is a Hydra program, with the options of ``conf/<name>.yaml``.

    Args:
        commands: of the parser.
        name: of the command and its file.
        purpose: in one line.
        module: the command's. It has DESCRIPTION; MODELS, whose plain fields say the types of options; `run`; and, if
            flags that are not Hydra's are overrides, `override`, which returns one for a flag. `overrides`, `config`
            and `run_dir` of run's argument are the overrides as given, the composed options, and the folder that
            hydra.run.dir names, or None.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, add_help=False, allow_abbrev=False, parents=[get_args_parser()]
    )
    override = getattr(module, "override", None)
    parser.set_defaults(run_command=lambda options: run_command(module, options), other_flags=override)


def run_command(module: ModuleType, options: argparse.Namespace) -> None:
    """Do what the flags ask for; without any, run the command."""
    _check_options(options)
    _check_launcher(options.overrides)
    name = options.config_name or options.command
    options.overrides = [_MORE.sub(r"'\g<0>'", text) if text.startswith(_STEPS) else text for text in options.overrides]
    overrides = list(options.overrides)
    if RunMode.MULTIRUN.name in [one.value() for one in map(parse_override, overrides) if one.key_or_group == _MODE]:
        options.multirun = True
    loader = Loader(search_path_of(options.config_dir, options.config_path), module.MODELS)
    before = HydraConfig.instance().cfg
    hydra = _Hydra(options.command, loader)
    try:
        if options.help:
            sys.stdout.write(_help(module, name, loader, hydra, options))
            raise SystemExit(0)
        if options.hydra_help:
            hydra.hydra_help(config_name=name, args_parser=get_args_parser(), args=options)
        elif options.shell_completion:
            _complete(hydra, name, overrides)
        elif options.cfg is not None:
            hydra.show_cfg(name, overrides, options.cfg, options.package, options.resolve)
        elif options.info is not None:
            hydra.show_info(options.info, name, overrides)
        elif options.multirun:
            from bbrgym.cli.many_runs import multirun  # with reports, which no single run needs

            start_polars()
            multirun(name, hydra, options)
        else:
            _run(module, hydra, name, options)
    finally:
        HydraConfig.instance().cfg = before


def _check_options(options: argparse.Namespace) -> None:
    if options.experimental_rerun is not None:
        raise ConfigError("--experimental-rerun: is not there; resume=true goes on with a run folder")
    asked = [name for name in ("cfg", "info", "multirun", "run", "shell_completion") if getattr(options, name)]
    if len(asked) > 1:
        raise ConfigError(f"--{asked[0].replace('_', '-')} and --{asked[1].replace('_', '-')}: expected one of them")
    if options.resolve and options.cfg is None and not options.help:
        raise ConfigError("--resolve: expected with --cfg or --help")


def _check_launcher(overrides: Sequence[str]) -> None:
    """Check that the launcher of a command line is installed."""
    for override in map(parse_override, overrides):
        if override.key_or_group == "hydra/launcher":
            module, extra = _EXTRAS.get(str(override.value()).partition("_")[0], ("", ""))
            if module and find_spec(f"hydra_plugins.hydra_{module}_launcher") is None:
                missing = f"hydra_{module}_launcher"
                error = ModuleNotFoundError(f"No module named {missing!r}", name=missing)
                raise MissingExtraError(f"hydra/launcher={override.value()}", extra, error)


def _run(module: ModuleType, hydra: Hydra, name: str, options: argparse.Namespace) -> None:
    errors: list[Exception] = []

    def task(config: DictConfig) -> None:
        own = argparse.Namespace(**vars(options))
        about: Any = HydraConfig.get()
        run_dir = str(about.runtime.output_dir if about.job.chdir else about.run.dir)
        try:
            own.config = plain_values(config, options.overrides)
            is_given = about.run.dir != _HERE and run_dir != own.config.get("output_dir")  # a job has the same in both
            own.run_dir = Path(run_dir) if is_given else None
            start_polars()
            module.run(own)
        except Exception as error:  # noqa: BLE001 - Hydra would print it
            errors.append(error)

    is_logged = any(parse_override(text).key_or_group.startswith(_VERBOSE) for text in options.overrides)
    with composing(options.overrides):
        hydra.run(name, task, list(options.overrides), with_log_configuration=is_logged)
    if errors:
        raise errors[0]


def _complete(hydra: Hydra, name: str, overrides: list[str]) -> None:
    """Print what a shell needs, or the candidates that it asks for."""
    try:
        hydra.shell_completion(config_name=name, overrides=overrides)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"--shell-completion: {' '.join(str(error).split())}") from error


# ---- help ---------------------------------------------------------------------------------------------


def _help(module: ModuleType, name: str, loader: Loader, hydra: Hydra, options: argparse.Namespace) -> str:
    """Return the command's text: description, groups with their choices, options with types and defaults, flags."""
    config = hydra.compose_config(name, list(options.overrides), RunMode.RUN)
    chosen = config.hydra.runtime.choices
    groups = loader.groups(name)
    types = {option: type_text(*kind) for option, kind in plain_types(module.MODELS).items() if option in config}
    sections = [
        f"usage: bbrgym {options.command} [flags] [OPTION=VALUE ...]\n",
        module.DESCRIPTION,
        "config groups, GROUP=CHOICE (the one of now is marked):\n\n"
        + "".join(_group(*one, chosen) for one in groups.items()),
        "options and their defaults:\n\n" + _file(loader, name),
        "types:\n\n" + "".join(f"  {option}: {kind}\n" for option, kind in types.items()),
        "flags:\n\n" + _FLAGS.format(name=options.command),
    ]
    return "\n".join(section for section in sections if section)


def _group(group: str, choices: Sequence[str], chosen: DictConfig) -> str:
    now = [key.removeprefix(f"{group}@") for key in chosen if key == group] and chosen[group]
    shown = ", ".join(f"{one}*" if one == now else one for one in choices)
    return f"  {group}: {shown}\n"


def _file(loader: Loader, name: str) -> str:
    """Return the text of the primary file, comments included."""
    for source in loader.get_sources():
        path = Path(source.path) / f"{name}.yaml"
        if source.scheme() == "file" and path.exists():
            return read_text(path, MAX_YAML_BYTES)
    return (resources.files("bbrgym") / "conf" / f"{name}.yaml").read_text(encoding="utf-8")
