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
    log_evidence,
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


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_evidence_is_a_multivariate_normal(rows: int) -> None:
    Z, r = data(rows)
    value, rest = log_evidence(PRECISION * NOISE, NOISE, sums_of(Z, r))
    assert value == pytest.approx(normal(Z, r), rel=1e-10)
    mean, _ = fit(PRECISION * NOISE, sums_of(Z, r))
    assert rest == pytest.approx(float(r @ (r - Z @ mean)), rel=1e-9)


def test_forgetting_is_a_ratio_of_evidences_with_the_noise_of_recent_rewards() -> None:
    Z, r = data(40)
    past, recent = sums_of(Z[:30], r[:30]), sums_of(Z[30:], r[30:])
    steady = forgetting(PRECISION, 1.0, past, recent, (1.0, 1 / 256))
    changed = forgetting(PRECISION, 1.0, past, sums_of(Z[30:], -r[30:]), (1.0, 1 / 256))
    assert steady[0] > steady[1]
    assert changed[1] > changed[0]
    assert forgetting(PRECISION, 1.0, times(past, 0.0), recent, (1.0, 0.5)).tolist() == [0.0, 0.0]
    burst = r[30:] + np.where(np.arange(10) == 3, 1e3, 0.0)  # one huge reward is noise, not a change
    gain = forgetting(PRECISION, 1.0, past, sums_of(Z[30:], burst), (1.0, 1 / 256))
    assert gain[1] - gain[0] < 6.0


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
