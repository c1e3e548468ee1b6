# SPDX-License-Identifier: GPL-2.0-only
"""The page of the environments: docstrings, arguments, actions, observations, and rewards beside the score.

The tables in the docstrings of the environments' classes are generated here too.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import gymnasium
import numpy as np
from pieces import between, code, page, plain

import bbrgym
from bbrgym import worlds
from bbrgym.envs.critic import BASE_RTT, FLOW_FEATURES, LINK_FEATURES
from bbrgym.envs.discrete import MAX_COMBINATIONS
from bbrgym.envs.features import Feature
from bbrgym.envs.flow_batch import MultiOptions
from bbrgym.envs.observation import FEATURES, SOURCES
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward
from bbrgym.envs.scaling import NOT_BELOW, TunableScaling
from bbrgym.envs.terms import TERMS
from bbrgym.report.markdown import markdown_table
from bbrgym.targets import shipped, shipped_names
from bbrgym.worlds.score import score_of_run

FOLDER = Path(str(bbrgym.__path__[0]))
EXAMPLE = """
import gymnasium
import bbrgym

env = gymnasium.make(
    "bbrgym/Tune-v1",
    world="twin",
    scenario="rtt_fairness",
    variant="bbq",
    tunables=["bbq_alpha_us", "bbq_beta"],
    action_kind="relative",
    reward="power",
    critic=True,
)
observation, info = env.reset(seed=1)
observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
print(info["tunables"], observation["critic"].shape, reward, info["reward_terms"])
env.close()
"""

INTRODUCTION = """\
One controller for all learner flows (`bbrgym/Tune-v1`), or one for each of them (`bbrgym/TuneMulti-v1`); both also with
many environments in one step. All have the same [arguments](#arguments), [actions](#actions),
[features](#observations) and [rewards](#rewards). Simulations for ns3-gym are driven by
[`bbrgym/Ns3Gym-v0`](ns3gym.md)."""
KEYWORDS = """\
All are keywords; `num_envs` and `num_worlds` may also come first. An unknown one is a `ConfigError`, and a `TypeError`,
that names the nearest. NumPy's numbers and arrays, ranges and OmegaConf's lists and mappings count as Python's own."""
SENDERS = """\
Of each learner flow, in this order; then the current tunables, the coordinate of each mapped from [-1, 1] to [0, 1].
The last column names the source of the fields in a real sender: `tcpi_` are fields of Linux's `tcp_info`, `bbr_` of its
`tcp_bbr_info`; the rest is state of the congestion control."""
LISTS = """\
`features` takes names, or the name of a list: `instant`, the features of the last interval alone, or `memory`, these
and those with a memory of the episode, `max(...)` and the like in the table. On the command line `observation=memory`
(`bbrgym train`, `bbrgym serve`) chooses them, and a stack of one interval; `conf/observation/` has the files."""
QUEUES = """\
`srtt_ms - min_rtt_ms` is the queueing delay as a sender estimates it: behind a queue that never empties the estimate
is too small by what always stands there."""
SNAPSHOTS = """\
A memory begins anew with each episode. `TuneEnv.save()` and `restore()`, in worlds that can be saved, keep it with the
simulation, the observation and the tunables: what follows is the same to the bit, in any environment with equal
arguments."""
PRIVILEGED = """\
With `critic=True`, and in `TuneMultiEnv.state()`: features of the link in the last interval, then those of the learner
flows, as `view` says."""
TERMS_AND_WEIGHTS = """\
A weighted sum of terms. `reward` names a preset of `conf/reward/` or gives weights by term; a term of weight 0 is
shown in `reward_terms` but not rewarded. Means are over the active learner flows; without one all terms but `change`
are 0. Fair share is the world's `fair_share_mbps`; where it is 0, the ratio of goodput to it counts as 1. Before its
first RTT sample a flow counts as at its base RTT."""
REWARD_AND_SCORE = """\
In an episode in which rates and RTTs are constant, the reward of each interval is a function of the score:
`proportional`, and `alpha_fair` with `alpha: 1`, equal the score; `power` is 2 to the power of the score at delta 1,
and `goodput` (without retransmissions) 2 to the power of the goodput's part of the score. Where they vary, the score
takes logarithms of means and a reward means of logarithms, so (by Jensen's inequality, for a single learner flow with
a constant fair share)"""
HOW_FAR = """\
The table shows the difference, for `bbr` in the twin with seed 1 and steps of 0.1 s, over the intervals after the
warm-up; on the steady link the mean of `proportional` is within 0.04 of the score. Short intervals on slow, crowded or
changing links reward evenness that the score ignores: a flow that delivers nothing in an interval gets -6 for it. With
longer intervals (`control_interval_s`) the mean is nearer to the score."""
LAWS = """\
- the mean of `throughput` is at most the goodput's part of the score, log2 of the mean of `goodput` equals it;
- the mean of 0.5 `delay` is at least the RTT's part of the score, but for the distribution of RTT samples over the
  intervals;
- log2 of the mean of `power` is at least the sum of the means of `throughput` and `delay`;
- the mean of `alpha_fair` falls with alpha and is that of `throughput` at 1."""

FEATURES_HEAD = """\
    The features; `linear` and `log` scale the range from low to high to [0, 1], `within` gives 1 there and 0 elsewhere:

"""
OWN_ARGUMENTS_HEAD = "    Those of `TuneEnv`, and:\n\n"
ARGUMENTS_HEAD = "    ## Arguments\n"
UNBROKEN = {"break_long_words": False, "break_on_hyphens": False}
ARGUMENTS_END = "\n    ## Version History"


def environments_page() -> str:
    tune, vector, vec = Source("tune_env.py"), Source("tune_vector_env.py"), Source("tune_vec_env.py")
    multi, flows, flow_vec = Source("multi.py"), Source("flow_batch.py"), Source("flow_vec_env.py")
    options = Source("options.py")
    return page(
        "Environments",
        INTRODUCTION,
        f"```python\n{EXAMPLE.strip()}\n```",
        "## bbrgym/Tune-v1",
        '`gymnasium.make("bbrgym/Tune-v1", ...)`',
        without_tables(tune.docstring("TuneEnv")),
        "## bbrgym/Tune-v1, many environments in one step",
        "See [vectors.md](vectors.md) too.",
        "### For Gymnasium",
        vector.docstring("TuneVectorEnv"),
        "### For Stable-Baselines3",
        vec.docstring("TuneVecEnv"),
        "## bbrgym/TuneMulti-v1",
        "`bbrgym.envs.multi.parallel_env(...)`",
        without_tables(multi.docstring("TuneMultiEnv")),
        "## bbrgym/TuneMulti-v1, many environments in one step",
        flow_vec.docstring("FlowVecEnv"),
        "## Arguments",
        KEYWORDS,
        options.fields("Options"),
        "Of `gymnasium.make_vec` besides:",
        vector.fields("VectorOptions"),
        "Of `bbrgym.envs.tune_vec_env.TuneVecEnv` besides:",
        vec.fields("VecOptions"),
        "Of `bbrgym.envs.multi.parallel_env` and `bbrgym.envs.flow_vec_env.FlowVecEnv` besides:",
        flows.fields("FlowOptions"),
        "Of `bbrgym.envs.multi.parallel_env` besides these:",
        flows.fields("MultiOptions"),
        "Of `bbrgym.envs.flow_vec_env.FlowVecEnv` besides these:",
        flow_vec.fields("FlowVecOptions"),
        *actions(),
        *observations(),
        *rewards(),
    )


def tune_env_module(text: str) -> str:
    """Return the module of `TuneEnv` with the tables of its docstring written anew."""
    rows = markdown_table(
        ["index", "feature", "meaning", "unit", "scale", "low", "high"],
        (
            [str(index), f.name, f.meaning, f.unit, f.scale, plain(f.low), plain(f.high)]
            for index, f in enumerate(FEATURES)
        ),
    )
    text = between(text, FEATURES_HEAD, "\n    ## Rewards", textwrap.indent(rows, "    ") + "\n")
    return between(text, ARGUMENTS_HEAD, ARGUMENTS_END, argument_list(Options))


def multi_module(text: str) -> str:
    """Return the module of `TuneMultiEnv` with the arguments in its docstring written anew."""
    common = {field.name for field in dataclasses.fields(Options)}
    return between(text, OWN_ARGUMENTS_HEAD, ARGUMENTS_END, argument_list(MultiOptions, without=common))


def argument_list(options: type[Options], without: Collection[str] = ()) -> str:
    """Return the arguments that a class of options declares, as a list in a docstring."""
    documented = [inspect.getdoc(one) or "" for one in options.__mro__ if dataclasses.is_dataclass(one)]
    meanings = {name: text for one in documented for name, text in entries(one.partition("Attributes:\n")[2]).items()}
    lines = []
    for field in dataclasses.fields(options):
        if field.name not in without:
            value = repr(field.default).replace("'", '"')
            text = f"* `{field.name}={value}`: {meanings[field.name]}."
            lines.append(textwrap.fill(text, 120, initial_indent="    ", subsequent_indent="      ", **UNBROKEN) + "\n")
    return "".join(lines)


def without_tables(docstring: str) -> str:
    """Return a docstring with links to this page's tables in place of its own."""
    docstring = re.sub(
        r"The features; .*?(?=\n### Rewards)",
        "[The features](#observations) are each scaled to [0, 1].\n",
        docstring,
        flags=re.DOTALL,
    )
    return re.sub(
        r"(?<=### Arguments\n).*?(?=\n### Version History)",
        "See [arguments](#arguments).\n",
        docstring,
        flags=re.DOTALL,
    )


# ---- parts --------------------------------------------------------------------------------------------


def actions() -> Iterable[str]:
    yield "## Actions"
    yield Source("action.py").explanation()
    yield markdown_table(
        ["`action_kind`", "and", "space", "meaning for each tunable", "the default action"],
        [
            ["`absolute`", "", "`Box(-1, 1, (tunables,))`", "its coordinate", "the variant's own values"],
            ["", "`levels=n`", "`MultiDiscrete`", "one of n levels, or of all its values", "the nearest to these"],
            ["`relative`", "", "`Box(-1, 1, (tunables,))`", "distance to move, in `step_size`", "0: stay"],
            [
                "",
                "`levels=n`, odd",
                "`MultiDiscrete`",
                "one of n distances, or down, stay, up",
                "the middle: stay",
            ],
            [
                "any",
                "`levels=n, flat=True`",
                "`Discrete`",
                f"one number for all tunables, up to {MAX_COMBINATIONS}",
                "as above",
            ],
            [
                "`library`",
                "`library=...`",
                "`Discrete`",
                "one of the library's settings",
                "the nearest to the variant's own values",
            ],
        ],
    )
    yield "### Libraries"
    yield Source("library.py").explanation().replace("::", ":")
    squeezed = " ".join(
        f"`{upper}` runs from `{lower}` on where that is above its own low, so that the two stay in order."
        for upper, lower in NOT_BELOW.items()
    )
    yield f"A coordinate runs through the range of the tunable; whole numbers have equal parts of it. {squeezed}"
    yield markdown_table(
        ["tunable", "unit", "scale", "at -1", "at 0", "at 1", "values", "variants"],
        [row for variant in ("bbr-mix", "bbr3") for row in coordinates(TunableScaling(variant))],
    )


def coordinates(every: TunableScaling) -> Iterable[list[str]]:
    """Yield a row per tunable of a scaling: what its coordinate stands for."""
    at = [every.values(np.full(len(every.names), x, np.float32)) for x in (-1, 0, 1)]
    for index, (name, count) in enumerate(zip(every.names, every.value_counts.tolist(), strict=True)):
        yield [
            code(name),
            bbrgym.TUNABLES[name].unit,
            bbrgym.TUNABLES[name].scale if not count else "whole",
            *(plain(float(f"{values[index]:.4g}")) for values in at),
            str(count) if count else "",
            ", ".join(code(v.name) for v in bbrgym.VARIANTS.values() if name in v.preset),
        ]


def observations() -> Iterable[str]:
    yield "## Observations"
    yield Source("features.py").explanation()
    yield "### Features that the senders know"
    yield SENDERS
    yield LISTS
    yield features_table(FEATURES, SOURCES)
    yield "### Features with a memory"
    yield Source("memory.py").explanation()
    yield QUEUES
    yield SNAPSHOTS
    yield "### Privileged features"
    yield PRIVILEGED
    yield features_table(LINK_FEATURES)
    yield features_table(FLOW_FEATURES, first=len(LINK_FEATURES))


def features_table(features: Sequence[Feature], sources: dict[str, str] | None = None, first: int = 0) -> str:
    def row(index: int, feature: Feature) -> list[str]:
        operands = [str(each) for each in (feature.field, feature.per) if each is not None]
        fields = feature.fields
        unknown = [field for field in fields if sources is not None and field not in sources]
        if unknown:
            raise SystemExit(f"feature {feature.name}: field {unknown[0]} has no row in SOURCES of envs/observation.py")
        known = [] if sources is None else ["; ".join(dict.fromkeys(sources[field] for field in fields))]
        shown = " / ".join(code(each) if each != BASE_RTT else "the scenario's `rtt_ms`" for each in operands)
        return [
            str(first + index),
            code(feature.name),
            feature.meaning,
            shown,
            feature.unit,
            feature.scale,
            plain(feature.low),
            plain(feature.high),
            *known,
        ]

    headings = ["index", "feature", "meaning", "field", "unit", "scale", "low", "high"]
    return markdown_table(
        headings + ([] if sources is None else ["source in a sender"]),
        (row(index, feature) for index, feature in enumerate(features)),
    )


def rewards() -> Iterable[str]:
    yield "## Rewards"
    yield TERMS_AND_WEIGHTS
    yield markdown_table(
        ["term", "formula", "unit", "low", "high"],
        ([code(name), term.formula, term.unit, plain(term.low), plain(term.high)] for name, term in TERMS.items()),
    )
    yield "### Presets"
    yield markdown_table(
        ["preset", "reward", "range", "meaning"], (preset_row(name) for name in shipped_names("reward"))
    )
    yield "### Rewards and the score"
    yield REWARD_AND_SCORE
    yield LAWS
    yield HOW_FAR
    names = shipped_names("reward")
    yield markdown_table(
        [
            "scenario",
            "score",
            "its goodput part",
            "mean `throughput`",
            "its RTT part",
            "0.5 mean `delay`",
            *map(code, names),
        ],
        (relation(scenario, names) for scenario in bbrgym.scenario_names() if is_of_the_papers(scenario)),
    )


def is_of_the_papers(name: str) -> bool:
    """Return whether a scenario is a paper's, without checks, and the twin, which measures the rows, has all of it."""
    scenario = bbrgym.load_scenario(name)
    return not scenario.checks and scenario.link.last_hop is None


def preset_row(name: str) -> list[str]:
    reward = Reward(name)
    rewarded = {term: weight for term, weight in reward.weights.items() if weight}
    formula = " + ".join(
        code(term) if weight == 1.0 else f"{plain(weight)} {code(term)}" for term, weight in rewarded.items()
    )
    alpha = f", `alpha` {plain(reward.alpha)}" if "alpha" in shipped("reward", name) else ""
    low, high = (sum(w * getattr(TERMS[term], end) for term, w in rewarded.items()) for end in ("low", "high"))
    text = (FOLDER / "conf" / "reward" / f"{name}.yaml").read_text(encoding="utf-8")
    comments = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return [code(name), formula + alpha, f"{plain(low)} to {plain(high)}", comments]


def relation(name: str, presets: Sequence[str]) -> list[str]:
    """Return a row: the parts of the score beside mean rewards, of a run of bbr with its preset."""
    scenario = bbrgym.load_scenario(name)
    terms = {**dict.fromkeys(TERMS, 0.0), "alpha": Reward("alpha_fair").alpha}
    env = gymnasium.make("bbrgym/Tune-v1", world="twin", scenario=name, variant="bbr", reward=terms).unwrapped
    _, info = env.reset(seed=1)
    seen, truncated, warmup_s = [], False, scenario.resolved().warmup_s
    while not truncated:
        is_counted = info["now_s"] >= warmup_s - 1e-9
        *_, truncated, info = env.step(env.default_action)
        seen += [info["reward_terms"]] if is_counted else []
    vector = env._batch.worlds
    score, goodput = (
        score_of_run(vector.scenarios[0], vector.flow_summary_fields, vector.summary(0)[0], delta=delta)
        for delta in (0.5, 0.0)
    )
    env.close()
    means = {term: np.array([np.mean([each[term] for each in seen])]) for term in TERMS}
    rewards_of_presets = [
        Reward(preset).total({term: means[term] for term in Reward(preset).weights})[0] for preset in presets
    ]
    numbers = [score, goodput, means["throughput"][0], score - goodput, 0.5 * means["delay"][0], *rewards_of_presets]
    return [code(name), *(f"{number + 0.0:.2f}" for number in np.round(numbers, 2))]


# ---- what sources say ---------------------------------------------------------------------------------


class Source:
    """A module of the environments, parsed without import, since some need extras."""

    def __init__(self, name: str) -> None:
        self._tree = ast.parse((FOLDER / "envs" / name).read_text(encoding="utf-8"))

    def explanation(self) -> str:
        """Return the module's docstring without its first line."""
        return (ast.get_docstring(self._tree) or "").partition("\n\n")[2]

    def docstring(self, name: str) -> str:
        """Return the docstring of a class, its headings below the page's and its attributes as a list."""
        text = ast.get_docstring(self._class(name)) or ""
        text = re.sub(r"^## ", "### ", text, flags=re.MULTILINE)
        text, found, attributes = text.partition("Attributes:\n")
        listed = "".join(f"- `{name}`: {meaning}\n" for name, meaning in entries(attributes).items())
        return text.replace("``", "`") + (f"Attributes:\n\n{listed}" if found else "")

    def fields(self, name: str) -> str:
        """Return the fields of a class of options as a table."""
        node = self._class(name)
        _, _, attributes = (ast.get_docstring(node) or "").partition("Attributes:\n")
        meanings = entries(attributes)
        return markdown_table(
            ["argument", "default", "type", "meaning"],
            (
                [
                    code(field.target.id),
                    code(default(field.value)),
                    ast.unparse(field.annotation),
                    meanings[field.target.id],
                ]
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None
            ),
        )

    def _class(self, name: str) -> ast.ClassDef:
        return next(node for node in self._tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def default(value: ast.expr) -> str:
    text = repr(getattr(worlds, value.id)) if isinstance(value, ast.Name) else ast.unparse(value)
    text = text.replace("field(default_factory=dict)", "{}")
    return text.replace("AutoresetMode.NEXT_STEP", "NextStep").replace("'", '"')


def entries(attributes: str) -> dict[str, str]:
    """Return the entries of a docstring's list by name."""
    found = re.split(r"\n(?=\w)", "\n" + textwrap.dedent(attributes).rstrip())
    pairs = (entry.split(":", 1) for entry in found if ":" in entry)
    return {name.strip(): " ".join(meaning.split()).removesuffix(".").replace("``", "`") for name, meaning in pairs}
