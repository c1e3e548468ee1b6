# SPDX-License-Identifier: GPL-2.0-only
"""What a process of a pool does with a snapshot."""

import pickle

import plain_envs


def explore(snapshot, actions):
    """Return the observations that actions lead to from a snapshot."""
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario="wan_mix").unwrapped
    env.reset()
    env.restore(pickle.loads(snapshot))
    return [env.step(action)[0].tobytes() for action in actions]
