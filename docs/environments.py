# SPDX-License-Identifier: GPL-2.0-only
"""Generated parts of the page of the environments: docstrings, arguments, observations, rewards."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from pieces import code, plain

import bbrgym
from bbrgym import worlds
from bbrgym.envs.critic import BASE_RTT, FLOW_FEATURES, LINK_FEATURES
from bbrgym.envs.documentation import parse_attributes
from bbrgym.envs.features import Feature
from bbrgym.envs.observation import FEATURES, SOURCES
from bbrgym.envs.reward import Reward
from bbrgym.envs.terms import TERMS
from bbrgym.report.markdown import markdown_table
from bbrgym.targets import shipped, shipped_names

FOLDER = Path(str(bbrgym.__path__[0]))


def environment_blocks() -> dict[str, str]:
    """Return the generated parts of the page of the environments, by name."""
    tune, vector, vec = Source("tune_env.py"), Source("tune_vector_env.py"), Source("tune_vec_env.py")
    multi, flows, flow_vec = Source("multi.py"), Source("flow_batch.py"), Source("flow_vec_env.py")
    options = [
        ("", Source("options.py").fields("Options")),
        ("`gymnasium.make_vec`", vector.fields("VectorOptions")),
        ("`TuneVecEnv`", vec.fields("VecOptions")),
        ("`parallel_env`, `FlowVecEnv`", flows.fields("FlowOptions")),
        ("`parallel_env`", flows.fields("MultiOptions")),
        ("`FlowVecEnv`", flow_vec.fields("FlowVecOptions")),
    ]
    return {
        "tune": shown_docstring(tune.docstring("TuneEnv")),
        "vector": shown_docstring(vector.docstring("TuneVectorEnv")),
        "vec": shown_docstring(vec.docstring("TuneVecEnv")),
        "multi": shown_docstring(multi.docstring("TuneMultiEnv")),
        "arguments": markdown_table(
            ["argument", "default", "meaning", "only of"],
            ([*row, where] for where, rows in options for row in rows),
        ),
        "features": features_table(FEATURES),
        "sources": sources_table(FEATURES, SOURCES),
        "link-features": features_table(LINK_FEATURES),
        "flow-features": features_table(FLOW_FEATURES),
        "terms": markdown_table(
            ["term", "formula", "unit", "low", "high"],
            ([code(name), term.formula, term.unit, plain(term.low), plain(term.high)] for name, term in TERMS.items()),
        ),
        "presets": markdown_table(
            ["preset", "reward", "range", "meaning"], (preset_row(name) for name in shipped_names("reward"))
        ),
    }


def shown_docstring(docstring: str) -> str:
    """Return a docstring without its example, arguments and history, with a link in place of its table of features."""
    docstring = re.sub(
        r"The features; .*?(?=\n### Rewards)",
        "[The features](#observations) are each scaled to [0, 1].\n",
        docstring,
        flags=re.DOTALL,
    )
    docstring = re.sub(r"\n### (?:Example|Arguments|Version History)\n.*?(?=\n### |\Z)", "", docstring, flags=re.DOTALL)
    docstring = re.sub(r"\n[^\n]*:\n\n    >>> .*?(?=\n\n|\Z)", "", docstring, flags=re.DOTALL)
    return docstring.strip()


# ---- tables -------------------------------------------------------------------------------------------


def features_table(features: Sequence[Feature]) -> str:
    def row(feature: Feature) -> list[str]:
        operands = [str(each) for each in (feature.field, feature.per) if each is not None]
        shown = " / ".join(code(each) if each != BASE_RTT else "the scenario's `rtt_ms`" for each in operands)
        scale = feature.scale, plain(feature.low), plain(feature.high)
        return [code(feature.name), feature.meaning, shown, feature.unit, *scale]

    return markdown_table(["feature", "meaning", "field", "unit", "scale", "low", "high"], map(row, features))


def sources_table(features: Sequence[Feature], sources: dict[str, str]) -> str:
    fields = {field: feature.name for feature in features for field in feature.fields}
    for field, name in fields.items():
        if field not in sources:
            raise SystemExit(f"feature {name}: field {field} has no row in SOURCES of envs/observation.py")
    return markdown_table(["field", "source in a sender"], ([code(field), sources[field]] for field in fields))


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


# ---- what sources say ---------------------------------------------------------------------------------


class Source:
    """A module of the environments, parsed without import, since some need extras."""

    def __init__(self, name: str) -> None:
        self._tree = ast.parse((FOLDER / "envs" / name).read_text(encoding="utf-8"))

    def docstring(self, name: str) -> str:
        """Return the docstring of a class, its headings below the page's and its attributes as a list."""
        text = ast.get_docstring(self._class(name)) or ""
        text = re.sub(r"^## ", "### ", text, flags=re.MULTILINE)
        text, found, attributes = text.partition("Attributes:\n")
        listed = "".join(f"- `{name}`: {meaning}\n" for name, meaning in parse_attributes(attributes).items())
        return text.replace("``", "`") + (f"Attributes:\n\n{listed}" if found else "")

    def fields(self, name: str) -> list[list[str]]:
        """Return a row for each field of a class of options: its name, default and meaning."""
        node = self._class(name)
        _, _, attributes = (ast.get_docstring(node) or "").partition("Attributes:\n")
        meanings = parse_attributes(attributes)
        return [
            [code(field.target.id), code(default(field.value)), meanings[field.target.id]]
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value is not None
        ]

    def _class(self, name: str) -> ast.ClassDef:
        return next(node for node in self._tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def default(value: ast.expr) -> str:
    text = repr(getattr(worlds, value.id)) if isinstance(value, ast.Name) else ast.unparse(value)
    text = text.replace("field(default_factory=dict)", "{}")
    return text.replace("AutoresetMode.NEXT_STEP", "NextStep").replace("'", '"')
