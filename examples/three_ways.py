# SPDX-License-Identifier: GPL-2.0-only
"""One environment, used in three ways: with plain Gymnasium, with Stable-Baselines3, with the PyTorch agent.

usage: python examples/three_ways.py [--steps 20000]

Each way ends with its mean reward: 0 is a fair share without a queue.
"""

from __future__ import annotations

import argparse
import tempfile

import gymnasium
import numpy as np

import bbrgym
from bbrgym.envs.tune_vector_env import TuneVectorEnv

SCENARIO = {
    "name": "unequal",
    "duration_s": 20.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 8.0}},
    "flows": [{"name": "near", "rtt_ms": 10.0}, {"name": "far", "rtt_ms": 50.0}],
}
OPTIONS = {
    "world": "twin",
    "scenario": SCENARIO,
    "variant": "bbq",
    "tunables": ["bbq_alpha_us", "bbr_up_gain"],
    "control_interval_s": 0.5,
}


def with_gymnasium() -> float:
    """Control by hand: probe more carefully while the RTT is far above its minimum."""
    env = gymnasium.make("bbrgym/Tune-v1", **OPTIONS, features=["rtt_mean"], view="each", frame_stack=1)
    observation, _ = env.reset(seed=1)
    rewards, truncated = [], False
    while not truncated:
        of_the_range = observation[:2].mean()  # two flows: log(RTT / minimum RTT), 1 at 64 times
        up_gain = np.clip(1.0 - 8.0 * of_the_range, -1.0, 1.0)
        observation, reward, _, truncated, info = env.step(np.array([0.0, up_gain], np.float32))
        rewards.append(reward)
    print("set last:", info["tunables"])
    env.close()
    return float(np.mean(rewards))


def with_stable_baselines3(steps: int) -> float:
    """Train PPO as its own documentation does, on many environments at once."""
    from stable_baselines3 import PPO

    from bbrgym.envs.tune_vec_env import TuneVecEnv

    envs = TuneVecEnv(num_envs=16, **OPTIONS)
    model = PPO("MlpPolicy", envs, n_steps=32, batch_size=256, gamma=0.9, device="cpu", seed=1).learn(steps)
    observations, rewards, done = envs.reset(), [], np.zeros(1, bool)
    while not done.any():
        actions, _ = model.predict(observations, deterministic=True)
        observations, reward, done, _ = envs.step(actions)
        rewards.append(reward.mean())
    envs.close()
    return float(np.mean(rewards))


def with_pytorch(steps: int) -> float:
    """Train agents/torch_ppo.py as `bbrgym train agent=torch_ppo` does, then use it like any trained agent."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"control_interval_s": OPTIONS["control_interval_s"]}
        action = {"tunables": OPTIONS["tunables"]}
        agent = {"name": "torch_ppo", "n_steps": 32, "batch_size": 256}
        where = {name: OPTIONS[name] for name in ("world", "scenario", "variant")}
        bbrgym.train(
            **where,
            env=own,
            action=action,
            agent=agent,
            total_steps=steps,
            num_envs=16,
            validation={"draws": 4},
            output_dir=folder,
        )
        trained, arguments = bbrgym.load_agent(folder)
    envs = TuneVectorEnv(num_envs=16, **{**arguments, "world": "twin"})
    seeds = list(range(16))
    observations, _ = envs.reset(seed=seeds)
    policy, episode_starts, rewards = trained.make_policy(seeds), np.ones(16, bool), []
    while not rewards or not episode_starts.any():
        observations, reward, _, episode_starts, _ = envs.step(policy.act(observations, episode_starts))
        rewards.append(reward.mean())
    envs.close()
    return float(np.mean(rewards))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=20_000, help="of each training")
    steps = parser.parse_args().steps
    print(f"plain Gymnasium      {with_gymnasium():.3f}")
    print(f"Stable-Baselines3    {with_stable_baselines3(steps):.3f}")
    print(f"PyTorch              {with_pytorch(steps):.3f}")


if __name__ == "__main__":
    main()
