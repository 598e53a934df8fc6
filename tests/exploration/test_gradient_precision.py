"""What is known of a network's parameters: the diagonal of U, and all of its inverse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lim2.exploration.gradient_precision import LARGEST_FULL, Diagonal, Full
from lim2.state import frozen, written

Array = NDArray[np.float64]
N_ARMS, N_FEATURES, HIDDEN = 3, 2, 4
LAYOUT = (N_FEATURES, HIDDEN)
both_kinds = pytest.mark.parametrize("kind", [Diagonal, Full])


def observed(known: Any, context: Array, arm: int, gates: Array, hidden: Array) -> Any:
    return frozen(written(known.observe(context, arm, gates, hidden)))


@given(seed=st.integers(0, 10_000), n=st.integers(1, 12))
def test_full_is_the_inverse_and_diagonal_its_diagonal(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    full = frozen(Full.prior(N_ARMS, *LAYOUT, 0.5))
    diagonal = frozen(Diagonal.prior(N_ARMS, *LAYOUT, 0.5))
    U = 0.5 * np.eye(len(full.inverse))
    contexts, gates, hidden = rng.normal(size=(n, 2)), rng.normal(size=(n, HIDDEN)), rng.normal(size=(n, HIDDEN))

    def written_out(t: int, arm: int) -> Array:
        own = np.zeros((N_ARMS, N_FEATURES * HIDDEN))
        own[arm] = np.outer(contexts[t], gates[t]).ravel()
        return np.concatenate([gates[t], hidden[t], [1.0], own.ravel()])

    for t in range(n):
        arm = int(rng.integers(N_ARMS))
        full = observed(full, contexts[t], arm, gates[t], hidden[t])
        diagonal = observed(diagonal, contexts[t], arm, gates[t], hidden[t])
        U += np.outer(written_out(t, arm), written_out(t, arm))
    np.testing.assert_allclose(full.inverse @ U, np.eye(len(U)), atol=1e-10)
    np.testing.assert_allclose(full.inverse, full.inverse.T, atol=1e-14)
    held = np.concatenate([diagonal.shared, diagonal.blocks.ravel()])
    np.testing.assert_allclose(held * np.diag(U), 1.0, rtol=1e-12)
    g = np.array([[written_out(t, arm) for t in range(n)] for arm in range(N_ARMS)])
    factors = np.stack([gates] * N_ARMS), np.stack([hidden] * N_ARMS)
    np.testing.assert_allclose(full.spreads(contexts, *factors), np.vecdot(g @ full.inverse, g), rtol=1e-9)
    np.testing.assert_allclose(diagonal.spreads(contexts, *factors), (g * g) @ held, rtol=1e-12)


@both_kinds
def test_arms_come_and_go(kind: Any) -> None:
    rng = np.random.default_rng(0)
    known = frozen(kind.prior(3, *LAYOUT, 0.5))
    for t in range(12):
        known = observed(known, rng.normal(size=2), t % 3, rng.normal(size=4), rng.normal(size=4))
    contexts, gates, hidden = rng.normal(size=(5, 2)), rng.normal(size=(1, 5, 4)), rng.normal(size=(1, 5, 4))

    def spreads(known: Any, n_arms: int) -> Array:
        out: Array = known.spreads(contexts, np.repeat(gates, n_arms, axis=0), np.repeat(hidden, n_arms, axis=0))
        return out

    before = spreads(known, 3)
    known = frozen(known.add_arm(1, *LAYOUT, 0.5))
    np.testing.assert_allclose(spreads(known, 4), before[[0, 1, 2, 1]], rtol=1e-12)
    if kind is Full:
        assert np.linalg.eigvalsh(known.inverse)[0] > 0.0
    known = frozen(known.add_arm(None, *LAYOUT, 0.5))
    if kind is Full:  # nothing is known of its block
        np.testing.assert_array_equal(known.inverse[-8:], np.eye(49)[-8:] / 0.5)
    else:
        assert (spreads(known, 5)[4] > spreads(known, 5)[:4].max(axis=0)).all()
    known = observed(known, contexts[0], 3, gates[0, 0], hidden[0, 0])
    for arm in (4, 3):
        known = known.remove_arm(arm, *LAYOUT)
    assert (spreads(known, 3) <= before + 1e-12).all()  # the copy taught what is shared
    rest = spreads(known, 3)[1:]
    known = known.remove_arm(0, *LAYOUT)
    np.testing.assert_allclose(spreads(known, 2), rest, rtol=1e-12)


def test_a_full_matrix_has_a_bound_also_when_it_grows() -> None:
    message = "use covariance='diagonal' or a smaller hidden"
    with pytest.raises(ValueError, match=message):
        Full.prior(1, LARGEST_FULL, 1, 1.0)
    with pytest.raises(ValueError, match=message):
        Full.prior(1, 1, 3, 1.0).add_arm(None, LARGEST_FULL, 1, 1.0)
