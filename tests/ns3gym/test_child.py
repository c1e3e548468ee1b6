# SPDX-License-Identifier: GPL-2.0-only
"""Commands that end, hang, talk and leave others behind, and owners that die."""

import contextlib
import gc
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from owners import another_owner, nothing_left, tell
from trees import Tree, guardians
from waiting import wait_until

from bbrgym.errors import ConfigError
from bbrgym.ns3gym.child import Child

PATIENCE_S = 120.0


def ending_of(*words, **options):
    return Child(words, **options).wait(PATIENCE_S)


# ---- how a command ends -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code", "shown"),
    [
        ("echo out; echo err >&2", 0, "exited with code 0; it last wrote:\nout\nerr"),
        ("exit 7", 7, "exited with code 7"),
        ("kill -ABRT $$", -signal.SIGABRT, "was killed by SIGABRT"),
        ("kill -40 $$", -40, "was killed by signal 40"),
    ],
)
def test_how_it_ended_is_told(script, code, shown):
    ending = ending_of("sh", "-c", script)
    assert ending.code == code
    assert str(ending) == shown


def test_a_command_that_is_not_there_says_so(tmp_path):
    missing = str(tmp_path / "ns3")
    assert str(ending_of(missing)) == f"exited with code 127; it last wrote:\n{missing}: No such file or directory"


def test_a_running_command_has_no_ending_until_it_is_ended():
    child = Child(["sleep", "600"])
    assert child.wait(0.0) is None
    assert child.end().code == -signal.SIGKILL
    assert child.end().code == -signal.SIGKILL


def test_a_command_that_ends_within_the_grace_is_not_killed():
    assert Child(["sh", "-c", "sleep 0.2; exit 3"]).end(PATIENCE_S).code == 3


def test_it_runs_where_it_is_told(tmp_path):
    assert ending_of("pwd", cwd=tmp_path).output == f"{tmp_path}\n"


def test_what_it_inherits():
    """No descriptors, no blocked and no ignored signals; its own session."""
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        output = ending_of(
            "sh", "-c", "ls /proc/self/fd; cat /proc/self/status; cut -d' ' -f6 /proc/$$/stat; echo $$"
        ).output
    finally:
        os.close(read)
        os.close(write)
        signal.signal(signal.SIGINT, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    lines = output.split("\n")
    status = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert lines[:4] == ["0", "1", "2", "3"]  # the last is that of ls
    libcs = 1 << 31 | 1 << 32  # signals 32 and 33, which below make are ignored, and no program can set
    assert int(status["SigIgn"], 16) & ~libcs == int(status["SigBlk"], 16) == 0
    assert lines[-3] == lines[-2]


# ---- what it writes -----------------------------------------------------------------------------------


def test_only_the_last_of_much_is_kept(tmp_path):
    told = tmp_path / "told"
    much = f"yes 'a line of no interest' | head -c 100000000; echo; echo the last; touch {told}; sleep 600"
    child = Child(["sh", "-c", much])
    wait_until(told.exists)
    [guardian] = guardians()
    status = Path(f"/proc/{guardian.pid}/status").read_text(encoding="utf-8")
    most_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    ending = child.end()
    assert most_kib < 50_000
    assert len(ending.output) <= 16384
    lines = str(ending).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "the last"


def test_a_log_has_everything(tmp_path):
    log = tmp_path / "simulation.log"
    for word in ("one", "two"):
        ending_of("sh", "-c", f"echo {word}; head -c 1000000 /dev/zero", log=log)
    assert log.read_bytes() == b"one\n" + bytes(1_000_000) + b"two\n" + bytes(1_000_000)


def test_a_log_that_cannot_be_written(tmp_path):
    with pytest.raises(ConfigError, match=r"^log: '.*/none/log' cannot be written: No such file or directory$"):
        Child(["true"], log=tmp_path / "none" / "log")


def test_bytes_that_are_no_text_are_shown_somehow():
    assert "\ufffd" in ending_of("printf", r"\377\376").output


# ---- its tree -----------------------------------------------------------------------------------------


@pytest.fixture
def tree():
    tree = Tree()
    yield tree
    for process in tree.living():
        process.kill()


def end(child):
    assert child.end().code == -signal.SIGKILL


def close(child):
    child.close()


def end_first(child):
    guardians()[0].children()[0].kill()
    assert child.wait(PATIENCE_S).code == -signal.SIGKILL


@pytest.mark.parametrize("way", [end, close, end_first], ids=["end", "close", "its first process is killed"])
def test_the_whole_tree_ends(tree, way):
    with nothing_left():
        child = Child(tree.words)
        wait_until(tree.has_grown)
        way(child)
        assert tree.is_gone()
        assert guardians() == []
        del child


def test_the_tree_of_a_forgotten_child_ends(tree):
    with nothing_left():
        Child(tree.words).wait(0.0)
        gc.collect()
        assert tree.is_gone()


def test_what_a_command_leaves_behind_ends_with_it(tree):
    shell, option, script = tree.words
    ending = ending_of(shell, option, f"({script}) & echo begun")
    assert (ending.code, ending.output) == (0, "begun\n")
    assert tree.is_gone()


def test_a_tree_that_grows_while_it_is_killed(tree):
    """Each process starts its successor and ends."""
    child = Child(["sh", "-c", f"run() {{ : {tree.mark}; sleep 0.02; (run &) ; }}; run & exec sleep 600"])
    seen = set()

    def has_gone_on():
        seen.update(process.pid for process in tree.living())
        return len(seen) > 5

    wait_until(has_gone_on)
    end(child)
    assert tree.is_gone()


def test_a_stopped_tree_ends_too(tree):
    child = Child(tree.words)
    wait_until(tree.has_grown)
    for process in tree.living():
        process.suspend()
    end(child)
    assert tree.is_gone()


def test_many_leave_nothing_behind():
    with nothing_left():
        for _ in range(20):
            Child(["sleep", "600"]).close()
            ending_of("true")
    assert guardians() == []


def test_the_command_dies_with_a_killed_guardian():
    child = Child(["sleep", "600"])
    wait_until(guardians)  # it has begun to be one
    [guardian] = guardians()
    wait_until(guardian.children)
    [command] = guardian.children()
    wait_until(lambda: command.name() == "sleep")  # the guardian's fork has begun to be the command
    guardian.kill()
    ending = child.wait(PATIENCE_S)
    assert ending.code is None
    assert str(ending) == "was lost with the process that watches it"
    command.wait(PATIENCE_S)


def test_a_guardian_that_is_asked_to_end_ends_the_tree(tree):
    child = Child(tree.words)
    wait_until(tree.has_grown)
    guardians()[0].terminate()
    assert "the guardian was asked to end" in str(child.wait(PATIENCE_S))
    assert tree.is_gone()


# ---- owners -------------------------------------------------------------------------------------------

OWNER = """
import json, os, signal, sys, time
from bbrgym.ns3gym.child import Child
child = Child(json.loads(sys.stdin.readline()))
print("ready", flush=True)
sys.stdin.readline()
{then}
"""


@contextlib.contextmanager
def owner_of_a_command(tree, then):
    """Another Python with a command that has grown to its tree; it goes on when told to."""
    with another_owner(OWNER.format(then=then), json.dumps(tree.words)) as owner:
        wait_until(tree.has_grown)
        [guardian] = guardians(owner.pid)
        tell(owner)
        yield owner, guardian


def test_the_tree_ends_with_its_killed_owner(tree):
    with owner_of_a_command(tree, "time.sleep(600)") as (owner, guardian):
        owner.kill()
        wait_until(tree.is_gone)
        guardian.wait(PATIENCE_S)


def test_the_tree_ends_with_its_killed_owner_though_a_fork_lives_on(tree):
    fork = 'os.write(1, b"%d\\n" % os.fork()); time.sleep(600)'  # holds every descriptor that the owner held
    with owner_of_a_command(tree, fork) as (owner, guardian):
        fork_pid = max(int(owner.stdout.readline()), int(owner.stdout.readline()))
        owner.kill()
        try:
            wait_until(tree.is_gone)
            guardian.wait(PATIENCE_S)
        finally:
            os.kill(fork_pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "then",
    [
        "sys.exit(0)",
        "raise ValueError",
        "del child; time.sleep(600)",
        "os._exit(0)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
    ],
)
def test_the_tree_ends_with_its_owner(tree, then):
    with owner_of_a_command(tree, then) as (_, guardian):
        wait_until(tree.is_gone)
        guardian.wait(PATIENCE_S)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_does_not_end_the_owners_command():
    child = Child(["sleep", "600"])
    pid = os.fork()
    if pid == 0:
        child.close()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert child.wait(0.5) is None
    end(child)


def test_the_command_outlives_the_thread_that_started_it():
    started = []
    thread = threading.Thread(target=lambda: started.append(Child(["sleep", "600"])))
    thread.start()
    thread.join(PATIENCE_S)
    assert started[0].wait(0.5) is None
    end(started[0])


def test_the_owners_python_settings_do_not_reach_the_guardian(monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    assert ending_of("printenv", "PYTHONHOME").output == "/nonexistent\n"  # though the command has them


def test_to_end_a_command_takes_no_time_that_it_does_not_need():
    child = Child(["sleep", "600"])
    begin_s = time.monotonic()
    child.end(0.2)
    assert time.monotonic() - begin_s < 60.0  # of the 600 s that the command takes
    assert guardians() == []
