"""Square-root posteriors that follow the features: transport, inflation, refits, and what they predict."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

from lim2.exploration import roots, transported
from lim2.exploration.roots import RootPosterior
from lim2.state import Writes, written

Float = NDArray[np.float64]


def beliefs_after(rows: int, arm: int, width: int = 5) -> RootPosterior:
    """Return beliefs about two arms, one of which has been observed."""
    rng = np.random.default_rng(0)
    beliefs = roots.prior(2, width, 0.7, 2.0, 0.5)
    for z, r in zip(rng.normal(size=(rows, width)), rng.normal(size=rows), strict=True):
        beliefs = written(Writes(beliefs, roots.observe(beliefs, arm, z, r)))
    return beliefs


def mask(*arms: bool) -> NDArray[np.bool_]:
    return np.array(arms)


@pytest.mark.parametrize("n", [0, 1, 3, 12], ids=["none", "one row", "fewer than features", "more than features"])
def test_predictive_log_density_is_that_of_inflated_beliefs_after_the_older_rows(n: int) -> None:
    rng = np.random.default_rng(1)
    beliefs = beliefs_after(9, arm=1)
    older, newer = ((rng.normal(size=(size, 5)), rng.normal(size=size)) for size in (n, 4))
    factors = np.array([1.0, 0.5, 4.0, 32.0])
    densities = transported.predictive_log_density(beliefs, 1, older, newer, factors, float(beliefs.b[1]))
    expected = []
    for factor in factors:
        wider = transported.refit(transported.inflate(beliefs, mask(False, True), factor), *older, [0, 0, n])
        noise, spread = wider.b[1] / wider.a[1], 1.0 + np.vecdot(newer[0] @ wider.cov[1], newer[0])
        scale = np.sqrt(noise * spread)
        expected.append(t.logpdf(newer[1], df=2.0 * wider.a[1], loc=newer[0] @ wider.mu[1], scale=scale))
    gains = np.array(expected).T - expected[0][:, None]
    np.testing.assert_allclose(densities - densities[:, :1], gains, atol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 3, 12])
def test_a_refit_is_one_update_after_another(n: int) -> None:
    rng = np.random.default_rng(2)
    beliefs = beliefs_after(9, arm=1)
    features, rewards = rng.normal(size=(n, 5)), rng.normal(size=n)
    refitted, expected = transported.refit(beliefs, features, rewards, [0, 0, n]), beliefs
    for z, r in zip(features, rewards, strict=True):
        expected = written(Writes(expected, roots.observe(expected, 1, z, r)))
    for name in ("mu", "cov", "a", "b"):
        np.testing.assert_allclose(getattr(refitted, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("n", [3, 12])
def test_a_conditioned_root_has_the_conditioned_covariance(n: int, size: float) -> None:
    rng = np.random.default_rng(3)
    root, features = rng.normal(size=(5, 5)), size * rng.normal(size=(n, 5))
    conditioned = transported.condition_root(root, features)
    expected = np.linalg.inv(np.linalg.inv(root.T @ root) + features.T @ features)
    np.testing.assert_allclose(conditioned.T @ conditioned, expected, atol=1e-9)


@pytest.mark.parametrize("n", [2, 4, 12])
def test_features_that_are_equal_and_huge_leave_a_root_finite(n: int) -> None:
    root, z = np.random.default_rng(3).normal(size=(2, 5, 5))
    direction = z[0] / np.linalg.norm(z[0])
    conditioned = transported.condition_root(root, np.tile(1e12 * direction, (n, 1)))
    assert np.linalg.norm(conditioned @ direction) < 1e-3, "in this direction all is known"
    assert np.linalg.svd(conditioned)[1][:4].min() > 0.01, "in the others nothing is"


def test_transport_keeps_the_distribution_of_scores_of_some_arms() -> None:
    rng = np.random.default_rng(4)
    beliefs, mapping, new = beliefs_after(9, arm=1), rng.normal(size=(5, 5)), rng.normal(size=(6, 5))
    moved = transported.transport(beliefs, mask(False, True), mapping)
    before, after = roots.score(beliefs, new @ mapping), roots.score(moved, new)
    np.testing.assert_allclose(after.mean[:, 1], before.mean[:, 1])
    np.testing.assert_allclose(after.scale[:, 1], before.scale[:, 1])
    for name in ("mu", "root"):
        np.testing.assert_array_equal(getattr(moved, name)[0], getattr(beliefs, name)[0])


@pytest.mark.parametrize("entry", [1e40, np.inf, np.nan])
def test_an_astronomic_map_changes_nothing(entry: float) -> None:
    beliefs = beliefs_after(9, arm=1)
    with np.errstate(invalid="ignore"):
        assert transported.transport(beliefs, mask(False, True), np.full((5, 5), entry)) is beliefs


def test_inflation_changes_covariances_of_some_arms_alone() -> None:
    beliefs = beliefs_after(3, arm=0)
    inflated = transported.inflate(beliefs, mask(True, False), 4.0)
    np.testing.assert_allclose(inflated.cov[0], 4.0 * beliefs.cov[0])
    np.testing.assert_array_equal(inflated.cov[1], beliefs.cov[1])
    for name in ("mu", "a", "b"):
        np.testing.assert_array_equal(getattr(inflated, name), getattr(beliefs, name))


def test_an_arm_that_starts_anew_has_the_given_moments() -> None:
    beliefs = beliefs_after(3, arm=0)
    variances = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    started = transported.start(beliefs, mask(False, True), 7.0, variances, 0.25)
    assert started.mu[1].tolist() == [0.0, 0.0, 0.0, 0.0, 7.0]
    np.testing.assert_allclose(started.cov[1], np.diag(variances))
    assert (started.a[1], started.b[1]) == (2.0, 0.25)
    for name in ("mu", "root", "a", "b"):
        np.testing.assert_array_equal(getattr(started, name)[0], getattr(beliefs, name)[0])
