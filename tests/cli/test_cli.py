# SPDX-License-Identifier: GPL-2.0-only
"""The command bbrgym as a user runs it."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from omegaconf import OmegaConf
from owners import SOMEBODY
from waiting import wait_until

import bbrgym
from bbrgym.cli.composition import compose_config
from bbrgym.cli.main import main

SHORT = ["scenario=steady", "scenario.duration_s=1", "variants=[bbr]"]


def run(
    *arguments: str,
    cwd: Path | None = None,
    program: tuple[str, ...] = ("-m", "bbrgym"),
    out: Any = subprocess.PIPE,
    before: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command, or another program of Python."""
    command = [*before, sys.executable, *program, *arguments]
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, timeout=120, check=False, cwd=cwd)


Here = Callable[..., Any]


@pytest.mark.usefixtures("undrawn")
def test_evaluate_writes_a_run_folder_and_shows_the_table(tmp_path: Path) -> None:
    done = run("evaluate", *SHORT, "variants=[bbr,bbq]", "seeds=[1,2]", "output_dir=out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "steady on ns3, mean and 95 % interval of 2 seeds" in done.stdout
    assert "run folder: out" in done.stdout
    assert "report: out/report.html" in done.stdout
    assert "4/4 runs" in done.stderr
    summary = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["variant"].to_list() == ["bbr", "bbr", "bbq", "bbq"]


@pytest.mark.usefixtures("undrawn")
def test_evaluate_runs_draws_with_agents_and_writes_a_page(here: Here, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "variables: {rate_mbps: {uniform: [1, 5]}}\n"
        "duration_s: 9\nlink: {rate_mbps: {value: rate_mbps}, queue: {size_packets: 20}}\n"
        "flows: [{name: a, number: {integer: [1, 2]}, rtt_ms: 30}]\n"
    )
    arguments = ["scenario=mine.yaml", "scenario.duration_s=2", "world=twin", "draws=3", "variants=[bbr]"]
    arguments += ["agent={dice: [random], best: oracle}", "oracle_budget=2", "output_dir=out"]
    done = here("evaluate", *arguments)
    assert done.returncode == 0, done.stderr
    assert "mine, 3 test draws on twin: scores of 3 draws" in done.stdout
    assert "12/12 runs" in done.stderr  # the oracle is two: on other runs, and on the run itself
    summary = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["agent"].unique(maintain_order=True).to_list() == ["fixed", "dice", "best", "best-in-run"]
    assert "bbrgym evaluate scenario=mine.yaml scenario.duration_s=2" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.usefixtures("undrawn")
def test_figures_can_be_left_out(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = here("evaluate", *SHORT, "figures.format=png")
    assert done.returncode == 0, done.stderr
    assert "no figures/: BBRGYM_FIGURES is none" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("steady-")
    assert (folder / "report.html").exists()
    assert not (folder / "figures").exists()
    monkeypatch.setenv("BBRGYM_FIGURES", "few")
    wrong = here("evaluate", *SHORT, "output_dir=other")
    assert (wrong.returncode, wrong.stderr) == (2, "bbrgym: BBRGYM_FIGURES: is 'few', expected all or none\n")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("scenario", "override", "value"),
    [
        ("wan_mix", "link.changes=[]", []),
        ("wan_mix", "link.loss={kind: none}", {"kind": "none"}),
        ("wan_mix", "link.rate_mbps=20", 20),
        ("wan_mix", "variables.capacity_mbps={uniform: [1, 2]}", {"uniform": [1, 2]}),
        ("wan_mix", "variables.shortest_rtt_ms.log_uniform=[5,6]", [5, 6]),
        ("wan_mix", "flows.0.number={choice: [1, 2]}", {"choice": [1, 2]}),
        ("wan_mix", "variables.other={integer: [1, 2]}", {"integer": [1, 2]}),
        ("steady", "link.rate_mbps={uniform: [1, 2]}", {"uniform": [1, 2]}),
        ("lossy", "link.loss={rate: 0.1}", {"kind": "bernoulli", "rate": 0.1}),
    ],
)
@pytest.mark.parametrize(
    "command", ["evaluate", *(pytest.param(one, marks=pytest.mark.slow) for one in ("train", "scenario"))]
)
def test_a_range_is_one_value_and_other_mappings_are_merged(
    command: str, scenario: str, override: str, value: object
) -> None:
    composed = OmegaConf.create(compose_config(command, [f"scenario={scenario}", f"scenario.{override}"]))
    seen = OmegaConf.select(composed, f"scenario.{override.partition('=')[0]}")
    assert (OmegaConf.to_container(seen) if OmegaConf.is_config(seen) else seen) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("scenario.flows.7.rtt_ms=3", "scenario.flows has no entry 7"),
        ("scenario=stedy", "scenario: is 'stedy'; did you mean steady? bbrgym list shows all "),
        ("scenario=no/such.yaml", "cannot read 'no/such.yaml'"),
        ("scenario.link.rate_mbps=-5", "scenario steady: link.rate_mbps: is -5, expected a number >= 0.001"),
        ("scenario.flows.7.rtt_ms=5", "scenario.flows.7.rtt_ms=5"),
        ("scenario.duration_s=${nothing}", "Interpolation key 'nothing' not found"),
        ("varants=[bbr]", "varants: is not an option; did you mean variants or variant?"),
        ("hydra.run.dirr=x", "Could not override 'hydra.run.dirr'"),
        ("variants=[bbr", "'variants=[bbr' is not an override like scenario.link.rate_mbps=50"),
        ("world=moon", "world: is 'moon'; allowed are linux, ns3, ns3gym, twin"),
        ("world=[ns3,ns3]", "world: is ['ns3', 'ns3'], expected at least one of"),
        ("world=[]", "world: is [], expected at least one of"),
        (
            "world.timeout_s=3",
            "world.timeout_s: is not an option; did you mean world.ns3.timeout_s or world.ns3.options?",
        ),
        ("agent=randm", "agent: is 'randm'; did you mean random? allowed are fixed, oracle, random, shipped/fixed, "),
        ("resume=perhaps", "resume: is 'perhaps', expected true or false"),
        ("output_dir=/dev/null/x", "output_dir: cannot use '/dev/null/x'"),
        (["wan_mix"], "draw: is None, but wan_mix is a distribution, expected the number of a draw, from 0 on"),
        (["wan_mix", "draw=-1"], "draws: 1 from number -1 on, train has numbers 0 to 2147483647"),
        (["wan_mix", "draw=1", "split=tst"], "split: is 'tst'; did you mean test?"),
        (["steady", "draw=1"], "draw: is 1, but steady is a scenario, expected a distribution with it"),
        (["steady", "drw=1"], "drw: is not an option; did you mean draw?"),
        (["steady", "record=x.down"], "link.last_hop: is null, expected the hop to record"),
        (["wifi", "record=x.down", "seconds=0"], "seconds: is 0, expected a number above 0 and at most 600"),
        (["wifi", "record=x.down", "seed=-1"], "seed: -1, allowed are integers"),
        (["wifi", "record=7"], "record: is 7, expected the name of a file"),
    ],
)
def test_a_wrong_option_is_one_clear_line(given: str | list[str], says: str, here: Here, tmp_path: Path) -> None:
    done = here("evaluate", *SHORT, given) if isinstance(given, str) else here("scenario", *given)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("bbrgym: ")
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["export"], "export: nothing is given, expected RUN_DIR"),
        (["list", "a=1"], "a=1: is not an option, bbrgym list has none"),
        (["list", "world"], "list: 'world': did you mean worlds?"),
        (["listing"], "command 'listing': did you mean list? bbrgym --help shows all "),
        (["conformance", "wrld=ns3"], "wrld: is not an option; did you mean world?"),
        (["kernel", "lod", "bbq"], "ACTION: is 'lod'; did you mean load?"),
        (["kernel", "set", "a", "b"], "kernel set: a b is given, expected NAME"),
        (["kernel", "watch", "interval=0"], "interval: is 0, expected a number > 0"),
        (["kernel", "load", "bbq", "bbq_beta=x"], "bbq_beta: is 'x', expected a number"),
    ],
)
def test_words_and_options_of_a_plain_command_are_checked(given: list[str], says: str, here: Here) -> None:
    done = here(*given)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"bbrgym: {says}")


@pytest.mark.usefixtures("undrawn")
def test_a_resumed_evaluation_is_the_folder_s_own(here: Here, tmp_path: Path) -> None:
    """The example of the command's help."""
    folder = tmp_path / "runs" / "mine"
    table = here("evaluate", *SHORT, "world=twin", "seeds=[3]", "tunables.bbr_up_gain=1.1", "output_dir=runs/mine")
    assert table.returncode == 0, table.stderr
    names = ("config.yaml", "summary.parquet", "timeseries.parquet", "timing.csv", "summary.txt")
    before = {name: (folder / name).read_bytes() for name in names}
    same = ["seeds=[3]", "scenario.duration_s=1", "scenario.flows.0.rtt_ms=40"]
    same += ["tunables.bbr_up_gain=1.1", "world=twin"]
    for options in ([], ["scenario=steady", "scenario.duration_s=1"], same):
        done = here("evaluate", "output_dir=runs/mine", "resume=true", *options)
        assert (done.returncode, done.stdout) == (0, table.stdout)
        assert {name: (folder / name).read_bytes() for name in names} == before
    for option, says in {
        "scenario=lossy": "scenario.name: is 'lossy', was 'steady'",
        "scenario.duration_s=2": "scenario.duration_s: is 2.0, was 1.0",
        "scenario.flows.0.rtt_ms=20": "scenario.flows.0.rtt_ms: is 20.0, was 40.0",
        "seeds=[3,4]": "seeds: is [3, 4], was [3]",
        "variants=[bbr,bbq]": "variants: is ['bbr', 'bbq'], was ['bbr']",
        "world=ns3": "world: is ['ns3'], was ['twin']",
        "agent=random": "agent: is 'random', was 'fixed'",
    }.items():
        done = here("evaluate", "output_dir=runs/mine", "resume=true", option)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f"bbrgym: {says} in the evaluation that 'runs/mine' holds" in done.stderr
        assert {name: (folder / name).read_bytes() for name in names} == before
    assert here("evaluate", "output_dir=runs/mine", "resume=true", "jobs=1").returncode == 0
    assert "jobs: 1\n" in (folder / "config.yaml").read_text()


@pytest.mark.parametrize("command", ["evaluate", "train", "reproduce"])
def test_a_folder_of_another_command_is_not_gone_on_with(command: str, here: Here, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("weather: fine\n")
    options = [f"output_dir={tmp_path}", "resume=true"] if command == "evaluate" else [f"resume={tmp_path}"]
    done = here(command, *options)
    assert done.returncode == 2
    assert f"{str(tmp_path)!r} is not a run folder of bbrgym {command}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


def test_a_folder_that_holds_nothing_begins_nothing(here: Here, tmp_path: Path) -> None:
    done = here("evaluate", f"output_dir={tmp_path}", "resume=true")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "holds no evaluation, expected one, or the options of a new one" in done.stderr


LONG = ["scenario=steady", "scenario.duration_s=10", "seeds=[1,2,3,4,5,6]", "variants=[bbr]", "jobs=2"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a command that nobody interrupts."""
    folder = tmp_path_factory.mktemp("straight") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BBRGYM_FIGURES", "none")
        assert main(["evaluate", *LONG, f"output_dir={folder}"]) == 0
    return folder


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("how", "times", "code"),
    [
        (signal.SIGINT, 1, 130),
        pytest.param(signal.SIGINT, 2, 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 1, 130, marks=pytest.mark.slow),
        (signal.SIGKILL, 1, -9),
    ],
)
def test_an_interrupted_command_goes_on_where_it_stopped(
    how: signal.Signals, times: int, code: int, straight: Path, here: Here, tmp_path: Path
) -> None:
    arguments = ["evaluate", *LONG, "output_dir=out"]
    kept, said = interrupted_after_two_jobs(arguments, how, times, code, tmp_path)
    assert "Traceback" not in said
    if code == 130 and times == 1:
        assert said.endswith("what is finished is kept; bbrgym evaluate output_dir=out resume=true goes on\n")
    assert not (tmp_path / "out" / "summary.parquet").exists()
    for path in tmp_path.rglob("*.parquet"):
        pl.read_parquet(path)  # whole

    kept_at_ns = {path: path.stat().st_mtime_ns for path in kept}
    done = here("evaluate", "output_dir=out", "resume=true")
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept_at_ns
    for name in ("summary.parquet", "timeseries.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (straight / name).read_bytes()


LATE_INTERRUPT = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from bbrgym.cli import main
def interrupted(arguments=None):
    raise KeyboardInterrupt
if {interrupted}:
    main.main = interrupted
main.program()
"""


@pytest.mark.parametrize(("interrupted", "code"), [(True, 130), (False, 0)])
def test_an_interrupt_at_the_interpreters_end_does_not_change_the_exit_code(interrupted: bool, code: int) -> None:
    done = run("--version", program=("-c", LATE_INTERRUPT.format(interrupted=interrupted)))
    assert (done.returncode, done.stderr) == (code, "")


def test_an_interrupt_while_the_command_is_imported_is_one_sentence() -> None:
    process = subprocess.Popen([sys.executable, "-m", "bbrgym", "evaluate", "--help"], stdout=-1, stderr=-1, text=True)
    wait_until(lambda: "numpy" in Path(f"/proc/{process.pid}/maps").read_text())
    process.send_signal(signal.SIGINT)
    assert (*process.communicate(timeout=60), process.returncode) == ("", "bbrgym: interrupted\n", 130)


DISCARDED = """
import gc, os, signal, sys, threading, time
from bbrgym.cli.main import program

class Rubbish:
    def __init__(self):
        self.itself = self
    def __del__(self):
        times.append(time.monotonic())
        os.kill(os.getpid(), getattr(signal, sys.argv.pop(1)) if len(times) == 1 else signal.SIGCONT)
        while time.monotonic() < times[0] + 0.05:  # also when the interrupt comes again
            pass

times = []
from bbrgym.evaluate import runner
wait = runner.wait
def wait_with_rubbish(*arguments, **options):
    if not times:
        Rubbish()
        gc.collect()
    return wait(*arguments, **options)
runner.wait = wait_with_rubbish
signal.signal(signal.SIGINT, signal.default_int_handler)
program()
"""


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_arrives_in_a_destructor_ends_the_command(name: str, tmp_path: Path) -> None:
    endless = ["world=twin", "scenario.duration_s=2000", "output_dir=out"]
    code = DISCARDED.replace("sys.argv.pop(1)", repr(name))
    done = run("evaluate", *SHORT, *endless, cwd=tmp_path, program=("-c", code))
    assert done.returncode == 130, done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.endswith("what is finished is kept; bbrgym evaluate output_dir=out resume=true goes on\n")


def interrupted_after_two_jobs(
    arguments: list[str], how: signal.Signals, times: int, code: int, folder: Path
) -> tuple[list[Path], str]:
    """Return the files of the first jobs, and the errors; begin again where the command was quicker than the signal."""

    def kept() -> list[Path]:
        return sorted((folder / "out" / "jobs").glob("[!.]*.summary.parquet"))

    command = [sys.executable, "-m", "bbrgym", *arguments]
    for _ in range(5):
        shutil.rmtree(folder / "out", ignore_errors=True)
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        wait_until(lambda process=process: len(kept()) >= 2 or process.poll() is not None)
        finished = kept()
        process.send_signal(how)
        for _ in range(1, times):
            time.sleep(0.05)
            process.send_signal(how)
        said = process.communicate(timeout=120)[1].decode()
        if process.returncode != 0:
            break
    assert process.returncode == code, said
    return finished, said


def test_a_world_that_breaks_is_one_line_and_exit_code_1(here: Here) -> None:
    done = here("evaluate", *SHORT, "scenario.duration_s=5000", "world.ns3.timeout_s=0.001", "output_dir=out")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("bbrgym: scenario 'steady', seed 1, at 0 s: ")


def test_scenario_prints_what_worlds_read(here: Here) -> None:
    done = here("scenario", "rtt_fairness", "scenario.link.rate_mbps=50")
    assert done.returncode == 0, done.stderr
    expected = bbrgym.load_scenario("rtt_fairness").model_dump(exclude_none=True)
    expected["link"]["rate_mbps"] = 50.0
    assert json.loads(done.stdout) == json.loads(bbrgym.load_scenario(expected).resolved_json())


@pytest.mark.parametrize(("options", "seed"), [(["draw=5"], 5), (["draw=0", "split=test"], 2**32)])
def test_scenario_prints_a_draw(options: list[str], seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "wan_mix", *options, "scenario.link.changes=[]"]) == 0
    fields = {**bbrgym.load_distribution("wan_mix").fields}
    fields["link"] = {**fields["link"], "changes": []}
    assert json.loads(capsys.readouterr().out) == json.loads(bbrgym.load_distribution(fields)(seed).resolved_json())


def test_scenario_records_a_last_hop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "one.down", tmp_path / "two.down"]
    for file in files:
        assert main(["scenario", "wifi", f"record={file}", "seconds=0.3", "seed=4"]) == 0
        assert re.fullmatch(rf"{file}: 0.3 s of wifi's last hop, \d+\.\d Mbit/s\n", capsys.readouterr().out)
    assert files[0].read_bytes() == files[1].read_bytes()
    fields = bbrgym.load_scenario("wifi_trace").model_dump(exclude_none=True)
    fields["link"]["trace_path"] = str(files[0])
    assert 40 < bbrgym.load_scenario(fields).resolved().link.mean_rate_mbps < 78


def test_list_shows_everything_there_is(here: Here) -> None:
    done = here("list")
    assert done.returncode == 0, done.stderr
    chosen = ("agent=torch_ppo", "env=multi", "observation=memory", "action=library", "reward=power")
    chosen += ("experiment=search_ppo",)
    for name in [*bbrgym.VARIANTS, *bbrgym.TUNABLES, *bbrgym.scenario_names(), "ns3", *chosen]:
        assert name in done.stdout
    for tunable in bbrgym.TUNABLES.values():
        assert tunable.symbol in done.stdout
        assert tunable.source in done.stdout
    of_one = here("list", "bbq").stdout
    assert "bbq_alpha_us" in of_one
    assert "steady" not in of_one
    assert "steady" in here("list", "scenarios").stdout


@pytest.mark.parametrize("command", ["evaluate", "list", "scenario"])
def test_help(command: str, here: Here) -> None:
    done = here(command, "--help")
    assert done.returncode == 0
    assert f"usage: bbrgym {command}" in done.stdout


def test_version_and_no_command(here: Here) -> None:
    assert here("--version").stdout == f"bbrgym {bbrgym.__version__}\n"
    assert here().returncode == 2


# ---- a machine that has no more -----------------------------------------------------------------------

LIMITED = """
import io, os, resource, sys
from bbrgym.cli import evaluate, main
import bbrgym.report.report, bbrgym._twin, polars
{begun}
kind, limit = getattr(resource, sys.argv[1]), int(sys.argv[2])
if sys.argv[1] == "RLIMIT_NOFILE":
    limit += len(os.listdir("/proc/self/fd")) - 1
if sys.argv[1] == "RLIMIT_AS":
    limit += int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
sys.argv[1:3] = []
main.program()
"""
BEGUN = """
polars.DataFrame({"a": [1]}).write_parquet(io.BytesIO())  # starts the threads of Polars, which panics without
if sys.argv[1] == "RLIMIT_AS":
    import bbrgym.agents.sb3, bbrgym.agents.training.train_agent
"""
EARLY = ["evaluate", *SHORT, "world=twin", "scenario.duration_s=2", "output_dir=out"]


def limited(
    kind: str, limit: int, *arguments: str, cwd: Path, begun: str = BEGUN, before: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run a command with a limit of the system's; that of files and memory is in addition to those in use."""
    program = ("-c", LIMITED.replace("{begun}", begun))
    return run(kind, str(limit), *arguments, cwd=cwd, program=program, before=before)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("undrawn")
def test_a_full_disk_is_one_line_and_keeps_what_is_finished(here: Here, tmp_path: Path) -> None:
    arguments = ["evaluate", *SHORT, "world=twin", "seeds=[1,2]", "jobs=1", "output_dir=out"]
    done = limited("RLIMIT_FSIZE", 12_000, *arguments, cwd=tmp_path)
    assert last_line(done).startswith("bbrgym: File too large: 'out/")
    assert last_line(done).endswith("; what is finished is kept")
    assert not list((tmp_path / "out").rglob("*.partial"))
    for path in (tmp_path / "out").rglob("*.parquet"):
        pl.read_parquet(path)
    assert here("evaluate", "output_dir=out", "resume=true").returncode == 0


@pytest.mark.parametrize(
    ("world", "files"),
    [("twin", 0), ("ns3", 3), *(pytest.param(*one, marks=pytest.mark.slow) for one in (("twin", 1), ("ns3", 8)))],
)
def test_too_few_file_descriptors_are_one_line(world: str, files: int, tmp_path: Path) -> None:
    arguments = ["evaluate", *SHORT, f"world={world}", "seeds=[1,2]", "jobs=2", "output_dir=out"]
    assert "Too many open files" in last_line(limited("RLIMIT_NOFILE", files, *arguments, cwd=tmp_path))


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("kind", "limit", "before", "says"),
    [
        ("RLIMIT_AS", 20 * 10**6, [], "out of memory"),
        *(pytest.param("RLIMIT_AS", left, [], "out of memory", marks=pytest.mark.slow) for left in (10**7, 4 * 10**7)),
        ("RLIMIT_NPROC", 1, SOMEBODY, "cannot start its threads"),
        pytest.param("RLIMIT_NPROC", 3, SOMEBODY, "cannot start its threads", marks=pytest.mark.slow),
    ],
)
def test_too_little_memory_and_too_few_threads_for_polars_are_one_line_before_the_work(
    kind: str, limit: int, before: list[str], says: str, tmp_path: Path
) -> None:
    done = limited(kind, limit, *EARLY, cwd=tmp_path, begun="", before=before)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [["agent=sac", "agent.buffer_size=100_000_000"], ["agent=ppo", "agent.n_steps=50_000_000"]]
)
def test_too_little_memory_is_one_line_and_leaves_nothing(options: list[str], tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    arguments = ["train", *options, "variant=bbq", "num_envs=2", "total_steps=100_000", "threads=1", "output_dir=out"]
    done = limited("RLIMIT_AS", 2**30, *arguments, cwd=tmp_path)
    assert last_line(done).startswith("bbrgym: out of memory: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", [["scenario", "steady"], ["evaluate", *SHORT, "output_dir=out"]])
def test_output_that_cannot_be_written_is_one_line(command: list[str], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = run(*command, cwd=tmp_path, out=full)
    kept = "; what is finished is kept" if command[0] == "evaluate" else ""
    assert last_line(done) == f"bbrgym: No space left on device{kept}"
    assert (tmp_path / "out" / "report.html").exists() == (command[0] == "evaluate")
