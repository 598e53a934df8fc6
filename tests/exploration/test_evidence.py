"""Sums of one arm, and what follows from them, against closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from lim2.exploration.evidence import Start, centred, fit, forgetting, log_evidence, split, sums_of, times, total
from lim2.exploration.sums import Sums
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
    close(total(*split(Z, r, first)), sums_of(Z, r))
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


@pytest.mark.parametrize("rows", [1, 3, 20])
def test_the_evidence_is_a_multivariate_student_t(rows: int) -> None:
    Z, r = data(rows)
    precision, a, b = np.array([1.0, 2.0, 0.5, 3.0]), 7.0, 3.0
    spread = np.eye(rows) + Z / precision @ Z.T
    expected = multivariate_t.logpdf(r, loc=np.zeros(rows), shape=b / a * spread, df=2 * a)
    assert log_evidence(Start(precision, a, b), sums_of(Z, r)) == pytest.approx(expected, rel=1e-10)


def test_forgetting_is_a_ratio_of_evidences() -> None:
    (Z, r), start = data(20), Start(np.ones(4), 7.0, 3.0)
    older, recent = sums_of(Z[:15], r[:15]), sums_of(Z[15:], r[15:])
    plain = log_evidence(start, sums_of(Z, r)) - log_evidence(start, older)
    contradicted = sums_of(Z[15:], -r[15:])
    assert forgetting(start, older, recent, (1.0,))[0] == pytest.approx(plain, rel=1e-10)
    steady, changed = (forgetting(start, older, part, (1.0, 256.0)) for part in (recent, contradicted))
    assert steady[0] > steady[1]
    assert changed[1] > changed[0]
    assert forgetting(start, times(older, 0.0), recent, (1.0, 16.0)) == [0.0, 0.0]
