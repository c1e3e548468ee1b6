# SPDX-License-Identifier: GPL-2.0-only
"""Entrants from the option `agent` of an evaluation.

    fixed                     no agent beside the presets of the variants
    oracle                    the best fixed tunables of each draw, found by searches in the fast world: on other runs
                              of the draw and, as another entrant (`oracle-in-run`), on the run itself
    random                    tunables drawn again every interval
    shipped/NAME              a trained agent that comes with bbrgym: `fixed`, the best fixed tunables on wan_mix,
                              `flow`, a portfolio that each flow follows by itself, or `wan`, a portfolio for all flows
    RUN_DIR                   run folder of `bbrgym train`: a trained agent, or the fixed tunables that a search found
    MODULE:NAME               a function from an observation to an action, or an object with ``predict``; in Python also
                              the function or object itself. It sets the tunables of ``variant`` every 0.5 s
    FILE.onnx, FILE.zip       a model: exported by `bbrgym export` or anybody else's; saved by Stable-Baselines3, which
                              needs ``trust`` since loading it runs what is pickled in it
    REFERENCE:RUN_DIR         a reference of a portfolio, also of shipped/wan: library-best, library-oracle or
                              privileged; see `bbrgym.evaluate.references`

The option is one of these, a list of them, or a mapping from names to one or a list of them. Several training runs of
one agent (in a list: of the same name and variant; in a mapping: under one name) are a group.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bbrgym.agents.base import Called, Constant, LibraryAgent
from bbrgym.agents.loading import load_agent
from bbrgym.agents.model_files import SUFFIXES, load_model
from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import TunableScaling
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError, nearest
from bbrgym.evaluate.agent_entrants import Learned, Random, Searched
from bbrgym.evaluate.entrants import Entrant, preset
from bbrgym.evaluate.evaluation_settings import Evaluation
from bbrgym.evaluate.records import FIXED, label_of
from bbrgym.evaluate.references import InRunOracle, LibraryOracle, Oracle, Privileged
from bbrgym.schema import shown
from bbrgym.targets import TRUSTED_MODULES, is_trusted_module
from bbrgym.untrusted_files import add_to_digest

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")  # of an object in a module
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def agent_entrants_of(agent: Any, settings: Evaluation) -> list[Entrant]:
    """Return the entrants of the option, in its order; an `Entrant` can stand in the place of a name.

    Raises:
        ConfigError: ``agent`` is something else.
    """
    entrants = [
        entrant if name is None else entrant.named(name)
        for name, entry in _entries(agent)
        for entrant in _entrants(entry, settings)
    ]
    return _with_searched_first(entrants)


def _entries(agent: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield each agent of the option with its name; None for the name where the option gives none."""
    named: Iterable[tuple[Any, Any]] = agent.items() if isinstance(agent, Mapping) else [(None, agent)]
    for name, entries in named:
        if name is not None and (not isinstance(name, str) or not _NAME.fullmatch(name) or name == FIXED):
            raise ConfigError(
                f"agent: {shown(name)} is not a name of an agent, expected letters, digits, '_.-', not {FIXED!r}"
            )
        for entry in entries if isinstance(entries, list | tuple) else [entries]:
            if entry != FIXED:
                yield name, entry


def _entrants(entry: Any, settings: Evaluation) -> list[Entrant]:
    if isinstance(entry, Entrant):
        return [entry]
    if not isinstance(entry, type) and (hasattr(entry, "predict") or callable(entry)):
        return [_called(getattr(entry, "__name__", type(entry).__name__), entry, settings)]
    if isinstance(entry, str) and entry in _BUILT_IN:
        return _BUILT_IN[entry](settings)
    if isinstance(entry, str) and entry in SHIPPED:
        return [_shipped(SHIPPED[entry]).named(entry.replace("/", "-"))]
    if isinstance(entry, str | Path) and Path(entry).is_dir():
        return [trained(Path(entry))]
    if isinstance(entry, str | Path) and Path(entry).suffix in SUFFIXES and Path(entry).is_file():
        return [_model(Path(entry), settings)]
    before, _, after = str(entry).partition(":")
    if before in _OF_RUNS and run_dir_of(after).is_dir():
        return [_reference(before, run_dir_of(after), settings)]
    if isinstance(entry, str) and _PATH.fullmatch(entry):
        return [_called(after, _imported(entry), settings)]
    if isinstance(entry, str | Path) and (Path(entry).suffix in SUFFIXES or len(Path(entry).parts) > 1):
        raise ConfigError(f"agent: is {shown(str(entry))}, but there is no such run folder or model's file")
    raise ConfigError(
        f"agent: is {shown(entry)}; {nearest(str(entry), (FIXED, *_BUILT_IN, *SHIPPED))}, a run folder, a model's "
        f"file, or a function as my_module:act"
    )


def check_no_code(agent: Any) -> None:
    """Check that agents which were only found, as in a run folder or a file of results, are not code.

    An imported module does not count as trusted here: any of Python's functions could be named, such as sys:exit.

    Raises:
        ConfigError: names the one whose module is not in BBRGYM_TRUSTED_MODULES.
    """
    for _, entry in _entries(agent):
        before, _, after = str(entry).partition(":")
        is_code = _PATH.fullmatch(str(entry)) and not (before in _OF_RUNS and run_dir_of(after).is_dir())
        if is_code and not is_trusted_module(before):
            raise ConfigError(
                f"agent: is {shown(entry)}, code that only a file names, expected an agent without code of its own; if "
                f"you trust it, set the environment variable {TRUSTED_MODULES}={before}"
            )


def run_dir_of(name: str) -> Path:
    """Return the run folder that is named, or the folder of a shipped agent."""
    return SHIPPED.get(name, Path(name))


def _shipped(folder: Path) -> Entrant:
    setting = shipped_setting(folder)
    return trained(folder) if setting is None else preset(*setting)


def _imported(path: str) -> Any:
    """Return the object that a path such as ``my_module:act`` names; importing the module runs its code.

    Raises:
        ConfigError: there is no such module or object, or it is not an agent.
    """
    module_name, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ConfigError(
            f"agent: is {path!r}: {error}; a module of your own lies in a folder of PYTHONPATH"
        ) from error
    if isinstance(found, type) or not (hasattr(found, "predict") or callable(found)):
        raise ConfigError(f"agent: is {path!r}, expected a function, or an object with predict")
    return found


def _called(name: str, act: Any, settings: Evaluation) -> Entrant:
    name, variant = name if _NAME.fullmatch(name) else "called", settings.variant
    digest = uuid.uuid4().hex  # what code does is in no file that could be compared
    return Learned(name, variant, label_of(name, variant), {}, Called(name, act), digest)


def _model(path: Path, settings: Evaluation) -> Entrant:
    """Return the entrant of a model's file; what `bbrgym export` wrote knows its variant and environment."""
    model = load_model(path, is_trusted=settings.trust)
    about = getattr(model, "about", {})
    if about.get("acts_for") == "each tuned flow":
        raise ConfigError(f"agent: {str(path)!r} acts for each flow by itself; take its run folder")
    variant = about.get("variant", settings.variant)
    name = path.stem if _NAME.fullmatch(path.stem) else "model"
    digest = hashlib.sha256()
    add_to_digest(digest, path)
    return Learned(
        name, variant, label_of(name, variant), about.get("environment", {}), Called(name, model), digest.hexdigest()
    )


def _random(settings: Evaluation) -> list[Entrant]:
    arguments = {"control_interval_s": settings.interval_s}
    return [Random("random", settings.variant, label_of("random", settings.variant), arguments)]


def _oracle(settings: Evaluation) -> list[Entrant]:
    variant, budget, delta = settings.variant, settings.oracle_budget, settings.score_delta
    honest = Oracle("oracle", variant, label_of("oracle", variant), budget, delta, settings.oracle_runs)
    in_run = InRunOracle("oracle", variant, label_of("oracle", variant), budget, delta).named("oracle")
    return [honest, in_run]


_BUILT_IN: Mapping[str, Callable[[Evaluation], list[Entrant]]] = {"oracle": _oracle, "random": _random}


# ---- references of a run ------------------------------------------------------------------------------


def _library_best(name: str, run: Learned, agent: LibraryAgent, settings: Evaluation) -> Entrant:  # noqa: ARG001
    label = label_of(name, run.variant)
    setting = TunableScaling(run.variant, run.arguments.get("tunables")).to_values(agent.library[0])
    constant = Constant(name, agent.library[0], is_per_flow=agent.is_per_flow)
    arguments = {key: value for key, value in run.arguments.items() if key != "frame_stack"}
    return Searched(name, run.variant, label, arguments, constant, run.digest, setting)


def _library_oracle(name: str, run: Learned, agent: LibraryAgent, settings: Evaluation) -> Entrant:
    label = label_of(name, run.variant)
    scaling = TunableScaling(run.variant, run.arguments.get("tunables"))
    library = [scaling.to_values(setting) for setting in agent.library]
    return LibraryOracle(name, run.variant, label, len(library), settings.score_delta, settings.oracle_runs, library)


def _privileged(name: str, run: Learned, agent: LibraryAgent, settings: Evaluation) -> Entrant:  # noqa: ARG001
    return Privileged(name, run.variant, label_of(name, run.variant), run.arguments, agent, run.digest)


_OF_RUNS: Mapping[str, Callable[[str, Learned, LibraryAgent, Evaluation], Entrant]] = {
    "library-best": _library_best,
    "library-oracle": _library_oracle,
    "privileged": _privileged,
}


def _reference(name: str, run_dir: Path, settings: Evaluation) -> Entrant:
    run = trained(run_dir)
    if not isinstance(run.controller, LibraryAgent):
        raise ConfigError(
            f"agent: is {shown(f'{name}:{run_dir}')}, whose run holds agent {run.agent}, expected a portfolio"
        )
    return _OF_RUNS[name](name, run, run.controller, settings)


def trained(run_dir: Path) -> Learned:
    """Return the entrant of a run folder of `bbrgym train`: the agent of its best checkpoint.

    Raises:
        ConfigError: the folder is none, or has no checkpoint.
    """
    agent, arguments = load_agent(run_dir)
    arguments = dict(arguments)
    variant = arguments.pop("variant")
    if agent.is_per_flow or isinstance(agent, LibraryAgent):
        arguments.pop("max_tuned")  # it observes one flow, or means over flows, however many there are
    elif arguments.get("view") != "pooled":  # its network has a place for each flow of its training, and no more
        arguments["max_tuned"] = TuneBatch(1, Options(**{**arguments, "variant": variant})).max_tuned
    arguments.pop("scenario", None)
    label, digest = label_of(agent.name, variant), _digest(run_dir)
    if isinstance(agent, Constant):
        setting = TunableScaling(variant, arguments.get("tunables")).to_values(agent.action)
        return Searched(agent.name, variant, label, arguments, agent, digest, setting)
    return Learned(agent.name, variant, label, arguments, agent, digest)


def _digest(run_dir: Path) -> str:
    """Return a digest of the files that an agent's behaviour depends on."""
    digest = hashlib.sha256()
    for path in [run_dir / "config.yaml", *sorted((run_dir / "checkpoints").glob("best*"))]:
        digest.update(path.name.encode())
        add_to_digest(digest, path, below=run_dir)
    return digest.hexdigest()


def _with_searched_first(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Let the oracle try first what searches found, so that it is at least as good on every run in the fast world."""
    found = [one for one in entrants if isinstance(one, Searched)]
    return [
        replace(one, first=[other.setting for other in found if other.variant == one.variant])
        if isinstance(one, Oracle) and not one.first
        else one
        for one in entrants
    ]
