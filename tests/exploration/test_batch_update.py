"""Several rows at once against one after the other."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lim2.exploration import batch_update, sqrt_posterior
from lim2.state import Writes, written


def one_by_one(before: Any, observe: Any, Z: Any, rewards: Any) -> Any:
    for z, reward in zip(Z, rewards.tolist(), strict=True):
        before = written(Writes(before, observe(before, 1, z, reward)))
    return before


def rows_of(k: int, width: int, scale: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(k, width)), rng.normal(size=k)


@given(
    k=st.integers(1, 150), width=st.integers(1, 20), scale=st.sampled_from([1e-3, 1.0, 30.0]), seed=st.integers(0, 9)
)
def test_many_rows_are_as_one_after_the_other(k: int, width: int, scale: float, seed: int) -> None:
    Z, rewards = rows_of(k, width, scale, seed)
    start = sqrt_posterior.prior(3, width, 0.25, 6.0, 6.0)
    writes, predictions = batch_update.predicted_many(start, 1, Z, rewards)
    many, one = written(Writes(start, writes)), one_by_one(start, sqrt_posterior.observe, Z, rewards)
    for found, expected in ((many.mu, one.mu), (many.cov, one.cov), (many.a, one.a), (many.b, one.b)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * max(1.0, float(np.abs(expected).max())))
    expected = []
    for z, reward in zip(Z, rewards.tolist(), strict=True):
        rows, prediction = sqrt_posterior.predicted(start, 1, z, reward)
        start = written(Writes(start, rows))
        expected.append(prediction)
    np.testing.assert_allclose(np.transpose(predictions), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("scale", [1e4, 1e12, 1e29])
def test_rows_that_rounding_would_swamp_are_taken_one_by_one(scale: float) -> None:
    """The same row many times: what is left of its variance is far below rounding."""
    Z, rewards = np.full((20, 3), scale), np.ones(20)
    start = sqrt_posterior.prior(2, 3, 1.0, 6.0, 6.0)
    many = written(Writes(start, batch_update.predicted_many(start, 1, Z, rewards)[0]))
    one = one_by_one(start, sqrt_posterior.observe, Z, rewards)
    assert many.mu.tobytes() == one.mu.tobytes()
    assert many.root.tobytes() == one.root.tobytes()


def test_beliefs_that_are_given_stay_as_they_are() -> None:
    Z, rewards = rows_of(9, 4, 1.0, 0)
    first = sqrt_posterior.prior(2, 4, 1.0, 6.0, 6.0)
    before = [part.copy() for part in first]
    batch_update.predicted_many(first, 1, Z, rewards)
    assert all(np.array_equal(part, kept) for part, kept in zip(first, before, strict=True))
