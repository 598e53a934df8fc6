"""The confidence sequence: as published ones, never narrower than it may be, and of the mean of terms that change."""

import math

import numpy as np
import pytest
from oracle.confidence_sequences import (
    gamma_exponential_density,
    gamma_exponential_log_mixture,
    predictable_mixture,
)

from lim2.confidence_sequence import BETS, asymptotic_margin, costs, log_wealth, margin


@pytest.mark.parametrize(
    ("s", "v", "c", "rho"), [(30.0, 100.0, 1.0, 50.0), (80.0, 900.0, 3.0, 400.0), (5.0, 40.0, 2.0, 90.0)]
)
def test_a_fine_mixture_of_bets_is_the_published_one(s: float, v: float, c: float, rho: float) -> None:
    """With as many bets, and the density, of the gamma-exponential mixture, the wealth is its closed form."""
    bets = (np.arange(200_000) + 0.5) / 200_000 / c
    density = gamma_exponential_density(bets, c, rho)
    prior = np.log(density / density.sum())
    ours = log_wealth(np.array(s), costs(np.array([math.sqrt(v)]), np.array([c]), bets)[0], bets, prior)
    assert float(ours) == pytest.approx(gamma_exponential_log_mixture(s, v, c, rho), abs=1e-4)


def test_the_margin_is_where_the_wealth_reaches_the_limit() -> None:
    rng = np.random.default_rng(0)
    for error in (0.1, 0.025, 1e-6):
        for n in (1, 10, 10_000):
            paid = costs(rng.normal(size=n), rng.uniform(1, 30, size=n)).sum(axis=0)
            at = margin(paid, error)
            assert float(log_wealth(np.array(at), paid)) == pytest.approx(-math.log(error), rel=1e-10)


def test_a_bet_that_a_term_does_not_allow_is_lost() -> None:
    paid = costs(np.array([1.0, 1.0]), np.array([1.0, 100.0])).sum(axis=0)
    assert np.isinf(paid[BETS * 100 >= 1]).all() and np.isfinite(paid[BETS * 100 < 1]).all()
    assert math.isfinite(margin(paid, 0.025))
    assert margin(np.full(len(BETS), np.inf), 0.025) == math.inf


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5])
def test_it_is_about_as_wide_as_the_predictable_mixture(rate: float) -> None:
    x = (np.random.default_rng(1).random(20_000) < rate).astype(float)
    low, high = predictable_mixture(x, 0.05)
    mean = np.append(0.0, np.cumsum(x)[:-1]) / np.maximum(np.arange(len(x)), 1)
    for n in (1000, 20_000):
        sides = [costs((x - mean)[:n], np.ones(n)).sum(axis=0)] * 2
        width = sum(margin(side, 0.025) for side in sides) / n
        assert 0.5 < width / (high[n - 1] - low[n - 1]) < 1.6


def test_the_mean_of_terms_that_change_is_covered() -> None:
    """An interval of a weighted mean, such as the predictable mixture's, would miss: early terms weigh more there."""
    n, misses = 4000, 0
    rates = np.where(np.arange(n) < n // 2, 0.05, 0.6)
    truth = np.cumsum(rates) / np.arange(1, n + 1)
    looks = np.arange(100, n + 1, 100) - 1
    for seed in range(200):
        x = (np.random.default_rng(seed).random(n) < rates).astype(float)
        mean = np.append(0.0, np.cumsum(x)[:-1]) / np.maximum(np.arange(n), 1)
        paid = np.cumsum(costs(x - mean, np.ones(n)), axis=0)
        surplus = np.cumsum(x - rates)
        misses += bool((log_wealth(surplus[looks], paid[looks]) > math.log(40)).any())
        misses += bool((log_wealth(-surplus[looks], paid[looks]) > math.log(40)).any())
        low, high = predictable_mixture(x, 0.05)
        if seed == 0:
            assert not low[-1] <= truth[-1] <= high[-1]
    assert misses <= 10  # 5% of 200


def test_the_asymptotic_interval_is_that_of_its_paper() -> None:
    n, error = 500, 0.05
    rho = math.sqrt((-2 * math.log(error) + math.log(-2 * math.log(error)) + 1) / 10_000)
    published = math.sqrt(2 * (n * rho**2 + 1) / (n**2 * rho**2) * math.log(math.sqrt(n * rho**2 + 1) / error))
    assert asymptotic_margin(n, 4.0, error) == pytest.approx(2 * published)
