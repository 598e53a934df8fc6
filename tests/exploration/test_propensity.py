"""Which of independent Student-t variables is the largest: closed forms, references, simulation, properties."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.special import ndtr, stdtr

from lim2.exploration import UCB, StudentT, Thompson, propensity
from lim2.exploration.beta import chances_of_largest_share
from lim2.exploration.propensity import _many_cases, _one_case, chances_of_largest, one_hot

Float = NDArray[np.float64]


@pytest.mark.parametrize("gap", [0.0, 1e-3, 0.5, 2.0, 4.0])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.3, 2.0), (1.0, 1e-3), (1e-9, 1.0), (1e-7, 1e-7)])
def test_two_normals(gap: float, scales: tuple[float, float]) -> None:
    gap *= float(np.hypot(*scales))
    expected = ndtr(gap / np.hypot(*scales))
    np.testing.assert_allclose(
        chances_of_largest([gap, 0.0], scales, np.inf), [expected, 1.0 - expected], rtol=0.0, atol=1e-8
    )


@pytest.mark.parametrize("gap", [0.0, 0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.3, 2.0), (1e-6, 1.0)])
def test_two_cauchys(gap: float, scales: tuple[float, float]) -> None:
    """The difference of two Cauchy variables is Cauchy, its scale the sum of theirs."""
    expected = 0.5 + np.arctan(gap / sum(scales)) / np.pi
    np.testing.assert_allclose(
        chances_of_largest([gap, 0.0], scales, 1.0), [expected, 1.0 - expected], rtol=0.0, atol=1e-8
    )


@pytest.mark.parametrize("gap", [5.0, 7.0, 8.0])
def test_small_chances_of_normals_are_right_themselves(gap: float) -> None:
    small = chances_of_largest([0.0, gap], [1.0, 1.0], np.inf)[0]
    np.testing.assert_allclose(small, ndtr(-gap / np.sqrt(2.0)), rtol=1e-3)
    assert small < 3e-4


@pytest.mark.parametrize("df", [1.0, 3.0, 12.0])
@pytest.mark.parametrize("gap", [1e2, 1e3])
def test_small_chances_of_heavy_tails_are_right_themselves(gap: float, df: float) -> None:
    """Against a certain arm the chance is the tail itself."""
    small = chances_of_largest([0.0, gap], [1.0, 0.0], df)[0]
    exact = stats.t.sf(gap, df)
    np.testing.assert_allclose(small, exact, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("df", [0.5, 1.0, 12.0, np.inf])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_equal_arms_are_equally_likely(k: int, scale: float, df: float) -> None:
    np.testing.assert_allclose(chances_of_largest(np.zeros(k), np.full(k, scale), df), 1.0 / k, rtol=0.0, atol=1e-7)


def reference(means: ArrayLike, scales: ArrayLike, freedom: ArrayLike) -> Float:
    """Integrate by brute force: scipy's functions at 20 nodes between all arms' quantiles, far into the tails."""
    rows = list(zip(*np.broadcast_arrays(means, scales, freedom), strict=True))
    arms = [stats.t(df, m, s) if np.isfinite(df) else stats.norm(m, s) for m, s, df in rows]
    decades = range(-1, 13 if min(df for _, _, df in rows) >= 0.7 else 18)
    grid = np.array([0.0, *(sign * digit * 10.0**e for e in decades for digit in (1, 2, 5) for sign in (-1, 1))])
    edges = np.unique(np.concatenate([m + s * grid for m, s, _ in rows]))
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2.0
    x = edges[:-1, None] + half * (1.0 + nodes)
    log_cdf = np.maximum([arm.logcdf(x) for arm in arms], -5e3)
    log_pdf = np.maximum([arm.logpdf(x) for arm in arms], -5e3)
    return np.asarray((np.exp(log_pdf + log_cdf.sum(axis=0) - log_cdf) * half * weights).sum(axis=(1, 2)))


HARD: dict[str, tuple[Any, Any, Any]] = {
    "ten alike": (np.linspace(-1.0, 1.0, 10), np.linspace(0.2, 1.0, 10), np.arange(12.0, 22.0)),
    "scales from 1e-9 to 1": ([0.0, 0.1, 0.2, 0.3], [1.0, 1e-3, 1e-6, 1e-9], 12.0),
    "a narrow arm inside a wide one": ([0.0, 0.0, 0.5], [1.0, 1e-8, 0.3], [3.0, 50.0, np.inf]),
    "heavy tails": ([0.0, 1.0, -2.0], [1.0, 0.1, 5.0], [1.0, 1.0, 1.5]),
    "heavy and light": ([3.0, 0.0, 1.0], [0.01, 1.0, 0.5], [np.inf, 1.0, 2.0]),
    "far apart": ([0.0, 100.0, 103.0], [1.0, 1.0, 1.0], [3.0, 5.0, 12.0]),
    "two that nearly tie": ([1e-9, 0.0, -1.0], [1e-9, 2e-9, 1.0], [20.0, 30.0, 12.0]),
    "fewer than one degree of freedom": ([0.0, 1.0], [1.0, 1.0], [0.7, 0.7]),
    "half a degree of freedom": ([0.0, 1.0, -3.0], [1.0, 1e-9, 0.2], [0.5, 0.5, 2.0]),
    "two degrees of freedom and a narrow normal": ([0.0, 0.3, 0.3], [1.0, 1e-9, 1e-3], [2.0, np.inf, 0.5]),
    "1e-9 beside 1, all normal": ([0.0, 1e-9, -0.5], [1.0, 1e-9, 0.5], np.inf),
    "thirty": (np.sin(np.arange(30.0)), 10.0 ** np.linspace(-3.0, 0.0, 30), np.linspace(12.0, 300.0, 30)),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_cases(case: str) -> None:
    expected = reference(*HARD[case])
    assert expected.sum() == pytest.approx(1.0, abs=3e-8), "the reference itself"
    chances = chances_of_largest(*HARD[case])
    np.testing.assert_allclose(chances, expected, rtol=0.0, atol=1e-7)
    seen = expected > 1e-8
    np.testing.assert_allclose(chances[seen], expected[seen], rtol=1e-3)


@pytest.mark.parametrize("case", ["ten alike", "scales from 1e-9 to 1", "heavy tails", "heavy and light", "thirty"])
def test_simulation_of_a_million_draws(case: str) -> None:
    means, scales, df = (np.asarray(part) for part in HARD[case])
    draws, rng = 1_000_000, np.random.default_rng(0)
    counts = np.zeros(len(means))
    df = np.broadcast_to(np.minimum(df, 1e12), means.shape)
    for _ in range(10):
        scores = means + scales * rng.standard_t(df, size=(draws // 10, len(means)))
        counts += np.bincount(scores.argmax(axis=1), minlength=len(means))
    chances = chances_of_largest(means, scales, df)
    deviations = np.sqrt(np.maximum(chances * (1.0 - chances), 1.0 / draws) / draws)
    assert (np.abs(counts / draws - chances) / deviations).max() < 4.5


def test_certain_arms() -> None:
    assert chances_of_largest([1.0, 2.0, 2.0], [0.0, 0.0, 0.0], 12.0).tolist() == [0.0, 1.0, 0.0]  # argmax: the first
    assert chances_of_largest([2.0, 2.0], [1e-20, 1e-20], 12.0).tolist() == [1.0, 0.0]  # 2 + 1e-20 is 2
    assert chances_of_largest([3.0], [1.0], 12.0).tolist() == [1.0]
    assert chances_of_largest([0.0, 1e9], [1e-3, 0.0], 12.0).tolist() == [0.0, 1.0]
    half = chances_of_largest([0.0, 0.0, -1.0], [1.0, 0.0, 0.0], 5.0)
    np.testing.assert_allclose(half, [0.5, 0.5, 0.0], atol=1e-9)
    np.testing.assert_allclose(chances_of_largest([1.0, 0.0], [1e-12, 1e-12], 12.0), [1.0, 0.0], atol=1e-15)
    one = chances_of_largest([1.0, 1.0 + 1e-12, 0.0], [1e-12, 1e-12, 0.1], 40.0)
    two = chances_of_largest([0.0, (1.0 + 1e-12) - 1.0, -1.0], [1e-12, 1e-12, 0.1], 40.0)
    np.testing.assert_allclose(one, two, atol=1e-9)  # digits of the means that are alike do not matter


def uniform_reference(means: Float, scales: Float, freedom: Float, step: float) -> Float:
    """Integrate by the trapezoidal rule, which is exact to its last digits for a smooth integrand; for light tails."""
    x = np.arange((means - 9.0 * scales).max() - 30.0 * scales.min(), (means + 30.0 * scales).max(), step)[:, None]
    z = (x - means) / scales
    cdf, pdf = stdtr(freedom, z), stats.t.pdf(z, freedom) / scales
    below = np.maximum(cdf, 1e-300)
    return np.asarray((pdf / below * below.prod(axis=1, keepdims=True)).sum(axis=0) * step)


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("k", [10, 200, 1000])
def test_many_arms_that_are_alike(k: int, spread: float) -> None:
    """The product of many distribution functions is steep, which fewer panels do not resolve."""
    rng = np.random.default_rng(k)
    means, scales = spread * rng.normal(size=k), rng.uniform(0.7, 1.0, k)
    freedom = rng.choice([20.0, 60.0, 200.0], k)
    expected = uniform_reference(means, scales, freedom, step=0.05)
    assert expected.sum() == pytest.approx(1.0, abs=1e-9), "the reference itself"
    np.testing.assert_allclose(chances_of_largest(means, scales, freedom), expected, rtol=0.0, atol=2e-7)
    assert _one_case(means, scales, freedom).sum() == pytest.approx(1.0, abs=2e-4)  # before the sum is made 1


@pytest.mark.parametrize("arm", [0, 1, 2])
@pytest.mark.parametrize("part", ["means", "scales"])
def test_a_nan_gives_nans(part: str, arm: int) -> None:
    numbers = {"means": np.zeros(3), "scales": np.ones(3)}
    numbers[part][arm] = np.nan
    assert np.isnan(chances_of_largest(**numbers, freedom=12.0)).all()
    rows = {name: np.stack([np.ones(3), row]) for name, row in numbers.items()}
    np.testing.assert_allclose(chances_of_largest(**rows, freedom=12.0), [[1 / 3] * 3, [np.nan] * 3])


def test_rows_are_cases() -> None:
    means, scales = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[1.0, 1.0], [0.5, 3.0]])
    rows = chances_of_largest(means, scales, [12.0, 14.0])
    for row in range(2):
        np.testing.assert_allclose(rows[row], chances_of_largest(means[row], scales[row], [12.0, 14.0]), rtol=1e-12)
    assert chances_of_largest(np.empty((0, 3)), np.empty((0, 3)), 12.0).shape == (0, 3)


def hard_rows(n: int, k: int) -> tuple[Float, Float, Float]:
    """Return rows of all kinds: alike, with scales from 1e-9 to 1, far apart, with some or all arms certain."""
    rng = np.random.default_rng(n)
    kind = rng.integers(0, 5, (n, 1))
    scales = np.where(kind == 1, 10.0 ** rng.uniform(-9.0, 0.0, (n, k)), rng.uniform(0.2, 1.0, (n, k)))
    scales[(kind == 3) & (rng.random((n, k)) < 0.4) | (kind == 4)] = 0.0
    means = rng.normal(size=(n, k)) * np.where(kind == 2, 1e6, 1.0)
    return means, scales, rng.choice([0.5, 2.0, 12.0, 100.0, np.inf], k)


@pytest.mark.parametrize("at_once", [1, 64, 2**12, propensity.CHUNK_NUMBERS])
def test_rows_in_chunks(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensity, "CHUNK_NUMBERS", at_once)
    means, scales, freedom = hard_rows(n=200, k=6)
    rows = chances_of_largest(means, scales, freedom)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
    for row, m, s in zip(rows, means, scales, strict=True):
        np.testing.assert_allclose(row, chances_of_largest(m, s, freedom), rtol=0.0, atol=1e-9)


def test_rows_of_certain_arms_only() -> None:
    means = np.random.default_rng(0).integers(0, 3, (50, 4)).astype(float)
    np.testing.assert_array_equal(chances_of_largest(means, np.zeros((50, 4)), 12.0), one_hot(means))


means_of = st.floats(-1e3, 1e3)
scales_of = st.one_of(st.just(0.0), st.floats(-12.0, 3.0).map(lambda e: float(10.0**e)))
freedoms = st.one_of(st.just(np.inf), st.floats(0.5, 1e3))
arms_of = st.lists(st.tuples(means_of, scales_of, freedoms), min_size=1, max_size=8)


@given(arms_of)
@settings(max_examples=200)
def test_chances_are_a_distribution(arms: list[tuple[float, float, float]]) -> None:
    means, scales, df = np.array(arms).T
    chances = chances_of_largest(means, scales, df)
    assert (chances >= 0.0).all()
    assert chances.sum() == pytest.approx(1.0, abs=1e-12)
    assert _one_case(means, scales, df).sum() == pytest.approx(1.0, abs=1e-6)  # before the sum is made 1
    assert _many_cases(means[None], scales[None], df).sum() == pytest.approx(1.0, abs=1e-6)


@given(st.lists(freedoms, min_size=1, max_size=6), st.integers(1, 8), st.data())
@settings(max_examples=100)
def test_rows_are_their_cases_one_by_one(freedom: list[float], n: int, data: st.DataObject) -> None:
    k = len(freedom)
    means = np.array(data.draw(st.lists(means_of, min_size=n * k, max_size=n * k))).reshape(n, k)
    scales = np.array(data.draw(st.lists(scales_of, min_size=n * k, max_size=n * k))).reshape(n, k)
    rows = chances_of_largest(means, scales, freedom)
    assert (rows >= 0.0).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
    for row, m, s in zip(rows, means, scales, strict=True):
        np.testing.assert_allclose(row, chances_of_largest(m, s, freedom), rtol=0.0, atol=1e-9)


@given(arms_of, st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_the_order_of_arms_does_not_matter(arms: list[tuple[float, float, float]], random: Any) -> None:
    means, scales, df = np.array(arms).T
    means = means + np.arange(len(arms)) * 1e-3 * (scales == 0.0)  # ties of certain arms go to the first
    if len(set(means[scales == 0.0])) < (scales == 0.0).sum():
        return
    order = np.array(random.sample(range(len(arms)), len(arms)))
    chances = chances_of_largest(means, scales, df)
    np.testing.assert_allclose(chances_of_largest(means[order], scales[order], df[order]), chances[order], atol=1e-9)


@given(arms_of, st.floats(-6.0, 2.0))
@settings(max_examples=100)
def test_a_larger_mean_is_more_likely(arms: list[tuple[float, float, float]], exponent: float) -> None:
    means, scales, df = np.array(arms).T
    more = means.copy()
    more[0] += 10.0**exponent
    before, after = chances_of_largest(means, scales, df), chances_of_largest(more, scales, df)
    assert after[0] >= before[0] - 1e-7
    assert (after[1:] <= before[1:] + 1e-7).all()


def test_thompson_draws_what_it_says() -> None:
    score = StudentT(np.array([0.5, -1.0, 0.2]), np.array([0.4, 2.0, 0.7]), np.array([13.0, 5.0, 40.0]))
    draws, rng = 200_000, np.random.default_rng(0)
    many = StudentT(np.tile(score.mean, (draws, 1)), np.tile(score.scale, (draws, 1)), score.freedom)
    for thompson in (Thompson(), Thompson(temperature=0.5, optimism=1.0)):
        shares = np.bincount(thompson.scores(many, rng).argmax(axis=1)) / draws
        np.testing.assert_allclose(shares, thompson.propensities(score), atol=4.5 * np.sqrt(0.25 / draws))
    assert UCB(2.0).propensities(score).argmax() == UCB(2.0).scores(score).argmax()


@pytest.mark.parametrize("freedom", [3.0, 40.0, np.inf])
def test_leaving_out_the_hopeless_changes_nothing(freedom: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    for spread in (0.0, 0.3, 1.0, 5.0):
        means, scales = spread * rng.normal(size=50), 0.1 * rng.uniform(0.5, 1.5, 50)
        quick = chances_of_largest(means, scales, freedom)
        with monkeypatch.context() as patch:
            patch.setattr(propensity, "MIN_TO_LEAVE_OUT", 10**9)
            np.testing.assert_allclose(quick, chances_of_largest(means, scales, freedom), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("n_arms", [1, 2, 5, 40])
def test_chances_of_shares_of_any_precision(n_arms: int) -> None:
    """From no reward to a hundred thousand: against draws, and a sum of 1."""
    rng = np.random.default_rng(n_arms)
    n = np.floor(10 ** rng.uniform(0.0, 5.0, n_arms))
    ones = np.floor(n * rng.uniform(0.0, 0.2, n_arms))
    a, b = 1.0 + ones, 1.0 + n - ones
    chances = chances_of_largest_share(a, b)
    drawn = rng.beta(a, b, (100_000, n_arms)).argmax(axis=1)
    counts = np.bincount(drawn, minlength=n_arms) / 100_000
    assert chances.sum() == pytest.approx(1.0)
    assert (np.abs(counts - chances) < 5 * np.sqrt(chances * (1 - chances) / 100_000) + 1e-5).all()
