"""`python -m benchmarks.text_cnn`: what the text network's pieces cost, next to how else they could be done.

Needs the reviews (LIM2_DATA) and PyTorch. Times are the processor's, of one thread; alternatives take turns.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from lim2 import problems
from lim2.representation import TextCNN, Torch

BUFFER, BATCH, N_ARMS = 500, 80, 5


class PlainTextCNN(TextCNN):
    """The same network, computed as it is written down: a convolution over all positions."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the features of token ids."""
        embedded = self.embedding(tokens).transpose(1, 2)
        pooled, start = [], 0
        for width in self.widths:
            stop = start + width * self.filters
            kernel = self.kernels[:, start:stop].reshape(-1, width, self.filters).permute(2, 0, 1)
            pooled.append(F.conv1d(embedded, kernel).amax(2))
            start = stop
        features: Tensor = self.norm(self.linear(F.relu(torch.cat(pooled, 1) + self.biases)))
        return features


class SparseAndDense(torch.optim.Optimizer):
    """SparseAdam for the embeddings, which moves only the rows of the batch's words, and Adam for the rest."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        named = list(parameters)
        super().__init__(named, {"lr": 1e-3})
        self.parts = (
            torch.optim.SparseAdam(named[2:3], lr=1e-3),
            torch.optim.Adam(named[:2] + named[3:], lr=1e-3, fused=True),
        )

    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        """Take a step of both."""
        for part in self.parts:
            part.step()  # type: ignore[no-untyped-call]


class Trained:
    """A network that is trained on and on."""

    def __init__(self, module: TextCNN, optimizer: Any = None, sparse: bool = False) -> None:
        module.embedding.sparse = sparse
        self.net = Torch(module, optimizer=optimizer)
        self.f = self.net.init((module.length,), N_ARMS, np.random.default_rng(0))

    def features(self, contexts: NDArray[Any]) -> None:
        """Compute the features of contexts."""
        self.net.features(self.f, contexts)

    def train(self, contexts: NDArray[Any], arms: NDArray[np.intp], rewards: NDArray[np.float64]) -> None:
        """Take a step."""
        _, self.f, _ = self.net.train(self.f, contexts, arms, rewards)


def milliseconds(calls: list[Callable[[], object]], blocks: int) -> list[float]:
    """Return the median of each call; the first two rounds only warm up."""
    times = np.empty((blocks, len(calls)))
    for row in times:
        for column, call in enumerate(calls):
            start = time.process_time()
            call()
            row[column] = 1e3 * (time.process_time() - start)
    return [float(t) for t in np.median(times[2:], axis=0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=20)
    blocks = parser.parse_args().blocks
    torch.set_num_threads(1)
    problem = problems.load("amazon", rounds=BUFFER, seed=0)
    assert problem.n_tokens is not None
    buffer = np.array(problem.contexts)
    rng = np.random.default_rng(0)
    batch, arms, rewards = buffer[:BATCH], np.sort(rng.integers(N_ARMS, size=BATCH)), rng.random(BATCH)
    networks = {
        "lim2": Trained(TextCNN(problem.n_tokens, seed=0)),
        "convolutions over all positions": Trained(PlainTextCNN(problem.n_tokens, seed=0)),
        "lim2, sparse gradients of embeddings": Trained(TextCNN(problem.n_tokens, seed=0), SparseAndDense, sparse=True),
    }
    passes = milliseconds([lambda n=n: n.features(buffer) for n in networks.values()], blocks)  # type: ignore[misc]
    steps = milliseconds(
        [lambda n=n: n.train(batch, arms, rewards) for n in networks.values()],  # type: ignore[misc]
        blocks,
    )
    table = Table("network", title="Milliseconds", title_justify="left")
    table.add_column(f"features of {BUFFER}", justify="right")
    table.add_column(f"training step on {BATCH}", justify="right")
    for name, one, other in zip(networks, passes, steps, strict=True):
        table.add_row(name, f"{one:.0f}", f"{other:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
