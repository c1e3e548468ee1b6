# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym serve as a user or a script of ns3-gym's runs it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import plain_envs
import pytest
from driving import in_process, in_turn, over_the_protocol

import bbrgym
from bbrgym.cli.main import main
from bbrgym.ns3gym.channel import AgentSocket

SHORT = ["scenario=steady", "scenario.duration_s=3"]


@contextmanager
def served(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "bbrgym", "serve", *SHORT, *arguments]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_serves_what_training_sees(agent: AgentSocket) -> None:
    words = ["variant=bbr-acd", "action=relative", "env.frame_stack=2", "reward=goodput", "episodes=2", "timeout_s=30"]
    arguments = {
        "world": "twin",
        "scenario": {**bbrgym.load_scenario("steady").model_dump(exclude_none=True), "duration_s": 3.0},
        "variant": "bbr-acd",
        "action_kind": "relative",
        "reward": "goodput",
        "control_interval_s": 0.5,
        "frame_stack": 2,
        "view": "pooled",
        "reward_horizon_s": 5.0,
    }
    with plain_envs.make("bbrgym/Tune-v1", **arguments) as env:
        env.action_space.seed(1)
        actions = [env.action_space.sample() for _ in range(6)]
        # As ns3-gym starts its simulations.
        with served(*words, f"--openGymPort={agent.port}", "--simSeed=7", "--env.critic=false") as process:
            seen = [over_the_protocol(agent, in_turn(actions)) for _ in range(2)]
            _, said = process.communicate(timeout=120)
        there = [in_process(env, in_turn(actions), seed) for seed in (7, None)]
    assert [[state.plain() for state in one] for one in seen] == [[state.plain() for state in one] for one in there]
    assert process.returncode == 0, said
    assert said.splitlines() == [
        f"steady on twin, bbr-acd: connecting to the agent at 127.0.0.1:{agent.port}",
        *(
            f"episode {k} of 2: seed {one[0].info['seed']}, 6 steps, "
            f"total reward {sum(state.reward for state in one):.3f}, truncated"
            for k, one in enumerate(seen, 1)
        ),
    ]


@pytest.mark.parametrize("world", ["ns3", pytest.param("twin", marks=pytest.mark.slow)])
def test_it_ends_when_it_is_told_to(world: str, agent: AgentSocket) -> None:
    with served(f"world={world}", f"port={agent.port}") as process:
        agent.await_simulation()
        agent.acknowledge()
        agent.receive_state()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "bbrgym: interrupted"


def test_an_agent_that_goes_is_one_line_and_exit_code_1() -> None:
    with AgentSocket(timeout_s=120.0) as agent, served(f"port={agent.port}") as process:
        agent.await_simulation()
        agent.acknowledge()
        agent.receive_state()
        agent._is_asked = False  # so that it closes without a word
        agent.close()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.splitlines()[-1].startswith(f"bbrgym: the agent at 127.0.0.1:{agent.port} closed the connection where")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("port=0", "port: is 0, expected a number >= 1"),
        ("--openGymPort=70000", "port: is 70000, expected a number <= 65535"),
        ("episodes=0", "episodes: is 0, expected a number >= 1"),
        ("hots=localhost", "hots: is not an option; did you mean host?"),
        ("env.frame_stakc=3", "env.frame_stakc: is not an argument of the environments; did you mean frame_stack?"),
        ("env=multi", "env: is 'multi', expected tune: the protocol has one agent"),
        ("--help-me", "'--help-me' is not an override"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(argument: str, message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["serve", argument]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"bbrgym: {message}"), said


def test_other_commands_know_no_such_arguments(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["list", "--openGymPort=5555"])
    assert "unrecognized arguments: --openGymPort=5555" in capsys.readouterr().err
