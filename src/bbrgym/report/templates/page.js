// SPDX-License-Identifier: GPL-2.0-only
"use strict";

// ---- figures: drawn by Plotly from the page's own data -------------------------------------------------

const figures = JSON.parse(document.getElementById("figures").textContent);
const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
const config = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: buttons };
for (const figure of figures) {
  Plotly.newPlot(figure.id, figure.data, figure.layout, config);
}

// ---- tables: a click on a heading sorts by its column, another one the other way round -----------------

// What a cell is sorted by: its first number, or else its text; a dash stands for no value and comes last.
function sortKey(cell) {
  const text = cell.textContent.trim();
  const number = /^[+-]?\d+(\.\d+)?/.exec(text);
  return { isMissing: text === "-" || text === "", number: number ? Number(number[0]) : null, text };
}

function compare(a, b) {
  if (a.number !== null && b.number !== null) return a.number - b.number;
  return a.text.localeCompare(b.text, "en", { numeric: true });
}

function sortBy(table, column, isDescending) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => ({ row, key: sortKey(row.cells[column]) }));
  rows.sort((a, b) => {
    if (a.key.isMissing !== b.key.isMissing) return a.key.isMissing ? 1 : -1;
    return isDescending ? compare(b.key, a.key) : compare(a.key, b.key);
  });
  body.append(...rows.map((entry) => entry.row));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    heading.addEventListener("click", () => {
      const isDescending = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      sortBy(table, column, isDescending);
    });
  });
}
