"""Agents with a PyTorch network in files: what is rebuilt, and what must be given again."""

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

import lim2
from lim2.agents.container import pack, unpack
from lim2.agents.saving import dump, parse
from lim2.representation import Adam, TextCNN, Torch


def learn(agent: lim2.Agent, rounds: int = 8, seed: int = 0) -> lim2.Agent:
    tokens = np.random.default_rng(seed).integers(0, 20, size=(rounds, 6))
    for t, text in enumerate(tokens):
        agent.update(text, t % 2, float(t % 3))
    return agent


def text_agent(module: TextCNN | None = None, **settings: Any) -> lim2.Agent:
    net = TextCNN(20, 6, embedding=4, widths=(2, 3), filters=3, width=5, seed=0) if module is None else module
    return lim2.LiM2(2, representation=Torch(net, 5, **settings), buffer=6, batch=4, seed=0)


@pytest.mark.parametrize("rounds", [0, 8])
def test_a_text_network_is_rebuilt(rounds: int) -> None:
    agent = learn(text_agent(optimizer=Adam(0.01)), rounds)
    loaded = parse(dump(agent))
    assert dump(loaded) == dump(agent)
    assert dump(learn(loaded, seed=1)) == dump(learn(agent, seed=1))


def test_precision_and_fixed_parameters_come_back() -> None:
    net = TextCNN(20, 6, embedding=4, widths=(2, 3), filters=3, width=5, seed=0).double()
    net.embedding.weight.requires_grad_(False)
    agent = learn(text_agent(net))
    loaded: Any = parse(dump(agent))
    assert loaded.representation.module.kernels.dtype == torch.float64
    assert not loaded.representation.module.embedding.weight.requires_grad
    assert dump(learn(loaded, seed=1)) == dump(learn(agent, seed=1))


def test_a_text_network_larger_than_the_file_is_not_allocated() -> None:
    header, arrays = unpack(dump(text_agent()))
    for name in ("n_tokens", "embedding", "filters", "width"):
        described = header["settings"]["representation"]
        module = {**described["module"], name: 10**12}
        settings = {**header["settings"], "representation": {**described, "module": module}}
        with pytest.raises(lim2.LoadError, match="should have"):
            parse(pack({**header, "settings": settings}, arrays))


def module(width: int = 4) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, width), nn.ReLU())


def test_a_module_of_ones_own_is_given_again() -> None:
    agent = lim2.LiM2(2, 3, representation=Torch(module(), 4), buffer=6, batch=4, seed=0)
    agent.update_many(np.ones((9, 3), np.float32), [0, 1, 0] * 3, [1.0] * 9)
    content = dump(agent)
    with pytest.raises(lim2.LoadError, match=r"Torch\(Sequential.*representation="):
        parse(content)
    for other in (
        Torch(module(5), 5),
        Torch(module(), 4, Adam(0.5)),
        Torch(nn.Linear(3, 4), 4),
        Torch(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU()), 4),
    ):
        with pytest.raises(lim2.LoadError):
            parse(content, other)
    loaded = parse(content, Torch(module(), 4))
    assert dump(loaded) == content
    for learner in (agent, loaded):
        learner.update(np.zeros(3, np.float32), 1, 0.5)
    assert dump(loaded) == dump(agent)


def test_an_optimizer_of_pytorch_comes_back_with_its_statistics() -> None:
    def made() -> Torch:
        return Torch(module(), 4, partial(torch.optim.SGD, lr=0.01, momentum=0.9))

    agent = lim2.NeuralLinearMM(2, 3, representation=made(), buffer=6, batch=4, seed=0)
    agent.update_many(np.ones((9, 3), np.float32), [0, 1, 0] * 3, [1.0] * 9)
    loaded = parse(dump(agent), made())
    for learner in (agent, loaded):
        learner.update(np.zeros(3, np.float32), 1, 0.5)
    assert dump(loaded) == dump(agent)
    assert any("momentum" in name for name in unpack(dump(agent))[1])
