from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats as reference

from lim2.experiments.stats import ALL_SIGNS, band, holm, paired_p, signs_p, welch_p

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
    assert signs_p([]) is None
    assert paired_p([1.0, 2.0], [0.0, 1.0]) == 0.0
    assert welch_p([1.0, 1.0], [1.0, 1.0]) == 1.0


def test_signs_are_all_tried_when_few() -> None:
    groups = [rng.normal(0.3, 1.0, 4), rng.normal(0.3, 1.0, 3)]
    weights = np.concatenate([groups[0] / 4, groups[1] / 3]) / 2
    sums = [abs(np.dot(signs, weights)) for signs in product((-1, 1), repeat=7)]
    assert signs_p(groups) == pytest.approx(np.mean(np.array(sums) >= abs(weights.sum()) - 1e-12))


def test_signs_drawn_agree_with_the_normal_limit() -> None:
    differences = rng.normal(0.25, 1.0, 60)
    assert len(differences) > ALL_SIGNS
    z = differences.sum() / np.sqrt((differences**2).sum())
    assert signs_p([differences]) == pytest.approx(2 * reference.norm.sf(abs(z)), abs=0.01)


def test_problems_count_alike() -> None:
    many, few = np.full(40, 0.1), np.full(2, -3.0)
    p = signs_p([many, few])
    assert p is not None
    assert p > 0.1  # the many small gains do not outvote the other problem


def test_no_effect_is_seldom_significant() -> None:
    ps = [signs_p([rng.normal(size=5), rng.normal(size=5)]) for _ in range(400)]
    assert np.mean([p is not None and p < 0.05 for p in ps]) < 0.09


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
