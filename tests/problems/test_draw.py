from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lim2.problems.draw import draw_rows, one_per_right_arm, ordered_product, standardized, stream


def online_by_the_book(X: np.ndarray) -> np.ndarray:
    """Each row by the mean and deviation of the rows so far, computed afresh."""
    out = np.zeros_like(X)
    for t in range(len(X)):
        for j in range(X.shape[1]):
            past = X[: t + 1, j]
            past = past[~np.isnan(past)]
            if np.isnan(X[t, j]) or past.std() <= 1e-12 * abs(past.mean()):
                continue
            out[t, j] = (X[t, j] - past.mean()) / past.std()
    return out


def some_contexts(missing: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(3)
    X = rng.normal([0.0, 1e6, -5.0, 7.0], [1.0, 1.0, 100.0, 0.0], (60, 4))
    X[rng.random(X.shape) < missing] = np.nan
    return X


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_online_uses_only_the_past(missing: float) -> None:
    X = some_contexts(missing)
    np.testing.assert_allclose(standardized(X, "online"), online_by_the_book(X), rtol=1e-6, atol=1e-9)
    shorter = standardized(X[:30], "online")
    np.testing.assert_array_equal(standardized(X, "online")[:30], shorter)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_sample_has_mean_zero_and_deviation_one(missing: float) -> None:
    X = some_contexts(missing)
    Z = standardized(X, "sample")
    for j in range(3):
        present = ~np.isnan(X[:, j])
        np.testing.assert_allclose(Z[present, j].mean(), 0.0, atol=1e-12)
        np.testing.assert_allclose(Z[present, j].std(), 1.0, rtol=1e-9)
        np.testing.assert_allclose(Z[present, j] * X[present, j].std() + X[present, j].mean(), X[present, j], rtol=1e-9)
    assert not np.isnan(Z).any()
    assert (Z[np.isnan(X)] == 0).all()


@pytest.mark.parametrize("how", ["sample", "online"])
@pytest.mark.parametrize("value", [7.0, 0.1, 1e9 + 0.1, 0.0])
def test_a_constant_column_becomes_zero(how: str, value: float) -> None:
    assert (standardized(np.full((500, 2), value), how) == 0).all()  # type: ignore[arg-type]


def test_none_leaves_all_but_the_missing() -> None:
    X = some_contexts(0.2)
    Z = standardized(X, None)
    present = ~np.isnan(X)
    np.testing.assert_array_equal(Z[present], X[present])
    np.testing.assert_allclose(Z[~present[:, 0], 0], X[present[:, 0], 0].mean())


def test_a_column_without_any_value_is_zero() -> None:
    X = np.array([[np.nan, 1.0], [np.nan, 3.0]])
    for how in ("sample", "online", None):
        assert (standardized(X, how)[:, 0] == 0).all()


def test_the_input_stays_as_it_was() -> None:
    X = some_contexts()
    before = X.copy()
    for how in ("sample", "online", None):
        standardized(X, how)
    np.testing.assert_array_equal(X, before)


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match='must be "sample", "online" or None'):
        standardized(np.ones((2, 2)), "yes")  # type: ignore[arg-type]


@given(st.integers(1, 300), st.integers(0, 2**32))
def test_rows_are_drawn_once_each(n: int, seed: int) -> None:
    rows = draw_rows(n, "all", seed)
    assert sorted(rows.tolist()) == list(range(n))


def test_fewer_rounds_are_the_first_of_more() -> None:
    np.testing.assert_array_equal(draw_rows(100, 10, 5), draw_rows(100, 60, 5)[:10])


def test_replacement_allows_more_rounds_than_rows() -> None:
    rows = draw_rows(10, 1000, 0, replace=True)
    assert len(rows) == 1000
    assert set(rows.tolist()) == set(range(10))
    with pytest.raises(ValueError, match="has 10 rows, but 11 rounds were asked for"):
        draw_rows(10, 11, 0)


def test_streams_of_other_purposes_and_seeds_differ() -> None:
    draws = {stream(seed, word).integers(2**60) for seed in range(5) for word in ("rows", "noise")}
    assert len(draws) == 10


def test_the_product_is_the_product() -> None:
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((20, 7)), rng.standard_normal((7, 3))
    np.testing.assert_allclose(ordered_product(X, W), X @ W, rtol=1e-12)


def test_the_product_has_the_same_bits_everywhere() -> None:
    rng = np.random.default_rng(0)
    X, W = rng.random((50, 30)) - 0.5, rng.random((30, 4)) - 0.5
    digest = hashlib.sha256(ordered_product(X, W).astype("<f8").tobytes()).hexdigest()
    assert digest[:16] == "37cf000e2927ddfc"


def test_the_right_arm_alone_pays() -> None:
    assert one_per_right_arm(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
