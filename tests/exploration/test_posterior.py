"""The stable forms against the textbook: explicit inverses, closed forms, and Monte Carlo."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from lim2.exploration import UCB, StudentT, Thompson, posterior, sqrt_posterior
from lim2.exploration.posterior import check_prior, condition, condition_all, fit_mean, rank_one
from lim2.state import Writes, frozen, with_arm, without_arm, written

Float = NDArray[np.float64]


def random_cov(rng: np.random.Generator, g: int, spread: float = 1.0) -> Float:
    vectors = np.linalg.qr(rng.normal(size=(g, g)))[0]
    cov: Float = (vectors * np.exp(rng.uniform(-spread, spread, g))) @ vectors.T
    return cov


def frozen_array(array: Float) -> Float:
    array.flags.writeable = False
    return array


def observed(kind: Any, believed: Any, arm: int, z: Float, reward: float) -> Any:
    """Return beliefs after one more tuple, frozen."""
    return frozen(written(Writes(believed, kind.observe(believed, arm, z, reward))))


seeds = st.integers(0, 2**32 - 1)
both_forms = pytest.mark.parametrize("kind", [posterior, sqrt_posterior], ids=["covariance", "root"])


@given(seed=seeds, g=st.integers(1, 12), n=st.integers(0, 30), spread=st.floats(0, 4))
def test_condition_equals_the_inverse_of_summed_precisions(seed: int, g: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    cov, z = random_cov(rng, g, spread), rng.normal(size=(n, g))
    expected = np.linalg.inv(np.linalg.inv(cov) + z.T @ z)
    got = condition(cov, z)
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got, got.T, atol=1e-14)


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


@pytest.mark.parametrize("copies", [1, 2, 4])
def test_condition_keeps_what_is_known_precisely(copies: int) -> None:
    """Some directions are known 1e8 times as precisely as others, and the rows are long where little is known."""
    rng, g = np.random.default_rng(0), 8
    basis, variances = np.linalg.qr(rng.normal(size=(g, g)))[0], np.geomspace(1e-8, 1.0, g)
    cov, lengths = (basis * variances) @ basis.T, 1e4 * np.sqrt(variances)
    mixed = np.linalg.qr(rng.normal(size=(copies * g, g)))[0]  # mixes rows; their Gram matrix stays
    z = (mixed * lengths) @ basis.T
    got = np.einsum("ji,jk,ki->i", basis, condition(0.5 * (cov + cov.T), z), basis)
    np.testing.assert_allclose(got, 1.0 / (1.0 / variances + lengths**2), rtol=1e-6)


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
    conditioned, direction, scale = rank_one(frozen_array(cov), z)
    np.testing.assert_allclose(conditioned, expected, atol=1e-12)
    np.testing.assert_allclose(direction, cov @ z)
    assert scale == pytest.approx(1 + z @ cov @ z)


def textbook(mu0: Float, phi0: Any, z: Float, r: Float, a0: float, b0: float) -> tuple[Any, Any, float, float]:
    precision = phi0 + z.T @ z
    cov = np.linalg.inv(precision)
    mu = cov @ (phi0 @ mu0 + z.T @ r)
    b = b0 + 0.5 * (r @ r + mu0 @ phi0 @ mu0 - mu @ precision @ mu)
    return mu, cov, a0 + len(r) / 2, float(b)


@both_forms
@given(seed=seeds, g=st.integers(1, 8), n=st.integers(1, 40))
def test_observing_one_by_one_equals_the_textbook_batch(kind: Any, seed: int, g: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    z, r = rng.normal(size=(n, g)), rng.normal(size=n)
    believed = kind.prior(2, g, precision=0.25, a0=3.0, b0=2.0)
    for row, reward in zip(z, r, strict=True):
        believed = observed(kind, believed, 1, row, float(reward))
    mu, cov, a, b = textbook(np.zeros(g), 0.25 * np.eye(g), z, r, 3.0, 2.0)
    np.testing.assert_allclose(believed.mu[1], mu, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(believed.cov[1], cov, rtol=1e-8, atol=1e-9)
    assert believed.a[1] == a
    assert believed.b[1] == pytest.approx(b, rel=1e-8)
    np.testing.assert_array_equal(believed.mu[0], 0)  # the other arm


@given(seed=seeds, g=st.integers(1, 8), n=st.integers(0, 30))
def test_refit_equals_the_textbook(seed: int, g: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    prior, mu0 = random_cov(rng, g), rng.normal(size=g)
    z, r = rng.normal(size=(n, g)), rng.normal(size=n)
    mean, squares = fit_mean(condition(prior, z), mu0, z, r)
    mu, _, _, b = textbook(mu0, np.linalg.inv(prior), z, r, 6.0, 6.0)
    np.testing.assert_allclose(mean, mu, rtol=1e-7, atol=1e-8)
    assert 6.0 + 0.5 * squares == pytest.approx(b, rel=1e-8, abs=1e-8)


@given(seed=seeds, counts=st.lists(st.integers(0, 9), min_size=1, max_size=4), shared=st.booleans())
def test_all_arms_are_conditioned_on_their_own_rows(seed: int, counts: list[int], shared: bool) -> None:
    rng = np.random.default_rng(seed)
    bounds = [0, *np.cumsum(counts).tolist()]
    z, covs = rng.normal(size=(bounds[-1], 5)), np.array([random_cov(rng, 5) for _ in counts])
    got, traces = condition_all(covs[0] if shared else covs, z, bounds)
    for arm, (start, stop) in enumerate(itertools.pairwise(bounds)):
        own, before = z[start:stop], covs[0 if shared else arm]
        np.testing.assert_allclose(got[arm], condition(before, own), rtol=1e-9, atol=1e-12)
        assert traces[arm] == pytest.approx(float((own * own).sum()))


def test_b_never_falls_below_its_prior() -> None:
    """Rewards that are fitted to the last digit: the textbook difference of large numbers goes negative here."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(40, 5))
    mu0 = 1e7 * rng.normal(size=5)
    r = z @ mu0
    assert fit_mean(condition(np.eye(5), z), mu0, z, r)[1] >= 0.0
    assert textbook(mu0, np.eye(5), z, r, 6.0, 6.0)[3] != pytest.approx(6.0, rel=1e-6)  # what is avoided


@both_forms
def test_rank_one_updates_do_not_wear_the_covariance_out(kind: Any) -> None:
    """20,000 updates over features of very different size, compared with one factorisation of everything."""
    rng = np.random.default_rng(2)
    g, n = 6, 20_000
    believed = kind.prior(1, g, 0.25, 6.0, 6.0)
    z = rng.normal(size=(n, g)) * np.logspace(-2, 2, g)
    for row in z:
        believed = written(Writes(believed, kind.observe(believed, 0, row, 0.0)))
    expected = np.linalg.inv(0.25 * np.eye(g) + z.T @ z)
    units = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(believed.cov[0] / np.outer(units, units), expected / np.outer(units, units), atol=1e-8)


@pytest.mark.parametrize("size", [1e4, 1e8, 1.6e9])
def test_one_huge_column_does_not_spoil_the_rest(size: float) -> None:
    """A time stamp among standardised columns: the covariance form loses everything, the root does not."""
    rng = np.random.default_rng(8)
    n, g = 500, 5
    z = rng.normal(size=(n, g))
    z[:, 0] = size * (1.0 + 0.01 * rng.normal(size=n))
    r = z[:, 1:] @ np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * rng.normal(size=n)
    believed = sqrt_posterior.prior(1, g, 0.25, 6.0, 6.0)
    for row, reward in zip(z, r, strict=True):
        believed = observed(sqrt_posterior, believed, 0, row, float(reward))
    # ridge regression by QR of the stacked system, column scaled
    units = np.r_[size, np.ones(g - 1)]
    stacked = np.vstack([z / units, 0.5 * np.eye(g) / units])
    expected = np.linalg.lstsq(stacked, np.r_[r, np.zeros(g)], rcond=None)[0] / units
    np.testing.assert_allclose(believed.mu[0] * units, expected * units, atol=1e-7)
    assert sqrt_posterior.score(believed, z).scale.min() > 0.0


def example(rng: np.random.Generator, kind: Any = posterior) -> tuple[Any, Float]:
    believed = kind.prior(3, 4, precision=0.5, a0=2.5, b0=1.5)
    for _ in range(25):
        believed = observed(kind, believed, int(rng.integers(3)), rng.normal(size=4), float(rng.normal()))
    return believed, rng.normal(size=4)


@both_forms
def test_scores_and_their_variances(kind: Any) -> None:
    rng = np.random.default_rng(3)
    believed, z = example(rng, kind)
    score = kind.score(believed, z)
    spread = np.array([z @ cov @ z for cov in believed.cov])
    np.testing.assert_allclose(score.mean, believed.mu @ z)
    np.testing.assert_allclose(score.scale**2, spread * believed.b / believed.a)
    np.testing.assert_allclose(score.freedom, 2.0 * believed.a)
    np.testing.assert_allclose(score.variance, spread * believed.b / (believed.a - 1.0))
    rows = rng.normal(size=(7, 4))
    many = kind.score(believed, rows)
    for row, mean, scale in zip(rows, many.mean, many.scale, strict=True):
        np.testing.assert_allclose(mean, kind.score(believed, row).mean, rtol=1e-12)
        np.testing.assert_allclose(scale, kind.score(believed, row).scale, rtol=1e-12)
    np.testing.assert_array_equal(many.of([2, 0]).scale, many.scale[:, [2, 0]])
    np.testing.assert_array_equal(many.of([2, 0]).freedom, many.freedom[[2, 0]])


def test_variance_is_infinite_while_the_noise_has_no_mean() -> None:
    believed = observed(posterior, posterior.prior(2, 1, 1.0, a0=1.0, b0=1.0), 1, np.ones(1), 0.0)
    score = posterior.score(believed, np.ones(1))
    assert score.variance.tolist() == [np.inf, pytest.approx(0.5 * 1.0 / 0.5)]
    assert np.isfinite(score.mean).all()
    assert StudentT(np.zeros(2), np.zeros(2), np.array([1.0, 9.0])).variance.tolist() == [0.0, 0.0]


def test_scores_are_distributed_as_sampled_weights_would_be() -> None:
    """The paper draws noise ~ InvGamma(a, b), then weights ~ N(mu, noise cov); the score is z'w."""
    rng = np.random.default_rng(4)
    believed, z = example(rng)
    draws, score = 20_000, posterior.score(believed, z)
    fast = np.array([Thompson().scores(score, rng) for _ in range(draws)])
    for arm in range(3):
        noise = stats.invgamma.rvs(believed.a[arm], scale=believed.b[arm], size=draws, random_state=rng)
        unit = rng.multivariate_normal(np.zeros(4), believed.cov[arm], size=draws)
        slow = (believed.mu[arm] + np.sqrt(noise)[:, None] * unit) @ z
        assert stats.ks_2samp(fast[:, arm], slow).pvalue > 1e-3
        scale = float(np.sqrt(z @ believed.cov[arm] @ z * believed.b[arm] / believed.a[arm]))
        law = stats.t(2 * believed.a[arm], loc=float(z @ believed.mu[arm]), scale=scale)
        assert stats.kstest(fast[:, arm], law.cdf).pvalue > 1e-3
    assert abs(np.corrcoef(fast.T)[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(draws)  # arms are independent


@pytest.mark.parametrize("n_arms", [3, 40])
@pytest.mark.parametrize("freedom", [12.0, np.inf], ids=["t", "normal"])
def test_many_scores_are_drawn_from_the_same_stream_as_single_ones(n_arms: int, freedom: float) -> None:
    rng = np.random.default_rng(5)
    score = StudentT(rng.normal(size=(6, n_arms)), rng.uniform(size=(6, n_arms)), np.full(n_arms, freedom))
    one, many = np.random.default_rng(6), np.random.default_rng(6)
    pairs = zip(score.mean, score.scale, strict=True)
    looped = np.array([Thompson().scores(StudentT(mean, scale, score.freedom), one) for mean, scale in pairs])
    np.testing.assert_allclose(Thompson().scores(score, many), looped, rtol=1e-12)


def test_upper_bounds() -> None:
    believed, z = example(np.random.default_rng(7))
    score = posterior.score(believed, z)
    spread = np.array([z @ cov @ z for cov in believed.cov])
    np.testing.assert_allclose(UCB(0.0).scores(score), score.mean)
    expected = score.mean + 3.0 * np.sqrt(spread * believed.b / believed.a)
    np.testing.assert_allclose(UCB(3.0).scores(score), expected)
    with pytest.raises(ValueError, match="optimism"):
        UCB(-1.0)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "1", None])
def test_priors_that_cannot_be(bad: Any) -> None:
    check_prior(1.0, 6.0, 6.0)
    for name, given_values in (("prior_precision", (bad, 6, 6)), ("a0", (1, bad, 6)), ("b0", (1, 6, bad))):
        with pytest.raises(ValueError, match=name):
            check_prior(*given_values)
    with pytest.raises(ValueError, match="prior_precision"):
        check_prior(1e-200, 6.0, 6.0)


# Arms that change


def of_arms(kind: Any, arms: list[int], n_arms: int) -> Any:
    """Return beliefs after four tuples of each of these arms, which are the same whatever the others are."""
    believed = kind.prior(n_arms, 3, 0.5, 6.0, 6.0)
    for index, arm in enumerate(arms):
        for row in np.random.default_rng(arm).normal(size=(4, 3)):
            believed = observed(kind, believed, index, row, float(row.sum()))
    return believed


@both_forms
def test_arms_come_and_go(kind: Any) -> None:
    fresh = kind.prior(1, 3, 0.5, 6.0, 6.0)
    cases = [
        (without_arm(of_arms(kind, [0, 1, 2], 3), 1), of_arms(kind, [0, 2], 2)),
        (with_arm(of_arms(kind, [0, 1], 2), None, fresh), of_arms(kind, [0, 1], 3)),
        (with_arm(of_arms(kind, [0, 1], 2), 0, fresh), of_arms(kind, [0, 1, 0], 3)),
    ]
    for changed, expected in cases:
        for one, other in zip(changed, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    twin = observed(kind, cases[2][0], 2, np.ones(3), 5.0)  # a copy: the first arm does not learn with it
    np.testing.assert_array_equal(twin.cov[0], of_arms(kind, [0], 1).cov[0])


def test_the_density_of_a_reward_before_it_is_learned_from_is_student_t() -> None:
    rng = np.random.default_rng(5)
    beliefs = sqrt_posterior.prior(n_arms=2, width=3, precision=0.5, a0=4.0, b0=2.0)
    for z, reward in zip(rng.normal(size=(5, 3)), rng.normal(size=5), strict=True):
        rows, prediction = sqrt_posterior.predicted(beliefs, 1, z, float(reward))
        mu, a, b = beliefs.mu[1], float(beliefs.a[1]), float(beliefs.b[1])
        scale = np.sqrt(b / a * (1.0 + z @ beliefs.cov[1] @ z))
        for common in (a, 30.0):
            expected = stats.t.logpdf(reward, df=2.0 * common, loc=z @ mu, scale=scale)
            constant = special.gammaln(common + 0.5) - special.gammaln(common) - 0.5 * np.log(2.0 * np.pi)
            np.testing.assert_allclose(sqrt_posterior.log_density(prediction, common) + constant, expected, rtol=1e-12)
        beliefs = written(Writes(beliefs, rows))
