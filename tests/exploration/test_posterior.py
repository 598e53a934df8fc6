"""The stable forms against the textbook: explicit inverses, closed forms, and Monte Carlo."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from lim2.exploration import UCB, Posterior, RecursivePosterior, Thompson
from lim2.exploration.posterior import condition, rank_one

Float = NDArray[np.float64]


def random_cov(rng: np.random.Generator, g: int, spread: float = 1.0) -> Float:
    vectors = np.linalg.qr(rng.normal(size=(g, g)))[0]
    cov: Float = (vectors * np.exp(rng.uniform(-spread, spread, g))) @ vectors.T
    return cov


seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, g=st.integers(1, 12), n=st.integers(0, 30), spread=st.floats(0, 4))
def test_condition_equals_the_inverse_of_summed_precisions(seed: int, g: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    cov, z = random_cov(rng, g, spread), rng.normal(size=(n, g))
    expected = np.linalg.inv(np.linalg.inv(cov) + z.T @ z)
    got = condition(cov, z)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got, got.T, atol=1e-14)
    in_place = cov.copy()
    assert condition(in_place, z, out=in_place) is in_place
    np.testing.assert_allclose(in_place, got, rtol=1e-12, atol=1e-14)


@given(seed=seeds, g=st.integers(2, 8), n=st.integers(1, 20), scale=st.floats(-3, 25))
def test_condition_stays_positive_whatever_the_scale(seed: int, g: int, n: int, scale: float) -> None:
    """Features of 1e25 leave nothing of the I next to them: the result must still be a covariance."""
    rng = np.random.default_rng(seed)
    cov = np.eye(g)
    for _ in range(5):
        z = 10.0**scale * rng.normal(size=(n, g))
        cov = condition(cov, z)
        assert np.isfinite(cov).all()
        assert np.linalg.eigvalsh(cov).min() > -1e-12
        assert np.abs(cov).max() <= 1.0 + 1e-9


def test_condition_on_the_edge_of_the_cone() -> None:
    """A thresholded covariance is singular: the limit of the textbook form is known."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    edge = (basis[:, :3] * [1.0, 2.0, 3.0]) @ basis[:, :3].T
    for n in (2, 9):
        z = rng.normal(size=(n, 5))
        inside = np.linalg.inv(np.diag([1.0, 1 / 2.0, 1 / 3.0]) + basis[:, :3].T @ z.T @ z @ basis[:, :3])
        np.testing.assert_allclose(condition(edge, z), basis[:, :3] @ inside @ basis[:, :3].T, atol=1e-12)


@given(seed=seeds, g=st.integers(1, 10))
def test_rank_one_equals_condition(seed: int, g: int) -> None:
    rng = np.random.default_rng(seed)
    cov, z = random_cov(rng, g), rng.normal(size=g)
    expected = condition(cov, z[None])
    direction, scale = rank_one(work := cov.copy(), z)
    np.testing.assert_allclose(work, expected, atol=1e-12)
    np.testing.assert_allclose(direction, cov @ z)
    assert scale == pytest.approx(1 + z @ cov @ z)


def textbook(mu0: Float, phi0: Any, z: Float, r: Float, a0: float, b0: float) -> tuple[Any, Any, float, float]:
    precision = phi0 + z.T @ z
    cov = np.linalg.inv(precision)
    mu = cov @ (phi0 @ mu0 + z.T @ r)
    b = b0 + 0.5 * (r @ r + mu0 @ phi0 @ mu0 - mu @ precision @ mu)
    return mu, cov, a0 + len(r) / 2, float(b)


@pytest.mark.parametrize("kind", [Posterior, RecursivePosterior])
@given(seed=seeds, g=st.integers(1, 8), n=st.integers(1, 40))
def test_observing_one_by_one_equals_the_textbook_batch(
    kind: type[Posterior | RecursivePosterior], seed: int, g: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    z, r = rng.normal(size=(n, g)), rng.normal(size=n)
    posterior = kind(2, g, precision=0.25, a0=3.0, b0=2.0)
    for row, reward in zip(z, r, strict=True):
        posterior.observe(1, row, float(reward))
    mu, cov, a, b = textbook(np.zeros(g), 0.25 * np.eye(g), z, r, 3.0, 2.0)
    np.testing.assert_allclose(posterior.mu[1], mu, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(posterior.cov[1], cov, rtol=1e-8, atol=1e-9)
    assert posterior.a[1] == a
    assert posterior.b[1] == pytest.approx(b, rel=1e-8)
    np.testing.assert_array_equal(posterior.mu[0], 0)  # the other arm


@given(seed=seeds, g=st.integers(1, 8), n=st.integers(0, 30))
def test_refit_equals_the_textbook(seed: int, g: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    prior, mu0 = random_cov(rng, g), rng.normal(size=g)
    z, r = rng.normal(size=(n, g)), rng.normal(size=n)
    posterior = Posterior(1, g)
    condition(prior, z, out=posterior.cov[0])
    squares = posterior.refit_mean(0, mu0, z, r)
    posterior.set_noise(0, n, squares)
    mu, _, a, b = textbook(mu0, np.linalg.inv(prior), z, r, 6.0, 6.0)
    np.testing.assert_allclose(posterior.mu[0], mu, rtol=1e-7, atol=1e-8)
    assert posterior.a[0] == a
    assert posterior.b[0] == pytest.approx(b, rel=1e-8, abs=1e-8)


def test_b_never_falls_below_its_prior() -> None:
    """Rewards that are fitted to the last digit: the textbook difference of large numbers goes negative here."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 5))
    mu0 = 1e7 * rng.normal(size=5)
    r = z @ mu0
    posterior = Posterior(1, 5)
    condition(np.eye(5), z, out=posterior.cov[0])
    assert posterior.refit_mean(0, mu0, z, r) >= 0.0
    assert textbook(mu0, np.eye(5), z, r, 6.0, 6.0)[3] != pytest.approx(6.0, rel=1e-6)  # what is avoided


@pytest.mark.parametrize("kind", [Posterior, RecursivePosterior])
def test_rank_one_updates_do_not_wear_the_covariance_out(kind: type[Posterior | RecursivePosterior]) -> None:
    """20,000 updates over features of very different size, compared with one factorisation of everything."""
    rng = np.random.default_rng(2)
    g, n = 6, 20_000
    posterior = kind(1, g, precision=0.25)
    z = rng.normal(size=(n, g)) * np.logspace(-2, 2, g)
    for row in z:
        posterior.observe(0, row, 0.0)
    expected = np.linalg.inv(0.25 * np.eye(g) + z.T @ z)
    units = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(posterior.cov[0] / np.outer(units, units), expected / np.outer(units, units), atol=1e-8)


@pytest.mark.parametrize("size", [1e4, 1e8, 1.6e9])
def test_one_huge_column_does_not_spoil_the_rest(size: float) -> None:
    """A time stamp among standardised columns: the covariance form loses everything, the root does not."""
    rng = np.random.default_rng(8)
    n, g = 500, 5
    z = rng.normal(size=(n, g))
    z[:, 0] = size * (1.0 + 0.01 * rng.normal(size=n))
    r = z[:, 1:] @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * rng.normal(size=n)
    posterior = RecursivePosterior(1, g, precision=0.25)
    for row, reward in zip(z, r, strict=True):
        posterior.observe(0, row, float(reward))
    # ridge regression by QR of the stacked system, column scaled
    units = np.r_[size, np.ones(g - 1)]
    stacked = np.vstack([z / units, 0.5 * np.eye(g) / units])
    expected = np.linalg.lstsq(stacked, np.r_[r, np.zeros(g)], rcond=None)[0] / units
    np.testing.assert_allclose(posterior.mu[0] * units, expected * units, atol=1e-7)
    assert posterior.moments(z)[1].min() > 0.0


def example(rng: np.random.Generator) -> tuple[Posterior, Float]:
    posterior = Posterior(3, 4, precision=0.5, a0=2.5, b0=1.5)
    for _ in range(25):
        posterior.observe(int(rng.integers(3)), rng.normal(size=4), float(rng.normal()))
    return posterior, rng.normal(size=4)


def test_moments_and_variances() -> None:
    rng = np.random.default_rng(3)
    posterior, z = example(rng)
    mean, spread = posterior.moments(z)
    np.testing.assert_allclose(mean, posterior.mu @ z)
    np.testing.assert_allclose(spread, [z @ cov @ z for cov in posterior.cov])
    np.testing.assert_allclose(posterior.with_noise(spread), spread * posterior.b / (posterior.a - 1))
    many = rng.normal(size=(7, 4))
    for row, (m, s) in zip(many, zip(*posterior.moments(many), strict=True), strict=True):
        np.testing.assert_allclose(m, posterior.moments(row)[0], rtol=1e-12)
        np.testing.assert_allclose(s, posterior.moments(row)[1], rtol=1e-12)


def test_variance_is_infinite_while_the_noise_has_no_mean() -> None:
    posterior = Posterior(2, 1, a0=1.0, b0=1.0)
    posterior.observe(1, np.ones(1), 0.0)
    mean, spread = posterior.moments(np.ones(1))
    assert posterior.with_noise(spread).tolist() == [np.inf, pytest.approx(0.5 * 1.0 / 0.5)]
    assert np.isfinite(mean).all()


def test_scores_are_distributed_as_sampled_weights_would_be() -> None:
    """The paper draws noise ~ InvGamma(a, b), then weights ~ N(mu, noise cov); the score is z'w."""
    rng = np.random.default_rng(4)
    posterior, z = example(rng)
    draws = 20_000
    fast = np.array([Thompson().scores(posterior, z, rng) for _ in range(draws)])
    for arm in range(3):
        noise = stats.invgamma.rvs(posterior.a[arm], scale=posterior.b[arm], size=draws, random_state=rng)
        unit = rng.multivariate_normal(np.zeros(4), posterior.cov[arm], size=draws)
        slow = (posterior.mu[arm] + np.sqrt(noise)[:, None] * unit) @ z
        assert stats.ks_2samp(fast[:, arm], slow).pvalue > 1e-3
        scale = float(np.sqrt(z @ posterior.cov[arm] @ z * posterior.b[arm] / posterior.a[arm]))
        law = stats.t(2 * posterior.a[arm], loc=float(z @ posterior.mu[arm]), scale=scale)
        assert stats.kstest(fast[:, arm], law.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(fast.T)[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(draws)  # arms are independent


@pytest.mark.parametrize("n_arms", [3, 40])
def test_many_scores_are_drawn_from_the_same_stream_as_single_ones(n_arms: int) -> None:
    posterior = Posterior(n_arms, 2)
    z = np.random.default_rng(5).normal(size=(6, 2))
    one, many = np.random.default_rng(6), np.random.default_rng(6)
    looped = np.array([Thompson().scores(posterior, row, one) for row in z])
    np.testing.assert_allclose(Thompson().scores(posterior, z, many), looped, rtol=1e-12)


def test_upper_bounds() -> None:
    posterior, z = example(np.random.default_rng(7))
    mean, spread = posterior.moments(z)
    np.testing.assert_allclose(UCB(0.0).scores(posterior, z), mean)
    expected = mean + 3.0 * np.sqrt(spread * posterior.b / posterior.a)
    np.testing.assert_allclose(UCB(3.0).scores(posterior, z), expected)
    with pytest.raises(ValueError, match="optimism"):
        UCB(-1.0)
