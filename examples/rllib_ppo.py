# SPDX-License-Identifier: GPL-2.0-only
"""PPO of RLlib on bbrgym's environment.

usage: pip install 'ray[rllib]' torch; python examples/rllib_ppo.py [--iterations 20] [--runners 2]
"""

from __future__ import annotations

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig

OPTIONS = {"world": "twin", "scenario": "rtt_pairs", "variant": "bbq", "threads": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20, help="each of --batch steps")
    parser.add_argument("--batch", type=int, default=4000)
    parser.add_argument("--runners", type=int, default=2, help="processes with environments; 0: this one alone")
    options = parser.parse_args()

    # A process of Ray's has not imported bbrgym: the part before the colon says what to import.
    config = (
        PPOConfig()
        .environment("bbrgym:bbrgym/Tune-v2", env_config=OPTIONS)
        .env_runners(num_env_runners=options.runners, num_envs_per_env_runner=4)
        .training(gamma=0.9, lr=3e-4, train_batch_size=options.batch, minibatch_size=min(256, options.batch))
    )
    ray.init(include_dashboard=False, num_cpus=max(1, options.runners), log_to_driver=False)
    algorithm = config.build_algo()
    for number in range(1, options.iterations + 1):
        sampled = algorithm.train()["env_runners"]
        mean = sampled.get("episode_return_mean", float("nan"))  # none has ended yet
        print(f"iteration {number}  steps {sampled['num_env_steps_sampled_lifetime']:.0f}  episode return {mean:.2f}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
