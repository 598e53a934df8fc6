from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lim2 import problems
from lim2.experiments.runner import play
from lim2.paper.ntk import KernelWatch, NTKNetwork
from lim2.representation import SGD

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 1, 4))


def network(width: int = 7, seed: int = 0) -> NTKNetwork:
    return NTKNetwork(4, width, 3, SGD(0.05), np.random.default_rng(seed))


def gradient(net: NTKNetwork, x: NDArray[np.float64], arm: int) -> NDArray[np.float64]:
    slopes = np.empty_like(net.parameters)
    for i, value in enumerate(net.parameters.tolist()):
        ends = []
        for step in (1e-6, -1e-6):
            net.parameters[i] = value + step
            ends.append(net.outputs(x)[0, arm])
        net.parameters[i] = value
        slopes[i] = (ends[0] - ends[1]) / 2e-6
    return slopes


@pytest.mark.parametrize("arm", [0, 2])
def test_the_kernel_is_the_product_of_gradients(arm: int) -> None:
    net = network()
    for x, y in ((X, X), (Y, Y), (X, Y)):
        assert net.kernel(x, y, arm) == pytest.approx(gradient(net, x, arm) @ gradient(net, y, arm), rel=1e-6)


def test_training_descends_along_the_gradient_of_the_squared_error() -> None:
    net = network()
    contexts, arms, rewards = RNG.normal(size=(5, 4)), np.array([0, 1, 2, 1, 0]), RNG.normal(size=5)
    expected = np.zeros_like(net.parameters)
    for x, arm, reward in zip(contexts, arms, rewards, strict=True):
        error = net.outputs(x[None])[0, arm] - reward
        expected += 2 * error * gradient(net, x[None], int(arm)) / 5
    before = net.parameters.copy()
    net.train_step(contexts, arms, rewards)
    np.testing.assert_allclose(net.parameters, before - 0.05 * expected, atol=1e-8)


def test_the_kernel_at_the_start_does_not_depend_on_the_width() -> None:
    wide = [network(width, seed=1).kernel(X, X) for width in (20_000, 80_000)]
    assert wide[0] == pytest.approx(wide[1], rel=0.05)


def test_the_watch_plays_at_random_and_notes_the_kernel() -> None:
    problem = problems.load("linear", rounds=120, seed=0)
    pair = problem.contexts[:2].tolist()
    watch = KernelWatch(problem.n_arms, problem.n_features, width=10, contexts=pair, every=50, seed=0)
    played = play(watch, problem)
    assert np.bincount(played.arms, minlength=problem.n_arms).min() > 5
    assert watch.traces["iteration"] == [0.0, 50.0, 100.0]
    for name in ("b,b", "b',b'", "b,b'"):
        assert len(set(watch.traces[name])) == 3  # it moves
