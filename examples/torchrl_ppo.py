# SPDX-License-Identifier: GPL-2.0-only
"""PPO of TorchRL on bbrgym's environment.

usage: pip install torchrl; python examples/torchrl_ppo.py [--total-steps 100000]
"""

from __future__ import annotations

import argparse

import torch
from tensordict.nn import TensorDictModule
from tensordict.nn.distributions import NormalParamExtractor
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymEnv
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

OPTIONS = {"world": "twin", "scenario": "rtt_pairs", "variant": "bbq", "threads": 1}


def layers(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--total-steps", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=2000, help="steps between two updates")
    options = parser.parse_args()

    torch.manual_seed(1)
    env = GymEnv("bbrgym:bbrgym/Tune-v2", **OPTIONS)  # imports bbrgym, which registers it
    env.set_seed(1)
    numbers, tunables = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    policy = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(layers(numbers, 2 * tunables), NormalParamExtractor()), ["observation"], ["loc", "scale"]
        ),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    value = ValueOperator(layers(numbers, 1), in_keys=["observation"])
    advantage = GAE(gamma=0.9, lmbda=0.9, value_network=value, average_gae=True)
    loss = ClipPPOLoss(policy, value, entropy_coeff=0.001)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)

    collector = Collector(
        env,
        policy,
        frames_per_batch=options.batch,
        total_frames=options.total_steps,
        auto_register_policy_transforms=True,
    )
    for number, batch in enumerate(collector, 1):
        for _ in range(4):
            advantage(batch)
            for indices in torch.randperm(batch.numel()).split(256):
                losses = loss(batch.reshape(-1)[indices])
                optimizer.zero_grad()
                sum(losses[name] for name in ("loss_objective", "loss_critic", "loss_entropy")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        print(f"step {number * options.batch}  mean reward {batch['next', 'reward'].mean().item():.3f}")
    collector.shutdown()


if __name__ == "__main__":
    main()
