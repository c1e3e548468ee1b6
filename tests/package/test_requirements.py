# SPDX-License-Identifier: GPL-2.0-only
"""Everything that is required is pinned, once."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from pathlib import Path

from bbrgym.cli.composition import Loader

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"(?P<name>[\w.-]+)==[\w.+]+")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def plain(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def pins() -> list[str]:
    """Names pinned; every line of the file must be understood."""
    names = []
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        pin = PIN.fullmatch(line)
        assert pin is not None, line
        names.append(pin["name"])
    return names


def test_every_requirement_is_pinned_once() -> None:
    pinned = pins()
    assert len(pinned) == len(set(pinned))
    metadata = project()["project"]
    extras = [name for extra in metadata["optional-dependencies"].values() for name in extra]
    required = {plain(name) for name in metadata["dependencies"] + extras} - {"bbrgym"}  # its own extras
    assert required - set(pinned) == set()


def test_build_requirements_are_pinned_too() -> None:
    required = {plain(name) for name in project()["build-system"]["requires"]} - {"pip"}
    assert required - set(pins()) == set()


HYDRA = "hydra-core>=1.3,<1.4"
#: Parts of Hydra 1.3 that are private, which another minor version may move or change.
PRIVATE = {
    "config_loader_impl": {"ConfigLoaderImpl"},
    "config_repository": {"CachingConfigRepository", "ConfigRepository", "IConfigRepository"},
    "core_plugins.file_config_source": {"FileConfigSource"},
    "hydra": {"Hydra"},
    "utils": {"create_config_search_path", "get_args_parser"},
}


def test_lower_bounds_only() -> None:
    """But for Hydra, as long as private parts of it are used."""
    for requirement in project()["project"]["dependencies"]:
        assert requirement == HYDRA or re.fullmatch(r"[\w-]+>=[\d.]+", requirement), requirement


def test_private_parts_of_hydra_are_few_and_those_of_its_bounded_version() -> None:
    found: dict[str, set[str]] = {}
    for folder in ("src", "agents", "envs"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for module, names in re.findall(r"^ *from hydra\._internal\.([\w.]+) import (.+)$", text, re.MULTILINE):
                found.setdefault(module, set()).update(re.findall(r"\w+", names))
            assert "import hydra._internal" not in text
            assert not re.search(r"\bomegaconf\._|\._get_node|\._set_item_impl|\._metadata\b", text), path
    assert found == PRIVATE
    assert HYDRA in project()["project"]["dependencies"]
    assert version("hydra-core").startswith("1.3.")
    for module, names in PRIVATE.items():
        assert names <= set(vars(import_module(f"hydra._internal.{module}")))
    for method in ("load_configuration", "compute_defaults_list", "load_sweep_config"):
        theirs, ours = (list(signature(getattr(one, method)).parameters) for one in (Loader.__bases__[0], Loader))
        assert ours == theirs


def test_the_base_install_is_what_worlds_environments_and_evaluations_need(tmp_path: Path) -> None:
    """The base install has no package that only one command needs; what it imports is what it requires."""
    code = (
        "import sys\n"
        "class Refused:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {names!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)\n"
        "sys.meta_path.insert(0, Refused())\n"
        "import bbrgym, gymnasium, pytest\n"
        "from bbrgym.evaluate.evaluation import run_evaluation\n"
        "from bbrgym.report.report import write_report\n"
        "from bbrgym.cli.main import _parser, main\n"
        "_parser()\n"  # imports all commands
        "from pathlib import Path\n"
        "env = gymnasium.make('bbrgym/Tune-v2', world='twin'); env.reset(seed=1); env.step(env.action_space.sample())\n"
        "scenario = {{'duration_s': 1, 'link': {{'rate_mbps': 5, 'queue': {{'size_packets': 20}}}},"
        " 'flows': [{{'name': 'a', 'rtt_ms': 20}}]}}\n"
        "write_report(Path(sys.argv[1]), run_evaluation(scenario, {{'variants': ['bbr'], 'world': ['twin', 'ns3']}}))\n"
        "assert main(['list']) == 0\n"
        "with pytest.warns(UserWarning, match=r'needs matplotlib: pip install matplotlib, or '):\n"
        "    env = gymnasium.make('bbrgym/Tune-v2', world='twin', render_mode='rgb_array')\n"
        "env.reset(seed=1); env.step(env.action_space.sample())\n"
        "with pytest.raises(bbrgym.errors.MissingExtraError, match=r'needs matplotlib: pip install matplotlib, or '):\n"
        "    env.render()\n"
        "few = ['world=twin', 'seeds=[1]', 'variants=[bbr]', 'scenario.duration_s=6', 'figures.format=png']\n"
        "assert main(['evaluate', *few, f'output_dir={{sys.argv[1]}}/more']) == 0\n"
    )
    extras = {"zmq", "google", "scipy", "plotly", "torch", "stable_baselines3", "sb3_contrib", "joblib"}
    extras |= {"optuna", "ray", "submitit", "wandb", "tensorboard", "pettingzoo", "onnx", "pandas", "rliable"}
    extras |= {"matplotlib"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code.format(names=sorted(extras)), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists()
    assert not (tmp_path / "figures").exists()
    assert "figures/*.png needs matplotlib: pip install matplotlib, or " in done.stdout
