# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Ns3Gym-v0 on simulations that behave, and on those that do not."""

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import zmq
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from owners import free_port, nothing_left
from samples import messages, mutations
from trees import guardians
from waiting import meanwhile, wait_until

import bbrgym
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout
from bbrgym.ns3gym.spaces import describe, pack

pytestmark = pytest.mark.usefixtures("own_children")
ACTOR = str(Path(__file__).with_name("support") / "actor.py")
COMMAND = [sys.executable, ACTOR]
OBSERVED = spaces.Box(-1e9, 1e9, (3,), np.float32)
ACTED = spaces.Box(-1, 1, (1,), np.float32)
SPACES = {"observation_space": OBSERVED, "action_space": ACTED}
ONE = np.ones(1, np.float32)


@pytest.fixture
def make():
    """Makes bbrgym/Ns3Gym-v0 on the actor and closes it; nothing may be left then."""
    made = []

    def make_one(**options):
        made.append(gymnasium.make("bbrgym/Ns3Gym-v0", **{"command": COMMAND, **options}))
        return made[-1]

    yield make_one
    for env in made:
        env.close()
    assert guardians() == []


@pytest.fixture
def runs(tmp_path):
    """File in which simulations write their seeds when they begin, and that they end."""
    file = tmp_path / "runs"
    file.touch()
    return file


def play(env, seed, steps=None):
    """An episode with actions 1: all that the env returned."""
    seen = [env.reset(seed=seed)]
    is_over = False
    while not is_over and len(seen) != steps:
        seen.append(env.step(ONE))
        is_over = seen[-1][2] or seen[-1][3]
    return seen


# ---- what an episode is -------------------------------------------------------------------------------


def test_an_episode(make):
    env = make(arguments={"steps": 3, "word": "to whom it may concern"})
    assert (env.observation_space, env.action_space) == (OBSERVED, ACTED)
    (first, info), *rest = play(env, 42)
    assert first.dtype == np.float32
    assert first.tolist() == [0, 42, 0]
    assert info == {"seed": 42, "step": 0, "word": "to whom it may concern"}
    assert [observation.tolist() for observation, *_ in rest] == [[1, 42, 1], [2, 42, 2], [3, 42, 3]]
    assert [state[1:4] for state in rest] == [(0.5, False, False), (1.0, False, False), (1.5, False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(ONE)
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.unwrapped.reset()


@pytest.mark.parametrize(
    ("deed", "terminated", "info"),
    [
        ("game_over", True, {}),
        ("text_info", False, {"info": "[not an object]"}),
        ("deep_info", False, {"info": "[" * 100_000}),
    ],
)
def test_ends_and_infos(make, deed, terminated, info):
    env = make(arguments={"deed": deed, "at": 1}).unwrapped
    env.reset(seed=3)
    with pytest.raises(bbrgym.ConfigError, match=r"^action: "):  # and the episode goes on
        env.step(np.ones(2, np.float32))
    assert env.step(ONE)[2:] == (terminated, False, {"seed": 3, **info})


def test_the_checker_has_no_complaint(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make().unwrapped)


# ---- seeds and arguments ------------------------------------------------------------------------------


def test_the_simulation_that_told_the_spaces_is_the_first_run_unless_a_seed_is_given(make, runs):
    env = make(arguments={"runs_file": str(runs)})
    seed = runs.read_text()
    assert f"{env.reset()[1]['seed']}\n" == seed == runs.read_text()
    env.reset(seed=8)
    drawn = [env.reset()[1]["seed"] for _ in range(2)]
    assert runs.read_text() == f"{seed}ended\n8\nended\n{drawn[0]}\nended\n{drawn[1]}\n"
    env.reset(seed=8)
    assert [env.reset()[1]["seed"] for _ in range(2)] == drawn
    assert len({8, *drawn}) == 3


def test_a_reset_may_change_arguments(make):
    env = make(arguments={"--steps": 2, "word": "first"})
    assert env.reset(seed=1)[1]["word"] == "first"
    assert env.reset(seed=1, options={"arguments": {"word": "second"}})[1]["word"] == "second"
    assert len(play(env, 1)) == 3
    assert env.reset()[1]["word"] == "second"
    with pytest.raises(bbrgym.ConfigError, match=r"^reset options: \['argments'\], allowed is arguments$"):
        env.reset(options={"argments": {}})


def test_a_shell_may_run_it_in_a_folder_with_a_log(make, tmp_path):
    command = ["sh", "-c", f'pwd; exec {sys.executable} {ACTOR} "$@"', "sh"]
    env = make(command=command, cwd=tmp_path, log=tmp_path / "log", arguments={"word": "it's $HOME"})
    assert env.reset(seed=3)[1]["word"] == "it's $HOME"
    env.close()
    assert (tmp_path / "log").read_text(encoding="utf-8") == f"{tmp_path}\n" * 2


def test_an_observation_outside_its_space_is_a_warning_or_an_error_if_strict(make):
    options = {"arguments": {"deed": "far", "at": 0, "steps": 3}, "disable_env_checker": True}
    text = r"observation: is .*, outside of "
    with pytest.warns(UserWarning, match=text + ".*; warned of once") as warned:
        states = play(make(**options), 1)
    assert (len(states), len(warned), states[0][0][0]) == (4, 1, np.float32(2e9))
    with pytest.raises(ProtocolError, match=text):
        make(**options, strict=True).reset(seed=1)


# ---- how a simulation is stopped ----------------------------------------------------------------------


def test_a_simulation_is_told_to_stop_and_may_end_in_its_own_way(make, runs):
    env = make(arguments={"steps": 5, "runs_file": str(runs)}, **SPACES)
    assert guardians() == []  # with both spaces given, nothing runs before the first reset
    play(env, 1, steps=3)  # in the middle
    play(env, 2)  # to its end
    env.reset(seed=3)  # at its beginning
    env.close()
    assert runs.read_text() == "1\nended\n2\nended\n3\nended\n"


def test_one_that_does_not_stop_is_killed(make, runs):
    env = make(arguments={"deed": "stubborn", "runs_file": str(runs), "steps": 1}, grace_s=0.2, **SPACES)
    for seed in (1, 2):
        assert play(env, seed)[-1][3]  # its end is not waited for in the last step
    env.close()
    assert runs.read_text() == "1\n2\n"


# ---- what goes wrong ----------------------------------------------------------------------------------

GONE = "the simulation closed the connection where its EnvStateMsg was due (so does a message of more than 16 MiB)"
LEFT = "the simulation (ended|closed the connection) (before it was answered|where its EnvStateMsg was due)"
ENDED = r"the simulation .* where its EnvStateMsg was due.*: it"
DEEDS = {  # and the step at which it happens
    "garbage": (0, ProtocolError, r"from the simulation: \d+ bytes cannot be read as EnvStateMsg: .*"),
    "empty": (2, ProtocolError, r"observation: has the type 0, expected 2 \(Box\)"),
    "no_reason": (2, ProtocolError, r"the simulation is over for the reason 7, allowed are 0 and 1"),
    "oversized": (2, PeerGone, re.escape(GONE)),
    "silent": (0, ProtocolTimeout, r"no EnvStateMsg from the simulation within 5 s; it last wrote:\n.* has lost its w"),
    "die": (2, PeerGone, ENDED + r" was killed by SIGABRT; it last wrote:\n(.*\n)*assert failed: cwnd > 0"),
    "leave": (0, PeerGone, ENDED + r" exited with code 3; it last wrote:\nno more of this"),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_a_misdeed_is_an_error_and_a_reset_goes_on(make, deed):
    at, kind, text = DEEDS[deed]
    env = make(arguments={"deed": deed, "at": at}, timeout_s=5.0 if deed == "silent" else 60.0, **SPACES).unwrapped
    with pytest.raises(kind, match=f"^{text}") as caught:
        play(env, 1, at + 1)
    assert type(caught.value) is kind
    assert guardians() == []
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(ONE)
    observation, _ = env.reset(seed=2, options={"arguments": {"deed": "fine"}})
    assert observation.tolist() == [0, 2, 0]
    assert env.step(ONE)[0].tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            {"command": [*COMMAND, "--deed=early"]},
            PeerGone,
            "the simulation ended where its SimInitMsg was due: it exited with code 1; it last wrote:\nno such.*",
        ),
        (
            {"command": ["sh", "-c", "echo hello; sleep 600"], "timeout_s": 4.0},
            ProtocolTimeout,
            "no SimInitMsg from the simulation within 4 s; it last wrote:\nhello",
        ),
        ({"command": [*COMMAND, "--steps=0"]}, ProtocolError, "the simulation was over before its first step"),
        ({"command": [*COMMAND, "--deed=wrong_space"]}, ProtocolError, "observation: has 3 numbers, expected 2"),
    ],
)
def test_one_that_does_not_begin_leaves_nothing(options, kind, text):
    with nothing_left():
        with pytest.raises(kind, match=f"^{text}$"):
            gymnasium.make("bbrgym/Ns3Gym-v0", **options).reset(seed=1)
        gc.collect()
    assert guardians() == []


def test_one_whose_spaces_change_or_are_not_what_it_sends(make):
    env = make().unwrapped
    with pytest.raises(ProtocolError, match=r"^the simulation's observation_space is Box.*\(2,\).*, expected.*\(3,\)"):
        env.reset(seed=3, options={"arguments": {"deed": "wrong_space"}})
    env = make(arguments={"deed": "wrong_space"}, observation_space=OBSERVED)
    assert env.reset(seed=3)[0].tolist() == [0, 3, 0]


def test_ctrl_c_ends_the_wait_and_the_simulation(make, tmp_path):
    log = tmp_path / "log"
    env = make(arguments={"deed": "silent", "at": 1}, log=log, **SPACES)
    env.reset(seed=1)

    def interrupt():
        wait_until(lambda: log.stat().st_size)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with meanwhile(interrupt), pytest.raises(KeyboardInterrupt):
        env.step(ONE)
    assert guardians() == []
    env.reset(seed=1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"command": None}, r"port: 0, expected the port that the simulation connects to; ns3-gym's is 5555"),
        ({"command": None, "port": 5555, "cwd": "/"}, r"cwd: '/' is for a command, and there is none"),
        ({"command": None, "port": 5555, "arguments": {"a": 1}}, r"arguments: \{'a': 1\} is for a command, and there"),
        ({"cwd": "/no/folder"}, r"cwd: '/no/folder' is not a folder"),
        ({"log": "/no/folder/log"}, r"log: '/no/folder/log' cannot be written: No such file or directory"),
        ({"grace_s": -1.0}, r"grace_s: -1\.0, allowed is a number of seconds from 0 to 1e6"),
        ({"timeout_s": 0.0}, r"timeout_s: 0\.0, allowed is a number of seconds above 0"),
        ({"port": 65536}, r"port: 65536, allowed are whole numbers from 0 to 65535"),
        ({"comand": []}, r"Ns3GymEnv.__init__\(\) got an unexpected keyword argument 'comand'; did you mean command\?"),
    ],
)
def test_arguments_that_cannot_be(make, options, text):
    with pytest.raises(bbrgym.ConfigError, match=f"^{text}"):
        make(**options)


# ---- ports and simulations that others start -------------------------------------------------------------


def test_a_port_is_given_back_and_one_that_is_taken_is_named(make):
    port = free_port()
    env = make(port=port)
    for seed in (1, 2):
        env.reset(seed=seed)
        assert env.unwrapped.port == port
    with pytest.raises(bbrgym.ConfigError, match=f"^port: cannot listen on 127.0.0.1:{port}: Address already in use"):
        make(port=port, **SPACES)
    env.close()
    assert make(port=port).reset(seed=3)[0].tolist() == [0, 3, 0]


@contextlib.contextmanager
def started_elsewhere(port, **arguments):
    words = [f"--{name}={value}" for name, value in {"openGymPort": port, **arguments}.items()]
    with subprocess.Popen([*COMMAND, *words]) as simulation:
        try:
            yield simulation
        finally:
            simulation.kill()


def test_one_that_is_waited_for(make):
    port = free_port()
    with started_elsewhere(port, simSeed=7, steps=2) as simulation:
        env = make(command=None, port=port)
        assert env.observation_space == OBSERVED
        with pytest.warns(UserWarning, match="seed=3: not passed to the simulation, which is started elsewhere"):
            observation, info = env.reset(seed=3)
        assert observation.tolist() == [0, 7, 0]
        assert info["seed"] is None
        assert [env.step(ONE)[3] for _ in range(2)] == [False, True]
        assert simulation.wait(120.0) == 0
    with started_elsewhere(port, simSeed=8) as simulation:
        assert env.reset()[0].tolist() == [0, 8, 0]
        env.step(ONE)
        env.close()
        assert simulation.wait(120.0) == 0  # it was told to stop


def test_one_that_goes_does_not_disturb_the_next(make):
    env = make(command=None, **SPACES)
    port = env.unwrapped.port
    with started_elsewhere(port) as simulation:
        wait_until(lambda: env.unwrapped._session.agent._socket.poll(0))
        simulation.kill()  # it has introduced itself, and does not wait
    with started_elsewhere(port, simSeed=9) as simulation:
        assert env.reset()[0].tolist() == [0, 9, 0]
        simulation.kill()
        with pytest.raises(PeerGone, match=f"^{LEFT}"):
            env.step(ONE)
    with started_elsewhere(port):
        env.reset()


# ---- whatever comes -------------------------------------------------------------------------------------

SHOWN = spaces.Dict({"rates": spaces.Box(0, 1, (3,), np.float32), "phase": spaces.Discrete(4)}, sort_keys=False)
DONE = spaces.Tuple([spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)])
INIT = pb.SimInitMsg(obsSpace=describe(SHOWN), actSpace=describe(DONE)).SerializeToString()
STATE = pb.EnvStateMsg(
    obsData=pack(SHOWN, {"rates": np.float32([0.0, 0.5, 1.0]), "phase": 3}), reward=0.5, info='{"now_s": 1.0}'
).SerializeToString()
MESSAGES = mutations(INIT) | mutations(STATE) | st.just(STATE) | messages()
PARTS = st.one_of(
    *[MESSAGES.map(lambda message: [b"", message])] * 8, st.lists(st.binary(max_size=5), min_size=1, max_size=4)
)


@pytest.fixture(scope="module")
def waiting():
    env = gymnasium.make("bbrgym/Ns3Gym-v0", timeout_s=0.1, observation_space=SHOWN, action_space=DONE).unwrapped
    yield env
    env.close()


@settings(max_examples=80)
@given(script=st.lists(PARTS, min_size=1, max_size=4))
def test_whatever_comes_is_an_episode_or_an_error_and_the_next_one_is_driven(waiting, script):
    """Hear a simulation that says all that it has to say without listening."""

    def drive(script):
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.set(zmq.LINGER, 0)
            dealer.connect(f"tcp://127.0.0.1:{waiting.port}")
            for parts in ([b"", INIT], *script):
                dealer.send_multipart(parts)
            observation, info = waiting.reset()
            is_over = False
            for _ in script[1:]:
                assert (observation["rates"].shape, observation["rates"].dtype) == ((3,), np.float32)
                if not is_over:
                    observation, _, terminated, truncated, _ = waiting.step(waiting.action_space.sample())
                    is_over = terminated or truncated
        return observation["phase"], info

    with contextlib.suppress(ProtocolError):
        drive(script)

    def is_driven():  # after what is left of the script
        with contextlib.suppress(ProtocolError):
            return drive([[b"", STATE]]) == (3, {"seed": None, "now_s": 1.0})

    wait_until(is_driven)


# ---- what is left -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_ends_nothing_and_a_forgotten_one_leaves_nothing():
    env = gymnasium.make("bbrgym/Ns3Gym-v0", command=COMMAND, arguments={"deed": "stubborn"})
    env.reset(seed=1)
    pid = os.fork()
    if pid == 0:
        env.close()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert env.step(ONE)[0].tolist() == [1, 1, 1]
    del env
    gc.collect()
    assert guardians() == []
