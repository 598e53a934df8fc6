"""Running moments against those of NumPy, and agents on raw columns against explicit scaling."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import lim2
from lim2.moments import Moments, no_moments, observe, scaled, scaling

Float = NDArray[np.float64]


def observed(rows: Float) -> Moments:
    moments = no_moments(rows.shape[1:])
    for row in rows:
        moments = observe(moments, row)
    return moments


def scaled_by(moments: Moments, rows: Float) -> Float:
    return scaled(scaling(moments), rows)


def test_moments_are_those_of_all_rows() -> None:
    rows = np.random.default_rng(0).normal(3.0, [1e-6, 1.0, 1e9], size=(300, 3))
    moments = observed(rows)
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-11)
    np.testing.assert_allclose(moments.std, rows.std(axis=0), rtol=1e-11)
    np.testing.assert_allclose(
        scaled_by(moments, rows), (rows - rows.mean(axis=0)) / rows.std(axis=0), rtol=1e-9, atol=1e-9
    )


def test_small_noise_on_a_large_column_keeps_its_digits() -> None:
    noise = np.random.default_rng(1).normal(scale=1e-3, size=(5000, 1))
    rows = 1e9 + noise
    moments = observed(rows)
    np.testing.assert_allclose(moments.std, noise.std(axis=0), rtol=1e-4)  # 1e9 has steps of 1.2e-7
    assert abs(float(scaled_by(moments, rows).mean())) < 1e-3


def test_columns_that_do_not_vary_are_zero() -> None:
    rows = np.tile([0.1, 1e15, 0.0], (50, 1))
    assert not scaled_by(observed(rows), rows).any()
    assert not scaled_by(observed(rows), rows + 1.0).any()  # nothing is known of the scale
    assert not scaled_by(no_moments((3,)), rows).any()


@given(st.lists(st.floats(-1e29, 1e29), min_size=1, max_size=12), st.floats(-1e29, 1e29))
def test_no_scaled_value_exceeds_the_root_of_the_count(column: list[float], other: float) -> None:
    rows = np.array(column)[:, None]
    moments = observed(rows)
    values = scaled_by(moments, np.append(rows, [[other]], axis=0))
    assert np.isfinite(values).all()
    assert (np.abs(values) <= np.sqrt(len(rows))).all()
    # what was observed is never clipped
    if scaling(moments).factor[0]:
        exact = (rows - moments.mean) / moments.std
        np.testing.assert_allclose(values[:-1], exact, rtol=1e-6, atol=1e-6)


RAW = np.random.default_rng(3).normal([0.0, 1e4, -5.0], [1e-3, 300.0, 2.0], size=(400, 3))
RAW[:, 2] = RAW[:, 2] > -3.0  # varies late, and rarely


@pytest.mark.parametrize("name", ["LiM2", "NeuralLinearMM", "NeuralLinearNTK", "NeuralLinear"])
def test_features_are_those_of_scaled_contexts_and_the_buffer_is_raw(name: str) -> None:
    agent: Any = lim2.AGENTS[name](2, 3, standardize=True, seed=0, hidden=(5,))
    agent.update(RAW[:50], np.arange(50) % 2, np.zeros(50))
    net, f, memory = agent.algorithm.net, agent.state.network, agent.state.memory
    np.testing.assert_array_equal(np.sort(memory.contexts[memory.rows(), 1]), np.sort(RAW[:50, 1]))
    values = (RAW[:50] - RAW[:50].mean(axis=0)) / RAW[:50].std(axis=0)
    np.testing.assert_allclose(net.features(f, RAW[:50]), net.inner.features(f.inner, values), rtol=1e-9, atol=1e-9)


def test_beliefs_of_lim2_stand_on_the_present_scaling() -> None:
    """With matching and the network out of the way, refitting is a regression on the features as they are now."""
    agent = lim2.NeuralLinearNaive(2, 3, standardize=True, seed=0, hidden=(5,))
    agent.update(RAW[:60], np.arange(60) % 2, np.cos(np.arange(60.0)))
    net, state = agent.algorithm.net, agent.state  # type: ignore[attr-defined]
    rows, bounds = state.memory.by_arm()
    z = net.features(state.network, state.memory.contexts[rows[bounds[1] :]])
    expected = np.linalg.inv(np.eye(5) + z.T @ z)
    np.testing.assert_allclose(state.posterior.cov[1], expected, rtol=1e-8, atol=1e-10)


def test_matching_sees_what_the_scaling_changes() -> None:
    """A network that does not move: what moves its features is the scaling alone."""
    agent = lim2.LiM2(2, 3, standardize=True, seed=0, hidden=(5,), learning_rate=1e-300)
    agent.update(RAW[:6], np.arange(6) % 2, np.ones(6))
    agent.update(RAW[0] * 100.0, 0, 1.0)
    assert agent.info is not None
    assert agent.info.drift is not None
    assert agent.info.drift > 0.1


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
def test_tokens_are_not_standardized_and_raw_columns_keep_their_digits() -> None:
    import torch

    from lim2.representation import TextCNN, Torch

    text = Torch(TextCNN(20, length=6, embedding=4, filters=3, width=5, seed=0), 5)
    with pytest.raises(ValueError, match="token ids"):
        lim2.LiM2(2, representation=text, standardize=True)
    embedding = torch.nn.Sequential(torch.nn.Embedding(20, 4), torch.nn.Flatten())
    with pytest.raises(ValueError, match="standardize"):
        lim2.LiM2(2, 3, representation=Torch(embedding, 12), standardize=True)
    linear = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.ReLU())
    agent = lim2.LiM2(2, 2, representation=Torch(linear, 5), standardize=True, seed=0)
    rows = np.array([[1e9 + 1.0, 3], [1e9 + 2.0, 5], [1e9 + 3.0, 4]])
    agent.update(rows, [0, 1, 0], [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(np.sort(agent.state.memory.contexts[:3, 0]), rows[:, 0])
