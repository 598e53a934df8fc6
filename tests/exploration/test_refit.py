"""Refits of square-root posteriors, and conditioned roots."""

import numpy as np
import pytest

from lim2.exploration import roots
from lim2.exploration.refit import condition_root, refit
from lim2.exploration.roots import RootPosterior
from lim2.state import Writes, written


def beliefs_after(rows: int, arm: int, width: int = 5) -> RootPosterior:
    """Return beliefs about two arms, one of which has been observed."""
    rng = np.random.default_rng(0)
    beliefs = roots.prior(2, width, 0.7, 2.0, 0.5)
    for z, r in zip(rng.normal(size=(rows, width)), rng.normal(size=rows), strict=True):
        beliefs = written(Writes(beliefs, roots.observe(beliefs, arm, z, r)))
    return beliefs


@pytest.mark.parametrize("n", [0, 1, 3, 12])
def test_a_refit_is_one_update_after_another(n: int) -> None:
    rng = np.random.default_rng(2)
    beliefs = beliefs_after(9, arm=1)
    features, rewards = rng.normal(size=(n, 5)), rng.normal(size=n)
    refitted, expected = refit(beliefs, features, rewards, [0, 0, n]), beliefs
    for z, r in zip(features, rewards, strict=True):
        expected = written(Writes(expected, roots.observe(expected, 1, z, r)))
    for name in ("mu", "cov", "a", "b"):
        np.testing.assert_allclose(getattr(refitted, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("n", [3, 12])
def test_a_conditioned_root_has_the_conditioned_covariance(n: int, size: float) -> None:
    rng = np.random.default_rng(3)
    root, features = rng.normal(size=(5, 5)), size * rng.normal(size=(n, 5))
    conditioned = condition_root(root, features)
    expected = np.linalg.inv(np.linalg.inv(root.T @ root) + features.T @ features)
    np.testing.assert_allclose(conditioned.T @ conditioned, expected, atol=1e-9)


@pytest.mark.parametrize("n", [2, 4, 12])
def test_features_that_are_equal_and_huge_leave_a_root_finite(n: int) -> None:
    root, z = np.random.default_rng(3).normal(size=(2, 5, 5))
    direction = z[0] / np.linalg.norm(z[0])
    conditioned = condition_root(root, np.tile(1e12 * direction, (n, 1)))
    assert np.linalg.norm(conditioned @ direction) < 1e-3, "in this direction all is known"
    assert np.linalg.svd(conditioned)[1][:4].min() > 0.01, "in the others nothing is"
