// Charts that the page makes of the runs themselves: the runs of a problem, their course, their price, and two agents in pairs.

const metricOf = (key) => DATA.metrics.find((metric) => metric.key === key);

// What each run of a cell reached: (value, seed), in the order of the seeds.
function reached(problem, cell, key) {
  if (key === "normalised") {
    if (!problem.range) return [];
    const [low, high] = problem.range;
    return cell.reward.map((value, i) => [(value - low) / (high - low), cell.seeds[i]]);
  }
  return (cell[key] ?? []).map((value, i) => [value, cell.seeds[i]]).filter(([value]) => value !== null);
}

function cellsOf(set, problem) {
  return set.agents.map((agent, i) => ({ agent, cell: problem.cells[i] })).filter(({ cell }) => cell);
}

const brief = (metric) => metric.title.replace("Cumulative ", "").toLowerCase();
const capital = (text) => text[0].toUpperCase() + text.slice(1);
const better = (metric) => (metric.higher ? "higher is better" : "lower is better");

function runsChart(set, problem, key) {
  const metric = metricOf(key), log = key === "time" || key === "memory";
  const rows = cellsOf(set, problem).map(({ agent, cell }) => {
    const runs = reached(problem, cell, key), values = runs.map(([value]) => value);
    const result = values.length ? tested([values]) : { mean: null, half: 0 };
    return { label: agent.name, shade: agent.shade, reference: agent.reference, mean: result.mean, half: result.half, dots: runs.map(([value, seed]) => [value, `seed ${seed}`]), note: `${values.length} runs` };
  }).filter((row) => row.mean !== null);
  rows.sort((a, b) => a.reference - b.reference || (metric.higher ? b.mean - a.mean : a.mean - b.mean));
  const title = `${metric.title}${log ? ", log scale" : ""} (${better(metric)})`;
  return { kind: "rows", title: `Every run: ${brief(metric)}`, x: { title, unit: metric.unit, log }, rows, band: "95% interval" };
}

function curveChart(set, problem, key, pace) {
  const metric = metricOf(key), perRound = pace === "round" && (key === "reward" || key === "regret");
  const lines = [], source = key === "normalised" ? "reward" : perRound ? `${key}/round` : key;
  const base = set.agents.findIndex((agent) => agent.reference), random = problem.cells[base]?.curves.reward;
  for (const { agent, cell } of cellsOf(set, problem)) {
    const curve = cell.curves[source];
    if (!curve || (key === "normalised" && !(problem.range && random && random[0] === curve[0]))) continue;
    let [grid, y, half] = curve;
    if (key === "normalised") {
      const unit = problem.range[1] - problem.range[0];
      y = y.map((value, i) => (value - random[1][i]) / unit);
      half = half.map((value) => value / unit);
    }
    lines.push({ label: agent.name, shade: agent.shade, x: set.grids[grid], y, half, dashed: agent.reference });
  }
  const words = { reward: "reward so far", regret: "regret so far", normalised: "lead over the random policy so far", optimal: "optimal arm played so far", time: "time so far", memory: "size of its state (log scale)" };
  const title = perRound ? `${key} of a round` : words[key];
  lines.sort((a, b) => a.dashed - b.dashed || b.y.at(-1) - a.y.at(-1));
  const axis = { title, unit: metric.unit, log: key === "memory" };
  if (key === "regret" || key === "time") Object.assign(axis, { low: 0, high: inView(lines, perRound) });
  return { kind: "lines", title: perRound ? `${capital(brief(metric))} per round` : "Course of the runs", x: { title: "round", low: 0 }, y: axis, lines, band: "95% interval" };
}

// The random policy may leave the figure, and the first eighth of the rounds, too.
function inView(lines, perRound) {
  const agents = lines.some((line) => !line.dashed) ? lines.filter((line) => !line.dashed) : lines;
  const tops = agents.flatMap((line) => line.y.map((y, i) => (perRound && i < line.y.length / 8 ? 0 : y + line.half[i])));
  return 1.1 * Math.max(...tops, 1e-9);
}

function priceChart(set, problem, key) {
  const shown = key === "time" ? "reward" : key, metric = metricOf(shown);
  const points = cellsOf(set, problem).filter(({ agent }) => !agent.reference).map(({ agent, cell }) => {
    const values = reached(problem, cell, shown).map(([value]) => value);
    return { label: agent.name, shade: agent.shade, x: mean(cell.time), y: values.length ? mean(values) : NaN, half: values.length > 1 ? Math.sqrt(variance(values)) : 0 };
  }).filter((point) => Number.isFinite(point.y));
  const log = shown === "memory";
  return { kind: "points", title: `${capital(brief(metric))} against time`, x: { title: "time of a round (log scale)", unit: "s", log: true }, y: { title: metric.title.toLowerCase() + (log ? " (log scale)" : ""), unit: metric.unit, log }, points, band: "standard deviation" };
}

// Two agents, seed by seed: a line per problem, and one for all where scores compare.
function pairs(set, first, second, key) {
  const metric = metricOf(key), lines = [];
  for (const problem of set.problems) {
    const [a, b] = [first, second].map((i) => problem.cells[i]);
    if (!a || !b) continue;
    const others = new Map(reached(problem, b, key).map(([value, seed]) => [seed, value]));
    const both = reached(problem, a, key).filter(([, seed]) => others.has(seed)).map(([value, seed]) => [value, others.get(seed), seed]);
    if (!both.length) continue;
    const differences = both.map(([x, y]) => x - y);
    const [x, y] = [0, 1].map((side) => mean(both.map((pair) => pair[side])));
    const lead = problem.range ? problem.range[1] - problem.range[0] : null;
    const unit = key === "optimal" ? 1 : key === "normalised" ? 0.01 : (key === "reward" || key === "regret") && lead ? lead / 100 : Math.abs(y) / 100;
    lines.push({ problem: problem.name, x, y, seeds: both.map((pair) => pair[2]), differences, shares: differences.map((d) => (unit ? d / unit : 0)), ...tested([differences]) });
  }
  holm(lines.map((line) => line.p)).forEach((p, i) => { lines[i].corrected = p; });
  for (const line of lines) line.verdict = verdict(line, line.corrected, metric);
  const pool = set.pooled && lines.length > 1 ? { ...tested(lines.map((line) => line.shares)), count: lines.length } : null;
  if (pool) pool.verdict = verdict(pool, pool.p, metric);
  return { metric, lines, pool };
}

function verdict(line, p, metric) {
  if (p === null || p >= LEVEL) return "";
  return line.mean > 0 === metric.higher ? "better" : "worse";
}

function shareTitle(key) {
  if (key === "optimal") return "percentage points";
  return key === "time" || key === "memory" ? "% of the second’s" : "% of the best agent’s lead over the random policy";
}

function pairChart(set, first, second, key) {
  const { lines, pool } = pairs(set, first, second, key), [a, b] = [first, second].map((i) => set.agents[i].name);
  const rows = lines.map((line) => {
    const shares = tested([line.shares]);
    return { label: line.problem, shade: line.verdict === "better" ? 2 : line.verdict === "worse" ? 4 : -1, mean: shares.mean, half: shares.half, verdict: line.verdict, note: `p ${pText(line.corrected)}, ${word(line.verdict, a, b, line.corrected)}`, dots: line.shares.map((value, i) => [value, `seed ${line.seeds[i]}`]) };
  });
  if (pool) rows.push({ label: "all problems", shade: pool.verdict === "better" ? 2 : pool.verdict === "worse" ? 4 : -1, mean: pool.mean, half: pool.half, verdict: pool.verdict, note: `p ${pText(pool.p)}, ${word(pool.verdict, a, b, pool.p)}`, dots: [] });
  return { kind: "rows", title: `${a} minus ${b}, ${metricOf(key).title.toLowerCase()}`, x: { title: `difference, ${shareTitle(key)}`, unit: "%" }, rows, band: "95% interval", zero: true, places: 1 };
}

function word(verdict, a, b, p) {
  if (verdict === "better") return `▲ ${a} better`;
  if (verdict === "worse") return `▼ ${b} better`;
  return p === null ? "one run: no test" : "≈ no significant difference";
}
