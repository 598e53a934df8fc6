"""Any PyTorch module as the representation: the same as our MLP where it is one; its module, optimizer and costs."""

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.representation import MLP, SGD, Adam, RMSProp
from lim2.state import frozen, nbytes

torch = pytest.importorskip("torch")
from helpers.torch_modules import (  # noqa: E402
    N_ARMS,
    N_FEATURES,
    SMALL,
    WIDTH,
    OneLayer,
    Recurrent,
    agent_of,
    batch_of,
    normal,
    play,
    state_of,
    torch_of,
    values,
)
from torch import nn  # noqa: E402

from lim2.representation import Torch  # noqa: E402

# The same as our own network


def twin(mlp: MLP, f: Any, optimizer: Any) -> Torch:
    """Build an MLP with PyTorch, from the parameters that a network has."""
    hidden, *head = mlp.layers(f, f.parameters)
    layers: list[nn.Module] = []
    for weights, bias in hidden:
        layer = nn.Linear(*weights.shape).double()
        layer.load_state_dict({"weight": torch.tensor(weights.T), "bias": torch.tensor(bias)})
        layers += [layer, nn.ReLU()]
    weights, bias = (part.copy() for part in head)

    class WithHead(Torch):
        def init(self, *args: Any) -> Any:
            g = super().init(*args)
            return g._replace(tensors={**g.tensors, "head.weight": weights, "head.bias": bias})

    return WithHead(nn.Sequential(*layers), mlp.width, optimizer)


AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LiM2": ("LiM2", SMALL),
    "LiM2, intercept": ("LiM2", {**SMALL, "intercept": True}),
    "MM": ("NeuralLinearMM", SMALL),
    "Naive": ("NeuralLinearNaive", SMALL),
    "NTK": ("NeuralLinearNTK", SMALL),
    "full memory": ("NeuralLinear", {"batch": 16, "train_every": 50, "steps": 30}),
}
OPTIMIZERS = [RMSProp(0.1), RMSProp(0.1, clip=0.05), Adam(0.01), SGD(0.05, decay=0.01)]


@pytest.mark.parametrize(
    ("which", "optimizer", "hidden"),
    [(which, OPTIMIZERS[0], (WIDTH,)) for which in AGENTS]
    + [("LiM2", optimizer, (WIDTH,)) for optimizer in OPTIMIZERS[1:]]
    + [("LiM2", OPTIMIZERS[0], (8, WIDTH))],
    ids=str,
)
def test_an_mlp_of_torch_decides_as_ours(which: str, optimizer: Any, hidden: tuple[int, ...]) -> None:
    name, settings = AGENTS[which]
    mlp = MLP(hidden, optimizer)
    ours = lim2.AGENTS[name](N_ARMS, N_FEATURES, representation=mlp, seed=3, **settings)
    net = twin(mlp, ours.state.network, optimizer)
    theirs = lim2.AGENTS[name](N_ARMS, N_FEATURES, representation=net, seed=3, **settings)
    contexts = normal(200)
    assert play(theirs, contexts) == play(ours, contexts)
    np.testing.assert_allclose(theirs.means(contexts), ours.means(contexts), rtol=1e-6, atol=1e-8)
    weights, expected = net.last_layer(theirs.state.network)[0], mlp.last_layer(ours.state.network)[0]
    np.testing.assert_allclose(weights, expected, rtol=1e-6, atol=1e-8)


def test_only_played_arms_learn_and_the_features_before_are_returned() -> None:
    net = torch_of()
    f = frozen(net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0)))
    contexts = normal(10).astype(np.float32)
    before, g, step = net.train(f, contexts, np.full(10, 2), np.ones(10))
    np.testing.assert_allclose(before, net.features(f, contexts), rtol=1e-6, atol=1e-7)
    assert before.dtype == np.float64
    assert np.abs(net.features(g, contexts) - before).max() > 1e-6
    (weights, bias), (new_weights, new_bias) = net.last_layer(f), net.last_layer(g)
    outputs = before @ weights[2] + bias[2]
    assert step.loss == pytest.approx(float(np.mean((outputs - 1.0) ** 2)), rel=1e-5)
    assert step.gradient_norm > 0
    for arm in range(N_ARMS):
        assert np.array_equal(new_weights[arm], weights[arm]) == (arm != 2)
        assert (new_bias[arm] == bias[arm]) == (arm != 2)


# What a round costs


def test_a_round_is_one_training_pass_and_one_pass_over_the_buffer_without_copies() -> None:
    seen: list[tuple[int, bool, int]] = []

    def watched() -> nn.Module:
        module = OneLayer()
        module.register_forward_pre_hook(
            lambda _, inputs: seen.append((len(inputs[0]), torch.is_grad_enabled(), inputs[0].data_ptr()))
        )
        return module

    agent = agent_of(watched)
    play(agent, normal(60).astype(np.float32))  # the buffer of 40 is full
    seen.clear()
    agent.update(np.ones(N_FEATURES, dtype=np.float32), 0, 1.0)
    assert [(rows, grad) for rows, grad, _ in seen] == [(16, True), (40, False)]
    net = torch_of(watched)
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    contexts = normal(10).astype(np.float32)
    for call in (lambda: net.features(f, contexts), lambda: net.train(f, contexts, np.arange(10) % 2, np.ones(10))):
        call()
        assert seen[-1][2] == contexts.ctypes.data


def test_a_long_history_goes_through_in_parts() -> None:
    sizes: list[int] = []
    module = OneLayer()
    module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    net = Torch(module, WIDTH)
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    contexts = normal(2500).astype(np.float32)
    sizes.clear()
    features = net.features(f, contexts)
    assert sum(sizes) == 2500
    assert max(sizes) <= 1024
    np.testing.assert_allclose(features[2000], net.features(f, contexts[2000:2001])[0], rtol=1e-5, atol=1e-6)
    assert net.features(f, contexts[:0]).shape == (0, WIDTH)


# The module


def test_parameters_without_gradient_stay_and_are_not_even_copied() -> None:
    net = torch_of(lambda: OneLayer().requires_grad_(False))
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    _, g, _ = net.train(f, *batch_of())
    for name in ("module.layer.weight", "module.layer.bias"):
        assert g.tensors[name] is f.tensors[name]
    assert np.abs(g.tensors["head.weight"] - f.tensors["head.weight"]).max() > 0


def test_a_function_lets_the_seed_decide_on_the_initial_parameters() -> None:
    net = Torch(OneLayer, WIDTH)

    def start(seed: int) -> NDArray[Any]:
        weights: NDArray[Any] = lim2.LiM2(2, 5, representation=net, seed=seed).state.network.tensors[
            "module.layer.weight"
        ]
        return weights

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = start(0)
    assert np.array_equal(first, start(0))
    assert not np.array_equal(first, start(1))
    assert torch.equal(torch.rand(1), expected), "PyTorch's own generator is left alone"


def test_parameters_that_the_first_pass_makes() -> None:
    agent = agent_of(lambda: nn.Sequential(nn.LazyLinear(WIDTH), nn.ReLU()))
    assert play(agent, normal(20)) != [0] * 20
    other = pickle.loads(pickle.dumps(agent))
    state = torch.get_rng_state()
    assert play(other, normal(20, seed=1)) == play(agent, normal(20, seed=1))
    assert torch.equal(state, torch.get_rng_state())


def test_features_do_not_depend_on_chance_or_on_the_batch() -> None:
    agent = agent_of(lambda: nn.Sequential(OneLayer(), nn.Dropout(0.5), nn.BatchNorm1d(WIDTH)))
    contexts = normal(30)
    play(agent, contexts)
    np.testing.assert_array_equal(agent.means(contexts), agent.means(contexts))
    np.testing.assert_allclose(agent.means(contexts)[3], agent.means(contexts[3]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [Recurrent, lambda: OneLayer().to(torch.bfloat16), lambda: OneLayer().half()])
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))], ids=["copy", "pickle"])
def test_other_modules_can_be_copied_and_pickled(make: Any, clone: Any) -> None:
    agent = agent_of(make, optimizer=Adam(1e-2))
    play(agent, normal(20))
    other = clone(agent)
    assert play(other, normal(20, seed=1)) == play(agent, normal(20, seed=1))
    assert state_of(agent) == state_of(other)


class Passing(nn.Module):
    """Returns what it gets, and has a parameter that it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return x


@pytest.mark.parametrize("make", [nn.Identity, Passing])
def test_a_module_without_parameters(make: Any) -> None:
    net = Torch(make(), N_FEATURES)
    f = net.init((N_FEATURES,), 2, np.random.default_rng(0))
    contexts = normal(8).astype(np.float32 if make is nn.Identity else np.float64)
    features = net.features(f, contexts)
    np.testing.assert_array_equal(features, contexts)
    assert not np.shares_memory(features, contexts)
    _, g, _ = net.train(f, contexts, np.zeros(8, dtype=np.intp), np.ones(8))
    assert np.abs(net.last_layer(g)[0][0] - net.last_layer(f)[0][0]).max() > 0


def test_what_diverges_is_left_out_or_an_error() -> None:
    agent = agent_of()
    play(agent, normal(10))
    agent.update(np.ones(N_FEATURES), 0, 1e25)  # its square is infinite in float32
    assert agent.info is not None
    assert agent.info.skipped is not None
    assert agent.info.skipped > 0
    assert np.isfinite(agent.means(normal(5))).all()
    broken = agent_of(lambda: nn.Sequential(OneLayer(), nn.Threshold(1e9, float("nan"))))
    with pytest.raises(FloatingPointError, match="not finite"):
        broken.means(normal(2))


def test_steps_without_a_finite_gradient_are_counted_until_they_are_too_many() -> None:
    net = torch_of()
    f = first = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    contexts, arms, rewards = batch_of()
    for step in range(100):
        _, f, told = net.train(f, contexts, arms, rewards * 1e25)
        assert not np.isfinite(told.gradient_norm)
        assert (net.skipped(f), f.skipped_in_a_row, f.steps) == (step + 1, step + 1, 0)
    assert f.tensors is first.tensors
    with pytest.raises(FloatingPointError, match="training diverged"):
        net.train(f, contexts, arms, rewards * 1e25)
    _, f, _ = net.train(f, contexts, arms, rewards)
    assert (net.skipped(f), f.skipped_in_a_row, f.steps) == (100, 0, 1)
    expected = net.train(first, contexts, arms, rewards)[1]
    assert values(f.tensors) == values(expected.tensors)


def test_an_astronomic_gradient_is_left_out_where_nothing_clips_it() -> None:
    contexts, arms, rewards = batch_of()
    for clip, skipped in ((None, 1), (5.0, 0)):
        net = torch_of(lambda: OneLayer().double(), optimizer=SGD(0.1, clip=clip))
        f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
        _, f, _ = net.train(f, contexts, arms, rewards * 1e35)
        assert net.skipped(f) == skipped


# Optimizers


@pytest.mark.parametrize(
    "optimizer",
    [
        None,
        RMSProp(0.01),
        SGD(0.01),
        torch.optim.Adam,
        torch.optim.Adagrad,
        partial(torch.optim.SGD, lr=0.01, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    ],
    ids=["default", "ours", "plain", "class", "statistics from the start", "partial", "function"],
)
def test_statistics_are_part_of_a_network(optimizer: Any) -> None:
    """Training goes on from a network in a fresh object, in which nothing is left from before, bit for bit."""
    net, fresh = torch_of(optimizer=optimizer), torch_of(optimizer=optimizer)
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    for g in (f, net.train(f, *batch_of(seed=3))[1]):
        frozen(g)
        before = values(g)
        ends = []
        for trained in (net, fresh):
            h = g
            for _ in range(3):
                h = trained.train(h, *batch_of())[1]
            ends.append(values(h))
        assert ends[0] == ends[1] != before
        assert values(g) == before


@pytest.mark.parametrize("optimizer", [RMSProp(), Adam(), torch.optim.Adagrad], ids=["RMSProp", "Adam", "Adagrad"])
def test_arms_that_change(optimizer: Any) -> None:
    net = torch_of(lambda: OneLayer().double(), optimizer=optimizer)
    contexts, every = normal(6), np.arange(6) % 3
    start = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    f = frozen(net.train(start, contexts, every, np.ones(6))[1])
    g = frozen(net.add_arm(f, 0, np.random.default_rng(1)))
    np.testing.assert_array_equal(net.last_layer(g)[0], net.last_layer(f)[0][[0, 1, 2, 0]])
    assert g.n_arms == 4
    f = net.train(f, contexts, np.zeros(6, dtype=np.intp), np.ones(6))[1]
    g = net.train(g, contexts, np.full(6, 3), np.ones(6))[1]  # the copy learns as the original would have
    np.testing.assert_allclose(net.last_layer(g)[0][3], net.last_layer(f)[0][0], rtol=1e-12)
    g = frozen(net.remove_arm(g, 0))
    np.testing.assert_allclose(net.last_layer(g)[0][2], net.last_layer(f)[0][0], rtol=1e-12)
    g = net.add_arm(g, None, np.random.default_rng(1))
    weights, bias = net.last_layer(g)
    assert bias[-1] == 0.0
    assert 0.0 < np.abs(weights[-1]).max() < 0.3
    if isinstance(optimizer, RMSProp):
        assert g.statistics["head.weight/mean_square"][-1].tolist() == [1.0] * WIDTH
    g = net.train(g, contexts, np.arange(6) % 4, np.ones(6))[1]
    assert g.n_arms == len(net.last_layer(g)[1]) == 4


def test_a_new_arm_has_the_precision_of_the_network() -> None:
    net = torch_of(lambda: OneLayer().to(torch.bfloat16))
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    g = net.add_arm(f, None, np.random.default_rng(1))
    weights = g.tensors["head.weight"]
    assert weights.dtype == np.float32
    np.testing.assert_array_equal(torch.tensor(weights).bfloat16().float().numpy(), weights)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="optimizer must make"):
        agent_of(optimizer=lambda parameters: None)
    with pytest.raises(TypeError, match="optimizer must make"):
        agent_of(optimizer=torch.optim.SGD(OneLayer().parameters(), lr=0.1))
    with pytest.raises(TypeError, match="module"):
        Torch(lambda: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="width"):
        Torch(OneLayer(), 0)
    with pytest.raises(ValueError, match="init_range"):
        Torch(OneLayer(), WIDTH, init_range=-1.0)
    with pytest.raises(ValueError, match="n_tokens"):
        Torch(OneLayer(), WIDTH, n_tokens=0)


def test_repr_and_size() -> None:
    net = Torch(OneLayer(), WIDTH, partial(torch.optim.SGD, lr=0.01))
    assert repr(net) == "Torch(OneLayer, width=12, optimizer=SGD(lr=0.01))"
    assert "dtype='uint8', init_range=0.1" in repr(Torch(OneLayer(), WIDTH, dtype=np.uint8, init_range=0.1))
    assert "representation=Torch(OneLayer" in repr(agent_of())
    agent = agent_of(optimizer=Adam())
    play(agent, normal(5))
    parameters = (N_FEATURES + 1) * WIDTH + (WIDTH + 1) * N_ARMS
    assert nbytes(agent.state.network) == 3 * 4 * parameters + 4 * 4  # with two statistics each, and four step counts
