from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as reference

from lim2.experiments.stats import band, holm, paired_p, pooled_p, welch_p

rng = np.random.default_rng(0)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_t_tests_are_those_of_scipy(n: int) -> None:
    a, b = rng.normal(size=n), rng.normal(0.5, 2.0, size=n)
    assert paired_p(a, b) == pytest.approx(reference.ttest_rel(a, b).pvalue, rel=1e-10)
    c = rng.normal(size=n + 3)
    assert welch_p(a, c) == pytest.approx(reference.ttest_ind(a, c, equal_var=False).pvalue, rel=1e-10)


def test_what_cannot_be_tested() -> None:
    assert paired_p([1.0], [2.0]) is None
    assert welch_p([1.0], [2.0, 3.0]) is None
    assert pooled_p([]) is None
    assert pooled_p([[1.0, 2.0], [1.0]]) is None
    assert paired_p([1.0, 2.0], [0.0, 1.0]) == 0.0
    assert welch_p([1.0, 1.0], [1.0, 1.0]) == 1.0


def test_one_problem_is_the_paired_test() -> None:
    a, b = rng.normal(size=6), rng.normal(0.5, 2.0, size=6)
    assert pooled_p([a - b]) == pytest.approx(reference.ttest_rel(a, b).pvalue, rel=1e-10)


def test_two_problems_are_welchs_test_of_a_sum() -> None:
    # The mean of two means against 0 is the difference of the first from the negative second.
    a, b = rng.normal(0.3, 1.0, size=5), rng.normal(0.3, 3.0, size=8)
    assert pooled_p([a, b]) == pytest.approx(reference.ttest_ind(a, -b, equal_var=False).pvalue, rel=1e-10)


def test_problems_count_alike() -> None:
    many, few = 0.1 + 0.01 * rng.normal(size=40), -3.0 + 0.1 * rng.normal(size=3)
    p = pooled_p([many, few])
    assert p is not None
    assert p < 0.05  # the second problem decides, in spite of the many small gains of the first
    assert pooled_p([many, -few]) is not None


def test_no_effect_is_seldom_significant() -> None:
    ps = [pooled_p([rng.normal(size=5), rng.normal(0, 3.0, size=4)]) for _ in range(2000)]
    assert 0.02 < np.mean([p is not None and p < 0.05 for p in ps]) < 0.07


def test_holm() -> None:
    assert holm([]) == []
    assert holm([None, 0.5]) == [None, 0.5]
    assert holm([0.9, 0.001, 0.6]) == pytest.approx([1.0, 0.003, 1.0])


def test_band_is_students() -> None:
    curves = rng.normal(size=(6, 3))
    mean, half = band(curves)
    low, high = reference.t.interval(0.95, 5, loc=curves.mean(axis=0), scale=reference.sem(curves, axis=0))
    np.testing.assert_allclose(mean - half, low)
    np.testing.assert_allclose(mean + half, high)
    assert band(curves[:1])[1].tolist() == [0.0, 0.0, 0.0]
