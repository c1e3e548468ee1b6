# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium environments; importing this package registers them: at once, or when Gymnasium is imported.

PettingZoo has no register: `bbrgym/TuneMulti-v2` is made by `bbrgym.envs.multi.parallel_env(...)`.

Example:
    >>> import gymnasium, bbrgym
    >>> sorted(name for name in gymnasium.registry if name.startswith("bbrgym/"))
    ['bbrgym/Ns3Gym-v0', 'bbrgym/Tune-v2']
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any

_REGISTER = "gymnasium.envs.registration"


def _register() -> None:
    from gymnasium.envs.registration import register

    register(
        id="bbrgym/Tune-v2",
        entry_point="bbrgym.envs.tune_env:TuneEnv",
        vector_entry_point="bbrgym.envs.tune_vector_env:TuneVectorEnv",
    )
    register(id="bbrgym/Ns3Gym-v0", entry_point="bbrgym.envs.ns3gym_env:Ns3GymEnv")


class _Registering:
    """Finder that registers them after Gymnasium's register is imported, which takes long; it has no entry points."""

    def find_spec(self, fullname: str, *args: Any) -> ModuleSpec | None:
        if fullname != _REGISTER:
            return None
        specs = (finder.find_spec(fullname, *args) for finder in sys.meta_path if finder is not self)
        spec = next((one for one in specs if one is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: Any) -> None:
                execute(module)
                sys.meta_path.remove(self)
                _register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


if _REGISTER in sys.modules:
    _register()
else:
    sys.meta_path.insert(0, _Registering())
