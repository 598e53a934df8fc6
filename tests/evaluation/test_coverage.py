"""Intervals cover the true value at their stated rate, on logged problems where it is known."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from lim2.evaluation import Evaluation, Table, evaluate

Float = NDArray[np.float64]
REPLICATIONS, ROWS, ARMS, FEATURES = 400, 1000, 4, 3
WORLD = np.random.default_rng(7).normal(size=(ARMS, FEATURES))


def expected(contexts: Float) -> Float:
    """Return each arm's mean reward, (n, ARMS): not linear, so that the reward model is wrong."""
    means: Float = np.tanh(contexts @ WORLD.T) + 0.5 * np.abs(contexts[:, :1])
    return means


def softmax(scores: Float) -> Float:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Float = powers / powers.sum(axis=1, keepdims=True)
    return chances


def logging(contexts: Float) -> Float:
    return 0.2 / ARMS + 0.8 * softmax(contexts @ WORLD[::-1].T)


def target(contexts: Float) -> Float:
    return softmax(2 * contexts @ WORLD.T)


def logged_table(seed: int, rows: int = ROWS) -> Table:
    rng = np.random.default_rng([1, seed])
    contexts = rng.normal(size=(rows, FEATURES))
    chances = logging(contexts)
    chosen = (rng.random((rows, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    rewards = expected(contexts)[np.arange(rows), chosen] + 0.3 * rng.normal(size=rows)
    propensity = chances[np.arange(rows), chosen]
    return Table.of(contexts, chosen.tolist(), rewards, propensity, arms=range(ARMS), propensities=chances)


def true_value(rows: int = 500_000) -> float:
    contexts = np.random.default_rng(99).normal(size=(rows, FEATURES))
    return float((target(contexts) * expected(contexts)).sum(axis=1).mean())


TRUTH = true_value()  # to about 0.001, a fiftieth of an interval


@cache
def results(crossfit: str) -> list[Evaluation]:
    tables = (logged_table(seed) for seed in range(REPLICATIONS))
    return [evaluate(table, target(table.contexts), crossfit=crossfit) for table in tables]


# Binomial, 400 replications at 95%: 363 or fewer cover with probability 0.0003, and so do 394 or more with 0.0007.
LEAST, MOST = 364, 393


@pytest.mark.parametrize("crossfit", ["past", "folds"])
def test_intervals_cover_at_their_rate(crossfit: str) -> None:
    evaluations = results(crossfit)
    for name in ("ips", "snips", "dr"):
        estimates = [getattr(evaluation, name) for evaluation in evaluations]
        covered = sum(e.low <= TRUTH <= e.high for e in estimates)
        assert LEAST <= covered <= MOST, (name, covered)
    errors = {name: np.mean([getattr(e, name).error for e in evaluations]) for name in ("ips", "snips", "dr")}
    assert errors["dr"] < errors["snips"] < errors["ips"]


def test_the_logged_value_and_the_gain_are_covered() -> None:
    contexts = np.random.default_rng(98).normal(size=(500_000, FEATURES))
    earned = float((logging(contexts) * expected(contexts)).sum(axis=1).mean())
    evaluations = results("past")
    assert LEAST <= sum(e.logged.low <= earned <= e.logged.high for e in evaluations) <= MOST
    assert LEAST <= sum(e.gain.low <= TRUTH - earned <= e.gain.high for e in evaluations) <= MOST


def test_other_levels_are_other_rates() -> None:
    tables = [logged_table(seed) for seed in range(REPLICATIONS)]
    crude = np.full((ROWS, ARMS), 0.3)  # a model that is quick, for what is not about models
    evaluations = [evaluate(table, target(table.contexts), level=0.5, model=crude) for table in tables]
    for name in ("ips", "snips", "dr"):
        covered = sum(getattr(e, name).low <= TRUTH <= getattr(e, name).high for e in evaluations)
        assert 166 <= covered <= 234, (name, covered)  # 200 +- 3.4 standard deviations


def test_ips_and_dr_are_unbiased() -> None:
    evaluations = results("past")
    for name in ("ips", "dr"):
        values = np.array([getattr(e, name).value for e in evaluations])
        z = (values.mean() - TRUTH) / (values.std(ddof=1) / np.sqrt(len(values)))
        assert abs(z) < 3.5, (name, z)
