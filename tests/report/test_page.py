# SPDX-License-Identifier: GPL-2.0-only
"""Pages: their contents, in a browser too, which fetches nothing."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel
from bbrgym.report.page import Code, Page, Section, render_page, write_page


def line(label: str | None = None) -> FigureSpec:
    points = Line(np.arange(3.0), [1, float("nan"), 3], label, "#112233")
    return FigureSpec("line", "A line", [Panel(Axis("time (s)"), Axis("value"), [points])])


LINE = line()


def table() -> Table:
    rows = Table(title="Results")
    rows.add_column("who\n\n")
    rows.add_column("score", justify="right")
    for row in (("b", "-1.50 ± 0.2"), ("", "-10.5 [-11, -9]"), ("a", "-"), ("c", "+0.30"), ("d", "9")):
        rows.add_row(*row)
    return rows


def page(*items: object, **fields: object) -> Page:
    return Page("A <title> & more", [Section("One", list(items))], **fields)  # type: ignore[arg-type]


def figures_in(html: str) -> list[dict[str, Any]]:
    found = re.search(r'id="figures">(.*?)</script>', html)
    assert found is not None
    figures: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return figures


def test_texts_are_shown_as_they_are() -> None:
    html = render_page(page(Code("config", "a: <b> & c"), command="bbrgym <x>", facts=["5 < 6"]))
    for text in ("A &lt;title&gt; &amp; more", "a: &lt;b&gt; &amp; c", "bbrgym &lt;x&gt;", "5 &lt; 6"):
        assert text in html
    assert 'id="plotly"' not in html


def test_figures_are_data_in_the_page() -> None:
    (figure,) = figures_in(render_page(page(LINE)))
    (trace,) = figure["data"]
    assert (trace["type"], trace["x"], trace["y"]) == ("scatter", [0.0, 1.0, 2.0], [1, None, 3])
    assert figure["id"] == "figure-1"
    assert figures_in(render_page(page(line("</script>"))))[0]["data"][0]["name"] == "</script>"
    assert page(LINE, table(), LINE).figures == [LINE, LINE]
    assert render_page(page(LINE)) == render_page(page(LINE))


def test_a_row_s_name_is_written_out() -> None:
    names = re.findall(r"<tr>\s*<td>(.*?)</td>", render_page(page(table())))
    assert names == ["b", "b", "a", "c", "d"]


def test_a_browser_draws_it_and_fetches_nothing(browse, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", page(LINE, table(), Code("c", "text")))
    seen = browse(tmp_path / "page.html")
    assert seen.problems == []
    assert [plot["traces"] for plot in seen.plots] == [1]
    assert seen.plots[0]["svgs"] > 0
    assert seen.plots[0]["width"] > 600
    assert (seen.loads, seen.requests) == (0, [])


def test_a_click_on_a_heading_sorts_by_its_column(browse, tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", page(table()))
    seen = browse(
        tmp_path / "page.html",
        """
        const column = () => Array.from(document.querySelectorAll("tbody tr"), (row) => row.cells[1].textContent);
        const [who, score] = document.querySelectorAll("th button");
        const orders = [column()];
        for (const button of [score, score, who]) { button.click(); orders.push(column()); }
        return [orders, score.parentElement.getAttribute("aria-sort"), who.parentElement.getAttribute("aria-sort")];
        """,
    )
    orders, of_score, of_who = seen.result
    assert seen.problems == []
    assert orders == [
        ["-1.50 ± 0.2", "-10.5 [-11, -9]", "-", "+0.30", "9"],
        ["-10.5 [-11, -9]", "-1.50 ± 0.2", "+0.30", "9", "-"],
        ["9", "+0.30", "-1.50 ± 0.2", "-10.5 [-11, -9]", "-"],
        ["-", "-1.50 ± 0.2", "-10.5 [-11, -9]", "+0.30", "9"],
    ]
    assert (of_score, of_who) == (None, "ascending")


def test_what_is_wrong_with_a_page_and_what_it_fetches_would_be_seen(browse, tmp_path: Path) -> None:
    """All in one page: a script that fails does not keep the others from failing."""
    path = tmp_path / "page.html"
    breaks = {
        "<script>nobody.knows</script>": "nobody is not defined",
        "<script>console.error('as it happens')</script>": "as it happens",
        "<script>Promise.reject('in vain')</script>": "in vain",
    }
    wrong = "".join(breaks) + "<script src='https://example.org/x.js'></script>"
    path.write_text(render_page(page(LINE)).replace("</main>", f"{wrong}</main>"), encoding="utf-8")
    seen = browse(path)
    for says in breaks.values():
        assert any(says in problem for problem in seen.problems), says
    assert seen.loads == 1
    assert seen.requests == ["https://example.org/x.js"]
