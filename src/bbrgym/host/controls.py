# SPDX-License-Identifier: GPL-2.0-only
"""Controls in the running kernel: load, list, change, unload."""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bbrgym._bpf as _bpf
from bbrgym.agents.deploy.bpf_object import bpf_object, plugin_object
from bbrgym.agents.deploy.policy_file import read_policy
from bbrgym.agents.shipped import POLICY, SHIPPED, shipped_setting
from bbrgym.errors import ConfigError, nearest
from bbrgym.host.errors import HostError
from bbrgym.host.floor import NAMES, Floor, split
from bbrgym.host.pins import alone, folder_of, loaded_names, lock_control, pinned_whole, remove, unregister
from bbrgym.host.system import (
    available_controls,
    default_control,
    listening,
    network_namespaces,
    set_default_control,
    within,
)
from bbrgym.plugins import PLUGINS, is_file, load_controller
from bbrgym.tunables import KERNEL_ALGORITHMS, TUNABLES, VARIANTS, Variant
from bbrgym.version import __version__

#: What the names of all of them begin with, so that none is taken for the kernel's own.
PREFIX = "gym_"

_NAME_LENGTH = 15  # at most, in the kernel
_ABOUT_BYTES = 1024
_PATIENCE_S = 5.0  # until sockets are moved, or the kernel forgets a control whose pins are gone
_ALWAYS_THERE = ("cubic", "reno")  # in place of a default that is gone


@dataclass(frozen=True)
class LoadedControl:
    """A control in the kernel."""

    name: str  # for TCP_CONGESTION
    layout: str  # of what it shares with user space; another build's may differ
    version: str = "unknown"  # of the package that loaded it
    variant: str = ""  # what it is; empty if it is of another layout
    policy: str = ""  # file or run folder of the policy that sets its tunables; empty: none does
    default_before: str = ""  # default when it was loaded, which unloading it puts back

    @property
    def is_ours(self) -> bool:
        """Return whether this build may read and change the control."""
        return self.layout == _bpf.layout_hash()

    def tunables(self) -> dict[str, float]:
        """Return the tunables of the control's sockets, which a policy may have changed."""
        if self.variant not in VARIANTS:  # a file, which only the process that loaded it knows
            return {}
        values = _bpf.defaults(str(folder_of(self.name) / "defaults"))
        return {name: values[name] for name in VARIANTS[self.variant].preset}

    def floor(self) -> Floor:
        """Return the floor under the control's policy."""
        return Floor(*_bpf.floor(str(folder_of(self.name) / "defaults")))

    def connections(self) -> list[dict[str, Any]]:
        """Return a row for each connection that uses the control, in all network namespaces; none after `unload`."""
        return _connections(folder_of(self.name), self.name) if folder_of(self.name).exists() else []


def load(
    target: str, values: Mapping[str, float], *, name: str | None = None, is_default: bool = False
) -> LoadedControl:
    """Load a control into the kernel, until `unload` or a restart of the machine.

    Args:
        target: a variant of BBR; a C file (`bbrgym.plugins`) that paces; or a policy: the run folder of a training, or
            the file of a BPF object; or a shipped agent, of fixed tunables or a policy.
        values: tunables that differ from the preset's and, of a policy, what differs from `Floor`.
        name: for TCP_CONGESTION. Default: made of the name of the variant or the shipped agent.
        is_default: whether new sockets of this network namespace take it.

    Raises:
        ConfigError: the target, a value or the name is none, or the policy cannot be exported.
        MissingExtraError: what exports a policy is not installed.
        HostError: the kernel refuses it.
    """
    if is_file(target):
        return _load_file(target, values, name, is_default=is_default)
    if target in SHIPPED:
        name = name or name_of(target.removeprefix("shipped/"))
        setting = shipped_setting(SHIPPED[target])
        if setting is not None:
            target, values = setting[0], {**setting[1], **values}
    with _object_of(target) as program:
        return _load(target, program, values, name, is_default=is_default)


def _load_file(file: str, values: Mapping[str, float], name: str | None, *, is_default: bool) -> LoadedControl:
    """Load a user's file: compiled for BPF, with clang; its variant is not known to later commands."""
    if Path(file).suffix not in (".c", ".so"):
        raise ConfigError(f"{Path(file).name}: is a Python class, which the twin alone runs; the kernel takes a C file")
    variant = load_controller(file)
    if VARIANTS[variant].algorithm != "plugin-bbr":
        raise ConfigError(f"{variant}: leaves recovery to the stack, expected .paces = true for the kernel")
    _bpf.load_plugin(variant, PLUGINS[variant])
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        made = Path(folder) / "plugin.bpf.o"
        made.write_bytes(plugin_object(file))
        name = name or name_of(re.sub("[^a-z0-9_]", "_", Path(file).stem.lower()))
        return _register(variant, str(made), "", checked_tunables(VARIANTS[variant], values), Floor(), name, is_default)


def _load(
    target: str, program: str, values: Mapping[str, float], name: str | None, *, is_default: bool
) -> LoadedControl:
    with kernel_errors():
        variant = _bpf.policy_variant_of(program) if program else target
    if program and not variant:
        raise ConfigError(f"{target}: the BPF object has no policy")
    policy = "" if not program else target if target in SHIPPED else str(Path(target).resolve())
    own, of_floor = split(values)
    if of_floor and not policy:
        raise ConfigError(f"floor_{next(iter(of_floor))}: {variant} has no policy that could fall back")
    tunables, floor = checked_tunables(_bbr_variant(variant), own), Floor().changed(of_floor)
    return _register(variant, program, policy, tunables, floor, name or name_of(variant), is_default)


def _register(
    variant: str,
    program: str,
    policy: str,
    tunables: dict[str, float],
    floor: Floor,
    name: str,
    is_default: bool,
) -> LoadedControl:
    if not is_name(name):
        raise ConfigError(f"name: is {name!r}, expected {PREFIX} and 1 to 11 of a to z, 0 to 9 and _")
    control = LoadedControl(name, _bpf.layout_hash(), __version__, variant, policy, default_control())
    with alone(), kernel_errors():
        if name in available_controls():
            raise HostError(f"{name} is loaded already: bbrgym kernel unload {name}, or choose another with name=")
        with pinned_whole(name) as folder:
            _bpf.pin_value(str(folder / "about"), _about(control))
            made = _bpf.CongestionControl(variant, program=program, name=name, tunables=tunables, floor=floor.values())
            made.pin_to(str(folder))
        if is_default:
            set_default_control(name)
    return control


def name_of(variant: str) -> str:
    """Return the name of a variant in the kernel, which allows no hyphens and 15 characters."""
    return f"{PREFIX}{variant.replace('-', '_')[: _NAME_LENGTH - len(PREFIX)]}"


def is_name(name: str) -> bool:
    """Return whether a control may have this name."""
    return re.fullmatch(PREFIX + r"[a-z0-9_]+", name) is not None and len(name) <= _NAME_LENGTH


def loaded() -> list[LoadedControl]:
    """Return the loaded controls, by name."""
    return [_loaded(name) for name in loaded_names()]


def find(name: str) -> LoadedControl:
    """Return a loaded control that this build may touch.

    Raises:
        ConfigError: none has this name.
        HostError: another build of the package loaded it.
    """
    names = loaded_names()
    if name not in names:
        raise ConfigError(f"{name} is not loaded; {nearest(name, names) if names else 'nothing is'}")
    control = _loaded(name)
    if not control.is_ours:
        raise HostError(
            f"{name} was loaded by another build of the package (bbrgym {control.version}): use that one, "
            f"or remove {folder_of(name)}"
        )
    return control


def set_values(name: str, values: Mapping[str, float]) -> None:
    """Change tunables of a control, or the policy's floor, for all sockets from the next event on.

    Raises:
        ConfigError: a value is none of the control's.
        HostError: a policy sets its tunables.
    """
    with alone(), kernel_errors():
        control = find(name)
        own, of_floor = split(values)
        if own and control.policy:
            raise HostError(f"{name}: its policy sets its tunables, every interval; allowed are {', '.join(NAMES)}")
        if of_floor and not control.policy:
            raise ConfigError(f"floor_{next(iter(of_floor))}: {name} has no policy that could fall back")
        if control.variant not in VARIANTS:
            raise HostError(f"{name}: is a file's; unload it, and load the file with other values")
        tunables = {**control.tunables(), **checked_tunables(VARIANTS[control.variant], own)}
        floor = control.floor().changed(of_floor)
        _bpf.set_defaults(str(folder_of(name) / "defaults"), control.variant, tunables, floor.values())


def unload(name: str, *, is_forced: bool = False, tell: Callable[[str], object] = lambda _: None) -> int:
    """Take a control out of the kernel and put defaults back; return how many sockets were moved to the default.

    Args:
        name: of the control.
        is_forced: whether to move its sockets to the default, instead of refusing.
        tell: called with sentences on defaults that were changed, and on sockets that still have it afterwards.

    Raises:
        ConfigError: none has this name.
        HostError: sockets use it, or a comparison gives it to connections.
    """
    with alone(), kernel_errors():
        if name not in loaded_names() and (left := unregistered().get(name)):
            raise HostError(left)
        control = find(name)
        os.close(lock_control(name, fcntl.LOCK_EX))
        users = sum(len(_moved(folder_of(name), name, "", file)) for _, file in network_namespaces())
        users = max(users, len(control.connections()))
        if users and not is_forced:
            raise HostError(
                f"{name} is used by {users} sockets: close them, or move them to the default with force=true"
            )
        _restore_defaults(control, tell)
        folder = unregister(folder_of(name))
        moved = _move_all(folder, name) if is_forced else 0
        remove(folder)
        if left := _wait_until_gone(name):
            tell(left)
    return moved


def unregistered() -> dict[str, str]:
    """Return sentences on unregistered programs that sockets still use, by name."""
    with kernel_errors():
        held = Counter(_bpf.held_controls()) - Counter(available_controls())
    return {name: _unregistered(name) for name in sorted(held)}


def _unregistered(name: str) -> str:
    places = []
    for place, file in network_namespaces():
        places += [f"a socket that listens at {at} in {place}" for at in within(file, lambda: listening(name))]
        places += [f"the default in {place}"] if within(file, default_control) == name else []
    what = "an earlier program of this name" if name in available_controls() else "its program"
    given = f", and new ones get it from {', '.join(places)}" if places else ""
    return f"{name}: {what} is no longer registered, but in use: sockets keep it until they close{given}"


def write_about(control: LoadedControl) -> None:
    """Change what is remembered of a loaded control."""
    _bpf.write_pinned(str(folder_of(control.name) / "about"), _about(control))


def checked_tunables(variant: Variant, tunables: Mapping[str, float]) -> dict[str, float]:
    """Return the values, each a tunable of the variant and in its range. Raises ConfigError: one is not."""
    for name, value in tunables.items():
        if name not in variant.preset:
            raise ConfigError(f"{name} is not a tunable of {variant.name}; {nearest(name, variant.preset)}")
        one = TUNABLES[name]
        if not one.low <= value <= one.high:
            raise ConfigError(f"{name}: is {value:g}, expected {one.low:g} to {one.high:g} {one.unit}")
    return dict(tunables)


@contextmanager
def _object_of(target: str) -> Iterator[str]:
    """Yield the file of a target's BPF object, made for the block of a run folder; empty: no policy."""
    run_dir = SHIPPED.get(target, Path(target))
    if target in VARIANTS or not run_dir.is_dir():
        yield target if target.endswith(".o") else ""
        return
    if target in SHIPPED:
        if not (run_dir / POLICY).exists():
            raise ConfigError(f"{target} acts for all flows of a bottleneck together, of which a socket knows one")
        if (carried := run_dir / "exported" / "policy.bpf.o").exists():
            yield str(carried)
            return
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        made = Path(folder) / "policy.bpf.o"
        if target in SHIPPED:
            made.write_bytes(bpf_object(read_policy(run_dir / POLICY)))
        else:
            from bbrgym.agents.deploy.export_agent import export  # imports PyTorch, which no other target needs

            export(run_dir, "bpf", output=made)
        yield str(made)


def _bbr_variant(name: str) -> Variant:
    names = [one.name for one in VARIANTS.values() if one.algorithm in KERNEL_ALGORITHMS]
    if name not in names:
        raise ConfigError(
            f"{name} is not a variant of BBR, a shipped agent, a run folder or a file that ends in .o; "
            f"{nearest(name, [*names, *SHIPPED])}"
        )
    return VARIANTS[name]


def _loaded(name: str) -> LoadedControl:
    try:
        about = json.loads(_bpf.read_pinned(str(folder_of(name) / "about")).rstrip(b"\0"))
        return LoadedControl(**about)
    except (_bpf.CongestionControlError, TypeError, ValueError):  # of a build that says other things of it
        return LoadedControl(name, "unknown")


def _connections(folder: Path, name: str) -> list[dict[str, Any]]:
    return [row for row in _bpf.flow_rows(str(folder / "flows")) if row["control"] == name]


def _moved(folder: Path, name: str, to: str, namespace: str) -> bytes:
    """Move the sockets of a network namespace; return a byte for each socket of the name, 1 if moved."""
    return _bpf.move_sockets(str(folder), name, to, namespace)


def _move_all(folder: Path, name: str) -> int:
    """Move the sockets of a control that is being forgotten to the default: once more after the last new one."""
    deadline, moved, is_over = time.monotonic() + _PATIENCE_S, 0, False
    while not is_over:
        is_over = name not in available_controls() or time.monotonic() > deadline
        moved += sum(sum(_moved(folder, name, default_control(), file)) for _, file in network_namespaces())
        is_over = is_over and (not _connections(folder, name) or time.monotonic() > deadline)
    return moved


def _restore_defaults(control: LoadedControl, tell: Callable[[str], object]) -> None:
    """Put back the default that was there before in all network namespaces, also in what another control remembers."""
    for other in loaded():
        if other.is_ours and other.default_before == control.name:
            write_about(replace(other, default_before=control.default_before))
    others = [one for one in (control.default_before, *_ALWAYS_THERE) if one != control.name]
    for place, file in network_namespaces():
        if within(file, default_control) == control.name:
            now = within(file, lambda: set_default_control(*others))
            how = " again" if now == control.default_before else f": {control.default_before}, the one before, is gone"
            tell(f"new sockets in {place} have {now}{how}")


def _about(control: LoadedControl) -> bytes:
    about = json.dumps(asdict(control)).encode()
    if len(about) > _ABOUT_BYTES:
        raise ConfigError(f"{control.policy}: the path is too long to be remembered")
    return about.ljust(_ABOUT_BYTES, b"\0")


def _wait_until_gone(name: str) -> str | None:
    """Return the sentence of `unregistered` on a control that the kernel has had time to forget, if there is one."""
    deadline = time.monotonic() + _PATIENCE_S
    while (is_there := name in available_controls()) or unregistered().get(name):
        if time.monotonic() > deadline:
            if is_there:
                raise HostError(f"{name}: the kernel still has it {_PATIENCE_S:g} s after its pins were removed")
            return unregistered().get(name)
        time.sleep(0.01)
    return None


@contextmanager
def kernel_errors() -> Iterator[None]:
    """Turn what BPF refuses in a block into a `HostError`."""
    try:
        yield
    except _bpf.CongestionControlError as error:
        raise HostError(str(error)) from error
