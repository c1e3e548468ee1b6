# SPDX-License-Identifier: GPL-2.0-only
"""Commands that end, hang, talk and leave others behind, and owners that die."""

import gc
import json
import os
import signal
import sys
import threading
import uuid
from pathlib import Path

import pytest
from owners import another_owner, nothing_left, tell
from trees import guardians, marked
from waiting import wait_until

from bbrgym.ns3gym.child import Child

pytestmark = pytest.mark.usefixtures("own_children")
PATIENCE_S = 120.0

#: A Python that ignores signals and starts another one, in a session of its own and lost by its parent.
BRANCH = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
time.sleep(600)
"""


class Tree:
    """A command of three processes: a shell, a Python below it, a Python that is an orphan of that one."""

    def __init__(self):
        self.mark = f"tree-{uuid.uuid4()}"
        self.script = f"{sys.executable} -c '{BRANCH}' {self.mark}; true"
        self.words = ["sh", "-c", self.script]

    def living(self):
        return marked(self.mark)


@pytest.fixture
def tree():
    tree = Tree()
    yield tree
    for process in tree.living():
        process.kill()


@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (["sh", "-c", "echo out; echo err >&2"], 0, "exited with code 0; it last wrote:\nout\nerr"),
        (["sh", "-c", "exit 7"], 7, "exited with code 7"),
        (["sh", "-c", "kill -ABRT $$"], -signal.SIGABRT, "was killed by SIGABRT"),
        (["sh", "-c", "kill -PIPE $$"], -signal.SIGPIPE, "was killed by SIGPIPE"),
        (["sh", "-c", "kill -40 $$"], -40, "was killed by signal 40"),
        (["/no/ns3"], 127, "exited with code 127; it last wrote:\n/no/ns3: No such file or directory"),
        (["printf", r"\377\376"], 0, "exited with code 0; it last wrote:\n\ufffd\ufffd"),
        (["pwd"], 0, "exited with code 0; it last wrote:\n/"),
        (["cat"], 0, "exited with code 0"),  # its input is empty
        (["sh", "-c", "echo $PYTHONHOME"], 0, "exited with code 0; it last wrote:\n/nowhere"),  # not the guardian's
        (["sh", "-c", "exec >&- 2>&-; sleep 0.1; exit 3"], 3, "exited with code 3"),
    ],
)
def test_exit_status(words, code, shown, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    status = Child(words, cwd="/").wait(PATIENCE_S)
    assert (status.code, str(status)) == (code, shown)


def test_a_running_command_has_no_status_until_it_is_ended():
    child = Child(["sleep", "600"])
    assert child.wait(0.0) is None
    assert child.end(0.2).code == -signal.SIGKILL
    assert child.end().code == -signal.SIGKILL
    assert Child(["sh", "-c", "sleep 0.2; exit 3"]).end(PATIENCE_S).code == 3  # within the grace


def test_output_is_kept_in_the_log_and_its_end_in_memory(tmp_path):
    told, log = tmp_path / "told", tmp_path / "log"
    much = f"yes 'a line of no interest' | head -c 100000000; echo; echo the last; touch {told}; sleep 600"
    Child(["echo", "first"], log=log).wait(PATIENCE_S)
    child = Child(["sh", "-c", much], log=log)
    wait_until(told.exists)
    [guardian] = guardians()
    status = Path(f"/proc/{guardian.pid}/status").read_text(encoding="utf-8")
    assert next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) < 50_000  # KiB
    ending = child.end()
    assert len(ending.output) <= 16384
    assert (len(str(ending).splitlines()), str(ending).splitlines()[-1]) == (21, "the last")
    assert log.stat().st_size == len("first\n") + 100_000_000 + len("\nthe last\n")


# ---- its tree -----------------------------------------------------------------------------------------


def end_stopped(child, tree):
    for process in tree.living():
        process.suspend()
    child.end()


def end_first(child, _):
    guardians()[0].children()[0].kill()
    assert child.wait(PATIENCE_S).code == -signal.SIGKILL


WAYS = {
    "end": lambda child, _: child.end(),
    "close": lambda child, _: child.close(),
    "forget": lambda _, __: None,
    "end it while it is stopped": end_stopped,
    "kill its first process": end_first,
}


@pytest.mark.parametrize("way", WAYS)
def test_the_whole_tree_ends(tree, way):
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # which processes inherit
    try:
        with nothing_left():
            child = Child(tree.words)
            wait_until(lambda: len(tree.living()) == 3)
            WAYS[way](child, tree)
            del child
            gc.collect()
            assert tree.living() == guardians() == []
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def test_what_a_command_leaves_behind_ends_with_it(tree):
    ending = Child(["sh", "-c", f"({tree.script}) & echo begun"]).wait(PATIENCE_S)
    assert (ending.code, ending.output) == (0, "begun\n")
    assert not tree.living()


def test_a_tree_that_grows_while_it_is_killed(tree):
    """Each process starts its successor and ends."""
    child = Child(["sh", "-c", f"run() {{ : {tree.mark}; sleep 0.02; (run &) ; }}; run & exec sleep 600"])
    seen = set()

    def has_gone_on():
        seen.update(process.pid for process in tree.living())
        return len(seen) > 5

    wait_until(has_gone_on)
    assert child.end().code == -signal.SIGKILL
    assert not tree.living()


def test_the_command_dies_with_a_killed_guardian():
    child = Child(["sleep", "600"])
    wait_until(lambda: [one.name() for guardian in guardians() for one in guardian.children()] == ["sleep"])
    [guardian] = guardians()
    [command] = guardian.children()
    guardian.kill()
    assert child.wait(PATIENCE_S).code == -signal.SIGKILL
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
    """Kill the owner where it sleeps."""
    with another_owner(OWNER.format(then=then), json.dumps(tree.words)) as owner:
        wait_until(lambda: len(tree.living()) == 3)
        [guardian] = guardians(owner.pid)
        tell(owner)
        forks = {int(owner.stdout.readline()) for _ in range(2)} - {0} if then == FORK else set()
        if "sleep" in then:
            owner.kill()
        try:
            wait_until(lambda: not tree.living())
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
