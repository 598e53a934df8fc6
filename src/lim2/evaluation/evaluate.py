"""Off-policy evaluation: what another policy would have earned where the logged one decided."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.checks import shown
from lim2.evaluation.estimators import Estimate, doubly_robust, mean_of, mean_of_bounded, snips
from lim2.evaluation.features import regressed
from lim2.evaluation.models import by_folds, by_past
from lim2.evaluation.overlap import Overlap, concerns
from lim2.evaluation.policies import Chooser, Rule, probabilities
from lim2.log import DecisionLog, Table

Array = NDArray[np.float64]


class OverlapWarning(UserWarning):
    """The log says little about the policy, or says it unreliably."""


@dataclass(frozen=True)
class Evaluation:
    """What a log says about a policy.

    Parameters
    ----------
    logged
        The mean reward of the decisions in the log.
    ips
        The policy's value by inverse propensity scores: unbiased, and noisy where weights are large.
    snips
        By self-normalised scores: a bias that vanishes with n, often much less noise.
    dr
        Doubly robust: unbiased as IPS, and the better the reward model, the less noise.
    gain
        What the policy earns more than the log did, by DR and paired by decision.
    n
        Decisions.
    level
        Of the confidence intervals.
    effective_size
        How many decisions of the policy itself these are worth.
    mean_weight, max_weight
        The mean is 1 but for chance, if propensities are right and cover what the policy plays.
    unsupported
        The share of the policy's plays that the log could not have made: its propensity was 0. NaN if propensities of
        arms that were not played are unknown.
    warnings
        What makes these numbers unreliable.
    """

    logged: Estimate
    ips: Estimate
    snips: Estimate
    dr: Estimate
    gain: Estimate
    n: int
    level: float
    effective_size: float
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
            f"{self.n} decisions, worth {self.effective_size:.0f} of the policy's own; weights: mean "
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
    """Estimate what a policy would have earned, had it decided where the log did.

    The intervals are asymptotic (Student's t; the delta method for SNIPS): they cover at their level when contexts are
    alike over time and weights are moderate, which the warnings watch. If the logging agent was learning, as it usually
    was, IPS and DR with ``crossfit="past"`` remain unbiased, since the propensities are those of the moment; their
    intervals then need the propensities of what the policy plays not to fade towards 0, for which `min_propensity`
    takes care.

    Parameters
    ----------
    log
        A decision log, or its `table()`, or some rows of that.
    policy
        An agent, an item agent, a `lim2.Bandit`, or a snapshot of one, as it is: it does not learn meanwhile, and
        chooses among the candidates of each decision, of arms among those that it knows. Or a function of (context,
        eligible arms) that returns one of the arms, their probabilities, or a dictionary of probabilities; where
        candidates have features, a function of (context, items), a dictionary of the features by name. Or an array of
        probabilities, one row per decision and one column for each of ``table.arms``, or one value per candidate of
        all decisions.
    level
        Of confidence.
    model
        Predictions of rewards for DR. ``"ridge"``: a linear regression per arm, over the contexts; one over contexts,
        items and their products, where items are vectors; and the mean of each arm, where contexts are raw.
        ``"logged"``: what the deciding agent expected at the time, which suits texts and images, too. Or an array
        (n, K), such as ``other.means(table.contexts)``, or (m,), of a model that has not seen these rewards.
    crossfit
        How ridge avoids predicting what it has been fitted on. ``"past"``: blocks in time, each predicted from those
        before, which is right for logs of learning agents, too. ``"folds"``: each fold from all others; a little more
        precise when the logging policy was fixed.
    folds
        Number of blocks or folds.
    reward_range
        The smallest and largest possible reward. When given, IPS and DR have empirical Bernstein intervals, which hold
        for any n, and are wider.

    Returns
    -------
    Evaluation
        Print it for a table. Each of its warnings is also given as an `OverlapWarning`.

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
    2000 decisions, worth 983 of the policy's own; weights: mean 0.983, largest 2
    """
    if not isinstance(log, Table | DecisionLog):
        path = repr(str(log)) if isinstance(log, str | os.PathLike) else "path"
        raise ValueError(
            f"evaluate takes a decision log or a table of one, got {shown(log)}: open the log by "
            f"lim2.DecisionLog({path}), or read a table by lim2.log.Table.from_frame"
        )
    table = log if isinstance(log, Table) else log.table()
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
    usable = table.propensity > 0
    underflown = len(table) - int(usable.sum())
    if underflown:
        table = table[usable]
    if len(table) < 2:
        raise ValueError(f"at least 2 decisions with rewards are needed, the log has {len(table)}")
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
    found = concerns(overlap, chances, weights, table, underflown)
    for text in found:
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
        mean_weight=overlap.mean_weight,
        max_weight=overlap.max_weight,
        unsupported=overlap.unsupported,
        warnings=tuple(found),
    )


def _model(model: str | ArrayLike, table: Table, crossfit: str, folds: int) -> Array:
    """Return (m,) predicted rewards of all candidates."""
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
                "model='logged' needs the means that the deciding agent expected, but they were not logged"
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
    """Return the largest weight that any arm could have had in the logged contexts."""
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
            f"reward_range must be (smallest, largest) and hold all rewards, which are between {table.rewards.min()} "
            f"and {table.rewards.max()}; got {reward_range!r}"
        )
    ips = mean_of_bounded(by_weight, (max(high, 0.0) - min(low, 0.0)) * largest, level)
    dr = mean_of_bounded(terms, (high - low) * (1 + 2 * largest), level)
    return ips, dr
