# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v2 many times over in several actors of Ray, for Stable-Baselines3; needs the extras `sb3` and `ray`.

+-- actor: TuneVecEnv, environments 0 to 31, C++ threads
RayVecEnv ---+-- actor: TuneVecEnv, environments 32 to 63
+-- ...
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from bbrgym.envs.action import ActType
from bbrgym.envs.batch_vec_env import Indices, Wrapper
from bbrgym.envs.features import ObsType
from bbrgym.envs.tune_vec_env import TuneVecEnv
from bbrgym.errors import TrainingError, one_line

_CLOSE_S = 10.0
_Rows = tuple[Any, NDArray[Any], NDArray[np.bool_], dict[int, dict[str, Any]]]


class VecEnvActor:
    """The environments of one actor; arguments and results are those of `TuneVecEnv` for its share of them."""

    def __init__(self, arguments: Mapping[str, Any], num_envs: int) -> None:
        self._env = TuneVecEnv(**arguments, num_envs=num_envs)

    def spaces(self) -> tuple[Any, Any]:
        """Return the spaces of observations and actions."""
        return self._env.observation_space, self._env.action_space

    def reset(
        self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]
    ) -> tuple[ObsType, list[dict[str, Any]]]:
        """Begin all episodes; return observations and infos."""
        self._env._seeds, self._env._options = list(seeds), list(options)
        return self._env.reset(), self._env.reset_infos

    def step(self, actions: ActType) -> _Rows:
        """Step; return infos only of ended episodes, each with the first info of its next episode."""
        observations, rewards, ended, infos = self._env.step(actions)
        infos_of_ended = {
            index: {**infos[index], "reset_info": self._env.reset_infos[index]}
            for index in np.flatnonzero(ended).tolist()
        }
        return observations, rewards, ended, infos_of_ended

    def call(self, method: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Call another method of `TuneVecEnv`."""
        return getattr(self._env, method)(*arguments, **keywords)

    def place(self) -> tuple[str, int]:
        """Return this process's node of the cluster and process number."""
        import ray

        return ray.get_runtime_context().get_node_id(), os.getpid()


class RayVecEnv(VecEnv):
    """N environments in several actors, stepped side by side; what comes back equals that of `TuneVecEnv`, bit for bit.

    Raises:
        TrainingError: actors did not come in time; later, an actor died or did not answer.
    """

    def __init__(
        self,
        ray: Any,
        arguments: Mapping[str, Any],
        *,
        num_envs: int,
        actors: int,
        cpus: int,
        start_timeout_s: float,
        timeout_s: float,
    ) -> None:
        self._ray = ray
        self._timeout_s = timeout_s
        self._ends = [num_envs * (number + 1) // actors for number in range(actors)]
        self._begins = [0, *self._ends[:-1]]
        self._steps: list[Any] = []
        made = ray.remote(num_cpus=cpus, max_restarts=0, scheduling_strategy="SPREAD")(VecEnvActor)
        own = {**arguments, "threads": cpus}
        self._hosts = [made.remote(own, end - begin) for begin, end in zip(self._begins, self._ends, strict=True)]
        try:
            spaces = self._answers([host.spaces.remote() for host in self._hosts], start_timeout_s, "start")
        except BaseException:
            self._end()
            raise
        super().__init__(num_envs, *spaces[0])

    # ---- Stable-Baselines3 -------------------------------------------------------------------------------------

    def reset(self) -> ObsType:
        """Begin all episodes with the seeds and options given since the last reset."""
        answers = self._ask("reset", lambda begin, end: (self._seeds[begin:end], self._options[begin:end]))
        self.reset_infos = [info for _, infos in answers for info in infos]
        self._reset_seeds()
        self._reset_options()
        return _joined([observations for observations, _ in answers])

    def step_async(self, actions: ActType) -> None:
        """Send each actor its actions."""
        pairs = zip(self._hosts, self._begins, self._ends, strict=True)
        self._steps = [host.step.remote(actions[begin:end]) for host, begin, end in pairs]

    def step_wait(self) -> tuple[ObsType, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Return the rows of all actors."""
        steps: list[_Rows] = self._answers(self._steps, self._timeout_s, "step")
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        for begin, (_, _, _, infos_of_ended) in zip(self._begins, steps, strict=True):
            for index, info in infos_of_ended.items():
                self.reset_infos[begin + index] = info.pop("reset_info")
                infos[begin + index] = copy.deepcopy(info)
        observations = _joined([step[0] for step in steps])
        return observations, np.concatenate([s[1] for s in steps]), np.concatenate([s[2] for s in steps]), infos

    def close(self) -> None:
        """End the actors, also those that are gone or hang."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get([host.call.remote("close", (), {}) for host in self._hosts], timeout=_CLOSE_S)
        self._end()

    def _end(self) -> None:
        for host in self._hosts:
            self._ray.kill(host)

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return an RGB image [720, 960, 3] of each episode so far."""
        answers = self._ask("call", lambda *_: ("get_images", (), {}))
        return [picture for pictures in answers for picture in pictures]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of each `SubEnv`."""
        return self._of_members("get_attr", indices, attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of each `SubEnv`, known or new."""
        self._of_members("set_attr", indices, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each `SubEnv` and return the results."""
        return self._of_members("env_method", indices, method_name, *method_args, **method_kwargs)

    def env_is_wrapped(
        self,
        wrapper_class: Wrapper,  # noqa: ARG002 - there are none
        indices: Indices = None,
    ) -> list[bool]:
        """Return False for each environment: none is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def places(self) -> list[tuple[str, int]]:
        """Return the node and process number of each actor."""
        places: list[tuple[str, int]] = self._ask("place", lambda *_: ())
        return places

    # ---- details -----------------------------------------------------------------------------------------------

    def _ask(self, method: str, arguments: Callable[[int, int], tuple[Any, ...]]) -> list[Any]:
        """Call a method of each actor, with arguments that depend on its range of environments."""
        ranges = zip(self._hosts, self._begins, self._ends, strict=True)
        calls = [getattr(host, method).remote(*arguments(begin, end)) for host, begin, end in ranges]
        return self._answers(calls, self._timeout_s, method)

    def _of_members(self, method: str, indices: Indices, *arguments: Any, **keywords: Any) -> list[Any]:
        """Call a method of the actors that have the environments; return its results in the order of the indices."""
        asked = list(self._get_indices(indices))
        found: dict[int, Any] = {}
        for host, begin, end in zip(self._hosts, self._begins, self._ends, strict=True):
            own = [index for index in asked if begin <= index < end]
            if own:
                places = [index - begin for index in own]
                call = host.call.remote(method, arguments, {**keywords, "indices": places})
                (values,) = self._answers([call], self._timeout_s, method)
                found |= dict(zip(own, values or [None] * len(own), strict=True))
        return [copy.deepcopy(found[index]) for index in asked]  # arrays that Ray hands over are read-only

    def _answers(self, calls: list[Any], timeout_s: float, what: str) -> list[Any]:
        errors = self._ray.exceptions
        try:
            answers: list[Any] = self._ray.get(calls, timeout=timeout_s)
        except errors.GetTimeoutError as error:
            cpus = self._ray.cluster_resources().get("CPU", 0)
            raise TrainingError(
                f"rollouts: {what} of {len(self._hosts)} actors took longer than {timeout_s:g} s; the Ray cluster has "
                f"{cpus:g} CPUs in all"
            ) from error
        except errors.RayTaskError as error:
            raise error.cause from error
        except errors.RayError as error:
            reason = one_line(error)
            raise TrainingError(f"rollouts: an actor of Ray's died during {what}: {reason}") from error
        return answers


def _joined(parts: Iterable[ObsType]) -> ObsType:
    """Return the rows of all actors, in order; the caller's own."""
    parts = list(parts)
    first = parts[0]
    if isinstance(first, dict):
        return {name: np.concatenate([part[name] for part in parts]) for name in first}  # type: ignore[call-overload]
    return np.concatenate(parts)  # type: ignore[arg-type]
