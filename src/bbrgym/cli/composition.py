# SPDX-License-Identifier: GPL-2.0-only
"""Compose a command's configuration from conf/ and the overrides of its command line, as a Hydra loader.

Additions to Hydra: ``scenario=``, ``agent=``, ``logger=`` and ``rollouts=`` also take a file, and fields
under ``scenario.``, ``tunables.``, ``env.``, ``action.``, ``reward.``, ``agent.`` and ``logger.`` need no ``+`` if the
file does not have them, since the validated models know all fields. ``logger=[wandb,csv]`` has the options of each
under its name, ``logger.wandb.project``. In a scenario a range of a distribution, or a mapping of
another ``kind``, replaces the former value; Hydra would merge mappings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import distributions
from pathlib import Path
from traceback import walk_tb
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, ConfigRepository, IConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.core.config_store import ConfigStore
from hydra.core.default_element import GroupDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.utils import setup_globals
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from pydantic import BaseModel

from bbrgym.config.option_types import give_types
from bbrgym.config.overrides import DIRNAME, composing, job_name, parse_override
from bbrgym.errors import ConfigError, nearest, one_line
from bbrgym.scenario.distribution import is_range
from bbrgym.scenario.files import is_scenario_file, read_scenario
from bbrgym.untrusted_files import check_yaml, read_yaml
from bbrgym.worlds import registered_worlds, world_spec

# The validated models check the fields under these.
_OPEN = ("scenario", "tunables", "env", "action", "reward", "agent", "logger")
_WORLDS = "world"  # the group whose choices are the registered worlds
_LISTS = (_WORLDS,)  # groups of which several may be chosen
_FILES = ("scenario", "agent", "logger", "rollouts")  # groups that take a file too
_ALSO = {"agent": "; fixed, oracle and random need no training: bbrgym evaluate takes them"}
_LOGGER = "logger"  # of which several may be chosen too, each under its own name
_FILE_CONFIG = "file-of-the-command-line"
_HYDRA = "1.3"  # whose defaults hold
_REFERENCE = re.compile(r"\$\{\s*([A-Za-z_][\w.\[\]]*)\s*\}")


@dataclass(frozen=True)
class _Request:
    """The overrides of a command line, as they are applied."""

    given: list[str]  # as written, but for Hydra's own
    for_hydra: list[str]  # those that Hydra applies
    values: list[Override]  # of options that Hydra would take for a group of the same name that another command has
    in_scenario: list[Override]  # fields of the scenario
    dirname: str | None  # of ``hydra.job.override_dirname``, which Hydra would replace; None if it is not given


class _UsersFiles(FileConfigSource):
    """A folder of configurations that this package does not ship: each file is checked before Hydra reads it."""

    def load_config(self, config_path: str) -> ConfigResult:
        check_yaml(Path(self.path, self._normalize_file_name(config_path)))
        return super().load_config(config_path)


class _Repository(ConfigRepository):
    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        super().initialize_sources(config_search_path)
        shipped = str(resources.files("bbrgym") / "conf")
        self.sources = [
            _UsersFiles(one.provider, one.path) if one.scheme() == "file" and one.path != shipped else one
            for one in self.sources
        ]


class Loader(ConfigLoaderImpl):
    """Hydra's loader of configurations, with the additions above.

    Args:
        search_path: Hydra's. Default: the shipped files alone.
        models: whose plain fields say the types of the options of the same names.
    """

    def __init__(self, search_path: ConfigSearchPath | None = None, models: Sequence[type[BaseModel]] = ()) -> None:
        version.setbase(_HYDRA)
        super().__init__(search_path if search_path is not None else search_path_of())
        self.repository = _Repository(self.config_search_path)
        self._models = tuple(models)
        self._read: CachingConfigRepository | None = None  # what a request has read of conf/, for Hydra's own reading

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        """Return the configuration of a command, as Hydra's own class does."""
        with composing(overrides):
            if config_name is None:
                return super().load_configuration(None, overrides, run_mode, from_shell, validate_sweep_overrides)
            asked = self._request(config_name, overrides, run_mode)
            try:
                config = super().load_configuration(
                    config_name, asked.for_hydra, run_mode, from_shell, validate_sweep_overrides
                )
            except KeyError as error:  # Hydra reads os.environ
                raise ConfigError(f"hydra.job.env_copy: {error} is not a variable of the environment") from error
            with read_write(config), open_dict(config):
                for override in asked.in_scenario:
                    _set(config, override.key_or_group, override.value())
                for override in asked.values:
                    config[override.key_or_group] = override.value()
                scenario, choice = config.get("scenario"), config.hydra.runtime.choices.get("scenario")
                if isinstance(scenario, DictConfig) and "name" not in scenario and choice not in (None, _FILE_CONFIG):
                    scenario.name = choice
                config.hydra.overrides.task = asked.given
                _keep_references(config.hydra.job.env_set)
                if asked.dirname is not None:
                    config.hydra.job.override_dirname = asked.dirname
            give_types(config, self._models)
            return config

    def compute_defaults_list(self, config_name: str | None, overrides: list[str], run_mode: RunMode) -> Any:
        """Return Hydra's list of defaults."""
        with composing(overrides):
            if config_name is not None:
                overrides = self._request(config_name, overrides, run_mode).for_hydra
            return super().compute_defaults_list(config_name, overrides, run_mode)

    def load_sweep_config(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Return the configuration of a job of a multirun, whose folder is named after what differs between jobs."""
        texts: Any = OmegaConf.to_container(master_config.hydra.overrides.task, resolve=False)
        asked, own = ([parse_override(text) for text in some] for some in (texts, sweep_overrides))
        style = master_config.hydra.job.config.override_dirname
        left_out = {one.get_key_element() for one in asked if not one.is_sweep_override()} | {*style.exclude_keys}
        differing = {
            one.get_key_element(): str(one.get_value_element_as_str())
            for one in own
            if not one.is_hydra_override() and one.get_key_element() not in left_out
        }
        name = job_name(differing, style.kv_sep, style.item_sep)
        try:
            config = super().load_sweep_config(master_config, sweep_overrides)
        except ConfigError as error:
            raise ConfigError(f"job {name}: {error}" if name else str(error)) from error
        if not any(one.key_or_group == DIRNAME for one in own):
            with open_dict(config.hydra):
                config.hydra.job.override_dirname = name or "${hydra.job.name}"
        return config

    def groups(self, config_name: str) -> dict[str, list[str]]:
        """Return the choices of each config group of a command. Raises ConfigError: there is no such configuration."""
        self._store_worlds()
        repository = CachingConfigRepository(self.repository)
        return {group: _choices(repository, group) for group in _Tree(repository, config_name).groups}

    def _parse_overrides_and_create_caching_repo(
        self, config_name: str | None, overrides: list[str]
    ) -> tuple[list[Override], CachingConfigRepository]:
        if self._read is None:
            return super()._parse_overrides_and_create_caching_repo(config_name, overrides)
        read, self._read = self._read, None
        return [parse_override(text) for text in overrides], read

    def _request(self, config_name: str, overrides: Sequence[str], run_mode: RunMode) -> _Request:
        self._store_worlds()
        parsed = [parse_override(text) for text in overrides]
        repository = CachingConfigRepository(self.repository)
        self._process_config_searchpath(config_name, parsed, repository)
        tree = _Tree(repository, config_name)
        of_hydra = [one for one in parsed if one.is_hydra_override()]
        own = [one for one in parsed if not one.is_hydra_override()]
        several = [one for one in own if one.is_sweep_override()]
        if run_mode is RunMode.RUN and several:
            raise ConfigError(_of_several(several[0]))
        is_open = tuple(f"{key}." for key in _OPEN if key in tree.groups or key in tree.nested)
        prepared = [_prepare(one, repository, tree.groups, is_open) for one in own]
        known = tree.keys(prepared)
        for override in prepared:
            if not override.key_or_group.startswith(is_open):
                _check_known(override, known)
        # Hydra would take an option for the group of the same name that another command has.
        others = {*repository.get_group_options("", ObjectType.GROUP), _WORLDS} - set(tree.groups)
        single = [one for one in prepared if not one.is_sweep_override()]
        values = [one for one in single if one.key_or_group in others]
        in_scenario = [one for one in single if _is_in_scenario(one)]
        applied = [*of_hydra, *(one for one in prepared if one not in values and one not in in_scenario)]
        has_file = any(one.value() == _FILE_CONFIG for one in single)  # stored after the repository was made
        self._read = None if has_file else repository
        dirname = next((str(one.value()) for one in of_hydra if one.key_or_group == DIRNAME), None)
        given, for_hydra = ([str(one.input_line) for one in some] for some in (own, applied))
        return _Request(given, for_hydra, values, in_scenario, dirname)

    def _store_worlds(self) -> None:
        """Store the choices of the group ``world``: the registered worlds with their default settings."""
        for name, spec in registered_worlds().items():
            settings = spec.default_settings()
            ConfigStore.instance().store(group=_WORLDS, name=name, node=settings, package=f"{_WORLDS}.{name}")


def search_path_of(config_dir: str | None = None, config_path: str | None = None) -> ConfigSearchPath:
    """Return Hydra's search path: Hydra's files, the shipped ones, those of plugins, and the user's.

    Args:
        config_dir: a folder of your own, searched last. Default: none.
        config_path: a folder of your own, searched before the shipped files. Default: none.

    Raises:
        ConfigError: a folder is none, or a plugin of Hydra cannot be imported.
    """
    try:
        path = create_config_search_path(f"file://{resources.files('bbrgym') / 'conf'}")
    except Exception as error:
        raise _plugin_error(error) from error
    for option, folder, before in (("config-dir", config_dir, "schema"), ("config-path", config_path, "main")):
        if folder is not None:
            if not Path(folder).is_dir():
                raise ConfigError(f"--{option}: is {folder!r}, expected a folder")
            where = f"file://{Path(folder).absolute()}"
            path.prepend(provider=option, path=where, anchor=SearchPathQuery(provider=before))
    return path


def _plugin_error(error: Exception) -> Exception:
    """Return the error of a plugin of Hydra, with the name of its package; another error as it is."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    names = [str(frame.f_locals.get("modname", frame.f_globals.get("__name__"))) for frame in frames]
    plugin = next((name for name in names if name.startswith("hydra_plugins.")), None)
    if plugin is None:
        return error
    files = "/".join(plugin.split(".")[:2])
    owners = [one.name for one in distributions() if any(str(file).startswith(files) for file in one.files or ())]
    package = f"the package {owners[0]}" if owners else "no installed package"
    return ConfigError(
        f"Hydra's plugin {plugin}, of {package}, cannot be imported: {type(error).__name__}: {one_line(error)}; "
        f"upgrade or uninstall it"
    )


def compose_config(name: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration ``conf/<name>.yaml`` with overrides applied, as plain values."""
    setup_globals()
    return plain_values(Loader().load_configuration(name, list(overrides), RunMode.RUN), overrides)


def plain_values(config: DictConfig, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return a composed configuration as plain values, without Hydra's own."""
    with composing(overrides):
        own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
        plain: Any = OmegaConf.to_container(own, resolve=True, throw_on_missing=True)
    return {str(key): value for key, value in plain.items()}


def _of_several(override: Override) -> str:
    given = str(override.input_line).split("=", 1)[1]
    key = override.get_key_element()
    return f"{key}: is {given}, several values, expected one, {key}=[..] for a list, or -m to run a job for each"


class _Tree:
    """A command's configuration with those that the defaults list names.

    Attributes:
        groups: config groups, and the default of each.
        nested: keys that hold mappings.
    """

    def __init__(self, repository: IConfigRepository, name: str) -> None:
        self._repository = repository
        self.groups: dict[str, Any] = {}
        self._keys: list[str] = []
        self.nested: set[str] = set()
        self._add(name)

    def keys(self, overrides: Sequence[Override]) -> list[str]:
        """Return the keys of the configuration, those of the chosen options of groups included."""
        keys = list(self._keys)
        chosen = {override.key_or_group: override.value() for override in overrides if not override.is_sweep_override()}
        for group, default in self.groups.items():
            keys.append(group)
            choice = chosen.get(group, default)
            for option in choice if isinstance(choice, list) else [choice]:
                keys += _keys_of_option(group, str(option), self._repository)
        for override in overrides:
            if override.is_sweep_override() and override.key_or_group in self.groups:
                for option in override.sweep_string_iterator():
                    keys += _keys_of_option(override.key_or_group, option, self._repository)
        return keys

    def _add(self, name: str) -> None:
        loaded: Any = self._repository.load_config(name)  # Hydra has few types here
        if loaded is None:
            every = self._repository.get_group_options("", ObjectType.CONFIG)
            names = [one for one in every if not one.startswith("_")]  # Hydra has some of its own
            raise ConfigError(f"--config-name: is {name!r}; {nearest(name, names)}")
        if loaded.header.get("package") == "hydra":
            return
        for default in loaded.defaults_list or []:
            if isinstance(default, GroupDefault):
                self.groups[str(default.group).removeprefix("/")] = default.value
            elif not default.is_self():
                self._add(str(default.path).removeprefix("/"))
        for key, value in loaded.config.items_ex(resolve=False):
            self._keys.append(str(key))
            if isinstance(value, DictConfig) and key != "hydra":
                self.nested.add(str(key))
                self._keys += [f"{key}.{field!s}" for field in value]


def _is_in_scenario(override: Override) -> bool:
    """Return whether an override gives one field of the scenario a value."""
    is_value = override.type is not OverrideType.DEL and not override.is_sweep_override()
    return is_value and override.key_or_group.startswith("scenario.")


def _keep_references(variables: DictConfig) -> None:
    """Make references to the whole configuration hold in the copy of ``hydra.job.env_set`` that Hydra resolves."""
    texts: Any = OmegaConf.to_container(variables, resolve=False)
    for name, text in texts.items():
        if isinstance(text, str):
            variables[name] = _REFERENCE.sub(r"${hydra:'..\1'}", text)


def _set(config: DictConfig, key: str, value: Any) -> None:
    """Merge a mapping into a mapping of the same kind; any other value, or a range, replaces the former one."""
    before = OmegaConf.select(config, key)
    is_merged = isinstance(before, DictConfig) and isinstance(value, Mapping)
    if is_merged and (
        is_range(before) or is_range(value) or value.get("kind", before.get("kind")) != before.get("kind")
    ):
        is_merged = False
    OmegaConf.update(config, key, value, merge=is_merged, force_add=True)


def _prepare(
    override: Override, repository: IConfigRepository, groups: Mapping[str, Any], is_open: tuple[str, ...]
) -> Override:
    key = override.key_or_group
    if override.type is not OverrideType.CHANGE:
        return override
    if key.startswith(is_open):
        return parse_override(f"++{override.input_line}")
    if key in groups and not override.is_sweep_override():
        return parse_override(_group_override(key, override.value(), repository, groups[key]))
    return override


def _choices(repository: IConfigRepository, group: str) -> list[str]:
    """Return the names of the files of a group in all folders of the search path."""
    return sorted(set(repository.get_group_options(group, ObjectType.CONFIG)) - {_FILE_CONFIG})


def _group_override(group: str, choice: Any, repository: IConfigRepository, default: Any) -> str:
    """Return the override of a group; a file is first stored as a Hydra configuration."""
    options = _choices(repository, group)
    if group == "scenario" and isinstance(choice, list):
        ConfigStore.instance().store(group=group, name=_FILE_CONFIG, node=read_scenario(choice))
        return f"{group}={_FILE_CONFIG}"
    if group in _FILES and isinstance(choice, str) and choice not in options and is_scenario_file(choice):
        node = read_scenario(choice) if group == "scenario" else _read_options(group, choice)
        ConfigStore.instance().store(group=group, name=_FILE_CONFIG, node=node)
        return f"{group}={_FILE_CONFIG}"
    if choice is None and default is None:
        return f"{group}=null"
    if group == _LOGGER and isinstance(choice, list):
        _check_choices(group, choice, options)
        node = {one: _plain_file(repository, group, one) for one in choice}
        ConfigStore.instance().store(
            group=group, name=_FILE_CONFIG, node=node or _plain_file(repository, group, "none")
        )
        return f"{group}={_FILE_CONFIG}"
    is_list = group in _LISTS and isinstance(choice, list)
    _check_choices(group, choice if is_list else [choice], options)
    if not is_list:
        return f"{group}={choice}"
    if not choice:
        raise ConfigError(f"{group}: is {choice!r}, expected at least one of {', '.join(options)}, each once")
    return f"{group}=[{','.join(choice)}]"


def _check_choices(group: str, choices: Sequence[Any], options: Sequence[str]) -> None:
    for one in choices:
        if one not in options:
            also = (", or a file (.yaml)" if group in _FILES else "") + _ALSO.get(group, "")
            raise ConfigError(f"{group}: is {one!r}; {nearest(str(one), options)}{also}")
    if len(set(choices)) < len(choices):
        raise ConfigError(f"{group}: is {choices!r}, expected at least one of {', '.join(options)}, each once")


def _plain_file(repository: IConfigRepository, group: str, name: str) -> dict[str, Any]:
    """Return the options in a file of a group."""
    loaded: Any = repository.load_config(f"{group}/{name}")
    options: Any = OmegaConf.to_container(loaded.config, resolve=False)
    return {str(key): value for key, value in options.items()}


def _read_options(group: str, path: str) -> dict[str, Any]:
    options = read_yaml(Path(path))
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise ConfigError(f"{group}: {path!r} is not a mapping of options")
    return options


def _keys_of_option(group: str, option: str, repository: IConfigRepository) -> list[str]:
    if group == _WORLDS and option in registered_worlds():
        settings = world_spec(option).default_settings()
        own = [f"world.{option}.options.{name}" for name in settings.get("options", {})]
        return [*(f"world.{option}.{name}" for name in settings), *own]
    loaded = repository.load_config(f"{group}/{option}")
    if loaded is None or option == _FILE_CONFIG:  # a scenario's file: its fields are checked later
        return []
    package = str(loaded.header.get("package") or group)
    prefix = "" if package == "_global_" else f"{package}."
    return [f"{prefix}{field!s}" for field in loaded.config]


def _check_known(override: Override, known: list[str]) -> None:
    key = override.key_or_group
    if key not in known:
        options = [name for name in known if not name.startswith("scenario.")]
        raise ConfigError(f"{key}: is not an option; {nearest(key, options, '--help')}")
