"""Sums of one arm, and what follows from them, against closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from lim2.exploration.sufficient_statistics import (
    Sums,
    centred,
    constant_evidence,
    fit,
    forgetting,
    likely_width,
    sums_of,
    times,
    total,
    width_evidence,
)
from lim2.state import Array


def data(rows: int, seed: int = 0, width: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, width))
    features[:, -1] = 1.0
    return features, features @ np.arange(width) + rng.normal(size=rows)


def close(one: Sums, other: Sums) -> None:
    for part, same in zip(one, other, strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-12, atol=1e-10)


@given(rows=st.integers(0, 12), seed=st.integers(0, 50))
def test_sums_add_up_and_can_be_centred(rows: int, seed: int) -> None:
    Z, r = data(rows, seed)
    first = np.arange(rows) < rows // 3
    close(total(sums_of(Z[first], r[first]), sums_of(Z[~first], r[~first])), sums_of(Z, r))
    close(centred(sums_of(Z, r), 2.5), sums_of(Z, r - 2.5))
    close(times(sums_of(Z, r), 0.25), sums_of(0.5 * Z, 0.5 * r)._replace(weight=np.array(0.25 * rows)))


@pytest.mark.parametrize("rows", [0, 2, 30])
def test_a_fit_is_the_textbook_posterior(rows: int) -> None:
    Z, r = data(rows)
    precision = np.array([1.0, 2.0, 0.5, 3.0])
    mean, root = fit(precision, sums_of(Z, r))
    cov = np.linalg.inv(np.diag(precision) + Z.T @ Z)
    np.testing.assert_allclose(root.T @ root, cov, rtol=1e-12)
    np.testing.assert_allclose(mean, cov @ Z.T @ r, rtol=1e-10, atol=1e-14)


def test_a_start_that_is_lost_in_rounding_still_gives_a_root() -> None:
    Z = np.array([[1e12, 1e12], [1e12, 1e12]])
    _, root = fit(np.ones(2), sums_of(Z, np.ones(2)))
    assert np.isfinite(root).all()
    assert np.linalg.eigvalsh(root.T @ root).max() <= 1.0 + 1e-9


PRECISION, NOISE = np.array([1.0, 1.0, 1.0, 3.0]), 0.7


def normal(Z: Array, r: Array, precision: Array = PRECISION) -> float:
    """Return the log density of rewards whose noise is known, up to what the evidence leaves out."""
    cov = NOISE * np.eye(len(r)) + Z / precision @ Z.T
    return float(multivariate_normal.logpdf(r, np.zeros(len(r)), cov) + 0.5 * len(r) * np.log(2 * np.pi * NOISE))


WEIGHTS = np.array([1.0, 1 / 16, 1 / 256])


def predicted(past: tuple[Array, Array], Z: Array, r: Array, weight: float) -> Array:
    """Return the prediction of every recent reward from the weighted past and all other recent ones."""
    out = np.empty(len(r))
    for row in range(len(r)):
        rest = np.arange(len(r)) != row
        features = np.vstack([np.sqrt(weight) * past[0], Z[rest]])
        rewards = np.append(np.sqrt(weight) * past[1], r[rest])
        cov = np.linalg.inv(np.diag(PRECISION * NOISE) + features.T @ features)
        out[row] = Z[row] @ cov @ features.T @ rewards
    return out


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_forgetting_compares_predictions_of_each_recent_reward_from_all_others(sign: float) -> None:
    Z, r = data(40)
    past, recent = (Z[:30], r[:30]), (Z[30:], sign * r[30:])
    left = np.array([recent[1] - predicted(past, *recent, weight) for weight in WEIGHTS])
    gain, apart = left[0] ** 2 - left**2, (left[0] - left) ** 2
    spread = (gain**2).sum(axis=1) / np.maximum(4.0 * apart.sum(axis=1), 1e-300)
    found = forgetting(PRECISION, NOISE, sums_of(*past), *recent, WEIGHTS)
    np.testing.assert_allclose(found, 0.5 * gain.sum(axis=1) / np.maximum(NOISE, spread), rtol=1e-8, atol=1e-9)
    assert (found[1:].max() > 6.0) == (sign < 0.0)


def test_one_huge_reward_is_no_change() -> None:
    Z, r = data(40)
    burst = r[30:] + np.where(np.arange(10) == 3, 1e3, 0.0)
    assert forgetting(PRECISION, 1.0, sums_of(Z[:30], r[:30]), Z[30:], burst, WEIGHTS).max() < 1.0


def test_a_stretch_without_a_click_is_no_change() -> None:
    ones, clicks = np.ones((500, 1)), (np.arange(500) % 33 == 0).astype(float)
    noise = float(clicks.var())
    gain = forgetting(np.array([1.0 / noise]), noise, sums_of(ones, clicks), ones[:60], np.zeros(60), WEIGHTS)
    assert gain.max() < 1.5


def test_the_likely_width_is_a_mean_over_all() -> None:
    widths = np.array([1.0, 0.25])
    assert likely_width(np.zeros(2), widths) == 0.75
    assert likely_width(np.array([0.0, -800.0]), widths) == 1.0


@pytest.mark.parametrize("rows", [2, 25])
def test_the_evidence_of_widths_is_that_of_priors_of_these_widths(rows: int) -> None:
    Z, r = data(rows)
    widths = np.array([1.0, 0.25, 1 / 64])
    found = width_evidence(PRECISION, NOISE, sums_of(Z, r), widths)
    expected = [normal(Z, r, np.append(PRECISION[:-1] / width, PRECISION[-1])) for width in widths]
    np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("zeros", [[], [0, 3], [0, 1, 2, 3]])
def test_features_that_were_never_seen_keep_their_prior(zeros: list[int]) -> None:
    rng = np.random.default_rng(0)
    Z, r, precision = rng.normal(size=(30, 5)), rng.normal(size=30), 0.5 + rng.random(5)
    Z[:, -1], Z[:, zeros] = 1.0, 0.0
    sums = sums_of(Z, r)
    mean, root = fit(precision, sums)
    cov = np.linalg.inv(np.diag(precision) + Z.T @ Z)
    np.testing.assert_allclose(root.T @ root, cov, atol=1e-12)
    np.testing.assert_allclose(mean, cov @ (Z.T @ r), atol=1e-12)


def test_the_evidence_of_a_width_does_not_depend_on_features_that_were_never_seen() -> None:
    rng = np.random.default_rng(1)
    Z, r, widths = (
        np.append(rng.normal(size=(30, 3)), np.ones((30, 1)), axis=1),
        rng.normal(size=30),
        np.array([1, 0.1]),
    )
    wider = np.insert(Z, [0, 2], 0.0, axis=1)
    for evidence in (width_evidence, constant_evidence):
        narrow = evidence(np.full(4, 0.7), 1.3, sums_of(Z, r), widths)
        np.testing.assert_allclose(evidence(np.full(6, 0.7), 1.3, sums_of(wider, r), widths), narrow, rtol=1e-12)
