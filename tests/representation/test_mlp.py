"""The network: its gradient, its optimizers, its state; and how little a representation of one's own needs."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.representation import MLP, SGD, Adam, Representation, RMSProp

Float = NDArray[np.float64]


def bound(hidden: tuple[int, ...] = (5,), seed: int = 0, **settings: Any) -> MLP:
    mlp = MLP(hidden, **settings)
    mlp.bind(3, 4, np.random.default_rng(seed))
    return mlp


def batch_of(n: int, seed: int = 1) -> tuple[Float, NDArray[np.intp], Float]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(4, size=n), rng.normal(size=n)


def loss(mlp: MLP, contexts: Float, arms: NDArray[np.intp], rewards: Float) -> float:
    weights, bias = mlp.head
    predicted = np.vecdot(mlp.features(contexts), weights[arms]) + bias[arms]
    return float(np.mean((predicted - rewards) ** 2))


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (5, 4, 3)])
def test_gradient_against_finite_differences(hidden: tuple[int, ...]) -> None:
    """A step of plain SGD at rate 1, unclipped, is minus the gradient."""
    mlp = bound(hidden, optimizer=SGD(1.0, clip=None), init=0.8)
    contexts, arms, rewards = batch_of(20)
    start = mlp.state()["parameters"].copy()
    optimizer = {k: v for k, v in mlp.state().items() if k != "parameters"}
    mlp.train_step(contexts, arms, rewards)
    gradient = start - mlp.state()["parameters"]
    numeric = np.zeros_like(start)
    for i in range(len(start)):
        values = []
        for sign in (1e-6, -1e-6):
            moved = start.copy()
            moved[i] += sign
            mlp.restore({"parameters": moved, **optimizer})
            values.append(loss(mlp, contexts, arms, rewards))
        numeric[i] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)


def test_only_played_arms_learn() -> None:
    mlp = bound()
    weights, bias = (part.copy() for part in mlp.head)
    contexts, _, rewards = batch_of(10)
    mlp.train_step(contexts, np.full(10, 2), rewards)
    for arm in range(4):
        assert np.array_equal(mlp.head[0][arm], weights[arm]) == (arm != 2)
        assert (mlp.head[1][arm] == bias[arm]) == (arm != 2)


def test_train_step_returns_the_features_before() -> None:
    mlp = bound((6, 4))
    contexts, arms, rewards = batch_of(12)
    before = mlp.features(contexts)
    returned = mlp.train_step(contexts, arms, rewards)
    np.testing.assert_array_equal(returned, before)
    assert np.abs(mlp.features(contexts) - before).max() > 1e-6


@pytest.mark.parametrize("optimizer", [RMSProp(0.05), SGD(0.05), Adam(0.02)], ids=repr)
def test_every_optimizer_fits(optimizer: Any) -> None:
    mlp = bound((20,), optimizer=optimizer)
    contexts, arms, _ = batch_of(100)
    rewards = np.tanh(contexts[:, 0] * (arms + 1))
    start = loss(mlp, contexts, arms, rewards)
    for _ in range(300):
        mlp.train_step(contexts, arms, rewards)
    assert loss(mlp, contexts, arms, rewards) < 0.5 * start


def test_initial_weights() -> None:
    mlp = bound((50,), init=0.3)
    parameters = mlp.state()["parameters"]
    weights, bias = mlp.head
    assert 0.25 < np.abs(weights).max() <= 0.3
    np.testing.assert_array_equal(bias, 0)
    assert (parameters == 0).sum() == 50 + 4  # the biases, and nothing else


@pytest.mark.parametrize("optimizer", [RMSProp(), SGD(), Adam()], ids=repr)
@pytest.mark.parametrize("how", ["state", "copy", "pickle"])
def test_a_restored_network_trains_on_alike(optimizer: Any, how: str) -> None:
    mlp = bound(optimizer=copy.deepcopy(optimizer))
    data = batch_of(15)
    for _ in range(5):
        mlp.train_step(*data)
    if how == "state":
        other = bound(optimizer=copy.deepcopy(optimizer), seed=9)
        other.restore(mlp.state())
    else:
        other = copy.deepcopy(mlp) if how == "copy" else pickle.loads(pickle.dumps(mlp))
    for _ in range(5):
        np.testing.assert_array_equal(mlp.train_step(*data), other.train_step(*data))
    np.testing.assert_array_equal(mlp.state()["parameters"], other.state()["parameters"])
    mlp.train_step(*data)
    assert not np.array_equal(mlp.state()["parameters"], other.state()["parameters"])


def test_wrong_states_and_sizes_are_refused() -> None:
    mlp = bound()
    with pytest.raises(ValueError, match="parameters"):
        mlp.restore(bound((7,)).state())
    with pytest.raises(ValueError, match="bound to 3 features"):
        mlp.bind(5, 4, np.random.default_rng(0))
    for wrong in (RMSProp, SGD, Adam):
        with pytest.raises(ValueError, match="learning_rate"):
            wrong(0.0)
        with pytest.raises(ValueError, match="decay"):
            wrong(0.1, decay=-1.0)
        with pytest.raises(ValueError, match="clip"):
            wrong(0.1, clip=0.0)


def test_an_agent_copies_the_representation_it_is_given() -> None:
    mine = bound()
    start = mine.state()["parameters"].copy()
    agents = [lim2.LiM2(4, 3, representation=mine, seed=s) for s in (0, 1)]
    for agent in agents:
        np.testing.assert_array_equal(agent.representation.state()["parameters"], start)  # a pretrained network stays
        for t in range(20):
            agent.update(np.ones(3) * t, t % 4, 1.0)
    np.testing.assert_array_equal(mine.state()["parameters"], start)
    assert "MLP" in repr(agents[0])


class Polynomial:
    """Fixed quadratic features under a trained linear head: the whole protocol, in less than a page."""

    width = 6

    def bind(self, n_features: int, n_arms: int, rng: np.random.Generator) -> None:
        self.head: tuple[Float, Float] = (np.zeros((n_arms, self.width)), np.zeros(n_arms))

    def features(self, contexts: Float) -> Float:
        x, y = contexts.T
        return np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)

    def train_step(self, contexts: Float, arms: NDArray[np.intp], rewards: Float) -> Float:
        z = self.features(contexts)
        error = np.vecdot(z, self.head[0][arms]) - rewards
        np.add.at(self.head[0], arms, -0.01 * error[:, None] * z)
        return z

    @property
    def nbytes(self) -> int:
        return self.head[0].nbytes + self.head[1].nbytes

    def state(self) -> dict[str, NDArray[Any]]:
        return {"head": self.head[0].copy()}

    def restore(self, state: Any) -> None:
        self.head[0][:] = state["head"]


@pytest.mark.parametrize("agent", [lim2.LiM2, lim2.NeuralLinearNTK, lim2.NeuralLinear])
def test_a_representation_of_ones_own(agent: Any) -> None:
    mine: Representation = Polynomial()
    bandit = agent(2, 2, representation=mine, seed=0)
    right = 0
    for t, context in enumerate(np.random.default_rng(3).normal(size=(400, 2))):
        arm = bandit.act(context)
        best = int(context[0] * context[1] > 0)
        bandit.update(context, arm, float(arm == best))
        right += (arm == best) and t >= 200
    assert right > 130  # of 200; chance is 100 with a standard deviation of 7
