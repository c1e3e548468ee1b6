# SPDX-License-Identifier: GPL-2.0-only
"""A rule in integers chooses the modes that the rule in floating point chooses, over whole episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_policies import CompiledPolicy, Controller
from policies import RULE, in_whole_units, options_of, positions_at, random_rule

import bbrgym
from bbrgym.agents.deploy.fixed_point import Q16
from bbrgym.agents.deploy.quantise_rule import quantise_rule
from bbrgym.agents.evolution.modes_network import ModesNetwork
from bbrgym.agents.network_agents import NetworkAgent
from bbrgym.agents.rollout import batch_of
from bbrgym.envs.flow_batch import FlowBatch

TOLERANCE = Q16 // 1000
"""Of a position: a thousandth of the tunable's range."""
EPISODES = 12


def decisions_of(network: ModesNetwork, options: Any, folder: Path) -> dict[str, np.ndarray]:
    """Compare all decisions: the modes in floating point and in integers, and the largest distance of positions.

    The floating-point rule acts; both measure the same and remember by themselves. `held` is the mode before each
    decision.
    """
    batch = batch_of(EPISODES, options)
    assert isinstance(batch, FlowBatch)
    policy = quantise_rule(network, batch, options, "rule")
    compiled = CompiledPolicy(policy, folder)
    observations = batch.reset(range(EPISODES), list(range(EPISODES)))
    worlds = batch.worlds
    assert worlds is not None
    columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
    agent = NetworkAgent("rule", network, is_per_flow=True)
    both: dict[tuple[int, int], tuple[Any, Controller]] = {}
    rows = []
    while not batch.has_ended.any():
        actions = np.zeros((*batch.will_act.shape, len(policy.tunables)), np.float32)
        for place in map(tuple, np.argwhere(batch.will_act).tolist()):
            is_first = place not in both
            if is_first:
                both[place] = (agent.make_policy([1]), Controller(compiled))
            acting, controller = both[place]
            held = 0 if is_first else mode_of(acting)
            actions[place] = acting.act(observations[place][None], np.array([is_first]))[0]
            spec = batch._specs[place[0]]
            assert spec is not None
            measured = worlds.flow_stats[place[0]][np.array(spec.tuned)[place[1]]][columns]
            controller.decide(in_whole_units(policy, measured)[None])
            snapped = batch.scaling.snap(actions[place][None])[1]
            distance = np.abs(controller["positions"] - positions_at(snapped)[0]).max()
            rows.append((held, mode_of(acting), int(controller["mode"][0]), int(distance)))
        batch.act(actions)
        observations = batch.observe()
    batch.close()
    return dict(zip(("held", "mode", "integer_mode", "distance"), np.array(rows).T, strict=True))


def mode_of(policy: Any) -> int:
    return int(policy._memories[0][0].argmax())


@pytest.mark.parametrize("interval_s", [0.25, 1.0])
def test_it_chooses_the_rule_s_modes(interval_s: float, tmp_path: Path) -> None:
    options = options_of(**RULE, scenario="wan_mix", control_interval_s=interval_s)
    network = random_rule(options)
    found = decisions_of(network, options, tmp_path)
    assert len(found["mode"]) > 300
    assert (found["held"] != found["mode"]).mean() > 0.02, "it switches"
    assert len(np.unique(found["mode"])) == 3
    is_equal = found["mode"] == found["integer_mode"]
    assert is_equal.mean() >= 0.998
    assert found["distance"][is_equal].max() <= TOLERANCE


def test_a_rule_of_levels_is_refused() -> None:
    options = options_of(**RULE)
    network = random_rule(options)
    levels = replace(options, levels=3)
    with pytest.raises(bbrgym.ConfigError, match="allowed with a rule are normalised actions"):
        quantise_rule(network, batch_of(1, levels), levels, "rule")
