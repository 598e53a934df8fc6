// The page: who is brought out, which metric is shown, figures that are drawn when they come into view, tables that sort and filter.

const state = { only: new Set(), metric: "reward", pace: "far" };
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// ---- Figures

const TOOLS = [
  ["−", "Zoom out", (figure) => zoom(figure, 2)],
  ["+", "Zoom in", (figure) => zoom(figure, 0.5)],
  ["✥", "Drag to pan", (figure, button) => pan(figure, button)],
  ["⟲", "Show all", (figure) => reset(figure)],
  ["⤓", "Save as PNG", (figure) => Plotly.downloadImage(figure.plot, { format: "png", scale: 2, filename: figure.name })],
];
const figures = new Map();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const figure = figures.get(entry.target);
    figure.seen = entry.isIntersecting;
    if (figure.seen && figure.stale) draw(figure);
  }
}, { rootMargin: "200px" });

function chartOf(holder) {
  const { chart, view } = holder.dataset;
  if (chart) return DATA.charts[chart];
  const set = DATA.sets[holder.dataset.set], problem = set.problems[holder.dataset.problem];
  if (view === "runs") return runsChart(set, problem, state.metric);
  if (view === "curve") return curveChart(set, problem, state.metric, state.pace);
  if (view === "price") return priceChart(set, problem, state.metric);
  return pairChart(set, ...chosenPair(holder.closest(".set")), state.metric);
}

function mount(holder) {
  const head = holder.querySelector("figcaption"), caption = element("span", {}, ...head.childNodes);
  const plot = element("div", { class: "plot", role: "slider", tabindex: "0", "aria-valuemin": "0", "aria-valuenow": "0", "aria-label": caption.textContent });
  const note = element("p", { class: "empty", hidden: true });
  const figure = { holder, caption, plot, note, name: holder.dataset.name || "figure", stale: true, seen: false, at: -1, stops: [], drag: matchMedia("(pointer: fine)").matches ? "zoom" : false };
  const tools = TOOLS.map(([sign, name, act]) => element("button", { type: "button", title: name, "aria-label": name, "aria-pressed": sign === "✥" ? "false" : null, onclick: (event) => act(figure, event.currentTarget) }, sign));
  head.append(caption, element("div", { class: "tools", role: "group", "aria-label": "Figure" }, ...tools));
  holder.append(plot, note);
  plot.addEventListener("keydown", (event) => keyed(figure, event));
  plot.addEventListener("blur", () => Plotly.Fx.unhover(plot));
  plot.addEventListener("focus", () => stop(figure, figure.at < 0 ? figure.stops.length - 1 : figure.at));
  figures.set(holder, figure);
  watcher.observe(holder);
}

function draw(figure) {
  const chart = chartOf(figure.holder), width = Math.floor(figure.holder.clientWidth);
  if (!width) return;
  const things = chart[chart.kind];
  figure.stale = false;
  figure.caption.textContent = chart.title;
  figure.plot.hidden = !things.length;
  figure.note.hidden = things.length > 0;
  figure.note.textContent = "These runs have nothing to show of it.";
  figure.plot.dataset.drawn = "yes";
  if (!things.length) return;
  const tall = chart.kind === "rows" ? Math.max(190, 78 + 30 * things.length) : 320;
  const made = KINDS[chart.kind](chart, looks(state.only), { width, height: tall });
  const key = `${chart.title} ${chart.kind === "points" ? chart.y.title : chart.x.title} ${chart.y?.title ?? ""}`;
  made.layout.uirevision = key;
  made.layout.dragmode = figure.drag;
  Plotly.react(figure.plot, made.traces, made.layout, { displayModeBar: false, scrollZoom: false, doubleClick: "reset" });
  if (!figure.ready) {
    figure.plot.on("plotly_click", (event) => bringOut(event.points[0].data.meta, event.event));
    figure.plot.on("plotly_clickannotation", (event) => bringOut(event.annotation.name, event.event));
    figure.plot.on("plotly_relayout", () => mark(figure));
    figure.ready = true;
  }
  figure.chart = chart;
  figure.stops = made.stops;
  figure.at = Math.min(figure.at, made.stops.length - 1);
  figure.plot.setAttribute("aria-label", `${chart.title}. Arrow keys go through the values, + and − zoom, 0 shows all, Enter brings out.`);
  figure.plot.setAttribute("aria-valuemax", Math.max(0, made.stops.length - 1));
  figure.plot.setAttribute("aria-valuenow", Math.max(0, figure.at));
  figure.plot.setAttribute("aria-valuetext", made.stops[Math.max(0, figure.at)]?.text ?? chart.title);
}

function refresh(which = () => true) {
  for (const figure of figures.values()) {
    if (!which(figure)) continue;
    figure.stale = true;
    if (figure.seen) draw(figure);
  }
}

function zoom(figure, factor) {
  const change = {};
  for (const name of ["xaxis", "yaxis"]) {
    const axis = figure.plot._fullLayout[name];
    if (axis.fixedrange) continue;
    const [low, high] = axis.range.map(Number), middle = (low + high) / 2;
    change[`${name}.range`] = [middle + (low - middle) * factor, middle + (high - middle) * factor];
  }
  Plotly.relayout(figure.plot, change);
}

// After a zoom, a logarithmic axis is marked where that suits what is in view.
function mark(figure) {
  const change = {};
  for (const [name, axis] of [["xaxis", figure.chart.x], ["yaxis", figure.chart.y]]) {
    const shown = figure.plot._fullLayout[name];
    if (!axis?.log || axis.ticks?.length) continue;
    const marks = logMarks(shown.range, axis.unit);
    if (String(marks.tickvals) !== String(shown.tickvals)) Object.assign(change, { [`${name}.tickvals`]: marks.tickvals, [`${name}.ticktext`]: marks.ticktext });
  }
  if (Object.keys(change).length) Plotly.relayout(figure.plot, change);
}

function shift(figure, across, up) {
  const change = {};
  for (const [name, by] of [["xaxis", across], ["yaxis", up]]) {
    const axis = figure.plot._fullLayout[name];
    if (axis.fixedrange || !by) continue;
    const [low, high] = axis.range.map(Number), step = ((high - low) / 6) * by;
    change[`${name}.range`] = [low + step, high + step];
  }
  Plotly.relayout(figure.plot, change);
}

function pan(figure, button) {
  const on = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(on));
  figure.drag = on ? "pan" : matchMedia("(pointer: fine)").matches ? "zoom" : false;
  Plotly.relayout(figure.plot, { dragmode: figure.drag });
}

function reset(figure) {
  Plotly.purge(figure.plot);
  figure.ready = false;
  draw(figure);
}

// Show the values of a stop, as the pointer would.
function stop(figure, at) {
  if (!figure.stops.length) return;
  figure.at = Math.max(0, Math.min(at, figure.stops.length - 1));
  const here = figure.stops[figure.at];
  figure.plot.setAttribute("aria-valuenow", figure.at);
  figure.plot.setAttribute("aria-valuetext", here.text);
  Plotly.Fx.hover(figure.plot, here.points);
}

function keyed(figure, event) {
  const last = figure.stops.length - 1, step = figure.stops.length > 40 ? 2 : 1, one = event.shiftKey;
  const acts = {
    ArrowRight: () => (one ? shift(figure, 1, 0) : stop(figure, figure.at + step)), ArrowLeft: () => (one ? shift(figure, -1, 0) : stop(figure, figure.at - step)),
    ArrowDown: () => (one ? shift(figure, 0, -1) : stop(figure, figure.at + 1)), ArrowUp: () => (one ? shift(figure, 0, 1) : stop(figure, figure.at - 1)),
    Home: () => stop(figure, 0), End: () => stop(figure, last), "+": () => zoom(figure, 0.5), "-": () => zoom(figure, 2), 0: () => reset(figure),
    Enter: () => { const at = figure.stops[figure.at]?.points; if (at?.length === 1) bringOut(figure.plot.data[at[0].curveNumber].meta, event); },
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
}

// ---- Who is brought out: one agent, or more with Shift or Ctrl; the same again, or Escape, shows all.

const known = new Set($$(".chip").map((button) => button.dataset.agent));
for (const chart of Object.values(DATA.charts)) for (const part of chart[chart.kind]) known.add(part.label);

function bringOut(label, event = {}) {
  if (!known.has(label)) return;
  const more = event.shiftKey || event.ctrlKey || event.metaKey, alone = state.only.has(label) && state.only.size === 1;
  if (!more) state.only = new Set(alone ? [] : [label]);
  else if (!state.only.delete(label)) state.only.add(label);
  showOnly();
}

function showOnly() {
  for (const button of $$(".chip")) button.setAttribute("aria-pressed", String(state.only.has(button.dataset.agent)));
  for (const row of $$("tr[data-agent]")) row.classList.toggle("quiet", state.only.size > 0 && !state.only.has(row.dataset.agent));
  document.body.classList.toggle("some", state.only.size > 0);
  refresh((figure) => figure.holder.dataset.view !== "pair");
}

// ---- Tables

const UNITS = { "µs": 1e-6, ms: 1e-3, s: 1, kB: 1e3, MB: 1e6 };

// A cell as a number, if it is one: what it says first counts.
function valueOf(cell) {
  const text = (cell.dataset.value ?? cell.textContent).trim().replace(/,/g, "").replace(/−/g, "-");
  if (text === "first" || text === "best") return -1;
  const found = text.match(/^[~≈▲▼<\s]*([-+]?\d+\.?\d*(?:e[-+]?\d+)?)\s*(µs|ms|s|kB|MB)?/);
  return found ? Number(found[1]) * (UNITS[found[2]] ?? 1) - (text.startsWith("<") ? 1e-9 : 0) : null;
}

function sort(table, column, button) {
  const down = button.parentElement.getAttribute("aria-sort") !== "descending";
  for (const head of $$("th", table.tHead)) head.removeAttribute("aria-sort");
  button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = $$("tr:not(.sum)", table.tBodies[0]), sums = $$("tr.sum", table.tBodies[0]);
  const keyed = rows.map((row) => ({ row, value: valueOf(row.cells[column]), text: row.cells[column].textContent.trim() }));
  const numbers = keyed.filter(({ value }) => value !== null).length > keyed.length / 2;
  keyed.sort((a, b) => {
    if (!numbers) return (down ? -1 : 1) * a.text.localeCompare(b.text);
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
    return (down ? -1 : 1) * (a.value - b.value);
  });
  table.tBodies[0].append(...keyed.map(({ row }) => row), ...sums);
}

function filter(table, words, note) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean), rows = $$("tr:not(.sum)", table.tBodies[0]);
  for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
  const left = rows.filter((row) => !row.hidden).length;
  note.textContent = wanted.length ? `${left} of ${rows.length} rows` : "";
}

function csv(table, name) {
  const quoted = (cell) => `"${cell.innerText.trim().replace(/\s*\n\s*/g, " ").replace(/"/g, '""')}"`;
  const lines = $$("tr", table).filter((row) => !row.hidden).map((row) => [...row.cells].map(quoted).join(","));
  const link = element("a", { href: URL.createObjectURL(new Blob([`\ufeff${lines.join("\r\n")}\r\n`], { type: "text/csv" })), download: `${name}.csv` });
  link.click();
  URL.revokeObjectURL(link.href);
}

function enhance(table) {
  const region = table.closest(".scroll"), name = region.getAttribute("aria-label");
  $$("th", table.tHead).forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = element("button", { type: "button", class: "sort" }, ...head.childNodes);
    button.addEventListener("click", () => sort(table, column, button));
    head.append(button);
  });
  const note = element("span", { class: "left", role: "status" });
  const tools = element("div", { class: "table-tools" });
  if (table.tBodies[0].rows.length > 3) {
    const field = element("input", { type: "search", placeholder: "Filter rows", "aria-label": `Filter rows: ${name}` });
    field.addEventListener("input", () => filter(table, field.value, note));
    tools.append(field, note);
  }
  tools.append(element("button", { type: "button", class: "quiet-button", "aria-label": `CSV of ${name}`, onclick: () => csv(table, name.toLowerCase().replace(/[^a-z0-9]+/g, "-")) }, "CSV"));
  region.before(tools);
}

// A region that fits is no stop for the Tab key.
const fits = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth + 1) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});

// ---- Two agents

const chosenPair = (set) => $$(".pair select", set).map((select) => Number(select.value));

function showPair(holder) {
  const set = DATA.sets[holder.dataset.set], [first, second] = chosenPair(holder), { metric, lines, pool } = pairs(set, first, second, state.metric);
  const [a, b] = [first, second].map((i) => set.agents[i].name);
  const cells = (...texts) => texts.map((text, i) => element("td", { class: i === 0 ? "first" : i === 6 ? "text" : null }, text));
  const rows = lines.map((line) => {
    const places = decimals(Math.max(Math.abs(line.x), Math.abs(line.y))), unit = metric.unit;
    return element("tr", {}, ...cells(line.problem, quantity(line.x, unit, places), quantity(line.y, unit, places), `${signed(line.mean, unit, places)} ± ${quantity(line.half, unit, places)}`, pText(line.p), pText(line.corrected), word(line.verdict, a, b, line.corrected)));
  });
  if (pool) rows.push(element("tr", { class: "sum" }, ...cells(`all ${pool.count} problems`, "", "", `${signed(pool.mean, "%", 1)} ± ${quantity(pool.half, "%", 1)}`, pText(pool.p), "", word(pool.verdict, a, b, pool.p))));
  const table = holder.querySelector(".pair table");
  table.tBodies[0].replaceChildren(...rows);
  $$(".pair [data-side]", holder).forEach((head) => { head.textContent = head.dataset.side === "a" ? a : b; });
  const unit = pool ? ` The last line is in ${shareTitle(state.metric)}.` : "";
  holder.querySelector(".pair-note").textContent = `${metric.title}, ${better(metric)}. Difference: mean over runs on the same shuffles, with its 95% interval.${unit}`;
  holder.querySelector(".pair-sum").textContent = summary(a, b, lines);
}

function summary(a, b, lines) {
  if (!lines.length) return `${a} and ${b} have no runs in common.`;
  if (lines.length === 1) return `${a} against ${b}: ${word(lines[0].verdict, a, b, lines[0].p)}.`;
  const won = lines.filter((line) => line.verdict === "better").length, lost = lines.filter((line) => line.verdict === "worse").length;
  return `${a} is better on ${won}, ${b} on ${lost} of ${lines.length} problems; no significant difference on ${lines.length - won - lost}.`;
}

// ---- Controls

function choose(name, value) {
  state[name] = value;
  for (const select of $$(`select[data-control=${name}]`)) select.value = value;
  $$(".set").forEach(showPair);
  refresh((figure) => figure.holder.dataset.view);
}

function onlyProblem(select) {
  for (const card of $$("[data-card]", select.closest(".set"))) card.hidden = select.value !== "" && card.dataset.card !== select.value;
  refresh((figure) => figure.stale);
}

for (const select of $$("select[data-control=metric], select[data-control=pace]")) select.addEventListener("change", () => choose(select.dataset.control, select.value));
for (const select of $$("select[data-control=problem]")) select.addEventListener("change", () => onlyProblem(select));
for (const set of $$(".set")) {
  for (const select of $$(".pair select", set)) {
    select.addEventListener("change", () => {
      showPair(set);
      refresh((figure) => figure.holder.dataset.view === "pair");
    });
  }
}
for (const button of $$(".chip")) button.addEventListener("click", (event) => bringOut(button.dataset.agent, event));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.only.size) {
    state.only = new Set();
    showOnly();
  }
});
$$(".set").forEach(showPair);
$$(".scroll table").forEach(enhance);
$$(".scroll, pre").forEach((region) => fits.observe(region));
$$("figure.chart").forEach(mount);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refresh());
let wide = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === wide) return;
  wide = innerWidth;
  refresh();
});
