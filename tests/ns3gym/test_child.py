# SPDX-License-Identifier: GPL-2.0-only
"""Commands that end, hang, talk and leave others behind, and owners that die."""

import gc
import json
import os
import signal
import threading
from pathlib import Path

import pytest
from owners import another_owner, nothing_left, tell
from trees import Tree, guardians
from waiting import wait_until

from bbrgym.ns3gym.child import Child

pytestmark = pytest.mark.usefixtures("own_children")
PATIENCE_S = 120.0


def ending_of(*words, **options):
    return Child(words, **options).wait(PATIENCE_S)


@pytest.fixture
def tree():
    tree = Tree()
    yield tree
    for process in tree.living():
        process.kill()


# ---- how a command ends, and what it says -------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["sh", "-c", "echo out; echo err >&2"], 0, "exited with code 0; it last wrote:\nout\nerr"),
        (["sh", "-c", "exit 7"], 7, "exited with code 7"),
        (["sh", "-c", "kill -ABRT $$"], -signal.SIGABRT, "was killed by SIGABRT"),
        (["sh", "-c", "kill -40 $$"], -40, "was killed by signal 40"),
        (["/no/ns3"], 127, "exited with code 127; it last wrote:\n/no/ns3: No such file or directory"),
        (["printf", r"\377\376"], 0, "exited with code 0; it last wrote:\n\ufffd\ufffd"),
        (["pwd"], 0, "exited with code 0; it last wrote:\n/"),
        (["cat"], 0, "exited with code 0"),  # its input is empty
    ],
)
def test_how_it_ended_is_told(words, code, shown):
    ending = ending_of(*words, cwd="/")
    assert (ending.code, str(ending)) == (code, shown)


def test_a_running_command_has_no_ending_until_it_is_ended():
    child = Child(["sleep", "600"])
    assert child.wait(0.0) is None
    assert child.end(0.2).code == -signal.SIGKILL
    assert child.end().code == -signal.SIGKILL
    assert Child(["sh", "-c", "sleep 0.2; exit 3"]).end(PATIENCE_S).code == 3  # within the grace


def test_what_it_inherits(monkeypatch):
    """No descriptors, no blocked and no ignored signals; its own session; the owner's environment."""
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")  # which the guardian's Python must not see
    ignored = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    read, write = os.pipe()
    os.set_inheritable(write, True)
    script = "ls /proc/self/fd; cat /proc/self/status; cut -d' ' -f6 /proc/$$/stat; echo $$; echo $PYTHONHOME"
    try:
        lines = ending_of("sh", "-c", script).output.splitlines()
    finally:
        os.close(read)
        os.close(write)
        for number, handler in ignored.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    status = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert lines[:4] == ["0", "1", "2", "3"]  # the last is that of ls
    libcs = 1 << 31 | 1 << 32  # signals 32 and 33, which below make are ignored, and no program can set
    assert int(status["SigIgn"], 16) & ~libcs == int(status["SigBlk"], 16) == 0
    assert lines[-3] == lines[-2]
    assert lines[-1] == "/nonexistent"


def test_only_the_last_of_much_is_kept(tmp_path):
    told = tmp_path / "told"
    much = f"yes 'a line of no interest' | head -c 100000000; echo; echo the last; touch {told}; sleep 600"
    child = Child(["sh", "-c", much])
    wait_until(told.exists)
    [guardian] = guardians()
    status = Path(f"/proc/{guardian.pid}/status").read_text(encoding="utf-8")
    assert next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) < 50_000  # KiB
    ending = child.end()
    assert len(ending.output) <= 16384
    lines = str(ending).splitlines()
    assert (len(lines), lines[-1]) == (21, "the last")


def test_a_log_has_everything(tmp_path):
    log = tmp_path / "simulation.log"
    for word in ("one", "two"):
        ending_of("sh", "-c", f"echo {word}; head -c 1000000 /dev/zero", log=log)
    assert log.read_bytes() == b"one\n" + bytes(1_000_000) + b"two\n" + bytes(1_000_000)


# ---- its tree -----------------------------------------------------------------------------------------


def end_stopped(child, tree):
    for process in tree.living():
        process.suspend()
    child.end()


def end_first(child, _):
    guardians()[0].children()[0].kill()
    assert child.wait(PATIENCE_S).code == -signal.SIGKILL


def ask_the_guardian(child, _):
    guardians()[0].terminate()
    assert child.wait(PATIENCE_S).code == -signal.SIGKILL


WAYS = {
    "end": lambda child, _: child.end(),
    "close": lambda child, _: child.close(),
    "forget": lambda _, __: None,
    "end it while it is stopped": end_stopped,
    "kill its first process": end_first,
    "ask the guardian": ask_the_guardian,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_whole_tree_ends(tree, way):
    with nothing_left():
        child = Child(tree.words)
        wait_until(tree.has_grown)
        WAYS[way](child, tree)
        del child
        gc.collect()
        assert tree.is_gone()
        assert guardians() == []


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
    assert child.end().code == -signal.SIGKILL
    assert tree.is_gone()


def test_the_command_dies_with_a_killed_guardian():
    child = Child(["sleep", "600"])
    wait_until(lambda: [one.name() for guardian in guardians() for one in guardian.children()] == ["sleep"])
    [guardian] = guardians()
    [command] = guardian.children()
    guardian.kill()
    ending = child.wait(PATIENCE_S)
    assert (ending.code, str(ending)) == (None, "was lost with the process that watches it")
    command.wait(PATIENCE_S)


# ---- owners -------------------------------------------------------------------------------------------

OWNER = """
import json, os, sys, time
from bbrgym.ns3gym.child import Child
child = Child(json.loads(sys.stdin.readline()))
print("ready", flush=True)
sys.stdin.readline()
{then}
"""
FORK = 'os.write(1, b"%d\\n" % os.fork()); time.sleep(600)'  # the fork holds every descriptor that the owner held


@pytest.mark.parametrize("then", ["sys.exit(0)", "os._exit(0)", "time.sleep(600)", FORK])
def test_the_tree_ends_with_its_owner(tree, then):
    """Which is killed where it sleeps."""
    with another_owner(OWNER.format(then=then), json.dumps(tree.words)) as owner:
        wait_until(tree.has_grown)
        [guardian] = guardians(owner.pid)
        tell(owner)
        forks = {int(owner.stdout.readline()) for _ in range(2)} - {0} if then == FORK else set()
        if "sleep" in then:
            owner.kill()
        try:
            wait_until(tree.is_gone)
            guardian.wait(PATIENCE_S)
        finally:
            for fork in forks:
                os.kill(fork, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_or_the_end_of_a_thread_does_not_end_the_owners_command():
    started = []
    thread = threading.Thread(target=lambda: started.append(Child(["sleep", "600"])))
    thread.start()
    thread.join(PATIENCE_S)
    [child] = started
    pid = os.fork()
    if pid == 0:
        child.close()
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert child.wait(0.5) is None
    child.end()
