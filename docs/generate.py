# SPDX-License-Identifier: GPL-2.0-only
"""Write the generated parts of the documentation.

usage: python docs/generate.py [--check]

With --check nothing is written; it fails if something differs from what would be.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from environments import Source, environment_blocks, shown_docstring
from pieces import code, plain, with_block
from pydantic import BaseModel

import bbrgym
from bbrgym.envs.documentation import parse_attributes
from bbrgym.evaluate.bench.results import read_results
from bbrgym.ns3gym import command
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.page import papers_page
from bbrgym.report.bench_table import bench_tables
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario import checks, distribution, flow, link, model, queue, stack
from bbrgym.scenario.distribution import SPLITS
from bbrgym.tunables import BASES, SWITCHES, Variant
from bbrgym.worlds import registered_worlds
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
MODELS: tuple[type[BaseModel], ...] = (
    model.Scenario,
    link.Link,
    link.ReverseLink,
    queue.Policer,
    queue.Queue,
    queue.Red,
    queue.CoDel,
    link.Bernoulli,
    link.GilbertElliott,
    link.Jitter,
    link.AckSlots,
    link.AckBursts,
    link.Trace,
    link.DelayTrace,
    link.Change,
    link.WifiHop,
    link.LteHop,
    flow.Flow,
    stack.SenderStack,
    flow.Cbr,
    flow.Bulk,
    flow.OnOff,
    flow.ShortFlow,
    checks.ScenarioCheck,
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing, fail if something differs")
    is_check = parser.parse_args(arguments).check
    blocks = {
        "bench/README.md": bench_blocks(),
        "docs/environments.md": environment_blocks(),
        "docs/ns3gym.md": ns3gym_blocks(),
        "docs/scenarios.md": scenario_blocks(),
        "docs/stacks.md": stack_blocks(),
        "docs/training.md": {"options": options()},
        "docs/variants.md": variant_blocks(),
        "docs/worlds.md": world_blocks(),
    }
    pages = {ROOT / page: filled(ROOT / page, of_page) for page, of_page in blocks.items()} | {
        ROOT / "docs" / "papers.md": papers_page(ROOT / "docs", select_experiments(None, [])),
    }
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if is_check:
        sys.stderr.writelines(
            f"{path.relative_to(ROOT)} is not what docs/generate.py writes: make docs\n" for path in stale
        )
        return 1 if stale else 0
    for path in stale:
        path.write_text(pages[path], encoding="utf-8")
    return 0


# ---- pages --------------------------------------------------------------------------------------------


def filled(page: Path, blocks: Mapping[str, str]) -> str:
    """Return a page with its generated parts."""
    text = page.read_text(encoding="utf-8")
    for name, block in blocks.items():
        text = with_block(text, name, block.rstrip("\n"))
    return text


def bench_blocks() -> dict[str, str]:
    files = {path.name: read_results(path) for path in sorted((ROOT / "bench").glob("*.json"))}
    return dict(zip(("entries", "deployable"), bench_tables(files), strict=True))


def variant_blocks() -> dict[str, str]:
    return {
        "variants": variants_table(bbrgym.VARIANTS.values()),
        "presets": presets_text(),
        "tunables": markdown_table(
            ["tunable", "symbol", "unit", "default", "range", "scale", "source"],
            (
                [
                    code(t.name),
                    t.symbol,
                    t.unit,
                    plain(t.default),
                    f"{plain(t.low)} to {plain(t.high)}",
                    t.scale,
                    t.source,
                ]
                for t in bbrgym.TUNABLES.values()
            ),
        ),
    }


def scenario_blocks() -> dict[str, str]:
    def listed(names: Iterable[str]) -> str:
        folder = Path(str(bbrgym.__path__[0])) / "conf" / "scenario"
        texts = {name: (folder / f"{name}.yaml").read_text(encoding="utf-8") for name in names}
        return markdown_table(["name", "what it is"], ([code(name), comment(text)] for name, text in texts.items()))

    return {
        "scenarios": listed(bbrgym.scenario_names()),
        "distribution": inspect.getdoc(distribution) or "",
        "splits": markdown_table(
            ["split", "seeds"], ([name, f"{seeds.start} to {seeds.stop - 1}"] for name, seeds in SPLITS.items())
        ),
        "distributions": listed(bbrgym.distribution_names()),
        "fields": "\n\n".join(f"### {part.__name__}\n\n{summary(part)}\n\n{fields_table(part)}" for part in MODELS),
    }


def stack_blocks() -> dict[str, str]:
    facts = stack.STACK_FACTS.values()
    return {
        "traced": stand_in_text("linux-4.9", "linux-4.11"),
        **{layer: facts_table([fact for fact in facts if fact.layer == layer]) for layer in ("algorithm", "socket")},
    }


def stand_in_text(preset: str, traced: str) -> str:
    """Return which kernel's traces stand for a preset that none was recorded from.

    Raises:
        ValueError: a fact of the algorithm differs between them, so they do not.
    """
    differ = [fact for fact in stack.STACK_FACTS.values() if fact.presets[preset] != fact.presets[traced]]
    names = ", ".join(code(fact.name) for fact in differ)
    if any(fact.layer == "algorithm" for fact in differ):
        raise ValueError(f"{preset} and {traced} differ in {names}, expected facts of the sockets alone")
    version, of = (name.removeprefix("linux-") for name in (preset, traced))
    return (
        f"No trace is of Linux {version}: each fact of the algorithm is equal in {code(preset)} and {code(traced)}, so "
        f"{of}'s traces back both; they differ in facts of the sockets alone ({names})."
    )


def facts_table(facts: Sequence[stack.StackFact]) -> str:
    """Return the table of facts: default, other values with the presets that have them, meaning, source."""
    first, *others = stack.STACK_PRESETS

    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def other_values(fact: stack.StackFact) -> str:
        of: dict[str, list[str]] = {}
        for preset in others:
            if fact.presets[preset] != fact.presets[first]:
                of.setdefault(text(fact.presets[preset]), []).append(preset.removeprefix("linux-"))
        parts = [f"{value}: {', '.join(presets)}" for value, presets in of.items()]
        if fact.kind in ("number", "size"):
            parts.append(f"{fact.low} to {fact.high} {fact.unit}")
        parts += [choice for choice in fact.choices if choice not in (*of, text(fact.presets[first]))]
        return "; ".join(parts)

    return markdown_table(
        ["fact", code(first), "other values", "meaning", "source"],
        ([code(fact.name), text(fact.presets[first]), other_values(fact), fact.meaning, fact.source] for fact in facts),
    )


def options() -> str:
    """Return the files of options of a training, their comments first; of a group a line is shown once."""
    shown = [shown_file(CONF / "train.yaml")]
    for group in ("env", "observation", "action"):
        seen: set[str] = set()
        for file in sorted((CONF / group).glob("*.yaml")):
            lines = shown_file(file).splitlines()
            shown.append("\n".join(line for line in lines if line not in seen))
            seen |= {line for line in lines if line and not line.startswith("`")}
    return "\n\n".join(shown)


def ns3gym_blocks() -> dict[str, str]:
    source = Source("ns3gym_env.py")
    return {
        "environment": shown_docstring(source.docstring("Ns3GymEnv")),
        "arguments": markdown_table(["argument", "default", "meaning"], source.fields("Ns3GymOptions")),
        "command": (inspect.getdoc(command) or "").partition("\n\n")[2].replace("``", "`"),
    }


def shown_file(file: Path) -> str:
    """Return a file of conf/: its comment, and the rest."""
    text = file.read_text(encoding="utf-8")
    return f"`conf/{file.relative_to(CONF)}`: {comment(text)}\n\n```yaml\n{without_comment(text)}```"


def world_blocks() -> dict[str, str]:
    columns = ["field", "unit", "seen by", "meaning"]

    def fields(rows: Iterable[tuple[str, str, str, str]]) -> str:
        return markdown_table(columns, ([code(name), unit, seen_by, meaning] for name, unit, seen_by, meaning in rows))

    return {
        "worlds": markdown_table(
            ["world", "what it is"], ([code(name), spec.meaning] for name, spec in registered_worlds().items())
        ),
        "flow-fields": fields(FLOW_FIELDS),
        "link-fields": fields(LINK_FIELDS),
        "flow-summary-fields": fields(FLOW_SUMMARY_FIELDS),
        "link-summary-fields": fields(LINK_SUMMARY_FIELDS),
    }


def variants_table(variants: Iterable[Variant]) -> str:
    return markdown_table(
        ["variant", "tunables", "source"], ([code(v.name), own_tunables(v), v.source] for v in variants)
    )


# ---- pieces -------------------------------------------------------------------------------------------


def presets_text() -> str:
    """Return the values of presets that are not the defaults, which ratios are to 1/65536."""
    texts: list[str] = []
    for variant in bbrgym.VARIANTS.values():
        defaults = {name: bbrgym.TUNABLES[name].default for name in variant.preset}
        own = [(name, value) for name, value in variant.preset.items() if abs(value - defaults[name]) > 2**-16]
        if own:
            values = ", ".join(f"{code(name)} ({plain(value)})" for name, value in own)
            texts.append(f"of {code(variant.name)} {'in' if texts else 'differs from the defaults in'} {values}")
    return f"The preset {', that '.join(texts)}."


def own_tunables(variant: Variant) -> str:
    if not variant.preset:
        return "none"
    base = BASES.get(variant.algorithm, variant.name)
    if variant.name == base:
        return ", ".join(map(code, shortened(variant.preset)))
    own = [name for name in variant.preset if name not in bbrgym.VARIANTS[base].preset]
    if set(own) >= set(SWITCHES.values()):
        return f"those of {code(base)}, of all mechanisms, and these' switches"
    return ", ".join([f"those of {code(base)}", *map(code, shortened(own))])


def shortened(names: Iterable[str]) -> Iterable[str]:
    """Return names of tunables, with all that begin alike as one: ``bbq_*``."""

    def alike(name: str) -> set[str]:
        return {one for one in bbrgym.TUNABLES if one.split("_")[0] == name.split("_")[0]}

    given = list(names)
    return dict.fromkeys(f"{name.split('_')[0]}_*" if {name} < alike(name) <= {*given} else name for name in given)


def comment(text: str) -> str:
    of_hydra = "# @package "
    lines = [line for line in text.splitlines() if line.startswith("#") and not line.startswith(of_hydra)]
    lines = [line.removeprefix("#").strip() for line in lines]
    return re.sub(r"(scenario\.[\w.]+=[\w./-]+)", r"`\1`", " ".join(lines))


def without_comment(text: str) -> str:
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith("#"))


def docstring_of(model: type[BaseModel]) -> str:
    """Return the docstring of a model without its example."""
    return (model.__doc__ or "").partition("    Example:\n")[0]


def summary(model: type[BaseModel]) -> str:
    return " ".join(docstring_of(model).split("Attributes:")[0].split()).replace("``", "`")


def fields_table(model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    meanings = parse_attributes(docstring_of(model).partition("Attributes:\n")[2])
    required = schema.get("required", [])
    return markdown_table(
        ["field", "default", "allowed", "meaning"],
        (
            [
                code(name),
                "required" if name in required else default(model, name),
                allowed(model, name, field, schema.get("$defs", {})),
                meanings.get(name, ""),
            ]
            for name, field in schema["properties"].items()
        ),
    )


def default(part: type[BaseModel], name: str) -> str:
    value = part.model_fields[name].get_default(call_default_factory=True)
    if isinstance(value, stack.SenderStack):
        return code(stack.STACK_PRESETS[0]) if part is model.Scenario else "-"
    if isinstance(value, BaseModel):
        return code(f"kind: {value.model_dump()['kind']}")
    if value is None:
        return "-"
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(str(value)) if value not in ((), {}) else "none"


def allowed(model: type[BaseModel], name: str, field: dict[str, Any], definitions: dict[str, Any]) -> str:
    options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
    option = options[0]
    if "discriminator" in option:
        kinds = [definitions[ref["$ref"].rsplit("/", 1)[1]]["properties"]["kind"]["const"] for ref in option["oneOf"]]
        return f"kind {', '.join(kinds)}"
    if "$ref" in option:
        return option["$ref"].rsplit("/", 1)[1]
    if "enum" in option or "const" in option:
        return ", ".join(map(str, option.get("enum", [option.get("const")])))
    if option.get("type") == "array":
        items = option["items"]
        of = "texts" if items.get("type") == "string" else "numbers"
        return f"list of {items['$ref'].rsplit('/', 1)[1] if '$ref' in items else of}"
    kind = option["type"]
    if kind not in ("number", "integer"):
        return {"string": "text", "boolean": "true, false", "object": "mapping"}[kind]
    limits = bounds(model.model_fields[name])
    text = " and ".join(f"{sign} {plain(bound)}" for sign, bound in sorted(limits.items(), reverse=True))
    if limits.keys() == {">=", "<="}:
        text = f"{plain(limits['>='])} to {plain(limits['<='])}"
    return f"whole, {text}" if kind == "integer" else text or "number"


def bounds(part: Any) -> dict[str, float]:
    """Return the bounds of a field anywhere in its annotation; the first of a kind counts."""
    found = {
        sign: getattr(part, name)
        for name, sign in {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}.items()
        if isinstance(getattr(part, name, None), int | float)
    }
    inner = [*getattr(part, "metadata", ()), *getattr(part, "__metadata__", ()), getattr(part, "annotation", None)]
    for each in [*inner, *get_args(part)]:
        if each is not None:
            found = bounds(each) | found
    return found


if __name__ == "__main__":
    sys.exit(main())
