// Numbers as a reader wants them, and the paired t-test. `lim2.experiments.report.texts` and `stats` do the same in Python.

const LEVEL = 0.05;

function decimals(value) {
  if (!value || !Number.isFinite(value)) return 0;
  return Math.min(3, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value)))));
}

const forms = [0, 1, 2, 3].map((places) => new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }));

function plain(value, places = decimals(value)) {
  const text = forms[places].format(value);
  return text.replace(/^-(?=[0.,]*$)/, "").replace("-", "−");
}

function quantity(value, unit = "", places = undefined) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (unit === "s") return size >= 1 ? `${plain(value)} s` : size >= 0.01 ? `${plain(value * 1e3, 1)} ms` : `${plain(value * 1e6, size < 1e-5 ? 1 : 0)} µs`;
  if (unit === "B") return size >= 1e6 ? `${plain(value / 1e6, 1)} MB` : `${plain(value / 1e3, size && size < 1e4 ? 1 : 0)} kB`;
  if (unit === "%") return `${plain(value, places ?? 1)}%`;
  return plain(value, places);
}

function signed(value, unit, places) {
  return (value > 0 ? "+" : "") + quantity(value, unit, places);
}

function pText(p) {
  return p === null ? "–" : p < 0.001 ? "< 0.001" : p < 2 * LEVEL ? p.toFixed(3) : p.toFixed(2);
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;

function variance(values) {
  const middle = mean(values);
  return sum(values.map((value) => (value - middle) ** 2)) / (values.length - 1);
}

function logGamma(x) {
  const terms = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 1.208650973866179e-3, -5.395239384953e-6];
  const base = x + 5.5 - (x + 0.5) * Math.log(x + 5.5);
  const series = terms.reduce((total, term, i) => total + term / (x + 1 + i), 1.000000000190015);
  return -base + Math.log((2.5066282746310005 * series) / x);
}

// The regularised incomplete beta function, by its continued fraction (Lentz).
function betaShare(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - betaShare(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  let c = 1, d = 1 / (1 - ((a + b) * x) / (a + 1)), value = d;
  for (let m = 1; m < 300; m += 1) {
    for (const term of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 / (1 + term * d);
      c = 1 + term / c;
      value *= c * d;
    }
    if (Math.abs(c * d - 1) < 1e-12) break;
  }
  return front * value;
}

// Both tails of Student's t, and the quantile that leaves 5% in them.
const tails = (t, freedom) => betaShare(freedom / (freedom + t * t), freedom / 2, 0.5);

function quantile(freedom) {
  let low = 0, high = 1e3;
  for (let i = 0; i < 60; i += 1) {
    const middle = (low + high) / 2;
    if (tails(middle, freedom) > LEVEL) low = middle;
    else high = middle;
  }
  return high;
}

// Mean, half width of its 95% interval, and p of the test that it is 0: over groups that count alike, as `pooled_p`.
function tested(groups) {
  const middle = mean(groups.map(mean));
  if (groups.some((group) => group.length < 2)) return { mean: middle, half: 0, p: null };
  const parts = groups.map((group) => [variance(group) / group.length, group.length]);
  const total = sum(parts.map(([v]) => v));
  const error = Math.sqrt(total) / groups.length;
  if (error === 0) return { mean: middle, half: 0, p: middle === 0 ? 1 : 0 };
  const freedom = total ** 2 / sum(parts.map(([v, n]) => v ** 2 / (n - 1)));
  return { mean: middle, half: quantile(freedom) * error, p: tails(middle / error, freedom) };
}

function holm(ps) {
  const order = ps.map((p, i) => [p, i]).filter(([p]) => p !== null).sort((a, b) => a[0] - b[0]);
  const corrected = ps.map(() => null);
  let largest = 0;
  order.forEach(([p, i], rank) => {
    largest = Math.max(largest, Math.min(1, (order.length - rank) * p));
    corrected[i] = largest;
  });
  return corrected;
}
