"""Proof that a bandit earns more, or less, than a rule: a confidence sequence over all decisions of a log, in order.

Of a decision with propensities p, reward r and the rule's probabilities g, let w = g(arm) / p(arm) and

    x = (r - q) (1 - w),  q the mean of all earlier rewards.

Under a control group of a share s < 1 the propensities are those of both groups together; x is divided by 1 - s, which
makes it the gain of the bandit itself, and so are its limits below.

Its conditional mean is the expected reward of the decision minus that of the rule: sum over arms of (p - g) (r - q),
and the q cancel. Rewards are scaled to [0, 1] and capped there. `lim2.confidence_sequence` needs a lower limit of x - m
and of m - x, known before the reward, for which it suffices to know the largest possible weight W = max g / p >= 1:

- If w <= 1, then -q <= x <= 1 - q. If w > 1, then x is largest at r = 0 and smallest at r = 1, both at w = W:
  -(1 - q) (W - 1) <= x <= q (W - 1). So -max(q, (1 - q) (W - 1)) <= x <= max(1 - q, q (W - 1)).
- m is the running mean of x, clipped to [-1, 1]: without that, it could exceed its limits where weights are large, and
  so could c. Any m that is known before x is valid; the true mean is in [-1, 1].
- So c = m + max(q, (1 - q) (W - 1)) for m - x <= c, and c = -m + max(1 - q, q (W - 1)) for x - m <= c. Each is raised
  to at least 1, which is valid and costs nothing.

A decision in which the rule's arm had propensity 0 says nothing. That is known before its reward is, so leaving it out
is no bias. One that was dropped or discarded is left out, too, and the proof says how many were. The order is that of
decisions, up to the first whose reward is still open: otherwise clicks, which come at once, would count before the
zeros of the same time.

Two processes may insert decisions in PostgreSQL so that the later number is visible first. One that becomes visible
after a later one was counted stays out, whatever its reward will be.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.confidence_sequence import BETS, asymptotic_margin, costs, log_wealth, margin
from lim2.decision import Assignment
from lim2.log.entries import COLUMNS, from_row
from lim2.log.rules import Rule, chances_of, rule_of
from lim2.log.serialization import load_names
from lim2.log.store import Store, StoredDecision, Tables

Array = NDArray[np.float64]
Verdict = Literal["proved better", "proved worse", "not yet"]

ROWS_PER_STEP = 1000
STEPS_PER_WRITE = 20  # after which a long proof keeps what it has
MAX_KEPT = 16  # rules of a log whose sums are kept
MIN_EFFECTIVE_REWARDED = 50  # below, intervals by normal approximation miss: `python -m benchmarks.proof rare`
MAX_WAITING = 100  # decisions that may wait without a warning
MAX_MISSING_SHARE = 0.05  # of decisions without a reward
CONTROL_SHARES = (0.05, 0.1, 0.2, 0.5)  # of which a proof may recommend one
MAX_MORE = 10_000_000  # decisions: what would take longer is called undecidable
SHARES = (0.0, *CONTROL_SHARES)
CURVE_START, CURVE_RATIO = 20, 1.15  # a curve has points at these numbers of decisions
_NEEDED = ("arms", "chosen", "propensities", "control")
_ARMS, _CHOSEN, _PROPENSITIES, _CONTROL = (COLUMNS.split(", ").index(name) for name in _NEEDED)


class CurvePoint(NamedTuple):
    """Gain and its interval after a number of decisions."""

    decisions: int
    gain: float
    low: float
    high: float


class ControlShare(NamedTuple):
    """A share of traffic for which the rule would decide, and the number of decisions a verdict would then take."""

    share: float
    decisions: int


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Gain of the logged decisions over a rule, with an interval that is valid however often one looks at it.

    Parameters
    ----------
    rule
        The rule, as the command line names it.
    verdict
        ``"proved better"``, ``"proved worse"``, or ``"not yet"``: with probability `level` no verdict is ever wrong.
    gain
        Reward per decision minus that of the rule, on average over the counted decisions.
    interval
        Its confidence sequence, from low to high.
    relative
        Gain as a share of the rule's reward; NaN if the rule's reward is not positive.
    relative_interval
        `interval` in the same unit, taking the mean reward as it was observed.
    decisions
        Number of counted decisions.
    proved_after
        Number of decisions from which on the verdict has held; None without a verdict.
    decisions_to_verdict
        Number of decisions after which a verdict is expected if all goes on as it did; None if there is a verdict, or
        none is in sight.
    control_share
        Control group that would lead to a verdict much sooner; None if there is a verdict, or none would.
    effective_rewarded
        Number of rewarded decisions by the rule itself that would say as much. Rewards other than 0 count.
    mean_reward
        Mean reward of the counted decisions.
    reward_range
        Smallest and largest reward; None if it is unknown, and the interval is approximate.
    capped
        Number of rewards beyond that range.
    uncovered
        Number of rewarded decisions left out because the rule's arm was not eligible, or had propensity 0.
    missing
        Number of decisions left out because they expired without a reward, or were discarded.
    waiting
        Decisions that are not counted yet, because they or an earlier one still wait for a reward.
    deleted
        Whether counted decisions have been deleted from the log since; their share of the sums stays.
    skipped
        Position up to which the log had been deleted before the proof began; 0 if nothing was missing.
    level
        Confidence level.
    curve
        Course of the interval: a point at every 15% more decisions, and the last.
    """

    rule: str
    verdict: Verdict
    gain: float
    interval: tuple[float, float]
    relative: float
    relative_interval: tuple[float, float]
    decisions: int
    proved_after: int | None
    decisions_to_verdict: int | None
    control_share: ControlShare | None
    effective_rewarded: float
    mean_reward: float
    reward_range: tuple[float, float] | None
    capped: int
    uncovered: int
    missing: int
    waiting: int
    deleted: bool
    skipped: int
    level: float
    curve: tuple[CurvePoint, ...]

    @property
    def approximate(self) -> bool:
        """Whether the interval is asymptotic, because the range of rewards is unknown: it never gives a verdict."""
        return self.reward_range is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits the proof, one sentence each."""
        texts = []
        if self.approximate:
            texts.append(
                "some rewards are not between 0 and 1, and their range is unknown: the interval is approximate and "
                "gives no verdict; name the smallest and largest reward with reward_range"
            )
        if self.decisions and self.effective_rewarded < MIN_EFFECTIVE_REWARDED:
            texts.append(
                f"the log says as much about the rule as {self.effective_rewarded:.0f} rewarded decisions by the rule "
                f"itself, fewer than {MIN_EFFECTIVE_REWARDED}"
            )
        if self.reward_range is not None and self.capped:
            low, high = self.reward_range
            texts.append(f"{_count(self.capped, 'reward')} beyond [{low:g}, {high:g}] were capped")
        seen = self.decisions + self.uncovered + self.missing
        if self.missing > MAX_MISSING_SHARE * seen:
            texts.append(
                f"{self.missing:,} decisions have no reward, {self.missing / seen:.0%} of all: if that depends on the "
                f"arm, the proof is wrong; set default_reward"
            )
        if self.control_share is not None:
            share, decisions = self.control_share
            texts.append(
                f"the rule is rarely followed, so the interval stays wide: with a control group of {share:.0%} of "
                f"traffic, a verdict would take about {decisions:,} decisions"
            )
        if self.waiting > max(self.decisions, MAX_WAITING):
            texts.append(
                f"{self.waiting:,} decisions do not count yet, because the first of them still waits for its reward: "
                f"set expire_after and default_reward"
            )
        if self.deleted:
            texts.append("decisions have been pruned or erased from the log: the sums keep those that had been counted")
        if self.skipped:
            texts.append(f"the log was deleted up to position {self.skipped:,} before this proof began")
        return tuple(texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as JSON holds it, with its warnings and its text; None stands for what is not finite."""
        values = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        curve = [CurvePoint(*point)._asdict() for point in values["curve"]]
        share = None if self.control_share is None else self.control_share._asdict()
        return {**values, "control_share": share, "curve": curve, "warnings": list(self.warnings), "text": str(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Proof:
        """Return the proof that `to_dict` wrote."""
        known = {field.name: _tuples(values[field.name]) for field in fields(cls)}
        numbers = {
            name: math.nan if known[name] is None else known[name] for name in ("gain", "relative", "mean_reward")
        }
        ends = {name: _ends(known[name]) for name in ("interval", "relative_interval")}
        curve = tuple(CurvePoint(*(point[name] for name in CurvePoint._fields)) for point in values["curve"])
        share = None if values["control_share"] is None else ControlShare(**values["control_share"])
        return cls(**{**known, **numbers, **ends, "control_share": share, "curve": curve})

    def __str__(self) -> str:
        rule, unit = _shown(self.rule), "reward per decision"
        if not self.decisions and self.uncovered:
            line = (
                f"not yet: in none of {_count(self.uncovered, 'decision')} could both the bandit and {rule} be chosen"
            )
        elif not self.decisions:
            line = f"not yet: no decision can be compared with {rule}"
        elif self.verdict == "not yet":
            known = all(map(math.isfinite, (self.relative, *self.relative_interval)))
            value, ends = (self.relative, self.relative_interval) if known else (self.gain, self.interval)
            show = _percent if known else _signed
            word = "approximate: " if self.approximate else "not yet: "
            line = f"{word}{show(value)} {unit} against {rule} (between {show(ends[0])} and {show(ends[1])})"
            line += f" after {self.decisions:,} decisions"
            if self.decisions_to_verdict is not None:
                line += f"; at this rate decidable after about {_rounded(self.decisions_to_verdict):,} more"
        else:
            least = 0 if self.verdict == "proved better" else 1
            known = math.isfinite(self.relative) and math.isfinite(self.relative_interval[least])
            value, end = (self.relative, self.relative_interval[least]) if known else (self.gain, self.interval[least])
            show, word = (_percent if known else _signed), ("at least", "at most")[least]
            line = f"{show(value)} {unit} against {rule} ({word} {show(end)})"
            line += f", proved after {self.proved_after:,} decisions"
        return "\n".join([line, *(f"warning: {text}" for text in self.warnings)])


class Evidence(NamedTuple):
    """What a proof has summed up: of the same size for any number of decisions, but for the logarithm of the curve."""

    seq: int = 0  # of the last decision that was looked at
    skipped: int = 0  # position up to which the log was deleted at the start
    deletions: int = 0  # from the log until the start
    seen: int = 0  # decisions that were looked at
    rewarded: int = 0  # those with a reward
    counted: int = 0  # those that count
    capped: int = 0
    outside: int = 0  # rewards beyond [0, 1]
    reward: float = 0.0  # sum of scaled rewards, of all with a reward
    total: float = 0.0  # sum of x
    better: tuple[float, ...] = (0.0,) * len(BETS)  # costs of the bets that the gain is larger
    worse: tuple[float, ...] = (0.0,) * len(BETS)
    raw_reward: float = 0.0  # the same of rewards that are neither scaled nor capped
    raw_total: float = 0.0
    raw_squares: float = 0.0
    bandit: float = 0.0  # sum of the shares that were not under control
    earned: float = 0.0  # sum of capped rewards of those that count, in their own unit
    weight: float = 0.0  # sum of the weights of rewards other than 0
    weight_squares: float = 0.0
    residual_squares: float = 0.0  # sum of (r - q)^2
    excess: tuple[float, ...] = (0.0,) * len(SHARES)  # mean squares, see `weights_of`
    sign: int = 0  # of the latest verdict
    since: int = 0  # number of decisions at which it began
    curve: tuple[tuple[int, float, float, float], ...] = ()

    def to_text(self) -> str:
        """Return the evidence as JSON."""
        return json.dumps(self._asdict() | {"seq": 0})

    @classmethod
    def from_text(cls, seq: int, text: str) -> Evidence:
        """Return the evidence that `to_text` wrote."""
        values = {name: _tuples(value) for name, value in json.loads(text).items()}
        return cls(**{**values, "seq": seq})


class Question(NamedTuple):
    """What is to be proved."""

    rule: Any
    reward_range: tuple[float, float] | None  # None: 0 to 1, as long as no reward is beyond
    level: float

    @property
    def key(self) -> str | None:
        """The name under which the log keeps its evidence; None for a rule that cannot be written down."""
        if not isinstance(self.rule, Rule):
            return None
        return json.dumps([self.rule.name, self.reward_range, self.level])

    @classmethod
    def of(cls, key: str) -> Question:
        """Return the question that has this key."""
        rule, reward_range, level = json.loads(key)
        return cls(rule_of(rule), None if reward_range is None else tuple(reward_range), level)


def question_of(against: Any, reward_range: tuple[float, float] | None, level: float) -> Question:
    """Return what is to be proved; raise a ValueError if it is not clear."""
    rule = rule_of(against)
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    if reward_range is None:
        return Question(rule, None, float(level))
    try:
        low, high = map(float, reward_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"reward_range must be (smallest, largest), such as (0, 50), got {reward_range!r}")
    return Question(rule, (low, high), float(level))


def prove(store: Store, question: Question) -> Proof:
    """Return the proof over all closed decisions of a log, and keep its sums in the log."""
    evidence = caught_up(store, question)
    waiting, deleted = store.look(lambda tables: (tables.count_after(evidence.seq), _deletions(tables)))
    return _proof(question, evidence, waiting, deleted > evidence.deletions)


def catch_up(store: Store) -> None:
    """Count what is closed in all proofs that the log keeps, before decisions are deleted."""
    for key in store.look(lambda tables: tables.proofs()):
        caught_up(store, Question.of(key))


def caught_up(store: Store, question: Question) -> Evidence:
    """Return the evidence of all closed decisions; store it if the log keeps it."""
    key = question.key
    if key is None or store.read_only:
        kept = None if key is None else store.look(lambda tables: tables.proof(key))
        start = _start(store) if kept is None else Evidence.from_text(*kept)
        return _over(store, question, start, None)
    while True:
        kept = store.look(lambda tables: tables.proof(key))
        start = _start(store) if kept is None else Evidence.from_text(*kept)
        evidence = _over(store, question, start, STEPS_PER_WRITE)
        if evidence.seq == start.seq:
            return evidence
        is_kept = store.write(lambda tables: _keep(tables, key, kept, evidence))  # noqa: B023
        if is_kept is False:
            return _over(store, question, evidence, None)


def _start(store: Store) -> Evidence:
    pruned, deletions = store.look(lambda tables: (tables.get("pruned"), _deletions(tables)))
    return Evidence(skipped=int(pruned), deletions=deletions)


def _deletions(tables: Tables) -> int:
    """Return a number that grows whenever settled decisions are pruned or erased."""
    return int(tables.get("pruned")) + tables.counts().get("erased", 0)


def _keep(tables: Tables, key: str, before: tuple[int, str] | None, evidence: Evidence) -> bool:
    """Store evidence, unless another process has gone on meanwhile; return False if the log keeps no more proofs."""
    if tables.proof(key) != before:
        return True
    if before is None and (not evidence.counted or len(tables.proofs()) >= MAX_KEPT):
        return False
    tables.put_proof(key, evidence.seq, evidence.to_text())
    return True


def _over(store: Store, question: Question, evidence: Evidence, steps: int | None) -> Evidence:
    """Return the evidence after the decisions that follow, up to the first that waits for its reward.

    It takes no more than so many steps, unless that is None.
    """
    for _ in itertools.count() if steps is None else range(steps):
        after = evidence.seq
        rows = store.look(lambda tables: tables.decisions("all", after, ROWS_PER_STEP))  # noqa: B023
        closed = next((at for at, row in enumerate(rows) if row.status == "pending"), len(rows))
        if closed:
            evidence = extended(evidence, question, rows[:closed])
        if closed < ROWS_PER_STEP:
            break
    return evidence


def extended(evidence: Evidence, question: Question, rows: Sequence[StoredDecision]) -> Evidence:
    """Return the evidence after further decisions, all of which are closed."""
    rewarded = [row for row in rows if row.status in ("reward", "default")]
    evidence = evidence._replace(seq=rows[-1].seq, seen=evidence.seen + len(rows))
    rewards = np.array([row.reward for row in rewarded], dtype=np.float64)
    return after_rewards(evidence, question, rewards, _weights(question.rule, rewarded))


def _weights(rule: Any, rows: Sequence[StoredDecision]) -> Array:
    """Return `weights_of` for decisions; no more of them is decoded than the rule needs."""
    found = np.full((len(rows), 3 + len(SHARES)), np.nan)
    groups: dict[str, list[int]] = {}
    for place, stored in enumerate(rows):
        groups.setdefault(stored.row[_ARMS], []).append(place)
    for text, places in groups.items():
        arms = load_names(text)
        if isinstance(rule, Rule):
            each = [rule.chances(arms)] * len(places)
        else:
            each = [chances_of(rule, from_row(rows[at].row, rows[at].status, rows[at].reward)) for at in places]
        kept = [(at, chances) for at, chances in zip(places, each, strict=True) if chances is not None]
        if kept:
            propensities = np.stack([np.frombuffer(rows[at].row[_PROPENSITIES], dtype="<f8") for at, _ in kept])
            chosen = np.array([rows[at].row[_CHOSEN] for at, _ in kept], dtype=np.intp)
            shares = np.array([_share(rows[at].row[_CONTROL]) for at, _ in kept])
            found[[at for at, _ in kept]] = weights_of(np.stack([one for _, one in kept]), propensities, chosen, shares)
    return found


def _share(control: str | None) -> float:
    """Return the share of the control group at a decision."""
    return 0.0 if control is None else Assignment(*json.loads(control)).share


def weights_of(chances: Array, propensities: Array, chosen: NDArray[np.intp], shares: Array | float = 0.0) -> Array:
    """Return of each decision its weight, the largest possible one, 1 / (1 - share), and mean squares of the gain.

    Those are the mean squares of (1 - w) / (1 - share) without a control group and with those of `CONTROL_SHARES`. A
    row is NaN if the rule's arms were not covered, or the rule decided always. ``chances`` and ``propensities`` have a
    row per decision and a column per arm; ``shares`` are those of the control group.

    Examples
    --------
    >>> weights_of(np.array([[1.0, 0.0]]), np.array([[0.25, 0.75]]), np.array([0]))[0, :4]
    array([4., 4., 1., 3.])
    """
    rows, positive = np.arange(len(chosen)), chances > 0
    covered = (propensities > 0) | ~positive
    covered &= np.isfinite(propensities) & (propensities[rows, chosen] > 0)[:, None]
    g, p = chances, np.where(positive & covered, propensities, 1.0)
    ratios = g / p
    bandit = np.broadcast_to(1 - np.asarray(shares, dtype=np.float64), len(chosen))
    decides = bandit > 0
    scale = 1 / np.where(decides, bandit, 1.0)
    own = np.maximum((p - (1 - bandit[:, None]) * g) * scale[:, None], 1e-12)  # the bandit's, without the control group
    excess = [((g**2 / (share * g + (1 - share) * own)).sum(axis=1) - 1) / (1 - share) ** 2 for share in SHARES]
    found = np.stack([ratios[rows, chosen], np.maximum(ratios.max(axis=1), 1.0), scale, *excess], axis=1)
    found[~(covered.all(axis=1) & decides)] = np.nan
    return found


def after_rewards(evidence: Evidence, question: Question, rewards: Array, weights: Array) -> Evidence:
    """Return the evidence after rewards, in the order of decisions, with what `weights_of` says of them."""
    if not len(rewards):
        return evidence
    low, high = question.reward_range or (0.0, 1.0)
    counts = np.isfinite(weights).all(axis=1)
    scaled = (np.clip(rewards, low, high) - low) / (high - low)
    numbers = evidence.rewarded + np.arange(1, len(rewards) + 1)
    sums, raw_sums = _running(evidence.reward, scaled), _running(evidence.raw_reward, rewards)
    q, raw_q = sums[:-1] / numbers, raw_sums[:-1] / numbers
    evidence = evidence._replace(
        rewarded=evidence.rewarded + len(rewards),
        capped=evidence.capped + int(((rewards < low) | (rewards > high)).sum()),
        outside=evidence.outside + int(((rewards < 0) | (rewards > 1)).sum()),
        reward=float(sums[-1]),
        raw_reward=float(raw_sums[-1]),
    )
    if not counts.any():
        return evidence
    return _counted(evidence, question, scaled[counts], rewards[counts], q[counts], raw_q[counts], weights[counts])


def _counted(
    evidence: Evidence, question: Question, r: Array, raw: Array, q: Array, raw_q: Array, weights: Array
) -> Evidence:
    """Return the evidence after decisions that count: scaled and raw rewards, their earlier means, and weights."""
    low, high = question.reward_range or (0.0, 1.0)
    w, largest, scale, excess = weights[:, 0], weights[:, 1], weights[:, 2], weights[:, 3:]
    before = evidence.counted
    numbers = before + np.arange(1, len(r) + 1)
    x, raw_x = scale * (r - q) * (1 - w), scale * (raw - raw_q) * (1 - w)
    totals = _running(evidence.total, x)
    m = np.clip(totals[:-1] / np.maximum(numbers - 1, 1), -1.0, 1.0)
    below = np.maximum(m + scale * np.maximum(q, (1 - q) * (largest - 1)), 1.0)  # the module's docstring proves them
    above = np.maximum(-m + scale * np.maximum(1 - q, q * (largest - 1)), 1.0)
    better, worse = (
        _running(np.array(start), costs(x - m, limits))
        for start, limits in ((evidence.better, below), (evidence.worse, above))
    )
    threshold = math.log(2 / (1 - question.level))
    signs = (log_wealth(totals[1:], better[1:]) > threshold).astype(int)
    signs -= log_wealth(-totals[1:], worse[1:]) > threshold
    changes = np.flatnonzero(np.diff(signs, prepend=evidence.sign))
    curve = list(evidence.curve)
    error = (1 - question.level) / 2
    for place in np.flatnonzero(np.isin(numbers, _curve_numbers(int(numbers[-1])))):
        n, total = int(numbers[place]), float(totals[1 + place])
        ends = total - margin(better[1 + place], error), total + margin(worse[1 + place], error)
        curve.append((n, total / n, ends[0] / n, ends[1] / n))
    rewards = raw != 0
    return evidence._replace(
        counted=int(numbers[-1]),
        total=float(totals[-1]),
        better=tuple(better[-1].tolist()),
        worse=tuple(worse[-1].tolist()),
        raw_total=float(_running(evidence.raw_total, raw_x)[-1]),
        raw_squares=float(_running(evidence.raw_squares, raw_x**2)[-1]),
        bandit=float(_running(evidence.bandit, 1 / scale)[-1]),
        earned=float(_running(evidence.earned, low + (high - low) * r)[-1]),
        weight=float(_running(evidence.weight, w * rewards)[-1]),
        weight_squares=float(_running(evidence.weight_squares, w**2 * rewards)[-1]),
        residual_squares=float(_running(evidence.residual_squares, (r - q) ** 2)[-1]),
        excess=tuple(_running(np.array(evidence.excess), excess)[-1].tolist()),
        sign=int(signs[-1]),
        since=int(numbers[changes[-1]]) if len(changes) else evidence.since,
        curve=tuple(curve),
    )


def _running(start: float | Array, values: Array) -> Array:
    """Return the running sums of values from a start, which comes first: the same digits however values are divided."""
    return np.cumsum(np.concatenate([np.asarray(start, dtype=np.float64)[None], values]), axis=0)


def _curve_numbers(last: int) -> list[int]:
    """Return the numbers of decisions up to a number at which a curve has points."""
    steps = 1 + max(0, int(math.log(max(last, CURVE_START) / CURVE_START, CURVE_RATIO)) + 1)
    return [round(CURVE_START * CURVE_RATIO**step) for step in range(steps)]


def _proof(question: Question, evidence: Evidence, waiting: int, deleted: bool) -> Proof:
    """Return the proof that evidence is."""
    low, high = question.reward_range or (0.0, 1.0)
    n, scale, error = evidence.counted, high - low, 1 - question.level
    approximate = question.reward_range is None and evidence.outside > 0
    sign = 0 if approximate else evidence.sign
    gain, ends, mean = math.nan, (-scale, scale), math.nan
    curve = [
        CurvePoint(number, scale * mean, max(scale * start, -scale), min(scale * end, scale))
        for number, mean, start, end in evidence.curve
    ]
    if approximate:
        ends, curve = (-math.inf, math.inf), []
    if n and approximate:
        gain, mean = evidence.raw_total / n, evidence.raw_reward / evidence.rewarded
        half = asymptotic_margin(n, max(evidence.raw_squares / n - gain**2, 0.0), error)
        ends = (gain - half, gain + half)
    elif n:
        gain, mean = scale * evidence.total / n, evidence.earned / n
        sides = (scale * margin(np.array(side), error / 2) / n for side in (evidence.better, evidence.worse))
        ends = (max(gain - next(sides), -scale), min(gain + next(sides), scale))
        if not curve or curve[-1].decisions < n:
            curve.append(CurvePoint(n, gain, *ends))
    to_verdict = None if sign or approximate else _decisions_to_verdict(evidence, error / 2)
    weight_squares, share = evidence.weight_squares, evidence.bandit / n if n else 1.0
    return Proof(
        rule=question.rule.name if isinstance(question.rule, Rule) else _name(question.rule),
        verdict="proved better" if sign > 0 else "proved worse" if sign < 0 else "not yet",
        gain=gain,
        interval=ends,
        relative=_relative(gain, mean, share),
        relative_interval=(_relative(ends[0], mean, share), _relative(ends[1], mean, share)),
        decisions=n,
        proved_after=evidence.since if sign else None,
        decisions_to_verdict=to_verdict,
        control_share=None if sign or approximate else _control_share(evidence, to_verdict, error / 2),
        effective_rewarded=evidence.weight**2 / weight_squares if weight_squares else 0.0,
        mean_reward=mean,
        reward_range=None if approximate else (low, high),
        capped=0 if approximate else evidence.capped,
        uncovered=evidence.rewarded - n,
        missing=evidence.seen - evidence.rewarded,
        waiting=waiting,
        deleted=deleted,
        skipped=evidence.skipped,
        level=question.level,
        curve=tuple(curve),
    )


def _relative(gain: float, mean: float, share: float) -> float:
    """Return a gain as a share of the rule's reward; the mean reward has the bandit's share of the gain."""
    rule = mean - share * gain
    return gain / rule if rule > 0 else math.inf if gain > 0 else math.nan


def _decisions_to_verdict(evidence: Evidence, error: float) -> int | None:
    """Return the number of further decisions after which the verdict falls if all goes on as it did, or None."""
    if not evidence.counted:
        return None
    side = evidence.better if evidence.total > 0 else evidence.worse
    factor = _growth(abs(evidence.total), np.array(side), error)
    return None if factor is None else _within(evidence.counted * (factor - 1))


def _control_share(evidence: Evidence, to_verdict: int | None, error: float) -> ControlShare | None:
    """Return the smallest control group that halves the time to a verdict."""
    n = evidence.counted
    if not n or not evidence.total:
        return None
    best, remaining = None, math.inf if to_verdict is None else n + to_verdict
    for share, excess in zip(CONTROL_SHARES, evidence.excess[1:], strict=True):
        squares = evidence.residual_squares / n * excess  # of x, given the weights
        each = costs(np.array([math.sqrt(max(squares, 0.0) / n)]), np.array([1 / (share * (1 - share))]))[0]
        factor = _growth(abs(evidence.total), n * each, error)
        expected = None if factor is None else _within(n * factor)
        if expected is not None and expected < remaining / 2:
            best, remaining = ControlShare(share, _rounded(expected)), float(expected)
    return best


def _growth(surplus: float, costs: Array, error: float) -> float | None:
    """Return the factor by which sums must grow for the bets to win, or None if they do not within reason."""
    first, last = 0.0, 1.0

    def wins(factor: float) -> bool:
        return bool(log_wealth(np.array(factor * surplus), factor * costs) > -math.log(error))

    while not wins(last):
        first, last = last, 2 * last
        if last > MAX_MORE:
            return None
    while last - first > 1e-3 * last:
        middle = (first + last) / 2
        first, last = (first, middle) if wins(middle) else (middle, last)
    return last


def _within(decisions: float) -> int | None:
    return math.ceil(decisions) if decisions <= MAX_MORE else None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(_plain, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _ends(values: Sequence[float | None]) -> tuple[float, float]:
    low, high = values
    return -math.inf if low is None else low, math.inf if high is None else high


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _name(rule: Any) -> str:
    return getattr(rule, "__name__", type(rule).__name__)


def _shown(name: str) -> str:
    kind, colon, arm = name.partition(":")
    return f'"{arm}"' if colon and kind == "always" else name


def _percent(value: float) -> str:
    return f"{value:+.1%}"


def _signed(value: float) -> str:
    return f"{value:+.4g}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _rounded(number: int) -> int:
    """Return a number with two digits that say something."""
    return int(float(f"{number:.2g}"))
