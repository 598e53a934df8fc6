"""How likely rows are under beliefs that are widened."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from lim2.exploration import TransportedPosterior


@pytest.mark.parametrize("n", [1, 3, 12], ids=["one row", "fewer rows than features", "more rows than features"])
def test_evidence_is_the_density_of_a_multivariate_student_t(n: int) -> None:
    rng = np.random.default_rng(0)
    beliefs = TransportedPosterior(2, 5, 0.7, 2.0, 0.5)
    for z, r in zip(rng.normal(size=(9, 5)), rng.normal(size=9), strict=True):
        beliefs.observe(1, z, r)
    features, rewards, factors = rng.normal(size=(n, 5)), rng.normal(size=n), np.array([0.5, 1.0, 4.0, 32.0])
    expected = [
        multivariate_t.logpdf(
            rewards,
            loc=features @ beliefs.mu[1],
            shape=beliefs.b[1] / beliefs.a[1] * (np.eye(n) + factor * features @ beliefs.cov[1] @ features.T),
            df=2.0 * beliefs.a[1],
        )
        for factor in factors
    ]
    evidence = beliefs.evidence(1, features, rewards, factors)
    np.testing.assert_allclose(evidence - evidence[1], np.array(expected) - expected[1], atol=1e-9)


def test_no_rows_are_no_evidence() -> None:
    beliefs = TransportedPosterior(1, 3)
    evidence = beliefs.evidence(0, np.empty((0, 3)), np.empty(0), np.array([1.0, 8.0]))
    assert evidence[0] == evidence[1]


def test_widening_changes_covariances_alone() -> None:
    beliefs = TransportedPosterior(2, 3)
    beliefs.observe(0, np.array([1.0, 2.0, 0.0]), 1.0)
    before = beliefs.copy()
    beliefs.widen(np.array([0]), 4.0)
    np.testing.assert_allclose(beliefs.cov[0], 4.0 * before.cov[0])
    np.testing.assert_array_equal(beliefs.cov[1], before.cov[1])
    for name in ("mu", "a", "b"):
        np.testing.assert_array_equal(getattr(beliefs, name), getattr(before, name))
