# SPDX-License-Identifier: GPL-2.0-only
"""Fixture: a real browser that opens a page, runs a script there and reports what it shows."""

import html
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from machine_needs import program_of, reason_without

TIMEOUT_S = 120
LISTEN = """<script>
  window.problems = [];
  window.addEventListener("error", (event) => window.problems.push(String(event.message)));
  window.addEventListener("unhandledrejection", (event) => window.problems.push(String(event.reason)));
  window.addEventListener("DOMContentLoaded", () => {
    for (const folded of document.querySelectorAll("details.folded")) folded.open = true;
  });
  for (const level of ["error", "warn"]) console[level] = (...words) => window.problems.push(words.join(" "));
</script>"""
TELL = """<script>
  const isDrawn = () => document.documentElement.hasAttribute("data-drawn") || window.problems.length > 0;
  const wait = (then, left) => setTimeout(...(isDrawn() || left === 0 ? [then, 500] : [wait, 100, then, left - 1]));
  window.addEventListener("load", () => wait(() => {
    const drawn = (plot) => ({
      svgs: plot.querySelectorAll("svg.main-svg").length,
      traces: plot.querySelectorAll(".scatterlayer .trace, .heatmaplayer .hm, .barlayer .trace").length,
      marks: plot.querySelectorAll(".scatterlayer path, .heatmaplayer image, .barlayer path").length,
      width: plot.getBoundingClientRect().width,
    });
    const loads = "script[src], img[src]:not([src^='data:']), link[href]:not([href^='data:']), iframe, a[href]";
    const result = (() => { __SCRIPT__ })();
    const seen = {
      plots: Array.from(document.querySelectorAll(".plot"), drawn),
      loads: document.querySelectorAll(loads).length,
      requests: performance.getEntriesByType("resource").map((entry) => entry.name),
      problems: window.problems,
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      result,
    };
    document.body.setAttribute("data-seen", JSON.stringify(seen));
  }, 150));
</script>"""


@dataclass(frozen=True)
class Seen:
    """Observations of a page in a browser."""

    plots: list[dict[str, float]]  # counts of drawn elements per figure
    loads: int  # number of elements that would fetch something or lead elsewhere
    requests: list[str]  # addresses fetched
    problems: list[str]  # errors and warnings of the page's scripts and in the browser's log
    overflow: float  # pixels by which the page is wider than the window
    result: Any  # value that the test's script returned


Browse = Callable[..., Seen]


@pytest.fixture
def browse(tmp_path: Path) -> Iterator[Browse]:
    chromium = program_of("chromium")
    if chromium is None:
        pytest.skip(reason_without("chromium"))
    profile = tmp_path / "profile"

    def open_page(page: Path, script: str = "return null;") -> Seen:
        text = page.read_text(encoding="utf-8")
        assert text.count("<head>") == 1
        probe = tmp_path / "probe.html"
        tell = TELL.replace("__SCRIPT__", script)
        at = text.rindex("</body>")
        probe.write_text(text[:at].replace("<head>", "<head>" + LISTEN, 1) + tell + text[at:], encoding="utf-8")
        dom, log = dumped(chromium, profile, probe)
        found = re.search(r'<body data-seen="([^"]*)"', dom)
        assert found is not None, f"the page did not come to its end: {log}"
        seen = json.loads(html.unescape(found[1]))
        return Seen(**{**seen, "problems": seen["problems"] + re.findall(r".*:CONSOLE.*", log)})

    yield open_page
    for process in psutil.process_iter(["cmdline"]):
        if any(str(profile) in argument for argument in process.info["cmdline"] or ()):
            process.kill()


def dumped(chromium: str, profile: Path, page: Path) -> tuple[str, str]:
    """Return the page after its scripts have run, and the browser's log."""
    arguments = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-extensions", "--disable-background-networking", "--enable-logging=stderr"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", "--window-size=1280,900"),
        *("--virtual-time-budget=20000", "--dump-dom", page.as_uri()),
    ]
    process = subprocess.Popen(
        [chromium, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        return process.communicate(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(120.0)
