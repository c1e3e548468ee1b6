// SPDX-License-Identifier: GPL-2.0-only
"use strict";

// ---- figures: drawn by Plotly from the page's own data -------------------------------------------------

const buttons = [["toImage", "zoom2d", "pan2d", "resetScale2d"]];
const config = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: buttons };
const NARROW_PX = 600; // width below which panels are one below the other

// The text of a part of the page that is compressed.
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// The axes of a letter, as [name, axis] in the order of the panels.
function axes(layout, letter) {
  const number = (name) => Number(name.slice(5)) || 1;
  const found = Object.entries(layout).filter(([name]) => /^[xy]axis\d*$/.test(name) && name[0] === letter);
  return found.sort(([one], [other]) => number(one) - number(other));
}

// Puts panels that are side by side one below the other; returns the height of the figure in pixels.
function stack(figure, height) {
  const { data, layout } = figure;
  const across = axes(layout, "x");
  const up = axes(layout, "y");
  const columns = new Set(across.map(([, axis]) => axis.domain[0])).size;
  if (columns === 1) return height;
  const gap = 75;
  const panel = 190;
  const total = across.length * (panel + gap) - gap;
  across.forEach(([name, axis], index) => {
    const bars = data.filter((trace) => trace.colorbar && `xaxis${trace.xaxis.slice(1)}` === name);
    const bottom = (total - index * (panel + gap) - panel) / total;
    const [, other] = up[index];
    axis.domain = [0, bars.length > 0 ? 0.82 : 1];
    other.domain = [Math.max(0, bottom), Math.min(1, bottom + panel / total)];
    for (const one of [axis, other]) one.showticklabels = true;
    axis.title ??= (across.find(([, one]) => one.title) ?? [null, {}])[1].title;
    other.title ??= (up.find(([, one]) => one.title) ?? [null, {}])[1].title;
    for (const { colorbar } of bars) Object.assign(colorbar, { x: 0.83, y: other.domain[0], len: panel / total });
  });
  return total + layout.margin.t + layout.margin.b;
}

// On a narrow screen letters and margins are smaller, panels one below the other, and the legend has more lines.
function fit(figure, plot) {
  const width = plot.clientWidth;
  const { layout } = figure;
  if (width >= NARROW_PX) return;
  layout.font.size = 11;
  Object.assign(layout.margin, { l: 50, r: 15 });
  const lines = Math.ceil((0.9 * figure.legend_px) / (width - 65)) - Math.ceil(figure.legend_px / 1000);
  layout.margin.t += 20 * lines;
  plot.style.height = `${stack(figure, plot.clientHeight + 20 * lines)}px`;
}

async function drawOne(figure) {
  const plot = document.getElementById(figure.id);
  if (plot.childElementCount > 0) return;
  fit(figure, plot);
  await Plotly.newPlot(plot, figure.data, figure.layout, { ...config, displayModeBar: plot.clientWidth >= NARROW_PX && "hover" });
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
