# SPDX-License-Identifier: GPL-2.0-only
"""Rules that each sender runs by itself, against a fixed setting that was searched as long, on held-out draws.

usage: python benchmarks/per_flow.py RULE... --fixed RUN [--draws 200] [--first-draw 0] [--world twin]
    [--write docs/results.md]

RULE is a run folder of `bbrgym train experiment=wan_per_flow` or `wan_flow_portfolio`, RUN one with
`agent.policy=fixed`, or shipped/fixed. Three tables, the first of which the page has as a picture:

    networks   gain over the fixed setting by family of networks of `wan_mix`, and on other distributions
    harm       what two flows of others get of their fair share beside two of each control (Ware et al., HotNets 2019)
    deployed   `wan_mix` where the other half of the flows are BBR: gain over BBR there, and what these others get

Intervals are by bootstrap over draws and, of several RULEs, trainings.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from report import Bystanders, command, measured_on, parser_of_runs, replace_section

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.records import per_run
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.statistics import Scores, bootstrap_mean
from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, Points, colour
from bbrgym.report.markdown import markdown_table
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.families import FAMILIES, families_of

GAINS = ("draws", "gain over the fixed setting", "gain over bbr")
OTHERS = ("with_cubic", "rtt_pairs", "lossy_mix", "rfc9743_paths")
PICTURE = "per_flow"


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of_runs(__doc__, "RULE")
    parser.add_argument("--fixed", required=True, type=Path)
    asked = parser.parse_args()
    bystanders = Bystanders()
    of_networks = networks(asked)
    others = [harm(asked), deployed(asked)]
    about = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Draws {asked.first_draw} to "
        f"{asked.first_draw + asked.draws - 1} of the test splits."
    )
    table = markdown_table(["networks", *GAINS], [row(name, scores) for name, scores in of_networks.items()])
    print("\n\n".join([about, table, *others]))
    if asked.write:
        write_figures(asked.write.parent / "figures", [picture(of_networks)])
        shown = f"![Gains by kind of network](figures/{PICTURE}.png)"
        section = "\n\n".join([about, shown, *others]) + "\n"
        replace_section(asked.write, "per-flow", section, "wan_mix with_cubic / bbr shipped/fixed shipped/flow")


# ---- tables ------------------------------------------------------------------------------------------------


def networks(asked: argparse.Namespace) -> dict[str, Scores]:
    """Return the scores by kind of network and by distribution."""
    results = evaluated("wan_mix", asked, ["bbr"])
    scores = by_entrant(results, asked)
    families = [families_of(draw) for draw in results.draws.values()]
    of_families = {
        name: scores.of_draws([place for place, of_draw in enumerate(families) if name in of_draw]) for name in FAMILIES
    }
    others = {f"`{name}`": by_entrant(evaluated(name, asked, ["bbr"]), asked) for name in OTHERS}
    return {"wan_mix": scores, **of_families, **others}


def picture(of_networks: Mapping[str, Scores]) -> FigureSpec:
    """Specify points of the gains over both references by kind of network."""
    kinds = {"fixed": "over the fixed setting", "bbr": "over bbr"}
    points = [
        Points(
            positions=[at + 0.26 * number - 0.13 for at in range(len(of_networks))],
            estimates=[scores.difference("rule", reference) for scores in of_networks.values()],
            along="x",
            label=label,
            colour=colour(number),
        )
        for number, (reference, label) in enumerate(kinds.items())
    ]
    names = [f"{name.strip('`')}, {scores.draws} draws" for name, scores in of_networks.items()]
    nothing = Line([0.0, 0.0], [-0.5, len(names) - 0.5], None, NEUTRAL)
    return FigureSpec(
        name=PICTURE,
        title="Gains of the policy by kind of network",
        panels=[Panel(Axis("gain in score"), Axis(names=names, is_reversed=True), [nothing, *points])],
        width_in=7.5,
        height_in=1.4 + 0.3 * len(names),
    )


def harm(asked: argparse.Namespace) -> str:
    """Return what other flows get of their fair shares beside two flows of each control."""
    rows = []
    for other in ("cubic", "reno", "bbr"):
        results = evaluated(beside(other), asked, ["bbr", "cubic", "reno"])
        found = shares_of_others(results, asked)
        rows.append([other, *(bootstrap_mean(found[name]).text(2) for name in ("rule", "searched", "bbr", other))])
    heads = ("the others", *(f"beside {name}" for name in ("the rule", "the fixed setting", "bbr", "themselves")))
    return markdown_table(heads, rows)


def deployed(asked: argparse.Namespace) -> str:
    """Return what the rule gains where the other half of the flows are BBR, and what these others get."""
    results = evaluated(half_deployed(), asked, ["bbr"])
    shares = shares_of_others(results, asked)
    gains = row("`wan_mix`, other half bbr", by_entrant(results, asked))
    rest = [bootstrap_mean(shares[name]).text(2) for name in ("rule", "bbr")]
    return markdown_table(["half deployed", *GAINS, "others' share", "beside bbr"], [[*gains, *rest]])


# ---- networks ----------------------------------------------------------------------------------------------


def beside(other: str) -> dict[str, Any]:
    """Return `with_cubic` with two tuned flows and two of another control."""
    fields = dict(load_distribution("with_cubic").fields)
    tuned, rest = fields["flows"]
    others = {**rest, "name": "other", "cc": other, "number": 2}
    return {**fields, "name": f"beside_{other}", "flows": [{**tuned, "number": 2}, others]}


def half_deployed() -> dict[str, Any]:
    """Return `wan_mix` with one to three tuned flows and as many of BBR's on the average."""
    fields = dict(load_distribution("wan_mix").fields)
    tuned, cubic = fields["flows"]
    number = {"integer": [1, 3]}
    return {
        **fields,
        "name": "half_deployed",
        "flows": [{**tuned, "number": number}, {**tuned, "name": "bbr", "cc": "bbr", "number": number}, cubic],
    }


# ---- evaluations -------------------------------------------------------------------------------------------


def evaluated(scenario: str | Mapping[str, Any], asked: argparse.Namespace, variants: Sequence[str]) -> Results:
    """Return the evaluation of the rules, the fixed setting and variants on the draws."""
    settings = {"variants": list(variants), "world": asked.world, "split": "test"}
    settings |= {"draws": asked.draws, "first_draw": asked.first_draw}
    agents = {**{f"rule{number}": str(run) for number, run in enumerate(asked.runs)}, "searched": str(asked.fixed)}
    return run_evaluation(scenario, settings, agent=agents)


def by_entrant(results: Results, asked: argparse.Namespace) -> Scores:
    """Return the scores of `rule`, one row a training, `fixed` and `bbr`."""
    scores = results.rankings[0].scores
    found = {name.split()[0]: scores[name] for name in scores.names}
    rules = np.concatenate([found[f"rule{number}"] for number in range(len(asked.runs))])
    return Scores({"rule": rules, "fixed": found["searched"], "bbr": found["bbr"]})


def shares_of_others(results: Results, asked: argparse.Namespace) -> dict[str, np.ndarray[Any, Any]]:
    """Return the mean goodput / fair share of the flows that are not tuned, of each draw by entrant."""
    runs = per_run(results.summary).group_by("entrant", maintain_order=True)
    found = {str(name).split()[0]: rows["others_share"].to_numpy() for (name,), rows in runs}
    rules = [found.pop(f"rule{number}") for number in range(len(asked.runs))]
    return {"rule": np.concatenate(rules), **found}


# ---- pieces ------------------------------------------------------------------------------------------------


def row(name: str, scores: Scores) -> list[str]:
    gains = (scores.difference("rule", reference).text(3, "+") for reference in ("fixed", "bbr"))
    return [name, str(scores.draws), *gains]


if __name__ == "__main__":
    main()
