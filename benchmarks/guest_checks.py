# SPDX-License-Identifier: GPL-2.0-only
"""Uses of the environments by other libraries, as their users have them: a function each, for guests.py.

python benchmarks/guest_checks.py NAME

runs one in this Python, which has the library and bbrgym.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import bbrgym  # noqa: F401 - registers the environments

ID = "bbrgym/Tune-v1"
#: For processes that have not imported bbrgym.
FULL_ID = f"bbrgym:{ID}"
#: Two flows, of which the second starts late and stops early.
LATE = {
    "name": "late",
    "duration_s": 3.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}},
    "flows": [
        {"name": "first", "rtt_ms": 20.0},
        {"name": "second", "rtt_ms": 40.0, "start_s": 0.55, "stop_s": 2.05},
    ],
}
OPTIONS: dict[str, Any] = {"world": "twin", "scenario": LATE, "variant": "bbq"}
#: All agents from reset to end, as most wrappers need it.
IDLE: dict[str, Any] = {**OPTIONS, "absent_agents": "idle"}
DISCRETE: dict[str, Any] = {**OPTIONS, "tunables": ["bbq_alpha_us", "bbq_beta"], "levels": 3, "flat": True}


# ---- Gymnasium ----------------------------------------------------------------------------------------


def gymnasium_checkers() -> None:
    """`check_env`, with `render_mode`"""
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    check_env(gymnasium.make(ID, render_mode="rgb_array", **OPTIONS).unwrapped)
    check_env(gymnasium.make(ID, **DISCRETE).unwrapped)


def gymnasium_wrappers() -> None:
    """`TimeLimit`, `RecordEpisodeStatistics`, `NormalizeObservation`, `FrameStackObservation`, `RecordVideo`"""
    import gymnasium
    from gymnasium import wrappers

    with tempfile.TemporaryDirectory() as folder:
        env: Any = gymnasium.make(FULL_ID, render_mode="rgb_array", max_episode_steps=12, **OPTIONS)
        env = wrappers.RecordVideo(env, folder, episode_trigger=lambda episode: episode == 0, disable_logger=True)
        for wrapper in (
            wrappers.RecordEpisodeStatistics,
            wrappers.NormalizeObservation,
            wrappers.NormalizeReward,
            lambda one: wrappers.FrameStackObservation(one, 3),
        ):
            env = wrapper(env)
        env.reset(seed=1)
        steps, truncated = 0, False
        while not truncated:
            _, _, _, truncated, info = env.step(env.action_space.sample())
            steps += 1
        env.close()
        assert steps == info["episode"]["l"] == 12
        assert any(file.suffix == ".mp4" for file in Path(folder).iterdir())


def gymnasium_vectors() -> None:
    """`make_vec`: its own vector, `SyncVectorEnv`, `AsyncVectorEnv` and vector wrappers"""
    import gymnasium
    from gymnasium.wrappers import vector as wrappers

    for mode in ("vector_entry_point", "sync", "async"):
        envs: Any = gymnasium.make_vec(FULL_ID, 2, vectorization_mode=mode, max_episode_steps=5, **OPTIONS)
        envs = wrappers.NormalizeObservation(wrappers.RecordEpisodeStatistics(envs))
        envs.reset(seed=1)
        ends = [envs.step(envs.action_space.sample())[3] for _ in range(7)]
        assert np.flatnonzero(np.array(ends).any(axis=1)).tolist() == [4], mode
        envs.close()


# ---- Stable-Baselines3 --------------------------------------------------------------------------------


def sb3_checker() -> None:
    """`check_env`; `make_vec_env` with `DummyVecEnv` and `SubprocVecEnv`"""
    import gymnasium
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    check_env(gymnasium.make(ID, **OPTIONS))
    for kind in (DummyVecEnv, SubprocVecEnv):
        envs = make_vec_env(FULL_ID, 2, seed=1, vec_env_cls=kind, env_kwargs=OPTIONS)
        envs.reset()
        envs.step(np.stack([envs.action_space.sample()] * 2))
        envs.close()


def sb3_algorithms() -> None:
    """PPO, SAC, TD3, DQN: `learn`, `save`, `load`, `evaluate_policy`; PPO on `TuneVecEnv` and `FlowVecEnv`"""
    from stable_baselines3 import DQN, PPO, SAC, TD3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    from bbrgym.envs.flow_vec_env import FlowVecEnv
    from bbrgym.envs.tune_vec_env import TuneVecEnv

    with tempfile.TemporaryDirectory() as folder:
        algorithms: list[tuple[Any, Any, Any]] = [
            (PPO, OPTIONS, {"n_steps": 64}),
            (SAC, OPTIONS, {"learning_starts": 32}),
            (TD3, OPTIONS, {"learning_starts": 32}),
            (DQN, DISCRETE, {"learning_starts": 32}),
        ]
        for algorithm, options, own in algorithms:
            envs = make_vec_env(ID, 2, seed=1, env_kwargs=options)
            algorithm("MlpPolicy", envs, **own).learn(256).save(f"{folder}/model")
            evaluate_policy(algorithm.load(f"{folder}/model", envs), envs, 2)
            envs.close()
    for vector in (TuneVecEnv(2, **OPTIONS), FlowVecEnv(2, **OPTIONS)):
        PPO("MlpPolicy", vector, n_steps=32).learn(128)
        vector.close()


def contrib_algorithms() -> None:
    """RecurrentPPO, TRPO, TQC, QRDQN"""
    from sb3_contrib import QRDQN, TQC, TRPO, RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env

    algorithms: list[tuple[Any, str, Any, Any]] = [
        (RecurrentPPO, "MlpLstmPolicy", OPTIONS, {"n_steps": 32}),
        (TRPO, "MlpPolicy", OPTIONS, {"n_steps": 32}),
        (TQC, "MlpPolicy", OPTIONS, {"learning_starts": 32}),
        (QRDQN, "MlpPolicy", DISCRETE, {"learning_starts": 32}),
    ]
    for algorithm, policy, options, own in algorithms:
        envs = make_vec_env(ID, 2, env_kwargs=options)
        algorithm(policy, envs, **own).learn(128)
        envs.close()


def zoo() -> None:
    """`python -m rl_zoo3.train` and `rl_zoo3.enjoy` with `--gym-packages bbrgym` and `--env-kwargs`"""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ppo.yml").write_text(
            f"{ID}:\n  n_timesteps: 256\n  policy: MlpPolicy\n  n_envs: 2\n  n_steps: 64\n  normalize: true\n",
            encoding="utf-8",
        )
        common = ["--algo", "ppo", "--env", ID, "--gym-packages", "bbrgym"]
        keywords = ["--env-kwargs", *(f"{name}:{value!r}" for name, value in OPTIONS.items())]
        for program, own in (
            ("rl_zoo3.train", "--conf-file ppo.yml -f logs --eval-freq 100 --verbose 0"),
            ("rl_zoo3.enjoy", "-f logs --no-render -n 50"),
        ):
            command = [sys.executable, "-m", program, *common, *own.split(), *keywords]
            subprocess.run(command, cwd=folder, env={**os.environ, "MPLBACKEND": "agg"}, check=True)


# ---- PettingZoo ---------------------------------------------------------------------------------------


def pettingzoo_tests() -> None:
    """`parallel_api_test`, `parallel_seed_test`; `api_test` by `parallel_to_aec`"""
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
    from pettingzoo.utils import parallel_to_aec

    from bbrgym.envs.multi import parallel_env

    for options in (OPTIONS, IDLE):
        parallel_api_test(parallel_env(**options), num_cycles=100)
        parallel_seed_test(lambda options=options: parallel_env(**options), num_cycles=40)
    api_test(parallel_to_aec(parallel_env(**IDLE)), num_cycles=100)


def supersuit_wrappers() -> None:
    """`pettingzoo_env_to_vec_env_v1`, `concat_vec_envs_v1` in 2 processes, with PPO; `frame_stack_v1`, `pad_*`"""
    import supersuit
    from stable_baselines3 import PPO

    from bbrgym.envs.multi import parallel_env

    env = parallel_env(**IDLE)
    for wrapper in (
        supersuit.pad_observations_v0,
        supersuit.pad_action_space_v0,
        lambda one: supersuit.frame_stack_v1(one, 2),
        supersuit.pettingzoo_env_to_vec_env_v1,
    ):
        env = wrapper(env)
    envs = supersuit.concat_vec_envs_v1(env, 4, num_cpus=2, base_class="stable_baselines3")
    PPO("MlpPolicy", envs, n_steps=16, batch_size=32).learn(256)
    envs.close()


# ---- RLlib --------------------------------------------------------------------------------------------


def _ppo(environment: str, runners: int, **options: Any) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().environment(environment, env_config=options)
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, rollout_fragment_length=32)
    return config.training(train_batch_size=64, minibatch_size=32, num_epochs=1)


def _train(config: Any) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    algorithm = config.build_algo()
    for _ in range(2):
        result = algorithm.train()
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] >= 128
    algorithm.stop()
    ray.shutdown()


def rllib_local() -> None:
    """PPO, environments in the process itself"""
    _train(_ppo(FULL_ID, 0, **OPTIONS))


def rllib_remote() -> None:
    """PPO, environments in a remote env runner, which has not imported bbrgym"""
    _train(_ppo(FULL_ID, 1, **OPTIONS))


def rllib_agents() -> None:
    """PPO of several agents, `ParallelPettingZooEnv` in a remote env runner"""
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    def make(options: Any) -> Any:
        from bbrgym.envs.multi import parallel_env

        return ParallelPettingZooEnv(parallel_env(**options))

    register_env("flows", make)
    config = _ppo("flows", 1, **IDLE)
    config.env_runners(num_envs_per_env_runner=1)
    config.multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
    _train(config)


# ---- TorchRL, Tianshou --------------------------------------------------------------------------------


def torchrl_env() -> None:
    """`GymEnv`: `check_env_specs`, `rollout`, infos read by `auto_register_info_dict`, `from_pixels`"""
    from torchrl.envs import GymEnv, check_env_specs

    env = GymEnv(FULL_ID, frame_skip=2, numeric_infos=True, **OPTIONS).auto_register_info_dict()
    check_env_specs(env)
    found = env.rollout(8)
    assert found["next", "reward_terms.delay"].shape == (8,)
    env.close()
    pixels = GymEnv(FULL_ID, from_pixels=True, pixels_only=False, **OPTIONS)
    assert pixels.rollout(2)["pixels"].shape[-1] == 3
    pixels.close()


def torchrl_collectors() -> None:
    """`ParallelEnv` of 2 processes, `Collector`"""
    from torchrl.collectors import Collector
    from torchrl.envs import GymEnv, ParallelEnv

    def make() -> Any:
        return GymEnv(FULL_ID, **OPTIONS)

    collector = Collector(ParallelEnv(2, make), None, frames_per_batch=64, total_frames=128)
    assert sum(batch.numel() for batch in collector) == 128
    collector.shutdown()


def torchrl_agents() -> None:
    """`PettingZooWrapper`: `check_env_specs`, `rollout`"""
    from torchrl.envs import PettingZooWrapper, check_env_specs

    from bbrgym.envs.multi import parallel_env

    env = PettingZooWrapper(parallel_env(**IDLE, numeric_infos=True))
    check_env_specs(env)
    env.rollout(40)
    env.close()


def tianshou_collectors() -> None:
    """`Collector` with `DummyVectorEnv` and `SubprocVectorEnv`, `PettingZooEnv`"""
    import gymnasium
    from pettingzoo.utils import parallel_to_aec
    from tianshou.algorithm.algorithm_base import RandomActionPolicy
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv, PettingZooEnv, SubprocVectorEnv

    from bbrgym.envs.multi import parallel_env

    def make() -> Any:
        return gymnasium.make(FULL_ID, numeric_infos=True, **OPTIONS)

    for kind in (DummyVectorEnv, SubprocVectorEnv):
        envs = kind([make] * 2)
        space = envs.action_space[0]
        collector = Collector(RandomActionPolicy(space), envs, VectorReplayBuffer(256, 2))
        collector.reset()
        assert collector.collect(n_step=64).n_collected_steps == 64
        envs.close()
    PettingZooEnv(parallel_to_aec(parallel_env(**IDLE))).reset()


def tianshou_ppo() -> None:
    """PPO and SAC by their experiment builders, environments by `EnvFactoryRegistered`"""
    from tianshou.highlevel.config import OffPolicyTrainingConfig, OnPolicyTrainingConfig
    from tianshou.highlevel.env import EnvFactoryRegistered, VectorEnvType
    from tianshou.highlevel.experiment import ExperimentConfig, PPOExperimentBuilder, SACExperimentBuilder

    with tempfile.TemporaryDirectory() as folder:
        factory = EnvFactoryRegistered(task=FULL_ID, venv_type=VectorEnvType.DUMMY, **OPTIONS)
        steps: dict[str, Any] = {"max_epochs": 1, "epoch_num_steps": 128, "num_training_envs": 2, "num_test_envs": 1}
        experiment = ExperimentConfig(persistence_enabled=False, watch=False, persistence_base_dir=folder)
        for builder, training in (
            (PPOExperimentBuilder, OnPolicyTrainingConfig(**steps, collection_step_num_env_steps=64)),
            (SACExperimentBuilder, OffPolicyTrainingConfig(**steps, collection_step_num_env_steps=8)),
        ):
            builder(factory, experiment, training).build().run()


CHECKS = {name: check for name, check in list(globals().items()) if callable(check) and not name.startswith("_")}

if __name__ == "__main__":
    CHECKS[sys.argv[1]]()
