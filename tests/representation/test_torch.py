"""Any PyTorch module as the representation: the same as our MLP where it is one, and contexts of any kind."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lim2
from lim2.agents.neural import NeuralBeliever
from lim2.representation import MLP, SGD, Adam, RMSProp

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

from lim2.representation import TextCNN, Torch  # noqa: E402

N_ARMS, N_FEATURES, WIDTH = 3, 5, 12
SMALL: dict[str, Any] = {"batch": 16, "buffer": 40}


class OneLayer(nn.Module):
    """A layer that can be used in any precision."""

    def __init__(self, n_in: int = N_FEATURES, width: int = WIDTH) -> None:
        super().__init__()
        self.layer = nn.Linear(n_in, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x.flatten(1)))  # type: ignore[no-any-return]


class Scaled(OneLayer):
    """Takes images of bytes, and of floats."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.layer.weight.dtype) / 255)


class Words(nn.Module):
    """Takes token ids, and does not say how many there are."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(20, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x)  # type: ignore[no-any-return]


class Recurrent(nn.Module):
    """Keeps its weights in a second list, as PyTorch's recurrent layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x[..., None])[0][:, -1]  # type: ignore[no-any-return]


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


def agent_of(make: Callable[[], nn.Module] = OneLayer, n_features: Any = N_FEATURES, **settings: Any) -> NeuralBeliever:
    torch_settings = {k: settings.pop(k) for k in ("optimizer", "dtype", "n_tokens", "device") if k in settings}
    representation = Torch(seeded(make), WIDTH, **torch_settings)
    return lim2.LiM2(N_ARMS, n_features, representation=representation, seed=1, **{**SMALL, **settings})


def torch_of(agent: NeuralBeliever) -> Torch:
    assert isinstance(agent.representation, Torch)
    return agent.representation


def play(agent: lim2.Agent, contexts: NDArray[Any]) -> list[int]:
    chosen = []
    for t, context in enumerate(contexts):
        arm = agent.act(context)
        agent.update(context, arm, float(np.sin(float(context.sum()) + arm) + 0.01 * t))
        chosen.append(arm)
    return chosen


def normal(rounds: int, *shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(rounds, *(shape or (N_FEATURES,))))


# The same as our own network


def twin(mlp: MLP) -> nn.Sequential:
    """Build the MLP with PyTorch, from its parameters as they are."""
    layers: list[nn.Module] = []
    for weights, bias in mlp._layers:
        layer = nn.Linear(*weights.shape).double()
        layer.load_state_dict({"weight": torch.tensor(weights.T), "bias": torch.tensor(bias)})
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers)


AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "LiM2": ("LiM2", SMALL),
    "LiM2, intercept, refresh all": ("LiM2", {**SMALL, "intercept": True, "refresh": "all"}),
    "MM": ("NeuralLinear-MM", SMALL),
    "Naive": ("NeuralLinear-Naive", SMALL),
    "NTK": ("NeuralLinear-NTK", SMALL),
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
    ours = lim2.AGENTS[name](N_ARMS, N_FEATURES, representation=MLP(hidden, optimizer), seed=3, **settings)
    assert isinstance(ours, NeuralBeliever)
    assert isinstance(ours.representation, MLP)
    representation = Torch(twin(ours.representation), WIDTH, optimizer)
    theirs = lim2.AGENTS[name](N_ARMS, N_FEATURES, representation=representation, seed=3, **settings)
    assert isinstance(theirs, NeuralBeliever)
    weights, bias = ours.representation.head
    theirs.representation.restore(
        {**theirs.representation.state(), "head.weight": weights.copy(), "head.bias": bias.copy()}
    )
    # The same draws: binding the MLP has used more of this stream, which is not used again.
    contexts = normal(200)
    assert play(theirs, contexts) == play(ours, contexts)
    np.testing.assert_allclose(theirs.means(contexts), ours.means(contexts), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(theirs.representation.head[0], ours.representation.head[0], rtol=1e-6, atol=1e-8)


def test_only_played_arms_learn_and_the_features_before_are_returned() -> None:
    net = torch_of(agent_of())
    contexts = normal(10).astype(np.float32)
    before, (weights, bias) = net.features(contexts), (part.copy() for part in net.head)
    np.testing.assert_allclose(net.train_step(contexts, np.full(10, 2), np.ones(10)), before, rtol=1e-6, atol=1e-7)
    assert np.abs(net.features(contexts) - before).max() > 1e-6
    for arm in range(N_ARMS):
        assert np.array_equal(net.head[0][arm], weights[arm]) == (arm != 2)
        assert (net.head[1][arm] == bias[arm]) == (arm != 2)


# Contexts of any kind


@pytest.mark.parametrize("name", ["LiM2", "NeuralLinear-MM", "NeuralLinear-Naive", "NeuralLinear-NTK", "NeuralLinear"])
@pytest.mark.parametrize(
    ("make", "shape", "dtype"),
    [
        (partial(TextCNN, 20, 6, embedding=4, filters=5, width=WIDTH), (6,), np.int32),
        (partial(TextCNN, 20, 6, embedding=4, filters=5, width=WIDTH), (6,), np.int64),
        (partial(Scaled, 32), (2, 4, 4), np.uint8),
        (partial(OneLayer, 32), (2, 4, 4), np.float32),
    ],
    ids=["int32 tokens", "int64 tokens", "uint8 images", "float32 images"],
)
def test_the_memory_keeps_the_type_of_contexts(name: str, make: Any, shape: tuple[int, ...], dtype: Any) -> None:
    settings = {"batch": 8, "train_every": 9, "steps": 3} if name == "NeuralLinear" else {"batch": 8, "buffer": 12}
    representation = Torch(seeded(make), WIDTH)
    agent = lim2.AGENTS[name](N_ARMS, shape, representation=representation, seed=0, **settings)
    assert isinstance(agent, NeuralBeliever)
    contexts = np.random.default_rng(0).integers(20, size=(30, *shape)).astype(dtype)
    play(agent, contexts)
    assert agent.memory.contexts.dtype == dtype
    assert agent.memory.contexts.shape[1:] == agent.context_shape == shape
    assert {c.tobytes() for c in agent.memory.contexts} <= {c.tobytes() for c in contexts}
    assert agent.means(contexts[0]).shape == (N_ARMS,)
    assert agent.means(contexts[:4]).shape == (4, N_ARMS)
    assert agent.act_many(contexts[:4]).shape == (4,)
    clone = pickle.loads(pickle.dumps(agent))
    assert play(clone, contexts[::-1]) == play(agent, contexts[::-1])


def test_a_text_network_needs_no_n_features() -> None:
    agent = lim2.LiM2(n_arms=5, representation=Torch(TextCNN(30)), seed=0)
    assert (agent.context_shape, agent.n_features) == ((60,), 60)
    agent.update([3] * 60, agent.act([3] * 60), 1.0)
    with pytest.raises(ValueError, match=r"\(60,\)"):
        lim2.LiM2(5, 61, representation=Torch(TextCNN(30)))


def test_n_features_must_be_known_and_fit() -> None:
    with pytest.raises(ValueError, match="n_features is missing"):
        lim2.LiM2(n_arms=2, representation=Torch(OneLayer(), WIDTH))
    with pytest.raises(ValueError, match="n_features is missing"):
        lim2.LiM2(n_arms=2)
    with pytest.raises(ValueError, match="an MLP takes vectors"):
        lim2.LiM2(2, (1, 8, 8))
    for bad in ((), (3, 0), (2.5, 2), "34"):
        with pytest.raises(ValueError, match="n_features"):
            lim2.LiM2(2, bad, representation=Torch(OneLayer(), WIDTH))  # type: ignore[arg-type]
    assert lim2.LiM2(2, [4]).context_shape == (4,)
    with pytest.raises(ValueError, match=r"does not take.*\(7,\)"):
        agent_of(n_features=7)
    with pytest.raises(ValueError, match=r"width=50.*\(2, 12\)"):
        lim2.LiM2(2, N_FEATURES, representation=Torch(OneLayer()))


@pytest.mark.parametrize("given", [np.float64, np.float32, np.int64, np.uint8, bool, list])
def test_a_network_of_floats_takes_any_numbers_as_its_own_floats(given: Any) -> None:
    agent, expected = agent_of(), agent_of()
    contexts = np.random.default_rng(0).integers(2, size=(30, N_FEATURES))
    for context in contexts:
        one = context.tolist() if given is list else context.astype(given)
        arm = agent.act(one)
        assert arm == expected.act(context.astype(np.float32))
        agent.update(one, arm, 1.0)
        expected.update(context.astype(np.float32), arm, 1.0)
    assert agent.memory.contexts.dtype == np.float32
    assert pickle.dumps(agent) == pickle.dumps(expected)


def test_the_first_context_decides_and_dtype_overrules() -> None:
    images = np.random.default_rng(0).integers(256, size=(5, N_FEATURES))
    agent = agent_of(Scaled)
    agent.update(images[0].astype(np.uint8), 0, 1.0)
    agent.update(images[1].tolist(), 0, 1.0)  # fits into bytes
    assert agent.memory.contexts.dtype == np.uint8
    before = pickle.dumps(agent)
    for refused in ([0.5] * N_FEATURES, [256] * N_FEATURES, [-1] * N_FEATURES):
        with pytest.raises(ValueError, match=r"context.*uint8"):
            agent.update(refused, 0, 1.0)
    assert pickle.dumps(agent) == before
    declared = agent_of(Scaled, dtype=np.float32)
    declared.update(images[0].astype(np.uint8), 0, 1.0)
    declared.update([0.5] * N_FEATURES, 0, 1.0)
    assert declared.memory.contexts.dtype == np.float32
    with pytest.raises(ValueError, match="does not take"):
        agent_of(OneLayer, dtype=np.uint8)


@pytest.mark.parametrize("settings", [{}, {"n_tokens": 20}], ids=["tried", "known"])
def test_tokens_outside_the_vocabulary_are_refused_before_anything_changes(settings: dict[str, Any]) -> None:
    agent = agent_of(Words, **settings)
    tokens = np.random.default_rng(0).integers(20, size=(20, N_FEATURES), dtype=np.int32)
    play(agent, tokens)
    before = pickle.dumps(agent)
    for wrong in ([20] * N_FEATURES, [-1] * N_FEATURES, [0.5] * N_FEATURES, [np.nan] * N_FEATURES, [1], [[1]]):
        with pytest.raises(ValueError, match="context"):
            agent.update(wrong, 0, 1.0)
        with pytest.raises(ValueError, match="context"):
            agent.act(wrong)
        with pytest.raises(ValueError, match="context"):
            agent.update_many([tokens[0].tolist(), [20] * N_FEATURES], [0, 1], [1.0, 1.0])
    assert pickle.dumps(agent) == before
    agent.act(tokens[0].astype(np.int16))  # other whole numbers are converted
    assert agent.memory.contexts.dtype == np.int32


@pytest.mark.parametrize("make", [Words, partial(TextCNN, 20, N_FEATURES, width=WIDTH)])
def test_even_the_first_context_must_be_one_that_the_module_takes(make: Any) -> None:
    agent = agent_of(make)
    before = pickle.dumps(agent)
    for wrong in ([0.5] * N_FEATURES, [np.nan] * N_FEATURES, [20] * N_FEATURES):
        with pytest.raises(ValueError, match="context"):
            agent.update(wrong, 0, 1.0)
        with pytest.raises(ValueError, match="context"):
            agent.act(wrong)
    assert pickle.dumps(agent) == before
    agent.update([19] * N_FEATURES, 0, 1.0)


def test_contexts_may_be_views() -> None:
    agent, expected = agent_of(), agent_of()
    for context in normal(20).astype(np.float32):
        flipped, frozen = context[::-1].copy()[::-1], context.copy()
        frozen.flags.writeable = False
        agent.update(flipped, agent.act(frozen), 1.0)
        expected.update(context, expected.act(context), 1.0)
    assert pickle.dumps(agent) == pickle.dumps(expected)
    assert agent.act_many(normal(4)[::-1]).shape == (4,)


def test_bytes_become_tokens_that_the_module_takes() -> None:
    agent = agent_of(Words)
    agent.update(np.full(N_FEATURES, 3, dtype=np.uint8), 0, 1.0)  # an embedding takes int32 and int64 only
    assert agent.memory.contexts.dtype == np.int64


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e39])
def test_what_is_not_finite_in_an_image_is_refused(bad: float) -> None:
    agent = agent_of(partial(OneLayer, 8), (2, 2, 2))
    image = np.zeros((2, 2, 2))
    image[1, 0, 1] = bad
    with pytest.raises(ValueError, match=r"context.*\(1, 0, 1\)"):
        agent.update(image, 0, 1.0)
    with pytest.raises(ValueError, match="context 1"):
        agent.act_many(np.stack([np.zeros((2, 2, 2)), image]))
    with pytest.raises(ValueError, match=r"3-D array \(2, 2, 2\)"):
        agent.act(np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"4-D array \(n, 2, 2, 2\)"):
        agent.act_many(np.zeros((2, 2, 2)))
    assert agent.rounds == 0


# What a round costs


def test_a_round_is_one_training_pass_and_one_pass_over_the_very_memory_of_the_buffer() -> None:
    agent = agent_of()
    play(agent, normal(60).astype(np.float32))  # the buffer of 40 is full
    seen: list[tuple[int, bool, int]] = []
    torch_of(agent).module.register_forward_pre_hook(
        lambda _, inputs: seen.append((len(inputs[0]), torch.is_grad_enabled(), inputs[0].data_ptr()))
    )
    agent.update(np.ones(N_FEATURES, dtype=np.float32), 0, 1.0)
    assert [(rows, grad) for rows, grad, _ in seen] == [(16, True), (40, False)]
    assert seen[1][2] == agent.memory.contexts.ctypes.data


def test_a_long_history_goes_through_in_parts() -> None:
    net = torch_of(agent_of())
    contexts = normal(2500).astype(np.float32)
    sizes: list[int] = []
    net.module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    features = net.features(contexts)
    assert sum(sizes) == 2500
    assert max(sizes) <= 1024
    np.testing.assert_allclose(features[2000], net.features(contexts[2000:2001])[0], rtol=1e-5, atol=1e-6)
    assert net.features(contexts[:0]).shape == (0, WIDTH)


# The module


def test_the_module_given_is_copied_and_frozen_parameters_stay() -> None:
    module = OneLayer()
    module.layer.bias.requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    agent = lim2.LiM2(N_ARMS, N_FEATURES, representation=Torch(module, WIDTH), **SMALL)
    play(agent, normal(20))
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    learned = agent.representation.state()
    np.testing.assert_array_equal(learned["module.layer.bias"], before["layer.bias"].numpy())
    assert np.abs(learned["module.layer.weight"] - before["layer.weight"].numpy()).max() > 0
    for other in (lim2.LiM2(N_ARMS + 1, N_FEATURES, representation=Torch(module, WIDTH)),):
        with pytest.raises(ValueError, match="fresh Torch"):
            lim2.LiM2(N_ARMS, N_FEATURES, representation=other.representation)


def test_a_function_lets_the_seed_decide_on_the_initial_parameters() -> None:
    def start(seed: int) -> NDArray[Any]:
        representation = Torch(OneLayer, WIDTH)
        state = lim2.LiM2(2, N_FEATURES, representation=representation, seed=seed).representation.state()
        return state["module.layer.weight"]

    torch.manual_seed(5)
    expected = torch.rand(1)
    first = start(0)
    assert np.array_equal(first, start(0))
    assert not np.array_equal(first, start(1))
    torch.manual_seed(5)
    Torch(nn.Identity(), 1).bind(1, 2, np.random.default_rng(0))
    assert torch.equal(torch.rand(1), expected), "PyTorch's own generator is left alone"


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
    ours, theirs = agent.representation.state(), other.representation.state()
    assert {k: v.tolist() for k, v in ours.items()} == {k: v.tolist() for k, v in theirs.items()}


def test_what_diverges_is_left_out_or_told() -> None:
    agent = agent_of()
    play(agent, normal(10))
    agent.update(np.ones(N_FEATURES), 0, 1e25)  # its square is infinite in float32
    assert torch_of(agent).skipped > 0
    assert np.isfinite(agent.means(normal(5))).all()
    broken = agent_of(lambda: nn.Sequential(OneLayer(), nn.Threshold(1e9, float("nan"))))
    with pytest.raises(FloatingPointError, match="not finite"):
        broken.means(normal(2))


# Optimizers and state


@pytest.mark.parametrize(
    "optimizer",
    [
        None,
        RMSProp(0.01),
        SGD(0.01),
        torch.optim.Adam,
        partial(torch.optim.SGD, lr=0.01, momentum=0.9),
        lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    ],
    ids=["default", "ours", "plain", "class", "partial", "function"],
)
def test_state_goes_back(optimizer: Any) -> None:
    agent = agent_of(optimizer=optimizer)
    play(agent, normal(20))
    net = torch_of(agent)
    state = net.state()
    rng = np.random.default_rng(2)
    contexts, arms, rewards = normal(16).astype(np.float32), rng.integers(N_ARMS, size=16), rng.normal(size=16)

    def trained() -> NDArray[Any]:
        for _ in range(3):
            net.train_step(contexts, arms, rewards)
        return net.features(contexts)

    expected = trained()
    net.restore(state)
    np.testing.assert_array_equal(trained(), expected)
    fresh = torch_of(agent_of(optimizer=optimizer))
    fresh.restore(state)
    assert {k: v.tolist() for k, v in fresh.state().items()} == {k: v.tolist() for k, v in state.items()}
    with pytest.raises(ValueError, match=r"another network.*head\.weight"):
        fresh.restore({**state, "head.weight": np.zeros((2, 2))})


def test_wrong_makers_are_refused() -> None:
    with pytest.raises(TypeError, match="optimizer must make"):
        agent_of(optimizer=lambda parameters: None)
    with pytest.raises(TypeError, match="module"):
        Torch(lambda: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="width"):
        Torch(OneLayer(), 0)
    with pytest.raises(RuntimeError, match="no agent yet"):
        _ = Torch(OneLayer()).head


def test_repr_and_size() -> None:
    representation = Torch(OneLayer(), WIDTH, partial(torch.optim.SGD, lr=0.01))
    assert repr(representation) == "Torch(OneLayer, width=12, optimizer=SGD(lr=0.01))"
    assert "representation=Torch(OneLayer" in repr(agent_of())
    agent = agent_of(optimizer=Adam())
    play(agent, normal(5))
    parameters = (N_FEATURES + 1) * WIDTH + (WIDTH + 1) * N_ARMS
    assert torch_of(agent).nbytes == 3 * 4 * parameters + 4 * 4  # with two statistics each, and four step counts
