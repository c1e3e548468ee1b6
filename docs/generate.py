# SPDX-License-Identifier: GPL-2.0-only
"""Write the generated pages and parts of pages of the documentation, and README's table of variants.

usage: python docs/generate.py [--check]

With --check nothing is written; it fails if something differs from what would be.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from environments import Source, environments_page, multi_module, tune_env_module
from pieces import code, page, plain, with_block
from pydantic import BaseModel

import bbrgym
from bbrgym.ns3gym import command
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.report import papers_page
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario import checks, distribution, flow, link, model, queue, stack
from bbrgym.tunables import BASES, SWITCHES, Variant
from bbrgym.worlds import registered_worlds
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
MODELS: tuple[type[BaseModel], ...] = (
    model.Scenario,
    link.Link,
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
    pages = {
        ROOT / "docs" / "variants.md": variants_page(),
        ROOT / "docs" / "scenarios.md": scenarios_page(),
        ROOT / "docs" / "stacks.md": stacks_page(),
        ROOT / "docs" / "worlds.md": worlds_page(),
        ROOT / "docs" / "papers.md": papers_page(ROOT / "docs", select_experiments(None, [])),
        ROOT / "docs" / "environments.md": environments_page(),
        ROOT / "envs" / "tune_env.py": tune_env_module((ROOT / "envs" / "tune_env.py").read_text(encoding="utf-8")),
        ROOT / "envs" / "multi.py": multi_module((ROOT / "envs" / "multi.py").read_text(encoding="utf-8")),
        ROOT / "docs" / "training.md": training_page((ROOT / "docs" / "training.md").read_text(encoding="utf-8")),
        ROOT / "docs" / "ns3gym.md": ns3gym_page((ROOT / "docs" / "ns3gym.md").read_text(encoding="utf-8")),
        ROOT / "README.md": with_block((ROOT / "README.md").read_text(encoding="utf-8"), "variants", readme_variants()),
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


def variants_page() -> str:
    return page(
        "Variants and tunables",
        "Each published idea is a mechanism that hooks into BBR v1; a variant is a set of mechanisms with every "
        "tunable at the paper's value. `bbr-mix` may have any: there the mechanisms' switches are tunables too, so "
        "every variant of v1 is one point of its space. [bbr3.md](bbr3.md) is about BBRv3. "
        "Names with `ns3-` run ns-3's own code, as it is, "
        "to compare, in the ns3 world alone: `bbrgym evaluate world=ns3 'variants=[bbr,ns3-bic,ns3-vegas]'`.",
        "## Variants",
        variants_table(all_variants()),
        "The goodput of BBR-ACD, as published, does not fall steadily with random loss. At 20 Mbit/s, 50 ms and a "
        "queue of 2 BDP it has 11.0 Mbit/s at 2 % and 15.9 at 5 % (means of six seeds of 60 s; BBR: 18.6 and "
        "17.7). The cut acts only in the first round of a recovery (figure 7). `bbrgym trace` shows 4.9 recoveries"
        " a second at 2 %, most of them cut to 4 packets, so the window is 8 packets or fewer for 42 % of the "
        "time. At 5 % the next loss comes before a recovery ends: 1.1 recoveries a second, which last for 96 % of "
        "the time, so cuts are few. The authors' class cuts until each recovery ends (`acd_verdict=1`) and has 8.4"
        " and 5.8 Mbit/s.",
        "## Tunables",
        "Values in natural units: `us` are microseconds, a `ratio` is a plain number, `mode` and `switch` are whole. "
        "The preset of `bbr-pg-inv` differs from the defaults in `pg_gain_exponent`, which is -1, that of `bbr2` in "
        f"{preset_of_bbr2()}; a variant with a "
        "mechanism has the switches of `bbr-mix` set accordingly.",
        markdown_table(
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
    )


def scenarios_page() -> str:
    parts = [
        "A scenario is one bottleneck link and the flows that share it. `bbrgym.load_scenario` takes a shipped one's "
        "name, a YAML or JSON file or a mapping; on the command line every field can be overridden, for example "
        "`scenario.link.rate_mbps=50` or `scenario.flows.0.rtt_ms=20`. Learner flows take the evaluated variant. "
        "`bbrgym scenario NAME` prints one with every default written out, `bbrgym scenario NAME draw=5 split=test` a "
        "distribution's draw, counted from 0.",
        "Scenarios of `nsperf_*` are the suites by which google/bbr is evaluated, those of `rfc9743_*` the headings of "
        "RFC 9743 that a scenario can have. They, and `policer`, have `checks`, which `bbrgym evaluate` reports as "
        "[passed or failed](evaluation.md#checks). The bounds say where an algorithm leaves what people expect; no "
        "standard gives such numbers, and none is expected to pass all.",
        "## Shipped scenarios",
    ]
    for name in bbrgym.scenario_names():
        text = (Path(str(bbrgym.__path__[0])) / "conf" / "scenario" / f"{name}.yaml").read_text(encoding="utf-8")
        parts += [f"### {name}", comment(text), f"```yaml\n{without_comment(text)}```"]
    parts += [
        "## Distributions",
        inspect.getdoc(distribution) or "",
        splits_text(),
    ]
    for name in bbrgym.distribution_names():
        text = (Path(str(bbrgym.__path__[0])) / "conf" / "scenario" / f"{name}.yaml").read_text(encoding="utf-8")
        parts += [f"### {name}", comment(text), f"```yaml\n{without_comment(text)}```"]
    parts += [
        "## Fields",
        "Numbers must be finite, and of their type: a text or `true` is no number. Rates of links count IP bytes "
        "(payload and 40 bytes a packet), rates of applications payload.",
    ]
    for part in MODELS:
        parts += [f"### {part.__name__}", summary(part), fields_table(part)]
    return page("Scenarios", *parts)


def stacks_page() -> str:
    presets = stack.STACK_PRESETS
    algorithm = [fact for fact in stack.STACK_FACTS.values() if fact.layer == "algorithm"]
    socket = [fact for fact in stack.STACK_FACTS.values() if fact.layer == "socket"]
    return page(
        "Stacks",
        "A sender's stack is a generation of Linux, or ns-3's: a set of facts about its congestion control and its "
        "sockets. A scenario names a preset (`stack: linux-4.11`), and any fact may differ from it, for all flows "
        "or for one (`stack: {preset: linux-4.11, min_rtt_rule: below}`). A flow's mapping without `preset` changes "
        "the scenario's stack. The default is `linux-6`.",
        "## Facts of the algorithm",
        "BBR and its variants, in `cc/`. With the facts of a generation, `cc/` gives the windows, pacing rates and "
        "phases of its tcp_bbr.c event for event (tests/cc/test_kernel.py, traces recorded from Linux 4.11, 4.14 and "
        "6.x). "
        + stand_in_text("linux-4.9", "linux-4.11")
        + " The departures that remain: bandwidth is in bytes per second, not 2^-24 packets per microsecond, so "
        "that a rounded rate may differ by one unit of each; times of min_rtt and ProbeRTT are microseconds, not "
        "jiffies; min_rtt is at least 1 us; the pacing rate is at least a packet in 64 s.",
        facts_table(algorithm, presets),
        "## Facts of the sockets",
        "Sender and receiver, in `tcp/`.",
        facts_table(socket, presets),
    )


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


def facts_table(facts: Sequence[stack.StackFact], presets: Sequence[str]) -> str:
    """Return the table of facts: allowed values, the value in each preset, meaning, source."""

    def allowed(fact: stack.StackFact) -> str:
        if fact.kind in ("number", "size"):
            return ", ".join([*fact.choices, f"{fact.low} to {fact.high} {fact.unit}"])
        return "true, false" if fact.kind == "flag" else ", ".join(fact.choices)

    def value(fact: stack.StackFact, preset: str) -> str:
        given = fact.presets[preset]
        return str(given).lower() if fact.kind == "flag" else str(given)

    return markdown_table(
        ["fact", "allowed", *map(code, presets), "meaning", "source"],
        ([code(f.name), allowed(f), *(value(f, preset) for preset in presets), f.meaning, f.source] for f in facts),
    )


def training_page(text: str) -> str:
    """Return the page with its options and hyperparameters."""
    envs = [CONF / "env" / "tune.yaml", CONF / "env" / "multi.yaml"]
    groups = [file for group in ("observation", "action") for file in sorted((CONF / group).glob("*.yaml"))]
    files = [CONF / "train.yaml", *envs, *groups]
    text = with_block(text, "options", "\n\n".join(f"{shown_file(file)}" for file in files))
    agents = sorted((CONF / "agent").glob("*.yaml"))
    return with_block(text, "agents", "\n\n".join(shown_file(file) for file in agents))


def ns3gym_page(text: str) -> str:
    """Return the page with the tables of the environment."""
    source = Source("ns3gym_env.py")
    text = with_block(text, "environment", source.docstring("Ns3GymEnv").rstrip("\n"))
    text = with_block(text, "arguments", source.fields("Ns3GymOptions"))
    return with_block(text, "command", (inspect.getdoc(command) or "").partition("\n\n")[2].replace("``", "`"))


def shown_file(file: Path) -> str:
    """Return a file of conf/: its comment, and the rest."""
    text = file.read_text(encoding="utf-8")
    return f"`conf/{file.relative_to(CONF)}`: {comment(text)}\n\n```yaml\n{without_comment(text)}```"


def splits_text() -> str:
    rows = ([name, f"{seeds.start} to {seeds.stop - 1}"] for name, seeds in distribution.SPLITS.items())
    return (
        "A seed is the number of a draw, and the seed of its run. Each split has its own; nothing may be chosen by "
        "looking at test:\n\n" + markdown_table(["split", "seeds"], rows)
    )


def worlds_page() -> str:
    columns = ["field", "unit", "seen by", "meaning"]

    def fields(rows: Iterable[tuple[str, str, str, str]]) -> str:
        return markdown_table(columns, ([code(name), unit, seen_by, meaning] for name, unit, seen_by, meaning in rows))

    return page(
        "Worlds and what they measure",
        "A world runs one scenario and is driven in control intervals: `bbrgym.make_world(name, scenario, seed)`. "
        "All worlds measure the same fields. What only an omniscient observer can know is marked so; a sender, and "
        "so an agent, does not see it.",
        markdown_table(
            ["world", "what it is"], ([code(name), spec.meaning] for name, spec in registered_worlds().items())
        ),
        "## Flows, every interval",
        "`world.flow_stats()`, and the columns of `timeseries.parquet`.",
        fields(FLOW_FIELDS),
        "## The link, every interval",
        "`world.link_stats()`, and with `link_` before the name the columns of `timeseries.parquet`.",
        fields(LINK_FIELDS),
        "## Flows, the whole run",
        "`world.summary()[0]`: over the flow's measured window, from the later of the warm-up's end and its start to "
        "its stop.",
        fields(FLOW_SUMMARY_FIELDS),
        "## The link, the whole run",
        "`world.summary()[1]`: from the warm-up's end on.",
        fields(LINK_SUMMARY_FIELDS),
    )


def readme_variants() -> str:
    ours = [variant for variant in all_variants() if not variant.name.startswith("ns3-")]
    return variants_table(ours)


def variants_table(variants: Iterable[Variant]) -> str:
    return markdown_table(
        ["variant", "tunables", "source"], ([code(v.name), own_tunables(v), v.source] for v in variants)
    )


# ---- pieces -------------------------------------------------------------------------------------------


def all_variants() -> Iterable[Variant]:
    return bbrgym.VARIANTS.values()


def preset_of_bbr2() -> str:
    preset = bbrgym.VARIANTS["bbr2"].preset
    own = {name: value for name, value in preset.items() if value != bbrgym.VARIANTS["bbr3"].preset[name]}
    return ", ".join(f"{code(name)} ({plain(value)})" for name, value in own.items())


def own_tunables(variant: Variant) -> str:
    if not variant.preset:
        return "none"
    base = BASES[variant.algorithm]
    if variant.name == base:
        return ", ".join(map(code, variant.preset))
    own = [name for name in variant.preset if name not in bbrgym.VARIANTS[base].preset]
    if set(own) >= set(SWITCHES.values()):
        return f"those of {code(base)}, of all mechanisms, and these' switches"
    return ", ".join([f"those of {code(base)}", *map(code, own)])


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
    meanings = attributes(model)
    required = schema.get("required", [])
    return markdown_table(
        ["field", "default", "allowed", "meaning"],
        (
            [
                code(name),
                "required" if name in required else default(model, name),
                allowed(model, name, field, schema.get("$defs", {})),
                meanings.get(name, "which of these it is" if name == "kind" else ""),
            ]
            for name, field in schema["properties"].items()
        ),
    )


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return the meanings of the fields from the docstring's Attributes."""
    _, _, text = docstring_of(model).partition("Attributes:\n")
    entries = re.split(r"\n {8}(?=\w)", "\n" + text.rstrip())
    pairs = (entry.split(":", 1) for entry in entries if ":" in entry)
    return {name.strip(): " ".join(meaning.split()).removesuffix(".").replace("``", "`") for name, meaning in pairs}


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
        return f"list of {items['$ref'].rsplit('/', 1)[1]}" if "$ref" in items else "list of numbers"
    kind = option["type"]
    if kind not in ("number", "integer"):
        return {"string": "text", "boolean": "true, false", "object": "mapping"}[kind]
    text = " and ".join(
        f"{sign} {plain(bound)}" for sign, bound in sorted(bounds(model.model_fields[name]).items(), reverse=True)
    )
    return f"{'whole number' if kind == 'integer' else 'number'} {text}".strip()


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
