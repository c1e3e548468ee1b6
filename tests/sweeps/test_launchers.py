# SPDX-License-Identifier: GPL-2.0-only
"""The same jobs through SLURM's and Ray's launchers."""

import os
import sys
from pathlib import Path

import pytest
from small import GRID, running_below, scenario, start, states, step_of, summary, sweep
from waiting import wait_until

LOCAL = ["launcher=submitit", "launcher.cluster=local", "launcher.poll_s=0.1", "launcher.cpus_per_task=1"]
LAUNCHERS = {"submitit": LOCAL, "ray": ["launcher=ray"]}


def needed(name: str) -> None:
    pytest.importorskip(name, reason=f"NO {name.upper()}: launcher={name} is not tested here")


@pytest.mark.parametrize("name", LAUNCHERS)
def test_jobs_run_and_fail_as_they_do_here(name: str, tmp_path: Path) -> None:
    """A grid has two levels at least."""
    needed(name)
    out = tmp_path / "out"
    options = [scenario(tmp_path), *(one for one in GRID if "levels" not in one), "agent.levels=1,5"]
    done = sweep(*options, *LAUNCHERS[name], "launcher.n_jobs=2", f"sweep_dir={out}")
    assert done.returncode == 1, done.stderr
    assert "agent.levels-1 failed: bbrgym: agent.levels: is 1, expected a number >= 2" in done.stderr
    assert {job: state["status"] for job, state in states(out).items()} == {
        "agent.levels-1": "failed",
        "agent.levels-5": "done",
    }
    assert summary(out)["step"].to_list() == [None, 48]


@pytest.mark.parametrize("name", LAUNCHERS)
def test_no_job_outlives_its_sweep(name: str, tmp_path: Path) -> None:
    needed(name)
    out = tmp_path / "out"
    long = [*(one for one in GRID if "total_steps" not in one), "total_steps=1_000_000"]
    begun = start(scenario(tmp_path), *long, *LAUNCHERS[name], f"sweep_dir={out}")
    try:
        wait_until(lambda: step_of(out, "train") > 0 or begun.poll() is not None)
        begun.terminate()
        _, errors = begun.communicate(timeout=120)
    finally:
        begun.kill()
        begun.wait(120.0)
    assert begun.returncode == 130, errors
    wait_until(lambda: not running_below(out))


SBATCH = """\
#!{python}
# Keeps the script, and leaves the running of its tasks, one after the other, to a process that stays when this ends.
import os, re, subprocess, sys
script = open(sys.argv[-1]).read()
open("{folder}/script.sh", "w").write(script)
tasks = int(re.search(r"--array=0-(\\d+)", script)[1]) + 1
names = "JOB_ID=7$task ARRAY_JOB_ID=7 ARRAY_TASK_ID=$task NTASKS=1 NODEID=0 LOCALID=0 PROCID=0 JOB_NUM_NODES=1"
own = " ".join("SLURM_" + name for name in (names + " JOB_NODELIST=here JOB_PARTITION=some").split())
loop = f"for task in $(seq 0 {{tasks - 1}}); do env {{own}} timeout 100 bash {folder}/script.sh; done"
null = subprocess.DEVNULL
subprocess.Popen(["bash", "-c", loop], stdin=null, stdout=null, stderr=null, start_new_session=True)
print("Submitted batch job 7")
"""
SRUN = """\
#!{python}
import os, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    words = words[1 if "=" in words[0] or words[0] == "--unbuffered" else 2 :]
os.execvp(words[0], words)
"""
SACCT = """\
#!{python}
import pathlib
print("JobID|State|NodeList|")
for task in range(2):
    is_done = pathlib.Path("{folder}/out/logs/submitit", f"7_{{task}}_0_result.pkl").exists()
    print(f"7_{{task}}|{{'COMPLETED' if is_done else 'RUNNING'}}|here|")
"""


def test_slurm_is_asked_for_what_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With programs in place of SLURM's, that do what it does."""
    needed("submitit")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "sacct": SACCT}.items():
        (programs / name).write_text(text.format(python=sys.executable, folder=tmp_path))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    out = tmp_path / "out"
    settings = ["launcher=submitit", "launcher.poll_s=0.1", "launcher.n_jobs=7", "launcher.timeout_min=30"]
    settings += ["launcher.parameters={slurm_partition: some}"]
    done = sweep(scenario(tmp_path), *GRID, "seed=1,2", *settings, f"sweep_dir={out}")
    assert done.returncode == 0, done.stderr
    assert [state["status"] for state in states(out).values()] == ["done", "done"]
    script = (tmp_path / "script.sh").read_text()
    for line in ("--array=0-1%2", "--cpus-per-task=2", "--mem=4GB", "--time=30", "--partition=some"):
        assert f"#SBATCH {line}\n" in script, script
