# SPDX-License-Identifier: GPL-2.0-only
"""The size of report pages and the time to write them, and the figures of docs/evaluation.md.

usage: python benchmarks/report_pages.py [--draws 100] [--figures docs/figures]

Evaluates variants in the twin on a scenario with three seeds and on draws of a distribution, writes both reports and
prints what they take. With `--figures` it keeps some figures, and pictures of the scenario's page at 1400 and 400
pixels by Chromium.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bbrgym.report.evaluation_page import evaluation_page
from report import measured_on

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.results import Results
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.report.output_settings import FigureSettings
from bbrgym.report.page import write_page
from bbrgym.report.report import write_report

VARIANTS = ["bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic"]
KEPT = {"flow-bbr-long": "flow.png", "distributions": "distributions.png"}  # of the scenario's figures, for a screen
PAPER = {"delay": "delay-paper.svg"}  # and in the style of a paper
WIDTHS = {1400: 2300, 400: 2300}  # heights of the pictures by their widths, in pixels
_LEAST_WINDOW = 500  # width in pixels that Chromium's windows have at least
_TIMEOUT_S = 300


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--figures", type=Path, help="folder to keep figures in")
    options = parser.parse_args()
    settings = {"world": "twin", "variants": VARIANTS}
    scenario = run_evaluation("rtt_fairness", {**settings, "seeds": [1, 2, 3]})
    draws = run_evaluation("wan_mix", {**settings, "draws": options.draws}, agent="random")
    print(measured_on())
    for results in (scenario, draws):
        print(measured(results))
    if options.figures is not None:
        options.figures.mkdir(parents=True, exist_ok=True)
        keep_figures(scenario, options.figures)
        keep_pictures(scenario, options.figures)


def measured(results: Results) -> str:
    """Return a line on the report of an evaluation."""
    page = evaluation_page(results)
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.process_time()
        write_report(Path(folder), results)
        report_s = time.process_time() - began_s
        began_s = time.process_time()
        write_page(Path(folder) / "report.html", page)
        page_s = time.process_time() - began_s
        size = (Path(folder) / "report.html").stat().st_size
    return (
        f"{results.title}: {len(results.timing)} runs, {len(page.figures)} figures, page of {size / 1e6:.2f} MB "
        f"written in {page_s:.1f} s of CPU, with PNG files in {report_s:.1f} s"
    )


def keep_figures(results: Results, folder: Path) -> None:
    """Write some figures of a report into a folder."""
    specs = {spec.name: spec for spec in evaluation_page(results).figures}
    with tempfile.TemporaryDirectory() as written:
        write_figures(Path(written), [specs[name] for name in KEPT])
        write_figures(Path(written), [specs[name] for name in PAPER], FigureSettings(format="svg", style="paper"))
        for name, target in {**KEPT, **PAPER}.items():
            shutil.copyfile(Path(written) / f"{name}{Path(target).suffix}", folder / target)


def keep_pictures(results: Results, folder: Path) -> None:
    """Write pictures of a page, as Chromium shows it, into a folder. Default: none where there is no Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no pictures of the page, since there is no Chromium here")
        return
    with tempfile.TemporaryDirectory() as name:
        page, frame = Path(name) / "report.html", Path(name) / "frame.html"
        write_page(page, evaluation_page(results))
        for width, height in WIDTHS.items():
            shown = f"<iframe src={page.as_uri()} style='border: 0' width={width} height={height}></iframe>"
            frame.write_text(f"<body style='margin: 0'>{shown}", encoding="utf-8")
            window = max(width, _LEAST_WINDOW)
            picture = folder / f"report-{width}.png"
            subprocess.run(
                [
                    *(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                    *("--hide-scrollbars", "--allow-file-access-from-files", f"--user-data-dir={name}/profile"),
                    *(f"--window-size={window},{height}", "--virtual-time-budget=60000"),
                    *(f"--screenshot={picture.absolute()}", frame.as_uri()),
                ],
                check=True,
                timeout=_TIMEOUT_S,
                capture_output=True,
            )


if __name__ == "__main__":
    main()
