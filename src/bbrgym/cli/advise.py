# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym advise``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

from bbrgym.cli.composition import compose_config
from bbrgym.cli.path import fit_notes, fit_table, read_logs
from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import new_run_dir, print_results, print_run_folder, runs_bar, take_output_dir
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.paths.advice import AGENTS_ADVISED, VARIANTS_ADVISED, advice, possible_paths
from bbrgym.paths.fit_figure import fit_figures
from bbrgym.paths.fitted_scenario import write_scenario
from bbrgym.report.page import Section
from bbrgym.report.report import evaluation_page
from bbrgym.report.report_files import write_report_files
from bbrgym.report.tables import ranking_table, summary_table
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import read_scenario
from bbrgym.worlds import FAST_WORLD

DESCRIPTION = f"""\
Fits the path of a transfer, as bbrgym path does, and compares congestion controls on it in the fast world: presets of
BBR v1 and v3, the hand-designed variants and CUBIC ({", ".join(VARIANTS_ADVISED)}), the best fixed
setting and, where PyTorch is installed, a learned rule ({", ".join(AGENTS_ADVISED)}). What the log does not tell is
drawn from a range. It prints what the log tells, scores with intervals of 95 %, and a sentence of advice; the run
folder has a page, on which the fitted path's run is laid over the log.

examples:
  bbrgym advise upload.ss
  bbrgym advise monday.pcap tuesday.pcap draws=50 output_dir=runs/mine
"""
WORDS = Words("LOG ...", 1, math.inf)


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Read the logs, fit the paths, compare on the fitted paths, and print and write the results."""
    config, (logs, fits) = compose_config("advise", given), read_logs(words)
    folder = EvaluationFolder(take_output_dir(config) or new_run_dir("advise"))
    with folder.opened(resume=False):
        scenarios = []
        for index, (name, fit) in enumerate(fits.items()):
            scenario_path = folder.path / f"path-{index}.yaml"
            write_scenario({name: fit}, scenario_path)
            scenarios.append(read_scenario(scenario_path))
        known = list(fits.values())
        source = load_distribution(possible_paths(known, scenarios, "advise"))
        settings = {"world": FAST_WORLD, "variants": VARIANTS_ADVISED, "draws": config["draws"]}
        agents = AGENTS_ADVISED if find_spec("torch") else AGENTS_ADVISED[:1]
        prepared = prepare_evaluation(source, settings, agent=list(agents))
        prepared.begin(folder)
        with runs_bar() as show:
            results = prepared.run(folder, show)
        (ranking,) = results.rankings
        scores = ranking_table(ranking, results.title)
        if missing := AGENTS_ADVISED[len(agents) :]:
            scores.caption = f"{missing[0]} is not compared: it needs torch (pip install torch)."
        tables = [fit_table(fits), scores, summary_table(results.summary, results.title)]
        figures = fit_figures(logs, fits, scenarios, "path")
        page = evaluation_page(results, shlex.join(["bbrgym", "advise", *words, *given]))
        sentence = advice(ranking, known, results.summary)
        advised = Section("Advice", [fit_table(fits), *figures], " ".join([sentence, *fit_notes(fits)]))
        write_report_files(folder.path, tables, replace(page, sections=[advised, *page.sections]))
    print_results(*tables, *fit_notes(fits), sentence)
    print_run_folder(folder.path)
