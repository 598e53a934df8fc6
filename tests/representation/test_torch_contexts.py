"""Contexts of any kind: what a PyTorch module takes, how it is read and kept, and what is refused."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import lim2

torch = pytest.importorskip("torch")
from helpers.torch_modules import (  # noqa: E402
    N_ARMS,
    N_FEATURES,
    WIDTH,
    OneLayer,
    Scaled,
    Words,
    agent_of,
    normal,
    play,
    seeded,
    state_of,
    torch_of,
)

from lim2.representation import TextCNN, Torch  # noqa: E402


def contexts_of(agent: lim2.Agent) -> Any:
    return agent.state.memory.canonical().contexts


@pytest.mark.parametrize("name", ["LiM2", "NeuralLinearMM", "NeuralLinearNaive", "NeuralLinearNTK", "NeuralLinear"])
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
    agent = lim2.AGENTS[name](N_ARMS, shape, representation=Torch(seeded(make), WIDTH), seed=0, **settings)
    contexts = np.random.default_rng(0).integers(20, size=(30, *shape)).astype(dtype)
    play(agent, contexts)
    kept = contexts_of(agent)
    assert kept.dtype == dtype
    assert kept.shape[1:] == agent.context_shape == shape
    assert {c.tobytes() for c in kept} <= {c.tobytes() for c in contexts}
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
    with pytest.raises(ValueError, match=r"does not accept.*\(7,\)"):
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
    assert contexts_of(agent).dtype == np.float32
    assert state_of(agent) == state_of(expected)


def test_the_first_context_decides_and_dtype_overrules() -> None:
    images = np.random.default_rng(0).integers(256, size=(5, N_FEATURES))
    agent = agent_of(Scaled)
    agent.update(images[0].astype(np.uint8), 0, 1.0)
    agent.update(images[1].tolist(), 0, 1.0)  # fits into bytes
    assert contexts_of(agent).dtype == np.uint8
    before = pickle.dumps(agent)
    for refused in ([0.5] * N_FEATURES, [256] * N_FEATURES, [-1] * N_FEATURES):
        with pytest.raises(ValueError, match=r"context.*uint8"):
            agent.update(refused, 0, 1.0)
    assert pickle.dumps(agent) == before
    declared = agent_of(Scaled, dtype=np.float32)
    declared.update(images[0].astype(np.uint8), 0, 1.0)
    declared.update([0.5] * N_FEATURES, 0, 1.0)
    assert contexts_of(declared).dtype == np.float32
    with pytest.raises(ValueError, match="does not accept"):
        agent_of(OneLayer, dtype=np.uint8)


def test_only_learning_decides_on_the_type() -> None:
    net = torch_of(Scaled)
    f = net.init((N_FEATURES,), N_ARMS, np.random.default_rng(0))
    images = np.random.default_rng(0).integers(256, size=(4, N_FEATURES))
    for dtype in (np.uint8, np.int64, np.float32):
        assert net.read(f, images.astype(dtype), "contexts").dtype == dtype
        net.features(f, images.astype(dtype))
    batch = images.astype(np.uint8)
    for settled in (net.observe(f, batch[0]), net.train(f, batch, np.zeros(4, dtype=np.intp), np.ones(4))[1]):
        assert net.read(settled, images, "contexts").dtype == np.uint8
        with pytest.raises(ValueError, match="contexts must hold uint8"):
            net.read(settled, images + 0.5, "contexts")
        assert net.observe(settled, images[0].astype(np.float32)) is settled


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
            agent.update([tokens[0].tolist(), [20] * N_FEATURES], [0, 1], [1.0, 1.0])
    assert pickle.dumps(agent) == before
    agent.act(tokens[0].astype(np.int16))  # other whole numbers are converted
    assert contexts_of(agent).dtype == np.int32


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


def test_a_vocabulary_larger_than_the_module_s_is_refused() -> None:
    with pytest.raises(ValueError, match="n_tokens must be at most 20"):
        Torch(TextCNN(20, 6, width=5), 5, n_tokens=21)
    assert Torch(TextCNN(20, 6, width=5), 5, n_tokens=10).n_tokens == 10


def test_contexts_may_be_views() -> None:
    agent, expected = agent_of(), agent_of()
    for context in normal(20).astype(np.float32):
        flipped, frozen = context[::-1].copy()[::-1], context.copy()
        frozen.flags.writeable = False
        agent.update(flipped, agent.act(frozen), 1.0)
        expected.update(context, expected.act(context), 1.0)
    assert state_of(agent) == state_of(expected)
    assert agent.act_many(normal(4)[::-1]).shape == (4,)


def test_bytes_become_tokens_that_the_module_takes() -> None:
    agent = agent_of(Words)
    agent.update(np.full(N_FEATURES, 3, dtype=np.uint8), 0, 1.0)  # an embedding takes int32 and int64 only
    assert contexts_of(agent).dtype == np.int64


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
