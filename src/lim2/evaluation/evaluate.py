"""Off-policy evaluation: estimate from a log what another policy would have earned."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.checks import shown
from lim2.evaluation.estimators import Estimate, doubly_robust, mean_of, mean_of_bounded, snips
from lim2.evaluation.models import by_folds, by_past, regressed
from lim2.evaluation.overlap import Overlap, doubts
from lim2.evaluation.policies import Chooser, Rule, probabilities
from lim2.log import DecisionLog, Table

Array = NDArray[np.float64]


class OverlapWarning(UserWarning):
    """The log has too little data on the policy, so that the estimates are unreliable."""


@dataclass(frozen=True)
class Evaluation:
    """Estimated value of a policy.

    Parameters
    ----------
    ips
        Estimate by inverse propensity scoring: unbiased, but noisy if weights are large.
    snips
        Self-normalised estimate: its bias vanishes with n, and it is often much less noisy.
    dr
        Doubly robust estimate: unbiased like IPS, and less noisy the better the reward model is.
    gain
        Policy's mean reward minus that of the log, by DR and paired by decision.
    effective_size
        Number of decisions by the policy itself that would say as much (Kish).
    effective_rewarded
        The same of those decisions whose reward is not 0. Below 50, intervals miss too often.
    mean_weight
        Its expectation is 1 if the propensities are correct and cover the policy's arms.
    unsupported
        Share of the policy's probability on arms whose logged propensity was 0. NaN if the propensities of arms that
        were not played are unknown.
    warnings
        Reasons why the estimates may be unreliable.
    """

    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    n: int
    level: float
    effective_size: float
    effective_rewarded: float
    mean_weight: float
    max_weight: float
    unsupported: float
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        names = {"logged": "logged policy", "ips": "IPS", "snips": "SNIPS", "dr": "doubly robust", "gain": "gain (DR)"}
        lines = [f"{'':<14} {'value':>10}   {f'{self.level:.0%} interval':<24}"]
        for name, label in names.items():
            e: Estimate = getattr(self, name)
            interval = f"[{e.low:.4f}, {e.high:.4f}]"
            lines.append(f"{label:<14} {e.value:>10.4f}   {interval}")
        lines.append(
            f"{self.n} decisions, effective sample size {self.effective_size:.0f}; weights: mean "
            f"{self.mean_weight:.3f}, largest {self.max_weight:.4g}"
        )
        return "\n".join([line.rstrip() for line in lines] + [f"warning: {text}" for text in self.warnings])


def evaluate(
    log: DecisionLog | Table,
    policy: Chooser | Rule | ArrayLike,
    *,
    level: float = 0.95,
    model: str | ArrayLike = "ridge",
    crossfit: str = "past",
    folds: int = 10,
    reward_range: tuple[float, float] | None = None,
) -> Evaluation:
    """Estimate what a policy would have earned on the logged decisions.

    The intervals are asymptotic (Student's t; the delta method for SNIPS). They have their nominal coverage if contexts
    do not change over time and weights are moderate, which the warnings check. If the logging agent was learning, as
    usual, IPS and DR with ``crossfit="past"`` remain unbiased, because each propensity is that of the moment of its
    decision. Their intervals then require that the propensities of the policy's arms do not approach 0: set
    `epsilon` in the logging agent.

    Parameters
    ----------
    log
        A decision log, its `table()`, or some rows of the table.
    policy
        An agent, an item agent, a `lim2.Bandit`, or a snapshot of one. It does not learn during the evaluation, and
        chooses among the candidates of each decision that it knows. Or a function of (context, eligible arms) that
        returns one of the arms, their probabilities, or a dictionary of probabilities; if candidates have features, a
        function of (context, items), where items is a dictionary of features by name. Or an array of probabilities: one
        row per decision and one column for each of ``table.arms``, or one value per candidate of all decisions.
    model
        Reward model for DR. ``"ridge"``: a linear regression per arm on the contexts; if items are vectors, one
        regression on contexts, items and their products; if contexts are raw, the mean of each arm. ``"logged"``: the
        logged expectations of the deciding agent, also for texts and images. Or an array of predictions (n, K), such
        as ``other.means(table.contexts)``, or (m,), by a model that was not trained on these rewards.
    crossfit
        How ridge avoids predicting rewards that it was fitted on. ``"past"``: blocks in time, each predicted from
        the blocks before, which is valid for logs of learning agents, too. ``"folds"``: each fold predicted from all
        others, which is a little more precise if the logging policy was fixed.
    reward_range
        Smallest and largest possible reward. If given, IPS and DR have empirical Bernstein intervals, which are valid
        for any n and wider.

    Returns
    -------
    Evaluation
        The estimates; print them for a table. Each of the warnings is also issued as an `OverlapWarning`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> contexts = rng.normal(size=(2000, 2))
    >>> played = rng.choice(["a", "b"], size=2000)
    >>> rewards = np.where(played == "a", contexts[:, 0], 0.2) + 0.1 * rng.normal(size=2000)
    >>> table = Table.of(contexts, played.tolist(), rewards, np.full(2000, 0.5))
    >>> print(evaluate(table, lambda context, arms: "a" if context[0] > 0.2 else "b"))
                        value   95% interval
    logged policy      0.0813   [0.0496, 0.1129]
    IPS                0.4780   [0.4404, 0.5157]
    SNIPS              0.4863   [0.4547, 0.5179]
    doubly robust      0.5006   [0.4779, 0.5233]
    gain (DR)          0.4193   [0.3928, 0.4458]
    2000 decisions, effective sample size 983; weights: mean 0.983, largest 2
    """
    if not isinstance(log, Table | DecisionLog):
        path = repr(str(log)) if isinstance(log, str | os.PathLike) else "path"
        raise ValueError(
            f"log must be a decision log or a table, got {shown(log)}: open the log with "
            f"lim2.DecisionLog({path}), or read a table with lim2.log.Table.from_frame"
        )
    table = log if isinstance(log, Table) else log.table()
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    usable = table.propensity > 0
    n_underflows = len(table) - int(usable.sum())
    if n_underflows:
        table = table[usable]
    if len(table) < 2:
        raise ValueError(f"evaluation needs at least 2 decisions with rewards, the log has {len(table)}")
    chances, played = probabilities(policy, table), table.played
    weights = chances[played] / table.propensity
    q = _model(model, table, crossfit, folds)
    if reward_range is not None:
        q = np.clip(q, *reward_range)
    expected = np.add.reduceat(chances * q, table.candidates.starts[:-1])
    terms = doubly_robust(weights, table.rewards, q[played], expected)
    by_weight = weights * table.rewards
    if reward_range is None:
        ips, dr = mean_of(by_weight, level), mean_of(terms, level)
    else:
        ips, dr = _bounded(by_weight, terms, _largest_weight(chances, weights, table), table, reward_range, level)
    overlap = Overlap.of(weights, chances, table)
    texts = doubts(overlap, chances, weights, table, n_underflows)
    for text in texts:
        warnings.warn(text, OverlapWarning, stacklevel=2)
    return Evaluation(
        logged=mean_of(table.rewards, level),
        ips=ips,
        snips=snips(weights, table.rewards, level),
        dr=dr,
        gain=mean_of(terms - table.rewards, level),
        n=len(table),
        level=level,
        effective_size=overlap.effective_size,
        effective_rewarded=overlap.effective_rewarded,
        mean_weight=overlap.mean_weight,
        max_weight=overlap.max_weight,
        unsupported=overlap.unsupported,
        warnings=tuple(texts),
    )


def _model(model: str | ArrayLike, table: Table, crossfit: str, folds: int) -> Array:
    """Return the predicted rewards of all candidates, (m,)."""
    candidates = table.candidates
    if isinstance(model, str):
        if model == "ridge":
            if crossfit not in ("past", "folds"):
                raise ValueError(f"crossfit must be 'past' or 'folds', got {crossfit!r}")
            if folds < 2:
                raise ValueError(f"folds must be at least 2, got {folds!r}")
            return regressed(table, (by_past if crossfit == "past" else by_folds)(len(table), folds))
        if model != "logged":
            raise ValueError(f"model must be 'ridge', 'logged' or an array of predictions, got {model!r}")
        if candidates.means is None:
            raise ValueError(
                "model='logged' needs the means of the deciding agent, but they were not logged: use model='ridge'"
            )
        return candidates.means
    q, shape = np.asarray(model, dtype=np.float64), (len(table), len(table.arms))
    if q.shape == shape:
        q = q[candidates.rows, candidates.arms]
    if q.shape != candidates.arms.shape or not np.isfinite(q).all():
        raise ValueError(
            f"the model's predictions must be finite, of shape {shape}: one row per decision, one column for each of "
            f"table.arms; or {candidates.arms.shape}, one per candidate; got shape {q.shape}"
        )
    return q


def _largest_weight(chances: Array, weights: Array, table: Table) -> float:
    """Return the largest possible weight of any arm in the logged contexts."""
    logged = table.candidates.propensities
    if logged is None:
        return float(weights.max())
    return float((chances[logged > 0] / logged[logged > 0]).max())


def _bounded(
    by_weight: Array, terms: Array, largest: float, table: Table, reward_range: tuple[float, float], level: float
) -> tuple[Estimate, Estimate]:
    low, high = reward_range
    if not low < high or table.rewards.min() < low or table.rewards.max() > high:
        raise ValueError(
            f"reward_range must be (smallest, largest) and cover all rewards, which are between {table.rewards.min()} "
            f"and {table.rewards.max()}; got {reward_range!r}"
        )
    ips = mean_of_bounded(by_weight, (max(high, 0.0) - min(low, 0.0)) * largest, level)
    dr = mean_of_bounded(terms, (high - low) * (1 + 2 * largest), level)
    return ips, dr
