# SPDX-License-Identifier: GPL-2.0-only
"""Every reader of a file that a user or a run folder names takes the same hostile files, and answers with one sentence.

Two lists are kept complete by a scan of the package: the readers, which are the functions that call
`bbrgym.untrusted_files`, and the calls that open files by themselves, which no such file may reach.
"""

import ast
import functools
import signal
from collections.abc import Callable, Iterator
from enum import Flag, auto
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from special_files import BOMB, put_special_file

import bbrgym
from bbrgym import plugins
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.cli import hydra_program
from bbrgym.cli.composition import Loader, compose_config, search_path_of
from bbrgym.conformance.page import write_verdicts
from bbrgym.envs.library import load_library
from bbrgym.errors import ConfigError
from bbrgym.evaluate import agent_option
from bbrgym.evaluate.bench.results import read_results
from bbrgym.loggers.csv_files import CsvSettings
from bbrgym.loggers.logger import LoggedRun
from bbrgym.papers import page as papers_page
from bbrgym.papers.catalogue import load_experiment
from bbrgym.paths.detect import read_log
from bbrgym.runs.run_folder import RunFolder
from bbrgym.scenario.traces import read_delays, read_trace
from bbrgym.sweeps.multirun import MultirunFolder, report_multirun

PACKAGE = Path(bbrgym.__file__).parent
SECRET = "hunter2-of-a-stranger"
TIMEOUT_S = 300

# ---- the lists ----------------------------------------------------------------------------------------

THE_WAY = ("opened", "read_bytes", "read_text", "read_json", "read_yaml", "check_yaml", "read_end", "add_to_digest")
OPENS = {
    *("open", "fdopen", "read_text", "read_bytes", "copyfile", "copy2", "copytree", "CDLL", "memmap"),
    *("read_csv", "scan_csv", "read_parquet", "scan_parquet", "read_ipc", "read_ndjson"),
    *("safe_load", "load", "full_load", "unsafe_load", "loadtxt", "genfromtxt", "fromfile", "load_from_zip_file"),
    *("InferenceSession", "ZipFile", "is_zipfile", "netrc", "RDBStorage", "unpack_archive", "Unpickler"),
}

BY_ITSELF = {
    "untrusted_files": {"opened os.open", "opened os.fdopen"},
    # Files that are written.
    "runs.atomic_files": {"replacement os.open", "open_to_append os.open", "open_to_append os.fdopen"}
    | {"_flush_to_disk os.open"},
    "trace.tracing": {"write_trace place.open"},
    "agents.sb3_segments": {"zipped zipfile.ZipFile"},
    "cli.main": {"_discard_output open"},
    # Files of the package, and of the machine.
    "cli.hydra_program": {"_file (resources.files('bbrgym') / 'conf' / f'{name}.yaml').read_text"},
    "cli.plain_command": {"add_plain_command file.read_text"},
    "cli.plain_composition": {"_file file.read_text"},
    "cli.polars_threads": {"_no_stderr os.open", "used_bytes Path('/proc/self/statm').read_text"},
    "cli.listing": {"_first_sentence (_CONF / group / f'{name}.yaml').read_text"},
    "papers.names": {"heading_of path.read_text", "heading_of yaml.safe_load", "notes_of path.read_text"},
    "host.system": {"available_controls (_IPV4 / 'tcp_available_congestion_control').read_text"}
    | {"default_control (_IPV4 / 'tcp_congestion_control').read_text", "network_namespaces os.open"}
    | {"within.enter Path(namespace).open", "within.enter ctypes.CDLL"},
    "agents.deploy.bpf_object": {"_compiled target.read_bytes"},
    "agents.deploy.policy_file": {"read_policy np.load"},
    "agents.shipped.__init__": {"shipped_setting (folder / 'about.json').read_text"},
    "evaluate.bench.tasks": {"load_benchmark yaml.safe_load", "load_benchmark _FILE.read_text"},
    "report.page": {"_template (resources.files('bbrgym') / 'report' / 'templates' / name).read_text"},
    "plugins": {
        "_target source.read_text",
        "new_controller path.open",
        "new_controller (_FILES / 'skeleton.c').read_text",
    }
    | {"load_controller Path(built).read_bytes"},
    "targets": {"shipped yaml.safe_load", "shipped file.read_text"},
    "agents.deploy.policy_header": {"_source Path(__file__).with_name(name).read_text"},
    "runs.provenance": {"_commit (_PACKAGE / _BUILT_FROM).read_text", "_cpu Path('/proc/cpuinfo').read_text"},
    "ns3gym.guardian": {"main open", "main ctypes.CDLL"},
    "worlds.linux_machine": {"_of_rights _CONTROLS.read_text", "_of_rights _RT_RUNTIME.read_text"}
    | {"_has_capability Path('/proc/self/status').read_text", "cgroup_root _MOUNTS.read_text"},
    "loggers.wandb": {"has_login netrc.netrc", "_run_id folder.read_text"},
    # Files of this process's own, of the BPF and the cgroup file system, and a function of this name.
    "host.flow_log": {"FlowLog.close pl.scan_parquet", "FlowLog.__init__ self._folder.open"},
    "host.pins": {"open_folder os.open"},
    "cli.kernel": {"_load load"},
    # Texts and files in memory, what `opened` has opened, methods of RunFolder, shared memory.
    "report.flow_figures": {"_mss_bytes yaml.safe_load"},
    "papers.published_csv": {"_rows_of pl.read_csv"},
    "papers.page": {"_read_numbers pl.read_csv"},
    "runs.run_folder": {"RunFolder.opened self.open", "RunFolder._own os.open", "RunFolder.copy_file.copy partial.open"}
    | {"RunFolder.read_csv pl.read_csv"},
    "sweeps.multirun": {"MultirunFolder.request self.read_text"},
    "paths.kernel_watch": {"_rows pl.scan_parquet"},
    # Of the package itself.
    "paths.gate": {"_networks files('bbrgym.paths').joinpath('gate.npz').open", "_networks np.load"},
    "loggers.csv_files": {"_read folder.read_csv"},
    "agents.model_files": {"OnnxModel.__init__ onnxruntime.InferenceSession", "Sb3Policy.__init__ load_from_zip_file"}
    | {"_about_in zipfile.ZipFile", "load_model zipfile.is_zipfile"},
    "agents.training.checkpoints": {"_save path.open", "restore_state torch.load"},
    "agents.loading": {"load_agent trainer_of(settings, is_trusted=False).load"},
    "agents.training.train_agent": {"_train trainer.load", "_check_readable trainer.load"},
    "sweeps.search": {"search folder.open"},
    # A picture that this process has just drawn, and a study whose file `check_regular_file` has seen.
    "loggers.tensorboard": {"TensorboardLogger.picture Image.open"},
    "sweeps.study": {"Study._opened self._optuna.storages.RDBStorage"},
    "sweeps.pruning": {"watched optuna.storages.RDBStorage"},
}
"""Calls that open something by themselves, by module: their function and what they call."""


def calls(node: ast.AST, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the function and the callee of every call of what opens files or reads them."""
    for child in ast.iter_child_nodes(node):
        inside = f"{where}.{child.name}".lstrip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else where
        if isinstance(child, ast.Call):
            name = getattr(child.func, "attr", None) or getattr(child.func, "id", None)
            if name in OPENS or name in THE_WAY:
                yield where, ast.unparse(child.func)
        yield from calls(child, inside)


@functools.cache
def scanned() -> tuple[dict[str, set[str]], set[str]]:
    """Return the calls that open something by themselves, by module, and the functions that call the one way."""
    by_itself: dict[str, set[str]] = {}
    readers = set()
    for folder in (PACKAGE, PACKAGE / "envs", PACKAGE / "agents"):
        for path in folder.rglob("*.py"):  # rglob does not enter symlinks below where it begins
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            imported = {
                alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module == "bbrgym.untrusted_files"
                for alias in node.names
            }
            own = imported if module != "untrusted_files" else set(THE_WAY)
            for where, callee in calls(tree):
                if callee in own and callee in THE_WAY:
                    readers.add(f"{module} {where}")
                elif callee.rpartition(".")[2] in OPENS:
                    by_itself.setdefault(module, set()).add(f"{where} {callee}")
    return by_itself, {reader for reader in readers if not reader.startswith("untrusted_files ")}


def test_no_file_is_opened_another_way() -> None:
    assert scanned()[0] == BY_ITSELF


def test_every_reader_gets_the_hostile_files() -> None:
    assert scanned()[1] == {name for reader in READERS for name in reader.opening()} | ELSEWHERE | SHIPPED


ELSEWHERE = {
    "agents.model_files OnnxModel.__init__",
    "agents.model_files Sb3Policy.__init__",
    "agents.model_files load_model",
    "agents.search_trainer _read",
    "agents.training.checkpoints restore_state",
    "agents.training.folder TrainingFolder.check_model",
}
"""Readers whose files tests/agents/training/test_hostile_models.py makes."""

SHIPPED = {"cli.plain_composition _file"}
"""Readers of files of the package alone."""


# ---- the readers --------------------------------------------------------------------------------------


class Allowed(Flag):
    """Files that a reader takes."""

    NONE = 0
    TEXT = auto()  #: any text
    MISSING = auto()  #: none at all
    OWN = auto()  #: those of a run folder, and no link to another


TEXT, MISSING, OWN = Allowed.TEXT, Allowed.MISSING, Allowed.OWN
ANY = TEXT | MISSING | OWN


class Reader(NamedTuple):
    """A reader of a file."""

    functions: str  #: that open it: their module, and they
    file: str  #: its path in a folder of the test's
    read: Callable[[Path], Any]  #: reads it, given the folder
    allowed: Allowed = Allowed.NONE  #: files that are no error
    takes: tuple[str, ...] = ()  #: kinds of files whose content is checked later
    prepare: Callable[[Path], object] = lambda _: None  #: writes other files into the folder

    def opening(self) -> Iterator[str]:
        """Yield each function with its module."""
        module, *functions = self.functions.split()
        return (f"{module} {function}" for function in functions)


def _compose(folder: Path) -> Any:
    loader = Loader(search_path_of(str(folder / "conf")))
    return loader.load_configuration("train", ["agent=o"], hydra_program.RunMode.RUN)


def _help(folder: Path) -> str:
    return hydra_program._file(Loader(search_path_of(config_path=str(folder / "conf"))), "train")


def _name_csv(folder: Path) -> None:
    (folder / "e.yaml").write_text("published: [{csv: published.csv}]\n")


def _resumed_csv(folder: Path) -> Any:
    return CsvSettings().start(LoggedRun("train", "name", "group", {}, folder, 1))


def _copied(folder: Path) -> None:
    TrainingFolder(folder / "copy").copy_file("metrics.parquet", TrainingFolder(folder))


def _failed_job(folder: Path) -> None:
    RunFolder(folder).write_json("job/job.json", {"status": "failed", "command": "train", "overrides": ["seed=1"]})


def _agent(folder: Path) -> Any:
    return parse_training(compose_config("train", [f"agent={folder / 'o.yaml'}"]))


def _model(folder: Path) -> Any:
    return agent_option._entrants(folder / "m.onnx", SimpleNamespace(trust=False, variant="bbr"))


FOLDER = "runs.run_folder RunFolder."
TRACES = "scenario.traces read_trace _read_times _read_rates"
SCENARIO = "scenario.shipped read_fields"
READERS = [
    Reader(SCENARIO, "s.yaml", lambda at: bbrgym.load_scenario(at / "s.yaml")),
    Reader(SCENARIO, "s.yaml", lambda at: bbrgym.load_distribution({"mix": [str(at / "s.yaml")]})),
    Reader(TRACES, "t.down", lambda at: read_trace(str(at / "t.down"))),
    Reader("scenario.traces read_delays", "t.txt", lambda at: read_delays(str(at / "t.txt"))),
    Reader("paths.detect read_log", "path.log", lambda at: read_log(at / "path.log")),
    Reader("evaluate.bench.results read_results", "b.json", lambda at: read_results(at / "b.json")),
    Reader("papers.catalogue _fields_in", "e.yaml", lambda at: load_experiment(str(at / "e.yaml"))),
    Reader(
        "papers.published_csv _rows_of",
        "published.csv",
        lambda at: load_experiment(str(at / "e.yaml")),
        prepare=_name_csv,
    ),
    Reader("envs.library _read", "l.yaml", lambda at: load_library(at / "l.yaml")),
    Reader("plugins _read", "mine.c", lambda at: plugins._read(at / "mine.c"), TEXT),
    Reader("cli.composition _read_options", "o.yaml", _agent),
    Reader("cli.composition _UsersFiles.load_config", "conf/agent/o.yaml", _compose, takes=("empty", "secret keys")),
    Reader("cli.hydra_program _file", "conf/train.yaml", _help, TEXT | MISSING),
    Reader(f"{FOLDER}check_regular_file", "study.db", lambda at: RunFolder(at).check_regular_file("study.db"), ANY),
    Reader(f"{FOLDER}read_config", "config.yaml", bbrgym.resume_training, OWN),
    Reader(f"{FOLDER}read_config", "config.yaml", bbrgym.load_agent, OWN),
    Reader(f"{FOLDER}read_provenance", "provenance.json", lambda at: RunFolder(at).read_provenance(), MISSING | OWN),
    Reader(f"{FOLDER}read_json", "job/job.json", lambda at: MultirunFolder(at).read_state("job"), MISSING | OWN),
    Reader(f"{FOLDER}read_text", "multirun.yaml", lambda at: MultirunFolder(at).request(), ANY),
    Reader(f"{FOLDER}_read_table", "t.parquet", lambda at: RunFolder(at).read_table("t.parquet"), OWN),
    Reader(f"{FOLDER}_read_table", "csv/metrics.csv", _resumed_csv, OWN | MISSING),
    Reader(f"{FOLDER}copy_file", "metrics.parquet", _copied, ANY),
    Reader(f"{FOLDER}owner", ".lock", lambda at: RunFolder(at).owner(), ANY),
    Reader(
        "sweeps.multirun MultirunFolder.last_line",
        "job/job.log",
        lambda at: MultirunFolder(at).last_line("job"),
        OWN | TEXT,
    ),
    Reader("sweeps.report _page", "job/job.log", report_multirun, ANY, prepare=_failed_job),
    Reader("conformance.page write_verdicts", "p.md", lambda at: write_verdicts(at / "p.md", [], "")),
    Reader("papers.page _read_numbers", "papers.csv", lambda at: papers_page._read_numbers(at / "papers.csv")),
    Reader("evaluate.agent_option _digest", "config.yaml", agent_option._digest, OWN | TEXT),
    Reader("evaluate.agent_option _model", "m.onnx", _model),
]


# ---- the hostile files --------------------------------------------------------------------------------

HUGE_BYTES = 2**38
TEXTS: dict[str, bytes] = {
    "empty": b"",
    "nulls": b"\0" * 4096,
    "secret": f"{SECRET}\n".encode(),
    "secrets in YAML": f"- [{SECRET}, *{SECRET}".encode(),
    "secret tag": f"!{SECRET} x\n".encode(),
    "secret keys": f"{SECRET * 9}: {SECRET}\n".encode(),
    "passwords": f"root:x:0:0:{SECRET}:/root:/bin/bash\ndaemon:*:1:{SECRET}\n".encode(),
    "table": f"step,{SECRET}\n{SECRET},{SECRET}\n".encode(),
    "not UTF-8": b"a: \xff\xfe\n",
    "UTF-16": f"a: {SECRET}\n".encode("utf-16"),
    "random": bytes((index * 7919 + index // 3) % 256 for index in range(4096)),
    "doubled keys": f'{{"name": "{SECRET}", "name": "{SECRET}"}}'.encode(),
    "deep lists": b"[" * 1000 + b"]" * 1000,
    "deep lists in text": b"a: " + b"[" * 100_000,
    "deep mappings": b'{"a": ' * 1000 + b"1" + b"}" * 1000,
    "bomb": BOMB.encode(),
    "bool": b"a: !!bool abc\n",
    "timestamp": b"!!timestamp abc\n",
    "octal": b"a: 010\n",
    "base 60": b"a: 1:30\n",
    "python": b"a: !!python/object/apply:os.system [echo]\n",
    "digits": b"9" * 10_000,
    "digits in YAML": b"a: " + b"9" * 10_000,
    "NaN": b"NaN",
    "documents": b"a: 1\n---\na: 2\n",
    "table's ends": b"PAR1" + b"\xff" * 64 + b"PAR1",
    "zip file": b"PK\x03\x04" + b"\xff" * 64,
}
FILES = ("zero", "fifo", "folder", "missing", "link", "huge")


def put(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in TEXTS:
        path.write_bytes(TEXTS[kind])
    elif kind == "link":
        other = path.parent / "other"
        other.write_text(f"{SECRET}\n")
        path.symlink_to(other)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(HUGE_BYTES)
    else:
        put_special_file(kind, path)


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise TimeoutError("a reader waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TIMEOUT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def files_in(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(path), path.lstat().st_size) for path in folder.rglob("*"))


@pytest.mark.parametrize("reader", READERS, ids=lambda one: f"{one.functions.split()[-1]} {one.file}")
@pytest.mark.parametrize("kind", [*TEXTS, *FILES])
def test_a_hostile_file_is_refused_in_one_sentence_that_does_not_quote_it(
    reader: Reader, kind: str, tmp_path: Path
) -> None:
    reader.prepare(tmp_path)
    put(kind, tmp_path / reader.file)
    before = files_in(tmp_path)
    takes_link = kind == "link" and OWN not in reader.allowed
    may_be_read = TEXT in reader.allowed and (kind in (*TEXTS, "huge") or takes_link)
    may_be_read |= kind in reader.takes or (kind == "missing" and MISSING in reader.allowed)
    try:
        reader.read(tmp_path)
    except ConfigError as error:
        said = str(error)
        assert Path(reader.file).stem in said or kind == "secret keys"
        assert "\n" not in said
        assert len(said) < 600 + 4 * len(str(tmp_path))
        assert said.count(SECRET) <= (kind == "secret keys")  # the name of a field is shown, cut short
        assert files_in(tmp_path) == before
    else:
        assert may_be_read, "the file was taken"
