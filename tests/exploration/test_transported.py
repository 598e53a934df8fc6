"""Beliefs that are widened, and what they would have predicted."""

import numpy as np
import pytest

from lim2.exploration import TransportedPosterior


@pytest.mark.parametrize("n", [0, 1, 3, 12], ids=["none", "one row", "fewer than features", "more than features"])
def test_foresight_is_what_widened_beliefs_predict_after_the_rows(n: int) -> None:
    rng = np.random.default_rng(0)
    beliefs = TransportedPosterior(2, 5, 0.7, 2.0, 0.5)
    for z, r in zip(rng.normal(size=(9, 5)), rng.normal(size=9), strict=True):
        beliefs.observe(1, z, r)
    features, rewards, later = rng.normal(size=(n, 5)), rng.normal(size=n), rng.normal(size=(4, 5))
    factors = np.array([0.5, 1.0, 4.0, 32.0])
    foreseen = beliefs.foresight(1, features, rewards, later, factors)
    for factor, predicted in zip(factors, foreseen.T, strict=True):
        wider = beliefs.copy()
        wider.widen(np.array([1]), factor)
        wider.refit(1, wider.copy(), features, rewards)
        np.testing.assert_allclose(predicted, later @ wider.mu[1], atol=1e-10)


def test_widening_changes_covariances_alone() -> None:
    beliefs = TransportedPosterior(2, 3)
    beliefs.observe(0, np.array([1.0, 2.0, 0.0]), 1.0)
    before = beliefs.copy()
    beliefs.widen(np.array([0]), 4.0)
    np.testing.assert_allclose(beliefs.cov[0], 4.0 * before.cov[0])
    np.testing.assert_array_equal(beliefs.cov[1], before.cov[1])
    for name in ("mu", "a", "b"):
        np.testing.assert_array_equal(getattr(beliefs, name), getattr(before, name))
