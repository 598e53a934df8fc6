"""Beliefs that are widened, and what they would have predicted."""

import numpy as np
import pytest
from scipy.stats import t

from lim2.exploration import TransportedPosterior


@pytest.mark.parametrize("n", [0, 1, 3, 12], ids=["none", "one row", "fewer than features", "more than features"])
def test_foresight_is_the_density_that_widened_beliefs_give_after_the_rows(n: int) -> None:
    rng = np.random.default_rng(0)
    beliefs = TransportedPosterior(2, 5, 0.7, 2.0, 0.5)
    for z, r in zip(rng.normal(size=(9, 5)), rng.normal(size=9), strict=True):
        beliefs.observe(1, z, r)
    features, rewards, later, after = (rng.normal(size=size) for size in ((n, 5), n, (4, 5), 4))
    factors = np.array([1.0, 0.5, 4.0, 32.0])
    foreseen = beliefs.foresight(1, (features, rewards), (later, after), factors)
    expected = []
    for factor in factors:
        wider = beliefs.copy()
        wider.widen(np.array([1]), factor)
        wider.refit(1, wider.copy(), features, rewards)
        noise, spread = wider.b[1] / wider.a[1], 1.0 + np.vecdot(later @ wider.cov[1], later)
        expected.append(t.logpdf(after, df=2.0 * wider.a[1], loc=later @ wider.mu[1], scale=np.sqrt(noise * spread)))
    gains = np.array(expected).T - expected[0][:, None]
    np.testing.assert_allclose(foreseen - foreseen[:, :1], gains, atol=1e-9)


def test_widening_changes_covariances_alone() -> None:
    beliefs = TransportedPosterior(2, 3)
    beliefs.observe(0, np.array([1.0, 2.0, 0.0]), 1.0)
    before = beliefs.copy()
    beliefs.widen(np.array([0]), 4.0)
    np.testing.assert_allclose(beliefs.cov[0], 4.0 * before.cov[0])
    np.testing.assert_array_equal(beliefs.cov[1], before.cov[1])
    for name in ("mu", "a", "b"):
        np.testing.assert_array_equal(getattr(beliefs, name), getattr(before, name))
