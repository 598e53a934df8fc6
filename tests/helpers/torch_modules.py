"""Small PyTorch modules of several kinds, and agents with them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import lim2
from lim2 import state as trees
from lim2.representation import Torch

N_ARMS, N_FEATURES, WIDTH = 3, 5, 12
SMALL: dict[str, Any] = {"batch": 16, "buffer": 40}


class OneLayer(nn.Module):
    """A layer that can be used in any precision."""

    def __init__(self, n_in: int = N_FEATURES, width: int = WIDTH) -> None:
        super().__init__()
        self.layer = nn.Linear(n_in, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layer(x.flatten(1)))


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


class Masked(OneLayer):
    """Has a buffer with infinities, as attention masks have, and one that every pass changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([-torch.inf, 0.0]))
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.get_buffer("passes").add_(1)
        return super().forward(x)


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """Return a module that is the same in every call."""
    torch.manual_seed(0)
    return make()


def torch_of(make: Callable[[], nn.Module] = OneLayer, **settings: Any) -> Torch:
    """Return a representation with a module that is the same in every call."""
    return Torch(seeded(make), WIDTH, **settings)


def agent_of(make: Callable[[], nn.Module] = OneLayer, n_features: Any = N_FEATURES, **settings: Any) -> lim2.Agent:
    """Return a small LiM2 with a module."""
    own = {k: settings.pop(k) for k in ("optimizer", "dtype", "n_tokens", "device") if k in settings}
    return lim2.LiM2(N_ARMS, n_features, representation=torch_of(make, **own), seed=1, **{**SMALL, **settings})


def play(agent: lim2.Agent, contexts: NDArray[Any]) -> list[int]:
    """Play rounds with rewards that depend on context and arm; return the arms."""
    chosen = []
    for t, context in enumerate(contexts):
        arm = agent.act(context)
        agent.update(context, arm, float(np.sin(float(context.sum()) + arm) + 0.01 * t))
        chosen.append(arm)
    return chosen


def normal(rounds: int, *shape: int, seed: int = 0) -> NDArray[np.float64]:
    """Return contexts."""
    return np.random.default_rng(seed).normal(size=(rounds, *(shape or (N_FEATURES,))))


def batch_of(n: int = 16, seed: int = 2) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
    """Return contexts, arms in order, and rewards."""
    rng = np.random.default_rng(seed)
    return normal(n).astype(np.float32), np.sort(rng.integers(N_ARMS, size=n)), rng.normal(size=n)


def values(tree: Any) -> dict[str, Any]:
    """Return the leaves of a state as values that can be compared, types included."""
    return {
        path: (leaf.dtype.str, leaf.shape, leaf.tobytes()) if isinstance(leaf, np.ndarray) else leaf
        for path, leaf in trees.leaves(tree)
    }


def state_of(agent: lim2.Agent) -> dict[str, Any]:
    """Return the values of an agent's state."""
    return values(trees.canonical(agent.state))
