# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Ns3Gym-v0 on simulations that behave, and on those that do not."""

import contextlib
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from owners import free_port, nothing_left
from trees import guardians
from waiting import meanwhile, wait_until

import bbrgym
from bbrgym.ns3gym.errors import PeerGone, ProtocolError, ProtocolTimeout

pytestmark = pytest.mark.usefixtures("own_children")
ACTOR = str(Path(__file__).with_name("support") / "actor.py")
OBSERVED = spaces.Box(-1e9, 1e9, (3,), np.float32)
ACTED = spaces.Box(-1, 1, (1,), np.float32)
SPACES = {"observation_space": OBSERVED, "action_space": ACTED}
ONE = np.ones(1, np.float32)


@pytest.fixture
def make():
    """Makes bbrgym/Ns3Gym-v0 on the actor and closes it; nothing may be left then."""
    made = []

    def make_one(*, command=(sys.executable, ACTOR), arguments=None, **options):
        if command is not None or arguments:
            options["arguments"] = arguments or {}
        command = list(command) if isinstance(command, tuple) else command
        made.append(gymnasium.make("bbrgym/Ns3Gym-v0", command=command, **options))
        return made[-1]

    yield make_one
    for env in made:
        env.close()
    assert guardians() == []


@pytest.fixture
def runs(tmp_path):
    """What simulations write when they begin (their seeds) and when they end."""
    file = tmp_path / "runs"

    class Runs:
        argument = str(file)

        @staticmethod
        def words():
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
            return [line.split()[1] for line in lines]

    return Runs


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


def test_a_game_that_is_over_is_terminated(make):
    *_, last = play(make(arguments={"deed": "game_over", "at": 2}), 1)
    assert (last[0][0], *last[1:4], last[4]["step"]) == (2, 1.0, True, False, 2)


def test_what_is_not_running_or_closed(make):
    env = make().unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(ONE)
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.reset()


@pytest.mark.parametrize(("deed", "told"), [("text_info", "[not an object]"), ("deep_info", "[" * 100_000)])
def test_an_info_that_is_not_an_object_is_a_text(make, deed, told):
    env = make(arguments={"deed": deed, "at": 1})
    env.reset(seed=3)
    assert env.step(ONE)[-1] == {"seed": 3, "info": told}


def test_an_action_of_another_form_is_refused_and_the_episode_goes_on(make):
    env = make().unwrapped
    env.reset(seed=1)
    for action in (np.ones(2, np.float32), {"a": 1}, "1"):
        with pytest.raises(bbrgym.ConfigError, match=r"^action: "):
            env.step(action)
    assert env.step(ONE)[0].tolist() == [1, 1, 1]


def test_the_checker_has_no_complaint(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make().unwrapped)


# ---- seeds and arguments ------------------------------------------------------------------------------


def test_without_a_seed_each_run_has_its_own_drawn_from_the_last_one(make, runs):
    drawn = []
    for _ in range(2):
        env = make(arguments={"runs_file": runs.argument})
        env.reset(seed=5)
        drawn.append([env.reset()[1]["seed"] for _ in range(3)])
    assert drawn[0] == drawn[1]
    assert len({5, *drawn[0]}) == 4
    began = [int(word) for word in runs.words() if word != "ended"]
    assert began[1:5] == [5, *drawn[0]]


def test_the_simulation_that_told_the_spaces_is_the_first_run_unless_a_seed_is_given(make, runs):
    env = make(arguments={"runs_file": runs.argument})
    [seed] = runs.words()
    assert env.reset()[1]["seed"] == int(seed)
    assert runs.words() == [seed]
    env.reset(seed=8)
    assert runs.words() == [seed, "ended", "8"]


def test_a_reset_may_change_arguments(make):
    env = make(arguments={"--steps": 2, "word": "first"})
    assert env.reset(seed=1)[1]["word"] == "first"
    assert env.reset(seed=1, options={"arguments": {"word": "second"}})[1]["word"] == "second"
    assert env.reset(options={"arguments": {"word": "third"}})[1]["word"] == "third"
    assert len(play(env, 1)) == 3
    assert env.reset()[1]["word"] == "third"
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
    env = make(arguments={"steps": 5, "runs_file": runs.argument}, **SPACES)
    assert guardians() == []  # with both spaces given, nothing runs before the first reset
    play(env, 1, steps=3)  # in the middle
    play(env, 2)  # to its end
    env.reset(seed=3)  # at its beginning
    env.close()
    assert runs.words() == ["1", "ended", "2", "ended", "3", "ended"]


def test_one_that_does_not_stop_is_killed(make, runs):
    env = make(arguments={"deed": "stubborn", "runs_file": runs.argument}, grace_s=0.2, **SPACES)
    for seed in (1, 2):
        env.reset(seed=seed)
    env.close()
    assert guardians() == []
    assert runs.words() == ["1", "2"]


def test_a_lively_end_is_not_waited_for_in_the_last_step(make):
    env = make(arguments={"deed": "stubborn", "steps": 1}, grace_s=600.0, **SPACES)
    assert play(env, 1)[-1][3]  # though this one takes 600 s to end after it
    env.unwrapped._session.abandon()


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


def test_one_that_is_over_at_once_is_an_error(make):
    with pytest.raises(ProtocolError, match=r"^the simulation was over before its first step$"):
        make(arguments={"steps": 0}, **SPACES).reset(seed=1)


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        (
            [sys.executable, ACTOR, "--deed=early"],
            PeerGone,
            "the simulation ended where its SimInitMsg was due: it exited with code 2; it last wrote:\nno such.*",
        ),
        (
            ["sh", "-c", "echo hello; sleep 600"],
            ProtocolTimeout,
            "no SimInitMsg from the simulation within 4 s; it last wrote:\nhello",
        ),
    ],
)
def test_one_that_does_not_speak_leaves_nothing(command, kind, text):
    with nothing_left():
        with pytest.raises(kind, match=f"^{text}$"):
            gymnasium.make("bbrgym/Ns3Gym-v0", command=command, timeout_s=60.0 if kind is PeerGone else 4.0)
        gc.collect()
    assert guardians() == []


def test_one_whose_spaces_change_or_are_not_what_it_sends(make):
    env = make().unwrapped
    with pytest.raises(ProtocolError, match=r"^the simulation's observation_space is Box.*\(2,\).*, expected.*\(3,\)"):
        env.reset(seed=3, options={"arguments": {"deed": "wrong_space"}})
    env.reset(seed=4, options={"arguments": {"deed": "fine"}})
    with pytest.raises(ProtocolError, match=r"^observation: has 3 numbers, expected 2"):
        make(arguments={"deed": "wrong_space"}).reset(seed=3)
    env = make(arguments={"deed": "wrong_space"}, observation_space=OBSERVED)
    assert env.reset(seed=3)[0].tolist() == [0, 3, 0]


@pytest.mark.parametrize("has_begun", [True, False])
def test_one_that_is_killed_while_the_agent_thinks(make, has_begun):
    env = make()
    if has_begun:
        env.reset(seed=1)
    [guardian] = guardians()
    guardian.children()[0].kill()
    psutil.wait_procs([guardian], timeout=120)
    with pytest.raises(PeerGone, match=f"^{LEFT}.*: it was killed by SIGKILL$"):
        env.step(ONE) if has_begun else env.reset()
    assert env.reset(seed=2)[0].tolist() == [0, 2, 0]


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
        ({"comand": []}, r"Ns3GymEnv.__init__\(\) got an unexpected keyword argument 'comand'; did you mean command\?"),
    ],
)
def test_arguments_that_cannot_be(make, options, text):
    with pytest.raises(bbrgym.ConfigError, match=f"^{text}"):
        make(**options)


# ---- ports --------------------------------------------------------------------------------------------


def test_a_given_port_is_used_for_every_run_and_given_back(make):
    port = free_port()
    env = make(port=port)
    for seed in (1, 2):
        env.reset(seed=seed)
        assert env.unwrapped.port == port
    env.close()
    assert make(port=port).reset(seed=3)[0].tolist() == [0, 3, 0]


def test_a_port_that_is_taken(make):
    with socket.create_server(("127.0.0.1", 0)) as owner:
        text = f"^port: cannot listen on 127.0.0.1:{owner.getsockname()[1]}: Address already in use"
        with pytest.raises(bbrgym.ConfigError, match=text):
            make(port=owner.getsockname()[1], **SPACES)


# ---- simulations that others start ----------------------------------------------------------------------


@contextlib.contextmanager
def started_elsewhere(port, **arguments):
    words = [f"--{name}={value}" for name, value in {"openGymPort": port, **arguments}.items()]
    with subprocess.Popen([sys.executable, ACTOR, *words]) as simulation:
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
    with started_elsewhere(port, die_at=1, die_after_s=0.1) as simulation:
        assert simulation.wait(120.0) == -signal.SIGKILL  # it has introduced itself, and did not wait
    with started_elsewhere(port, simSeed=9) as simulation:
        assert env.reset()[0].tolist() == [0, 9, 0]
        simulation.kill()
        with pytest.raises(PeerGone, match=f"^{LEFT}"):
            env.step(ONE)
    with started_elsewhere(port):
        env.reset()


# ---- what is left -------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_forgotten_one(make):
    env = gymnasium.make("bbrgym/Ns3Gym-v0", command=[sys.executable, ACTOR], arguments={"deed": "stubborn"})
    env.reset()
    del env
    gc.collect()
    assert guardians() == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_does_not_end_the_owners_simulation(make):
    env = make()
    env.reset(seed=1)
    pid = os.fork()
    if pid == 0:
        env.close()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert env.step(ONE)[0].tolist() == [1, 1, 1]
