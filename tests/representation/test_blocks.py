"""The network of NeuralUCB and NeuralTS: gradients, training, arms."""

import numpy as np
import pytest
from algorithms.gradient_world import Array, flat, with_parameters
from hypothesis import given
from hypothesis import strategies as st

from lim2.representation.blocks import (
    Descent,
    Network,
    Trained,
    add_arm,
    forward,
    init,
    remove_arm,
    train_by_batches,
    train_by_samples,
)
from lim2.state import frozen

N_ARMS, N_FEATURES, HIDDEN = 3, 6, 8


def made(rng: np.random.Generator) -> Network:
    return frozen(init(N_ARMS, N_FEATURES, HIDDEN, rng))


def gradient(f: Network, context: Array, arm: int) -> Array:
    """Return the gradient of an arm's output, from its factors, in the order of the network's parameters."""
    _, factors = forward(f, context[None], arm)
    gates, hidden = factors.gates[0, 0], factors.hidden[0, 0]
    own = np.zeros_like(f.weights)
    own[arm] = np.outer(context, gates)
    return np.concatenate([own.ravel(), gates, hidden, [1.0]])


def trained_on_one(
    training: str, f: Network, context: Array, arm: int, reward: float, how: Descent
) -> tuple[Network, Trained]:
    rewards = np.array([reward])
    if training == "sample":
        return train_by_samples(f, context[None], np.array([arm]), rewards, how)
    return train_by_batches(f, context[None], rewards, [int(k > arm) for k in range(N_ARMS + 1)], how)


both_trainings = pytest.mark.parametrize("training", ["sample", "batch"])


@given(seed=st.integers(0, 10_000), arm=st.integers(0, N_ARMS - 1))
def test_gradient_against_finite_differences(seed: int, arm: int) -> None:
    rng = np.random.default_rng(seed)
    f, context, step = made(rng), rng.normal(size=N_FEATURES), 1e-6

    def output(parameters: Array) -> float:
        return float(forward(with_parameters(f, parameters), context[None], arm)[0][0, 0])

    slopes = [(output(flat(f) + e) - output(flat(f) - e)) / (2.0 * step) for e in step * np.eye(f.size)]
    before_relu = context @ f.weights[arm] + f.bias
    if np.abs(before_relu).min() > 1e-5:  # at a kink there is no derivative to compare with
        np.testing.assert_allclose(gradient(f, context, arm), slopes, atol=1e-8)


@both_trainings
def test_training_step_against_finite_differences(training: str) -> None:
    rng = np.random.default_rng(3)
    f, context = made(rng), rng.normal(size=N_FEATURES)
    arm, reward, rate, decay, step = 1, 0.7, 1e-3, 0.4, 1e-6

    def loss(parameters: Array) -> float:
        error = float(forward(with_parameters(f, parameters), context[None], arm)[0][0, 0]) - reward
        return error**2 + 0.5 * decay * float(parameters @ parameters)

    slopes = [(loss(flat(f) + e) - loss(flat(f) - e)) / (2.0 * step) for e in step * np.eye(f.size)]
    new, _ = trained_on_one(training, f, context, arm, reward, Descent(1, rate, decay, stop_loss=0.0))
    np.testing.assert_allclose((flat(f) - flat(new)) / rate, slopes, atol=1e-7)


@both_trainings
def test_training_stops_early_or_at_the_limit(training: str) -> None:
    rng = np.random.default_rng(0)
    f, context = made(rng), rng.normal(size=N_FEATURES) / 3.0
    how = Descent(steps=60, rate=0.01, decay=0.0, stop_loss=0.05)
    _, easy = trained_on_one(training, f, context, 0, 0.5, how)
    _, hard = trained_on_one(training, f, context, 0, 5.0, how._replace(rate=1e-5))
    assert easy.steps < 60
    assert easy.loss <= 0.05
    assert hard.steps == 60
    assert hard.loss > 0.05


def test_decay_reaches_the_blocks_of_other_arms_exactly() -> None:
    rng = np.random.default_rng(6)
    f, context = made(rng), rng.normal(size=N_FEATURES)
    how = Descent(steps=40, rate=0.1, decay=5.0, stop_loss=0.0)  # each step halves: the scale must be folded in
    new, _ = trained_on_one("sample", f, context, 0, 1.0, how)
    np.testing.assert_allclose(new.weights[1:], f.weights[1:] * 0.5**40, rtol=1e-12)
    new, _ = trained_on_one("sample", frozen(new), context, 0, 1.0, how._replace(steps=2000))
    assert np.isfinite(flat(new)).all()


@both_trainings
def test_divergence_is_an_error(training: str) -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(FloatingPointError, match=r"diverged within .* lower learning_rate"):
        trained_on_one(training, made(rng), np.full(N_FEATURES, 1e20), 0, 1.0, Descent(20, 0.01, 0.0, 0.0))


def test_arms_come_and_go() -> None:
    f = frozen(init(3, 2, 4, np.random.default_rng(0)))
    contexts = np.random.default_rng(1).normal(size=(5, 2))
    before, _ = forward(f, contexts)
    f = add_arm(f, 1, np.random.default_rng(2))
    np.testing.assert_array_equal(forward(f, contexts)[0], before[[0, 1, 2, 1]])
    f = add_arm(f, None, np.random.default_rng(2))
    assert 0.0 < np.abs(f.weights[4]).max() < 1.0 / np.sqrt(10)
    for arm in (4, 3, 0):
        f = remove_arm(f, arm)
    np.testing.assert_array_equal(forward(f, contexts)[0], before[1:])
    assert f.size == init(2, 2, 4, np.random.default_rng(0)).size
