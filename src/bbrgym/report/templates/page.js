// SPDX-License-Identifier: GPL-2.0-only
"use strict";

// ---- figures: drawn by Plotly from the page's own data -------------------------------------------------

const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
const config = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: buttons };

// The text of a part of the page that is compressed.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function drawOne(figure) {
  const plot = document.getElementById(figure.id);
  if (plot.childElementCount > 0) return;
  await Plotly.newPlot(plot, figure.data, figure.layout, config);
}

// Figures below a title that is folded are drawn once it is opened.
async function draw() {
  if (document.getElementById("figures") === null) return;
  const script = document.createElement("script");
  script.textContent = await unpacked("plotly");
  document.head.append(script);
  for (const figure of JSON.parse(await unpacked("figures"))) {
    const details = document.getElementById(figure.id).closest("details");
    if (details !== null) details.addEventListener("toggle", () => drawOne(figure));
    if (details === null || details.open) await drawOne(figure);
  }
}

draw().then(() => document.documentElement.setAttribute("data-drawn", ""));

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
