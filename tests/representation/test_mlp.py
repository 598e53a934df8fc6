"""The network: its gradient, its optimizers, its arms; and how little a representation of one's own needs."""

import copy
import pickle
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.representation import MLP, SGD, Adam, Representation, RMSProp, Step
from lim2.representation.mlp import Network
from lim2.state import Array, check, frozen, leaves, with_row, without_row

Ints = NDArray[np.intp]
RNG = np.random.default_rng
N_ARMS = 4


def start_of(mlp: MLP, seed: int = 0, n_arms: int = N_ARMS) -> Network:
    return frozen(mlp.init((3,), n_arms, RNG(seed)))


def batch_of(n: int, seed: int = 1, n_arms: int = N_ARMS) -> tuple[Array, Ints, Array]:
    rng = RNG(seed)
    return rng.normal(size=(n, 3)), np.sort(rng.integers(n_arms, size=n)), rng.normal(size=n)


def trained(mlp: MLP, f: Network, *batch: Any, steps: int = 1) -> Network:
    for _ in range(steps):
        f = frozen(mlp.train(f, *batch)[1])
    return f


def loss(mlp: MLP, f: Network, contexts: Array, arms: Ints, rewards: Array) -> float:
    weights, bias = mlp.last_layer(f)
    predicted = np.vecdot(mlp.features(f, contexts), weights[arms]) + bias[arms]
    return float(np.mean((predicted - rewards) ** 2))


@pytest.mark.parametrize(("hidden", "n_arms"), [((5,), 4), ((6, 4), 4), ((5, 4, 3), 4), ((5,), 70)])
def test_gradient_against_finite_differences(hidden: tuple[int, ...], n_arms: int) -> None:
    """A step of plain SGD at rate 1, unclipped, is minus the gradient."""
    mlp = MLP(hidden, optimizer=SGD(1.0, clip=None), init_range=0.8)
    f, batch = start_of(mlp, n_arms=n_arms), batch_of(20, n_arms=n_arms)
    _, g, step = mlp.train(f, *batch)
    gradient = f.parameters - g.parameters
    numeric = np.zeros_like(gradient)
    for i in range(len(numeric)):
        change = np.zeros_like(numeric)
        change[i] = 1e-6
        ends = [loss(mlp, f._replace(parameters=f.parameters + sign * change), *batch) for sign in (1.0, -1.0)]
        numeric[i] = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(gradient, numeric, atol=1e-8)
    assert step.loss == pytest.approx(loss(mlp, f, *batch), rel=1e-12)
    assert step.gradient_norm == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-12)


def test_only_played_arms_learn() -> None:
    mlp = MLP(5)
    f, (contexts, _, rewards) = start_of(mlp), batch_of(10)
    g = trained(mlp, f, contexts, np.full(10, 2), rewards)
    (weights, bias), (new_weights, new_bias) = mlp.last_layer(f), mlp.last_layer(g)
    for arm in range(N_ARMS):
        assert np.array_equal(new_weights[arm], weights[arm]) == (arm != 2)
        assert (new_bias[arm] == bias[arm]) == (arm != 2)


def test_training_returns_the_features_before_and_leaves_the_network_as_it_is() -> None:
    mlp = MLP((6, 4))
    f, batch = start_of(mlp), batch_of(12)
    before, parameters = mlp.features(f, batch[0]), f.parameters.copy()
    returned, g, _ = mlp.train(f, *batch)
    np.testing.assert_array_equal(returned, before)
    np.testing.assert_array_equal(f.parameters, parameters)
    np.testing.assert_array_equal(mlp.features(f, batch[0]), before)
    assert np.abs(mlp.features(g, batch[0]) - before).max() > 1e-6


@pytest.mark.parametrize("optimizer", [RMSProp(0.05), SGD(0.05), Adam(0.02)], ids=repr)
def test_every_optimizer_fits(optimizer: Any) -> None:
    mlp = MLP(20, optimizer)
    f, (contexts, arms, _) = start_of(mlp), batch_of(100)
    batch = contexts, arms, np.tanh(contexts[:, 0] * (arms + 1))
    assert loss(mlp, trained(mlp, f, *batch, steps=300), *batch) < 0.5 * loss(mlp, f, *batch)


def test_initial_weights() -> None:
    mlp = MLP((50,), init_range=0.3)
    f = start_of(mlp)
    weights, bias = mlp.last_layer(f)
    assert 0.25 < np.abs(weights).max() <= 0.3
    np.testing.assert_array_equal(bias, 0)
    assert (f.parameters == 0).sum() == 50 + N_ARMS  # the biases, and nothing else


@pytest.mark.parametrize("optimizer", [RMSProp(), SGD(), Adam()], ids=repr)
@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))], ids=["copy", "pickle"]
)
def test_a_copied_network_trains_on_alike(optimizer: Any, clone: Any) -> None:
    mlp, batch = MLP(5, optimizer), batch_of(15)
    f = trained(mlp, start_of(mlp), *batch, steps=5)
    other, g = clone(mlp), clone(f)
    assert other == mlp
    one, same = trained(mlp, f, *batch, steps=5), trained(other, g, *batch, steps=5)
    for (path, mine), (_, theirs) in zip(leaves(one), leaves(same), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=path)
    assert not np.array_equal(trained(mlp, one, *batch).parameters, same.parameters)


@pytest.mark.parametrize("optimizer", [RMSProp(), SGD(), Adam()], ids=repr)
def test_arms_that_change(optimizer: Any) -> None:
    mlp = MLP((5, 4), optimizer)
    contexts, every = RNG(7).normal(size=(6, 3)), np.repeat(np.arange(3), 2)
    f = trained(mlp, start_of(mlp, n_arms=3), contexts, every, np.ones(6))
    g = frozen(mlp.add_arm(f, 0, RNG(1)))
    np.testing.assert_array_equal(mlp.last_layer(g)[0], mlp.last_layer(f)[0][[0, 1, 2, 0]])
    np.testing.assert_array_equal(mlp.features(g, contexts), mlp.features(f, contexts))
    f = trained(mlp, f, contexts, np.zeros(6, dtype=np.intp), np.ones(6))
    g = trained(mlp, g, contexts, np.full(6, 3), np.ones(6))  # the copy learns as the original would have
    np.testing.assert_allclose(mlp.last_layer(g)[0][3], mlp.last_layer(f)[0][0], rtol=1e-12)
    g = frozen(mlp.remove_arm(g, 0))
    np.testing.assert_allclose(mlp.last_layer(g)[0][2], mlp.last_layer(f)[0][0], rtol=1e-12)
    np.testing.assert_allclose(mlp.features(g, contexts), mlp.features(f, contexts), rtol=1e-12)
    g = mlp.add_arm(g, None, RNG(1))
    weights, bias = mlp.last_layer(g)
    assert g.n_arms == len(bias) == 4
    assert bias[-1] == 0.0
    assert 0.0 < np.abs(weights[-1]).max() < 0.3
    assert g.descent.statistics[:, -1].tolist() == optimizer.initial()
    check(g, {"arm": 4, **mlp.sizes((3,), 4)})


def test_wrong_settings_are_refused() -> None:
    for optimizer in (RMSProp, SGD, Adam):
        with pytest.raises(ValueError, match="learning_rate"):
            optimizer(0.0)
        with pytest.raises(ValueError, match="decay"):
            optimizer(0.1, decay=-1.0)
        with pytest.raises(ValueError, match="clip"):
            optimizer(0.1, clip=0.0)
    for hidden in ((), (3, 0), (2.5,), "34", None):
        with pytest.raises(ValueError, match="hidden"):
            MLP(hidden)  # type: ignore[arg-type]


def test_one_mlp_serves_many_agents() -> None:
    mlp = MLP(5)
    agents = [lim2.LiM2(N_ARMS, 3, representation=mlp, seed=seed) for seed in (0, 0, 1)]
    for agent in agents:
        for t in range(20):
            agent.update(np.ones(3) * t, t % N_ARMS, 1.0)
    networks = [agent.state.network.parameters for agent in agents]
    np.testing.assert_array_equal(networks[0], networks[1])
    assert np.abs(networks[0] - networks[2]).max() > 0
    assert "MLP(hidden=5" in repr(agents[0])


class Head(NamedTuple):
    """The network of :class:`Polynomial`."""

    weights: Annotated[Array, "arm g"]


class Polynomial:
    """Fixed quadratic features under a trained linear head: the whole protocol, in less than a page."""

    width = 6

    def init(self, shape: tuple[int, ...], n_arms: int, rng: np.random.Generator) -> Head:
        return Head(np.zeros((n_arms, self.width)))

    def features(self, f: Head, contexts: NDArray[Any]) -> Array:
        x, y = contexts.T
        return np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)

    def last_layer(self, f: Head) -> tuple[Array, Array]:
        return f.weights, np.zeros(len(f.weights))

    def train(self, f: Head, contexts: NDArray[Any], arms: Ints, rewards: Array) -> tuple[Array, Head, Step]:
        z, weights = self.features(f, contexts), f.weights.copy()
        error = np.vecdot(z, weights[arms]) - rewards
        np.add.at(weights, arms, -0.01 * error[:, None] * z)
        return z, Head(weights), Step(float(np.mean(error**2)), float("nan"))

    def add_arm(self, f: Head, like: int | None, rng: np.random.Generator) -> Head:
        return Head(with_row(f.weights, 0.0 if like is None else f.weights[like]))

    def remove_arm(self, f: Head, arm: int) -> Head:
        return Head(without_row(f.weights, arm))

    def skipped(self, f: Head) -> int:
        return 0

    def kinds(self, path: str) -> dict[str, Any]:
        return {path: Head}

    def sizes(self, shape: tuple[int, ...], n_arms: int) -> dict[str, Any]:
        return {"g": self.width}


@pytest.mark.parametrize("agent", [lim2.LiM2, lim2.NeuralLinearNTK, lim2.NeuralLinear], ids=lambda a: a.__name__)
def test_a_representation_of_ones_own(agent: Any) -> None:
    mine: Representation = Polynomial()
    bandit = agent(2, 2, representation=mine, seed=0)
    right = 0
    for t, context in enumerate(RNG(3).normal(size=(400, 2))):
        arm = bandit.act(context)
        best = int(context[0] * context[1] > 0)
        bandit.update(context, arm, float(arm == best))
        right += (arm == best) and t >= 200
    assert right > 130  # of 200; chance is 100 with a standard deviation of 7
    bandit.add_arm("new", like=0)
    bandit.remove_arm(1)
    bandit.update(np.ones(2), "new", 1.0)
