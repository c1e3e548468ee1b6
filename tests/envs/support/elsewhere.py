# SPDX-License-Identifier: GPL-2.0-only
"""What another process runs; importable there."""

import plain_envs

import bbrgym  # noqa: F401 - registers the environments


def first_steps(seed):
    """Three steps with the default action: the observations' bytes."""
    env = plain_envs.make("bbrgym/Tune-v1", scenario="steady", variant="bbq")
    observation, _ = env.reset(seed=seed)
    seen = [observation.tobytes()]
    for _ in range(3):
        observation, *_ = env.step(env.unwrapped.default_action)
        seen.append(observation.tobytes())
    env.close()
    return seen
