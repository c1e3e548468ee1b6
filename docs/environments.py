# SPDX-License-Identifier: GPL-2.0-only
"""The page of the environments: docstrings, arguments, actions, observations, and rewards beside the score."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

import gymnasium
import numpy as np
from pieces import code, page, plain, table

import bbrgym
from bbrgym import worlds
from bbrgym.envs.critic import BASE_RTT, FLOW_FEATURES, LINK_FEATURES
from bbrgym.envs.discrete import MOST_COMBINATIONS
from bbrgym.envs.features import Feature
from bbrgym.envs.observation import FEATURES, SOURCES
from bbrgym.envs.reward import Reward, reward_names, reward_preset
from bbrgym.envs.scaling import NOT_BELOW, TunableScaling
from bbrgym.envs.terms import TERMS
from bbrgym.worlds.score import score_of_run

FOLDER = Path(str(bbrgym.__path__[0]))
EXAMPLE = """
import gymnasium
import bbrgym

env = gymnasium.make(
    "bbrgym/Tune-v0",
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
One controller for all learner flows (`bbrgym/Tune-v0`), or one for each of them (`bbrgym/TuneMulti-v0`); both also
many at once. All take the same [arguments](#arguments), have the same [actions](#actions), see the same
[features](#observations) and are paid by the same [rewards](#rewards). Simulations of ns3-gym's are driven by
[`bbrgym/Ns3Gym-v0`](ns3gym.md)."""
KEYWORDS = """\
All are keywords; `num_envs` and `num_worlds` may also come first. An unknown one is a `ConfigError` that names the
nearest."""
SENDERS = """\
Of each learner flow, in this order; behind them the setting in force, a coordinate from -1 to 1 for each tunable
brought to [0, 1]. The last column says where a real sender reads the fields: `tcpi_` are fields of Linux's `tcp_info`,
`bbr_` of its `tcp_bbr_info`; the rest is the congestion control's own."""
ONLOOKER = """\
With `critic=True`, and in `TuneMultiEnv.state()`: of the last interval the link's features, then those of the learner
flows as `view` has them."""
TERMS_AND_WEIGHTS = """\
A weighted sum of terms. `reward` names a preset of `conf/reward/` or gives weights by term; a term of weight 0 is
shown in `reward_terms` but not paid. Means are over the active learner flows; without one all terms but `change` are
0. Fair share is the world's `fair_share_mbps`; where it is 0, goodput counts as the fair share. A flow without an RTT
sample yet counts as at its base RTT."""
REWARD_AND_SCORE = """\
Of a run in which rates and RTTs do not vary, each interval pays a function of the score: `proportional` the score
itself, so does `alpha_fair` with `alpha: 1`; `power` pays 2 to the power of what would be the score at delta 1, and
`goodput` (without anything sent again) 2 to the power of its part that is the goodput's. Where they vary, the score
takes logarithms of means and a reward means of logarithms, so (by Jensen's inequality, for a single learner flow whose
fair share is constant)"""
HOW_FAR = """\
How far that is, of `bbr` in the twin with seed 1 and steps of 0.1 s, over the intervals after the warm-up; on the
steady link the mean of `proportional` is within 0.04 of the score. Short intervals on slow, crowded or changing links
pay for evenness that the score does not see: a flow that delivers nothing for an interval is paid -6 for it. Longer
ones (`control_interval_s`) are nearer to the score."""
LAWS = """\
- the mean of `throughput` is at most the goodput's part of the score, log2 of the mean of `goodput` equals it;
- the mean of 0.5 `delay` is at least the RTT's part of the score, but for how RTT samples spread over the intervals;
- log2 of the mean of `power` is at least the sum of the means of `throughput` and `delay`;
- the mean of `alpha_fair` falls with alpha and is that of `throughput` at 1."""


def environments_page() -> str:
    tune, vector, vec = Source("tune_env.py"), Source("tune_vector_env.py"), Source("tune_vec_env.py")
    multi, flows, flow_vec = Source("multi.py"), Source("flow_batch.py"), Source("flow_vec_env.py")
    options = Source("options.py")
    return page(
        "Environments",
        INTRODUCTION,
        f"```python\n{EXAMPLE.strip()}\n```",
        "## bbrgym/Tune-v0",
        '`gymnasium.make("bbrgym/Tune-v0", ...)`',
        tune.docstring("TuneEnv"),
        "## bbrgym/Tune-v0, many at once",
        "See [vectors.md](vectors.md) too.",
        "### For Gymnasium",
        vector.docstring("TuneVectorEnv"),
        "### For Stable-Baselines3",
        vec.docstring("TuneVecEnv"),
        "## bbrgym/TuneMulti-v0",
        "`bbrgym.envs.multi.parallel_env(...)`",
        multi.docstring("TuneMultiEnv"),
        "## bbrgym/TuneMulti-v0, many at once",
        flow_vec.docstring("FlowVecEnv"),
        "## Arguments",
        KEYWORDS,
        options.fields("Options"),
        "`gymnasium.make_vec` takes beside these:",
        vector.fields("VectorOptions"),
        "`bbrgym.envs.tune_vec_env.TuneVecEnv`:",
        vec.fields("VecOptions"),
        "`bbrgym.envs.multi.parallel_env`:",
        flows.fields("FlowOptions"),
        "`bbrgym.envs.flow_vec_env.FlowVecEnv` these and:",
        flow_vec.fields("FlowVecOptions"),
        *actions(),
        *observations(),
        *rewards(),
    )


# ---- parts --------------------------------------------------------------------------------------------


def actions() -> Iterable[str]:
    yield "## Actions"
    yield Source("action.py").explanation()
    yield table(
        ["`action_kind`", "and", "space", "an action says of each tunable", "the default action"],
        [
            ["`absolute`", "", "`Box(-1, 1, (tunables,))`", "its coordinate", "the variant's own setting"],
            ["", "`levels=n`", "`MultiDiscrete`", "one of n levels, or of all its values", "the nearest to that"],
            ["`relative`", "", "`Box(-1, 1, (tunables,))`", "how far it moves, in `step_size`", "0: stay"],
            [
                "",
                "`levels=n`, odd",
                "`MultiDiscrete`",
                "one of n levels of that, or down, stay, up",
                "the middle: stay",
            ],
            [
                "any",
                "`levels=n, flat=True`",
                "`Discrete`",
                f"one number for all, up to {MOST_COMBINATIONS}",
                "as above",
            ],
        ],
    )
    squeezed = " ".join(
        f"`{upper}` runs from `{lower}` on where that is above its own low, so that they stay ordered."
        for upper, lower in NOT_BELOW.items()
    )
    yield f"A coordinate runs through the tunable's range; whole numbers have equal parts of it. {squeezed}"
    every = TunableScaling("bbr-mix")
    at = [every.values(np.full(len(every.names), x, np.float32)) for x in (-1, 0, 1)]
    yield table(
        ["tunable", "unit", "scale", "at -1", "at 0", "at 1", "values", "variants"],
        (
            [
                code(name),
                bbrgym.TUNABLES[name].unit,
                bbrgym.TUNABLES[name].scale if not count else "whole",
                *(plain(float(f"{values[index]:.4g}")) for values in at),
                str(count) if count else "",
                ", ".join(code(v.name) for v in bbrgym.VARIANTS.values() if name in v.preset),
            ]
            for index, (name, count) in enumerate(zip(every.names, every.value_counts.tolist(), strict=True))
        ),
    )


def observations() -> Iterable[str]:
    yield "## Observations"
    yield Source("features.py").explanation()
    yield "### What the senders know"
    yield SENDERS
    yield features_table(FEATURES, SOURCES)
    yield "### What only an onlooker knows"
    yield ONLOOKER
    yield features_table(LINK_FEATURES)
    yield features_table(FLOW_FEATURES, first=len(LINK_FEATURES))


def features_table(features: Sequence[Feature], sources: dict[str, str] | None = None, first: int = 0) -> str:
    def row(index: int, feature: Feature) -> list[str]:
        fields = [feature.field] if feature.per is None else [feature.field, feature.per]
        known = [] if sources is None else ["; ".join(dict.fromkeys(sources[field] for field in fields))]
        shown = " / ".join(code(field) if field != BASE_RTT else "the scenario's `rtt_ms`" for field in fields)
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

    headings = ["index", "feature", "meaning", "of the world's", "unit", "normaliser", "low", "high"]
    return table(
        headings + ([] if sources is None else ["a sender reads it from"]),
        (row(index, feature) for index, feature in enumerate(features)),
    )


def rewards() -> Iterable[str]:
    yield "## Rewards"
    yield TERMS_AND_WEIGHTS
    yield table(
        ["term", "formula", "unit", "low", "high"],
        ([code(name), term.formula, term.unit, plain(term.low), plain(term.high)] for name, term in TERMS.items()),
    )
    yield "### Presets"
    yield table(["preset", "reward", "range", "what it is"], (preset_row(name) for name in reward_names()))
    yield "### Rewards and the score"
    yield REWARD_AND_SCORE
    yield LAWS
    yield HOW_FAR
    names = reward_names()
    yield table(
        ["scenario", "score", "of it goodput", "mean `throughput`", "of it RTT", "0.5 mean `delay`", *map(code, names)],
        (relation(scenario, names) for scenario in bbrgym.scenario_names()),
    )


def preset_row(name: str) -> list[str]:
    reward = Reward(name)
    paid = {term: weight for term, weight in reward.weights.items() if weight}
    formula = " + ".join(
        code(term) if weight == 1.0 else f"{plain(weight)} {code(term)}" for term, weight in paid.items()
    )
    alpha = f", `alpha` {plain(reward.alpha)}" if "alpha" in reward_preset(name) else ""
    low, high = (sum(w * getattr(TERMS[term], end) for term, w in paid.items()) for end in ("low", "high"))
    text = (FOLDER / "conf" / "reward" / f"{name}.yaml").read_text(encoding="utf-8")
    comments = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return [code(name), formula + alpha, f"{plain(low)} to {plain(high)}", comments]


def relation(name: str, presets: Sequence[str]) -> list[str]:
    """Return a row: the parts of the score beside mean rewards, of a run of bbr with its preset."""
    scenario = bbrgym.load_scenario(name)
    terms = {**dict.fromkeys(TERMS, 0.0), "alpha": Reward("alpha_fair").alpha}
    env = gymnasium.make("bbrgym/Tune-v0", world="twin", scenario=name, variant="bbr", reward=terms).unwrapped
    _, info = env.reset(seed=1)
    seen, truncated, warmup_s = [], False, scenario.resolved().warmup_s
    while not truncated:
        is_counted = info["now_s"] >= warmup_s - 1e-9
        *_, truncated, info = env.step(env.default_action)
        seen += [info["reward_terms"]] if is_counted else []
    worlds = env._batch.worlds
    score, goodput = (
        score_of_run(worlds.scenarios[0], worlds.flow_summary_fields, worlds.summary(0)[0], delta=delta)
        for delta in (0.5, 0.0)
    )
    env.close()
    means = {term: np.array([np.mean([each[term] for each in seen])]) for term in TERMS}
    paid = [Reward(preset).total({term: means[term] for term in Reward(preset).weights})[0] for preset in presets]
    numbers = [score, goodput, means["throughput"][0], score - goodput, 0.5 * means["delay"][0], *paid]
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
        return table(
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
