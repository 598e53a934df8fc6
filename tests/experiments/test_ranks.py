"""Statistics over many datasets, against closed forms, SciPy, and the worked examples of Demsar (2006)."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from lim2.experiments.ranks import (
    bootstrap,
    critical_difference,
    friedman,
    groups,
    ranks,
    wilcoxon_holm,
    wilcoxon_p,
)
from lim2.experiments.stats import holm

# Table 6 of Demsar (2006): AUC of C4.5, with m tuned, with cf tuned, with both. On voting the last two differ beyond
# the printed digits, as their ranks in the table show.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.975, 0.9749],
        [0.957, 0.978, 0.946, 0.970],
    ]
)


def test_the_worked_example_of_friedman_and_nemenyi() -> None:
    means = ranks(DEMSAR).mean(axis=0)
    assert means.round(3).tolist() == [3.143, 2.0, 2.893, 1.964]
    n, k = DEMSAR.shape
    ties = 1 - (2 * 6 + 6 + 60) / (n * (k**3 - k))  # three pairs that are equal, one row of four
    found = friedman(DEMSAR)
    plain = found.chi2 * ties  # the paper's has no correction for ties
    assert round(plain, 2) == 9.28
    assert round((n - 1) * plain / (n * (k - 1) - plain), 2) == 3.69
    assert round(critical_difference(4, 14), 2) == 1.25
    assert round(critical_difference(4, 14, level=0.10), 2) == 1.12
    near = np.abs(np.subtract.outer(means, means)) < critical_difference(4, 14)
    assert near.all()  # the paper: Nemenyi's test is not powerful enough here


def test_the_worked_example_of_wilcoxon() -> None:
    differences = DEMSAR[:, 1] - DEMSAR[:, 0]
    found = stats.wilcoxon(differences, zero_method="zsplit")
    assert found.statistic == 12.0  # the paper: T = min(93, 12)
    assert wilcoxon_p(DEMSAR[:, 1], DEMSAR[:, 0]) == pytest.approx(found.pvalue)
    assert wilcoxon_p(DEMSAR[:, 1], DEMSAR[:, 0]) < 0.05  # critical value 21


@pytest.mark.parametrize(("agents", "tabled"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_the_tables(agents: int, tabled: float) -> None:  # which cut digits off
    scale = math.sqrt(agents * (agents + 1) / (6 * 20))
    assert critical_difference(agents, 20) / scale == pytest.approx(tabled, abs=1e-3)


@pytest.mark.parametrize("ties", [False, True])
def test_friedman_is_that_of_scipy(ties: bool) -> None:
    scores = np.random.default_rng(1).normal(size=(12, 4))
    scores = scores.round(0) if ties else scores
    theirs = stats.friedmanchisquare(*scores.T)
    ours = friedman(scores)
    assert ours.chi2 == pytest.approx(theirs.statistic)
    assert ours.p_chi2 == pytest.approx(theirs.pvalue)
    # Iman and Davenport's statistic is the F of a two-way analysis of variance of the ranks.
    places = ranks(scores)
    n, k = places.shape
    between = n * ((places.mean(axis=0) - places.mean()) ** 2).sum() / (k - 1)
    within = ((places - places.mean(axis=0)) ** 2).sum() / ((k - 1) * (n - 1))
    assert ours.f == pytest.approx(between / within)
    assert ours.p == pytest.approx(stats.f.sf(between / within, k - 1, (k - 1) * (n - 1)))


def test_friedman_at_its_ends() -> None:
    agree = np.tile([3.0, 2.0, 1.0], (5, 1))
    assert (friedman(agree).f, friedman(agree).p) == (math.inf, 0.0)
    assert friedman(agree).chi2 == pytest.approx(10.0)  # n (k - 1), its largest value
    same = np.ones((5, 3))
    assert (friedman(same).chi2, friedman(same).p) == (0.0, 1.0)
    with pytest.raises(ValueError, match="needs 2 datasets and 3 agents, not 5 and 2"):
        friedman(np.ones((5, 2)))


def test_all_pairs_are_corrected_together() -> None:
    scores = np.random.default_rng(2).normal([0.0, 0.5, 2.0], size=(10, 3))
    single = [wilcoxon_p(scores[:, i], scores[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    matrix = wilcoxon_holm(scores)
    assert [matrix[0, 1], matrix[0, 2], matrix[1, 2]] == holm(single)
    assert np.array_equal(matrix, matrix.T)
    assert np.diag(matrix).tolist() == [1.0, 1.0, 1.0]


def test_groups_are_the_largest_ones_and_consecutive() -> None:
    alike = np.eye(4, dtype=bool)
    for i, j in ((0, 1), (1, 2), (0, 2), (2, 3)):
        alike[i, j] = alike[j, i] = True
    assert groups([1.0, 2.0, 3.0, 4.0], alike) == [(0, 1, 2), (2, 3)]
    assert groups([4.0, 3.0, 2.0, 1.0], alike) == [(3, 2), (2, 1, 0)]
    assert groups([1.0, 2.0, 3.0, 4.0], np.eye(4, dtype=bool)) == []
    apart = np.eye(3, dtype=bool)
    apart[0, 2] = apart[2, 0] = True  # the one between them differs from both
    assert groups([1.0, 2.0, 3.0], apart) == []


def test_the_bootstrap_is_the_exact_one() -> None:
    values = np.array([1.0, 2.0, 4.0])
    exact = sorted(np.mean(drawn) for drawn in product(values, repeat=3))  # all 27 draws
    low, high = bootstrap(values[:, None], level=0.8)
    assert low[0] == pytest.approx(np.quantile(exact, 0.1), abs=1e-9)
    assert high[0] == pytest.approx(np.quantile(exact, 0.9), abs=1e-9)


def test_the_bootstrap_of_many_is_the_normal_one() -> None:
    values = np.random.default_rng(3).normal(size=(400, 2)) * [1.0, 3.0]
    low, high = bootstrap(values)
    error = values.std(axis=0) / math.sqrt(400)
    assert (high - low) / (2 * 1.96 * error) == pytest.approx([1.0, 1.0], abs=0.03)
    assert (low + high) / 2 == pytest.approx(values.mean(axis=0), abs=0.02)
