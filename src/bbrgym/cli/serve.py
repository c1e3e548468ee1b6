# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym serve``."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Annotated

from pydantic import Field

from bbrgym.agents.training.settings import TrainingSettings, parse_training
from bbrgym.cli.terminal import error_console
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.schema import Count, Float, Model, Whole, validated

DESCRIPTION = """\
Lets an ns3-gym agent, or bbrgym/Ns3Gym-v0, drive a world: connects to the agent's port as ns3-gym's simulations
do, and serves one episode after the other. Options may also be written --option=value, as ns3-gym's scripts do.

examples:
  bbrgym serve scenario=rtt_fairness variant=bbq world=twin port=5555
  bbrgym serve scenario=wan_mix variant=bbr-mix episodes=1000 timeout_s=600 env.frame_stack=1 reward=goodput
  bbrgym serve scenario=steady --openGymPort=5555 --simSeed=3
"""

#: Options here, by the arguments with which ns3-gym starts a simulation.
_NS3_GYMS = {"openGymPort": "port", "simSeed": "seed"}


class Service(Model):
    """Options of the service, as `bbrgym.ns3gym.serving.serve` takes them."""

    port: Annotated[Whole, Field(ge=1, le=65_535)]
    host: str
    episodes: Count
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)]
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)]


MODELS = (Service, TrainingSettings)


def run(options: argparse.Namespace) -> None:
    """Serve episodes, and print a line for each on standard error."""
    on_line, config = error_console().print, dict(options.config)
    try:
        from bbrgym.ns3gym.serving import Episode, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError("bbrgym serve", "ns3gym", error) from error

    service = validated(Service, {name: config.pop(name) for name in Service.model_fields})
    if config["env"].get("name", "tune") != "tune":
        raise ConfigError(f"env: is {config['env']['name']!r}, expected tune: the protocol has one agent")
    training = parse_training(config)  # the other options are those of a training

    def tell(episode: Episode) -> None:
        on_line(
            f"episode {episode.number} of {service.episodes}: seed {episode.seed}, {episode.steps} steps, "
            f"total reward {episode.total_reward:.3f}, {episode.ending}"
        )

    on_line(
        f"{training.source.name} on {training.world_name}, {training.variant}: "
        f"connecting to the agent at {service.host}:{service.port}"
    )
    with closing(TuneEnv(**vars(training.options(training.world_name)))) as env:
        serve(env, **service.model_dump(), on_episode=tell)


def override(argument: str) -> str:
    """Return an argument as ns3-gym's scripts pass it, ``--option=value``, as an override."""
    name, is_option, value = argument.partition("=")
    return f"{_NS3_GYMS.get(name.removeprefix('--'), name.removeprefix('--'))}={value}" if is_option else argument
