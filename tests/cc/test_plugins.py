# SPDX-License-Identifier: GPL-2.0-only
"""A congestion control in one C file: held to the laws of every controller, and a variant of every command."""

import shlex
import signal
import subprocess
from pathlib import Path

import driver
import polars as pl
import pytest
from driver import random_events
from twin_harness import flow, scenario

import bbrgym
from bbrgym.cli.main import main
from bbrgym.cli.own_files import take_files
from bbrgym.errors import ConfigError, WorldError
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.plugins import PLUGINS, check_controller, headers, load_controller, new_controller

pytestmark = pytest.mark.usefixtures("own_controls")

BBQ = Path(__file__).parent / "bbq.c"
#: The file's names of the built-in's tunables.
NAMES = {"cap_alpha_us": "bbq_alpha_us", "cap_beta": "bbq_beta"}

PLAIN = """
#include "plugin.h"
struct mine { uint64_t count; };
CC_STATE(struct mine)
#define TUNABLES(T) T(mine_step, count, 1, 1, 10, log, "packets per ACK")
CC_TUNABLES(TUNABLES)
static void on_ack(struct cc_state *state, const struct cc_params *params, const struct cc_sample *sample)
{
    (void)params; (void)sample;
    BODY
}
static void reduce(struct cc_state *state, const struct cc_params *params, uint32_t in_flight_pkts)
{
    (void)params; (void)in_flight_pkts;
    state->ssthresh_pkts = 2;
}
CC_PLUGIN(.on_ack = on_ack, .reduce = reduce)
"""

#: What a file does wrong, and a part of the sentence that says so.
HOSTILE = {
    "window of 0": ("state->cwnd_pkts = 0;", "on_ack: cwnd_pkts = 0, expected 1 to 2^30"),
    "window of 2^31": ("state->cwnd_pkts = 1U << 31;", "on_ack: cwnd_pkts = 2147483648, expected 1 to 2^30"),
    "rate of 0": ("state->pacing_Bps = 0;", "on_ack: pacing_Bps = 0, expected more"),
    "endless loop": (
        "for (volatile uint64_t i = 0; i < UINT64_MAX; i += 2) state->own[0] |= 1;",
        "on_ack: does not end, expected a bounded loop",
    ),
    "division by zero": ("state->own[0] = 7 / (sample->lost_pkts * 0U);", "line 10: division by zero"),
    "write beyond its state": ("state->own[1] = 1;", "on_ack: a write beyond its state, at byte = 8"),
    "write beyond all state": ("state->own[15 + sample->acked_pkts % 2] = 1;", "outside its state"),
    "null pointer": ("*(volatile int *)(sample->now_us * 0) = 1;", "line 10: "),
    "memory of its own": ("static uint64_t n; state->own[0] = ++n;", "all that it remembers in its state"),
    "signed overflow": (
        "int64_t x = INT64_MAX; x += (int64_t)sample->acked_pkts + 1; state->own[0] = (uint64_t)x;",
        "line 10: signed integer overflow",
    ),
    "abort": ("__builtin_trap();", "line 10: runs an instruction that ends it"),
    "division in a header": ("state->own[0] = cc_div_wide(0, 1, sample->lost_pkts * 0U);", "line 10: division by zero"),
    "no such function": ("state->cwnd_pkts = helper(sample);", "cannot be compiled: line 10: implicit declaration of"),
    "no such symbol": ("extern uint32_t far; state->cwnd_pkts = far;", "line 10: undefined reference to `far'"),
    "no such field": ("state->window = 1;", "cannot be compiled: line 10: "),
}  # fmt: skip


def write(path: Path, body: str = "state->cwnd_pkts = 10;", **changes: str) -> Path:
    """Write a file whose on_ack is `body`, with other parts replaced."""
    text = PLAIN.replace("BODY", body)
    for old, new in changes.items():
        assert text.count(old) >= 1
        text = text.replace(old, new)
    path.write_text(text)
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what is compiled here for all tests, apart from the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def run(world: str, cc: str, tunables: dict[str, float], **link: object) -> bytes:
    """Return all that a run of two flows, the second 2 s later, shows."""
    flows = [flow("a", cc, 30.0, tunables=tunables), flow("b", cc, 60.0, tunables=tunables, start_s=2.0)]
    two = scenario(*flows, duration_s=12.0, **{"rate_mbps": 12.0, "queue": {"size_bdp": 2.0}, **link})
    shown = []
    with bbrgym.make_world(world, {**two, "warmup_s": 1.0}, seed=5) as one:
        while not one.done:
            one.advance(0.5)
            shown += [one.flow_stats().tobytes(), one.link_stats().tobytes()]
        return b"".join([*shown, *(table.tobytes() for table in one.summary())])


# ---- bbq as a file ------------------------------------------------------------------------------------


def test_bbq_as_a_file_has_at_most_80_lines() -> None:
    assert len(BBQ.read_text().splitlines()) <= 80


@pytest.mark.parametrize("world", ["twin", pytest.param("ns3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("tunables", [{}, {"cap_alpha_us": 900.0, "cap_beta": 0.05}], ids=["preset", "tuned"])
def test_bbq_as_a_file_is_the_built_in_to_the_byte(world: str, tunables: dict[str, float]) -> None:
    own = run(world, load_controller(BBQ), tunables, loss={"kind": "bernoulli", "rate": 0.005})
    ours = run(world, "bbq", {NAMES[k]: v for k, v in tunables.items()}, loss={"kind": "bernoulli", "rate": 0.005})
    assert own == ours
    assert own != run(world, "bbr", {}, loss={"kind": "bernoulli", "rate": 0.005}), "the cap does something here"


@pytest.mark.parametrize("stack", ["linux-6", "linux-4.9"])
def test_bbq_as_a_file_decides_as_the_built_in_on_each_event(stack: str) -> None:
    lives = [random_events(driver.Path(cc, stack=stack), 3, 4000) for cc in (load_controller(BBQ), "bbq")]
    for states in zip(*lives, strict=True):
        own, ours = ({k: v for k, v in one.items() if not k.startswith("bbq_")} for one in states)
        assert own == ours


# ---- a variant ----------------------------------------------------------------------------------------


def test_the_skeleton_is_a_variant_whose_tunables_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = load_controller(new_controller(tmp_path / "mine.c"))
    assert main(["list", str(tmp_path / "mine.c")]) == 0
    listed = capsys.readouterr().out
    assert listed.count("aimd_keep") == 2
    assert "bbr_cwnd_gain" not in listed
    assert dict(bbrgym.VARIANTS[name].preset) == {"aimd_add": 1.0, "aimd_keep": 0.5}
    assert bbrgym.TUNABLES["aimd_keep"].high == 0.95
    assert len({run("twin", name, {"aimd_keep": keep}) for keep in (0.5, 0.9)}) == 2
    assert run("twin", name, {}) == run("twin", name, {}), "a run repeats"
    with pytest.raises(ConfigError, match=r"aimd_keep: is 2, expected 0.3 to 0.95"):
        run("twin", name, {"aimd_keep": 2.0})


def test_a_run_is_saved_and_restored_with_a_files_state() -> None:
    name = load_controller(BBQ)
    with bbrgym.make_world("twin", scenario(flow(cc=name)), seed=2, isolation="none") as world:
        world.set_tunables(0, {"cap_beta": 0.1})
        world.advance(3.0)
        saved = world.save()
        world.advance(2.0)
        after = world.flow_stats().tobytes()
        world.restore(saved)
        world.advance(2.0)
        assert world.flow_stats().tobytes() == after


def test_files_share_a_tunable_that_is_the_same(tmp_path: Path) -> None:
    window = "state->cwnd_pkts = 10 * (uint32_t)(tunable(params, mine_step));"
    one, two = (
        load_controller(write(tmp_path / f"{name}.c", window, **{"count, 1, 1,": f"count, {preset}, 1,"}))
        for name, preset in (("one", 1), ("two", 2))
    )
    assert run("twin", one, {"mine_step": 2.0}) == run("twin", two, {})
    assert run("twin", one, {}) != run("twin", two, {})
    with pytest.raises(ConfigError, match=r"three\.c: tunable mine_step is one of two\.c's, expected another name, or"):
        load_controller(write(tmp_path / "three.c", window, **{"1, 10, log": "1, 11, log"}))
    with pytest.raises(ConfigError, match=r"tunable bbq_beta is one of PROBE_CAP's, expected another name"):
        load_controller(write(tmp_path / "three.c", mine_step="bbq_beta"))


def test_a_changed_file_replaces_its_variant(tmp_path: Path) -> None:
    rows = []
    for window in (10, 20):
        name = load_controller(write(tmp_path / "changed.c", f"state->cwnd_pkts = {window};", mine_step="changed_step"))
        rows.append(run("twin", name, {}))
    assert rows[0] != rows[1]


def test_a_changed_header_of_a_file_is_checked_and_compiled_anew(tmp_path: Path) -> None:
    header = tmp_path / "mine.h"
    header.write_text("#define WINDOW 10\n")
    body = '#include "mine.h"\nstate->cwnd_pkts = WINDOW;'
    file = write(tmp_path / "with_header.c", body, mine_step="header_step")
    before = PLUGINS[load_controller(file)]
    header.write_text("#define WINDOW 0\n")
    with pytest.raises(ConfigError, match="cwnd_pkts = 0, expected 1 to"):
        load_controller(file)
    header.write_text("#define WINDOW 20\n")
    assert PLUGINS[load_controller(file)] != before


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / folder / "same.c" for folder in ("first", "second of two")]
    for file in files:
        file.parent.mkdir()
        write(file, mine_step="named_step")
    options = {"variants": [str(file) for file in files]}
    with pytest.raises(ConfigError, match=r"second of two/same.c' have the same name"):
        take_files(options)


def test_evaluate_takes_files_beside_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["cc", "new", "mine.c"]) == 0
    body = "    def on_ack(self, sample):\n        return 60, None\n"
    Path("mine.py").write_text(f"import bbrgym\nclass Mine(bbrgym.Controller):\n{body}")
    names = ["cubic", "mine.c", "mine.py:Mine"]
    options = ["scenario=steady", "scenario.duration_s=6", "world=twin", f"variants=[{','.join(names)}]"]
    assert main(["evaluate", *options, "output_dir=out", "figures.format=null"]) == 0
    rows = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert rows["variant"].to_list() == names
    assert rows["goodput_mbps"].min() > 5


def test_a_run_folder_and_a_scenario_run_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("stranger.c"))
    Path("stranger.py").write_text("raise SystemExit('it ran')\n")
    for name in ("stranger.c", "stranger.py:Mine"):
        with pytest.raises(ConfigError, match=rf"flows\[0\]\.cc: is '{name}'"):
            run("twin", name, {})
    with pytest.raises(ConfigError, match=r"variants\[0\]: is 'stranger\.c'; .* named: 'variants=\[...,stranger\.c\]'"):
        bbrgym.evaluate("steady", ["stranger.c"], world="twin")
    with pytest.raises(ConfigError, match=r"variants\[0\]: is 'stranger\.py'"):
        bbrgym.evaluate("steady", ["stranger.py"], world="twin")


# ---- what files do wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("what", HOSTILE)
def test_a_check_names_the_law_that_a_file_breaks(what: str, tmp_path: Path) -> None:
    body, sentence = HOSTILE[what]
    with pytest.raises(ConfigError) as error:
        check_controller(write(tmp_path / "bad.c", body))
    assert str(error.value).startswith("bad.c: ")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_an_interrupted_evaluation_of_a_file_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "own.c", mine_step="resumed_step")
    command = ["evaluate", "scenario=steady", "scenario.duration_s=6", "world=twin", "variants=[cubic,own.c]"]
    with monkeypatch.context() as patch:
        patch.setattr(EvaluationFolder, "store_job", lambda *_: signal.raise_signal(signal.SIGINT))
        assert main([*command, "output_dir=out", "jobs=1"]) == 130
    again = shlex.split(capsys.readouterr().err.partition("is kept; bbrgym ")[2].removesuffix(" goes on\n"))
    assert again == ["evaluate", "output_dir=out", "resume=true", "variants=[cubic,own.c]"]
    assert main(again) == 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"CC_PLUGIN(.on_ack = on_ack, .reduce = reduce)": ""}, "cannot be compiled: it has no line CC_PLUGIN"),
        ({"uint64_t count;": "uint64_t count[16];"}, "the state is larger than CC_OWN_BYTES, 120"),
        ({"CC_PLUGIN(": "CC_PLUGIN(.version = 9, "}, "version = 9, expected 1"),
        ({"CC_PLUGIN(": "CC_PLUGIN(.layout = 9, "}, "compile it with this version's headers"),
        ({".reduce = reduce": ".reduce = 0"}, "reduce = none, expected a function, or paces = true"),
        ({"count, 1, 1, 10": "packets, 1, 1, 10"}, "tunable mine_step: unit = packets, expected ratio"),
        ({"count, 1, 1, 10": "count, 11, 1, 10"}, "tunable mine_step: default = 11, expected a value from low to high"),
        ({"count, 1, 1, 10": "count, 1, 0, 10"}, "tunable mine_step: low = 0, expected less than high, and on a log"),
    ],
    ids=["last line", "state", "version", "layout", "reduce", "unit", "default", "log"],
)
def test_a_file_that_does_not_fit_is_refused_in_a_sentence(
    changes: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as error:
        load_controller(write(tmp_path / "unfit.c", "state->cwnd_pkts = 10;", **changes))
    assert str(error.value).startswith("unfit.c: ")
    assert sentence in str(error.value)


def test_without_a_compiler_the_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs a C compiler on this machine \(Debian: gcc\)"):
        load_controller(write(tmp_path / "mine.c"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "if (sample->delivered_pkts > 500) *(volatile int *)(sample->now_us * 0) = 1; state->cwnd_pkts = 10;",
            "the worker was killed by SIGSEGV",
        ),
        (
            "state->cwnd_pkts = sample->delivered_pkts > 500 ? 0 : 10;",
            r"broken\.so: cwnd_pkts = 0, expected 1 to 1073741824",
        ),
    ],
    ids=["crash", "window of 0"],
)
def test_a_shared_object_needs_trust_and_what_it_breaks_ends_the_run_alone(
    body: str, sentence: str, tmp_path: Path
) -> None:
    source, built = write(tmp_path / "broken.c", body, mine_step="broken_step"), tmp_path / "broken.so"
    command = ["cc", "-O1", "-fPIC", "-shared", "-std=gnu11", f"-I{headers()}", "-o", str(built), str(source)]
    subprocess.run(command, check=True, timeout=60)
    with pytest.raises(ConfigError, match="trust=true runs it"):
        load_controller(built)
    with pytest.raises(WorldError, match=sentence):
        run("twin", load_controller(built, trust=True), {})


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.c").write_text("mine")
    with pytest.raises(ConfigError, match="exists, expected a new one"):
        new_controller(tmp_path / "mine.c")
    assert (tmp_path / "mine.c").read_text() == "mine"
