// From a chart, as `lim2.experiments.report.charts` describes it, to what Plotly draws. Three kinds: lines, rows, points.
// Each gives traces, a layout, and stops: what the arrow keys go through, with a text for each.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon", "star", "cross"];
const DASHES = ["solid", "longdash", "dashdot", "dot"];
const VERDICTS = { "": "circle", better: "triangle-up", worse: "triangle-down" };
const NARROW = 460; // pixels
const VALUE = "<b>%{fullData.name}</b> %{text}<extra></extra>";

// The page's colours of now, and who is brought out.
function looks(only) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return {
    ink: of("--ink"), faint: of("--faint"), line: of("--line"), panel: of("--panel"), paper: of("--paper"),
    colour: (shade) => of(shade < 0 ? "--grey" : `--c${shade % 9}`),
    quiet: (label) => only.size > 0 && !only.has(label),
    only,
  };
}

function faded(colour, share) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${share})`;
}

// A text in lines of at most so many letters.
function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push(word);
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.map(escaped).join("<br>");
}

const short = (label) => (label.length > 21 ? `${label.slice(0, 20)}…` : label);
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const positive = (axis, value) => !axis.log || value > 0;

// Where a logarithmic axis is marked, for the powers of ten in view: the fewer, the more digits.
function logMarks([low, high], unit) {
  const digits = high - low > 2.5 ? [1] : high - low > 1.3 ? [1, 3] : high - low > 0.8 ? [1, 2, 5] : [1, 2, 3, 5, 7], tickvals = [];
  if (high - low < 0.5) {  // so near that the axis is nearly linear
    const [first, last] = [10 ** low, 10 ** high], power = 10 ** Math.floor(Math.log10((last - first) / 3)), step = power * ([1, 2, 5].findLast((digit) => digit * power <= (last - first) / 3) ?? 1);
    for (let i = Math.ceil(first / step); i * step <= last; i += 1) tickvals.push(i * step);
  } else for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) tickvals.push(...digits.map((digit) => digit * 10 ** power));
  return { tickvals, ticktext: tickvals.map((value) => briefly(value, unit)) };
}

function briefly(value, unit) {
  const [share, prefix] = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]].find(([size]) => value >= size * 0.9999) ?? [1, ""];
  return unit ? `${Number((value / share).toPrecision(3))} ${prefix}${unit}` : value.toLocaleString("en-US");
}

function axisOf(axis, look, width, more = {}) {
  const small = { color: look.faint, size: 12 };
  const made = {
    title: { text: wrapped(axis.title, (width - 90) / 6), font: small, standoff: 10 }, tickfont: small, gridcolor: look.line, linecolor: look.line,
    zerolinecolor: look.line, automargin: true, type: axis.log ? "log" : "linear", ...more,
  };
  if (axis.unit === "s" || axis.unit === "B") Object.assign(made, { tickformat: "~s", ticksuffix: axis.unit, minexponent: 1 });
  else if (axis.unit === "%") made.ticksuffix = "%";
  else made.tickformat = ",";
  if (axis.log && more.range) Object.assign(made, logMarks(more.range, axis.unit), { tickangle: 0 });
  if (axis.names?.length) Object.assign(made, { tickvals: axis.names.map((_, i) => i), ticktext: axis.names.map((n) => escaped(n).replace(", ", "<br>")) });
  if (axis.ticks?.length) Object.assign(made, { tickvals: axis.ticks, ticktext: axis.ticks.map((v) => quantity(v, axis.unit, 0)) });
  return made;
}

function layoutOf(look, size, more) {
  return {
    width: size.width, height: size.height, autosize: false, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 12, t: 8, b: 8 }, font: { family: "system-ui, sans-serif", size: 12, color: look.faint },
    hoverlabel: { bgcolor: look.panel, bordercolor: look.line, font: { color: look.ink, size: 12, family: "system-ui, sans-serif" }, namelength: -1, align: "left" },
    modebar: { remove: [] }, ...more,
  };
}

// The values that are in view at first.
function range(axis, values, share = 0.06) {
  const known = values.filter((v) => Number.isFinite(v) && positive(axis, v)).map((v) => (axis.log ? Math.log10(v) : v));
  const own = (v) => (v === null || v === undefined ? null : axis.log ? Math.log10(v) : v);
  let low = known.length ? Math.min(...known) : 0, high = known.length ? Math.max(...known) : 1;
  const room = (high - low || Math.abs(high) || 1) * share;
  low = own(axis.low) ?? low - room;
  high = own(axis.high) ?? high + room;
  return [low, high];
}

function linesOf(chart, look, size) {
  const traces = [], ends = [], unit = chart.y.unit, values = [];
  for (const line of chart.lines) {
    const quiet = look.quiet(line.label), colour = look.colour(line.shade), half = line.half ?? [];
    const dash = line.dashed ? "dash" : DASHES[Math.floor(Math.max(line.shade, 0) / 9)];
    const strength = quiet ? 0.12 : 1;
    const places = decimals(Math.max(...line.y.map(Math.abs)));
    const text = line.y.map((y, i) => quantity(y, unit, places) + (half[i] ? ` ± ${quantity(half[i], unit, places)}` : ""));
    line.y.forEach((y, i) => values.push(y - (half[i] ?? 0), y + (half[i] ?? 0)));
    if (half.length && !line.marked) {
      const lower = line.y.map((y, i) => (chart.y.log ? Math.max(y - half[i], y / 1e3) : y - half[i]));
      traces.push({
        x: [...line.x, ...[...line.x].reverse()], y: [...line.y.map((y, i) => y + half[i]), ...lower.reverse()], type: "scatter", mode: "lines",
        fill: "toself", fillcolor: faded(colour, quiet ? 0.02 : 0.15), line: { width: 0 }, hoverinfo: "skip", meta: line.label,
      });
    }
    traces.push({
      x: line.x, y: line.y, text, name: escaped(line.label), meta: line.label, type: "scatter", mode: line.marked ? "lines+markers" : "lines", opacity: strength,
      line: { color: colour, width: look.only.has(line.label) ? 3 : 2, dash }, marker: { color: colour, size: 8, symbol: SYMBOLS[Math.max(line.shade, 0) % 9] },
      error_y: line.marked && half.length ? { array: half, color: colour, thickness: 1.5, width: 4 } : undefined,
      ...(quiet ? { hoverinfo: "skip" } : { hovertemplate: VALUE, hoverlabel: { bordercolor: colour } }),
    });
    if (!quiet) ends.push({ label: line.label, colour, x: line.x.at(-1), y: line.y.at(-1) });
  }
  const wide = size.width > NARROW, view = range(chart.y, values);
  const layout = layoutOf(look, size, {
    hovermode: wide ? "x unified" : "closest",
    xaxis: axisOf(chart.x, look, size.width, chart.x.log || chart.x.low === null || chart.x.low === undefined ? {} : { range: [chart.x.low, chart.x.high ?? Math.max(...chart.lines.map((l) => l.x.at(-1)))] }),
    yaxis: axisOf(chart.y, look, size.width, { range: view }),
  });
  if (wide && !chart.x.names?.length) label(layout, ends, view, chart.y.log, size);
  return { traces, layout, stops: stopsOfLines(chart, traces, look) };
}

// Names at the ends of lines, moved apart where they would meet.
function label(layout, ends, view, log, size) {
  const tall = size.height - 70, line = 14;
  const at = (y) => ((view[1] - (log ? Math.log10(y) : y)) / (view[1] - view[0])) * tall;
  const shown = ends.filter((end) => positive({ log }, end.y)).map((end) => ({ ...end, own: at(end.y) })).filter((end) => end.own >= -2 && end.own <= tall + 2).sort((a, b) => a.own - b.own);
  if (shown.length > 12) return;
  shown.forEach((end, i) => { end.put = i ? Math.max(end.own, shown[i - 1].put + line) : end.own; });
  const over = shown.length ? shown.at(-1).put - tall : 0;
  if (over > 0) for (let i = shown.length - 1, most = tall; i >= 0; i -= 1, most -= line) shown[i].put = Math.min(shown[i].put, most);
  layout.margin = { ...layout.margin, r: Math.min(170, 20 + 7 * Math.max(0, ...shown.map((end) => end.label.length))) };
  layout.annotations = shown.map((end) => ({
    x: end.x, y: log ? Math.log10(end.y) : end.y, text: escaped(short(end.label)), font: { color: end.colour, size: 12 }, showarrow: false, xanchor: "left", yanchor: "middle",
    xshift: 6, yshift: end.own - end.put, captureevents: true, name: end.label,
  }));
}

function stopsOfLines(chart, traces, look) {
  const shown = traces.map((trace, curveNumber) => ({ trace, curveNumber })).filter(({ trace }) => trace.text && !look.quiet(trace.meta));
  const longest = shown.reduce((a, b) => (b.trace.x.length > (a?.trace.x.length ?? 0) ? b : a), null);
  return (longest?.trace.x ?? []).map((x, i) => {
    const here = shown.filter(({ trace }) => trace.x[i] === x);
    const where = chart.x.names?.length ? chart.x.names[x] : `${chart.x.title.split(/[;(]/)[0].trim()} ${quantity(x, chart.x.unit, 0)}`;
    return { text: `${where}: ${here.map(({ trace }) => `${trace.meta} ${trace.text[i]}`).join(", ")}`, points: here.map(({ curveNumber }) => ({ curveNumber, pointNumber: i })) };
  });
}

function rowsOf(chart, look, size) {
  const traces = [], stops = [], values = chart.bars || chart.zero ? [0] : [], unit = chart.x.unit;
  const every = chart.rows.flatMap((row) => [row.mean ?? 0, ...row.dots.map(([value]) => value)]);
  const places = chart.places ?? decimals(Math.max(...every.map(Math.abs)));
  chart.rows.forEach((row, y) => {
    const quiet = look.quiet(row.label), colour = look.colour(row.shade), strength = quiet ? 0.12 : 1, skip = quiet ? { hoverinfo: "skip" } : {};
    const dots = row.dots.filter(([value]) => positive(chart.x, value));
    const said = row.mean === null ? "" : `${chart.bars ? "mean" : "mean of runs"} ${quantity(row.mean, unit, places)}${row.half ? ` ± ${quantity(row.half, unit, places)} (${chart.band})` : ""}${row.note ? `, ${row.note}` : row.verdict ? `, ${row.verdict}` : ""}`;
    const mine = { name: escaped(row.label), meta: row.label, opacity: strength, ...skip };
    if (chart.bars) traces.push({ ...mine, type: "bar", orientation: "h", x: [row.mean ?? 0], y: [y], width: 0.62, marker: { color: faded(colour, 0.28) }, text: [said], textposition: "none", ...(quiet ? {} : { hovertemplate: VALUE }) });
    traces.push({
      ...mine, type: "scatter", mode: "markers", x: dots.map(([value]) => value), y: dots.map((_, i) => y + (dots.length > 1 ? (((i * 7) % 5) - 2) * 0.07 : 0)),
      text: dots.map(([value, name]) => `${escaped(name)}: ${quantity(value, unit, places)}`), marker: { color: colour, size: 7, opacity: chart.bars ? 0.9 : 0.5, symbol: "circle" },
      ...(quiet ? {} : { hovertemplate: VALUE }),
    });
    if (!chart.bars && row.mean !== null && positive(chart.x, row.mean)) {
      traces.push({
        ...mine, type: "scatter", mode: "markers", x: [row.mean], y: [y], text: [said], marker: { color: colour, size: 12, symbol: row.verdict === undefined ? "diamond" : VERDICTS[row.verdict], line: { color: look.paper, width: 1 } },
        error_x: row.half ? { array: [row.half], color: colour, thickness: 2, width: 6 } : undefined, ...(quiet ? {} : { hovertemplate: VALUE }),
      });
    }
    if (row.ring !== null && row.ring !== undefined) {
      traces.push({ ...mine, type: "scatter", mode: "markers", x: [row.ring], y: [y], text: [`${chart.ring} ${quantity(row.ring, unit, places)}`], marker: { color: look.ink, size: 14, symbol: "circle-open", line: { width: 1.6 } }, ...(quiet ? {} : { hovertemplate: VALUE }) });
    }
    if (!row.reference || chart.rows.every((other) => other.reference)) {
      values.push(...row.dots.map(([value]) => value));
      if (row.mean !== null) values.push(row.mean - row.half, row.mean + row.half);
      if (row.ring) values.push(row.ring);
    }
    if (!quiet) stops.push({ text: `${row.label}: ${said}${dots.length ? `; ${dots.map(([value, name]) => `${name} ${quantity(value, unit, places)}`).join(", ")}` : ""}`, points: [{ curveNumber: chart.bars ? traces.findLastIndex((t) => t.meta === row.label && t.type === "bar") : traces.findLastIndex((t) => t.meta === row.label && t.x.length === 1), pointNumber: 0 }] });
  });
  const view = range(chart.x, values), place = (value) => (chart.x.log ? Math.log10(value) : value);
  const away = chart.rows.map((row, y) => ({ row, y })).filter(({ row }) => row.reference && row.mean !== null && (place(row.mean) < view[0] || place(row.mean) > view[1]));
  const letters = size.width / 17, longest = Math.max(...chart.rows.flatMap((row) => wrapped(row.label, letters).split("<br>").map((line) => line.length)));
  const names = chart.rows.map((row) => (look.only.has(row.label) ? `<b>${wrapped(row.label, letters)}</b>` : wrapped(row.label, letters)));
  const layout = layoutOf(look, size, {
    hovermode: "closest", barmode: "overlay",
    xaxis: axisOf(chart.x, look, size.width - 6 * longest, { range: view, zerolinecolor: look.faint }),
    annotations: away.map(({ row, y }) => {
      const left = !(place(row.mean) > view[1]);
      return { xref: "paper", x: left ? 0 : 1, xanchor: left ? "left" : "right", y, yref: "y", showarrow: false, text: left ? `◂ ${quantity(row.mean, unit, places)}` : `${quantity(row.mean, unit, places)} ▸`, font: { color: look.faint, size: 12 } };
    }),
    yaxis: axisOf({ title: "" }, look, size.width, { tickvals: chart.rows.map((_, i) => i), ticktext: names, tickfont: { color: look.ink, size: 12 }, range: [chart.rows.length - 0.45, -0.55], fixedrange: true, showgrid: false, zeroline: false }),
  });
  return { traces, layout, stops };
}

function pointsOf(chart, look, size) {
  const shown = chart.points.filter((point) => positive(chart.x, point.x) && positive(chart.y, point.y));
  const places = decimals(Math.max(0, ...shown.map((point) => Math.abs(point.y))));
  const view = range(chart.y, shown.flatMap((point) => [point.y - point.half, point.y + point.half]), 0.14);
  const spots = spread(shown, chart, view, size);
  const traces = shown.map((point, i) => {
    const quiet = look.quiet(point.label), colour = look.colour(point.shade);
    const said = `${quantity(point.y, chart.y.unit, places)}${point.half ? ` ± ${quantity(point.half, chart.y.unit, places)} (${chart.band})` : ""} at ${quantity(point.x, chart.x.unit)}`;
    return {
      x: [point.x], y: [point.y], name: escaped(point.label), meta: point.label, customdata: [said], type: "scatter", mode: spots[i] ? "markers+text" : "markers", text: [escaped(short(point.label))], textposition: spots[i],
      textfont: { color: colour, size: 12 }, opacity: quiet ? 0.12 : 1, marker: { color: colour, size: 11, symbol: SYMBOLS[Math.max(point.shade, 0) % 9] }, cliponaxis: false,
      error_y: point.half ? { array: [point.half], color: colour, thickness: 1.5, width: 4 } : undefined, ...(quiet ? { hoverinfo: "skip" } : { hovertemplate: "<b>%{fullData.name}</b> %{customdata}<extra></extra>" }),
    };
  });
  const stops = traces.map((trace, curveNumber) => ({ trace, curveNumber })).filter(({ trace }) => !look.quiet(trace.meta)).map(({ trace, curveNumber }) => ({ text: `${trace.meta}: ${trace.customdata[0]}`, points: [{ curveNumber, pointNumber: 0 }] }));
  const across = range(chart.x, shown.map((point) => point.x)), room = (across[1] - across[0]) * 0.22;
  const layout = layoutOf(look, size, { hovermode: "closest", xaxis: axisOf(chart.x, look, size.width, { range: [across[0] - room, across[1] + room] }), yaxis: axisOf(chart.y, look, size.width, { range: view }) });
  return { traces, layout, stops };
}

// On which side of each point its name is: where it meets no other name; nowhere, where there is no room.
function spread(points, chart, view, size) {
  const xs = points.map((point) => (chart.x.log ? Math.log10(point.x) : point.x)), low = Math.min(...xs), wide = (Math.max(...xs) - low || 1) * 1.5;
  const place = (i) => [((xs[i] - low) / wide) * size.width, ((view[1] - (chart.y.log ? Math.log10(points[i].y) : points[i].y)) / (view[1] - view[0])) * (size.height - 70)];
  const taken = points.map((_, i) => { const [x, y] = place(i); return [x - 8, y - 8, x + 8, y + 8]; });
  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  return points.map((point, i) => {
    const [x, y] = place(i), long = 7 * short(point.label).length;
    const sides = { "middle right": [x + 9, y - 8, x + 9 + long, y + 8], "middle left": [x - 9 - long, y - 8, x - 9, y + 8], "top center": [x - long / 2, y - 24, x + long / 2, y - 9], "bottom center": [x - long / 2, y + 9, x + long / 2, y + 24] };
    const inside = ([left, , right]) => left > -0.1 * size.width && right < size.width * 0.75;
    const side = Object.keys(sides).find((key) => inside(sides[key]) && !taken.some((other, j) => j !== i && meets(sides[key], other)));
    if (side) taken.push(sides[side]);
    return side;
  });
}

const KINDS = { lines: linesOf, rows: rowsOf, points: pointsOf };
