"""Your own PyTorch network: LiM2 on images: `python examples/own_network.py`.

In every round the agent sees the image of a handwritten digit and guesses the digit. It only learns whether the guess
was right. The images are included in scikit-learn, so nothing is downloaded. Needs
`pip install 'lim2[torch,cli]' scikit-learn`.
"""

import argparse
import time

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import Tensor, nn

import lim2
from lim2.representation import Torch

N_ARMS, BLOCKS = 10, 3


class SmallConvNet(nn.Module):
    """Turn bytes into 50 features. lim2 adds a linear layer with one output per arm, and trains all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 2 * 2, 50),
            nn.LayerNorm(50),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return (n, 50) features of (n, 1, 8, 8) images."""
        features: Tensor = self.layers(images.float() / 16)
        return features


def play(agent: lim2.Agent, images: NDArray[np.uint8], digits: NDArray[np.int64]) -> tuple[list[float], float]:
    """Return the share of correct guesses in each third of the rounds, and the milliseconds per round."""
    rewards, start = [], time.perf_counter()
    for image, digit in zip(images, digits, strict=True):
        arm = agent.act(image)
        reward = float(arm == digit)
        agent.update(image, arm, reward)
        rewards.append(reward)
    milliseconds = 1e3 * (time.perf_counter() - start) / len(rewards)
    return [float(np.mean(block)) for block in np.array_split(rewards, BLOCKS)], milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="at most 1797, the number of images")
    rounds = parser.parse_args().rounds

    torch.set_num_threads(1)  # more threads make such a small network slower
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))[:rounds]
    images, digits = data.images[order, None].astype(np.uint8), data.target[order]  # (rounds, 1, 8, 8), 0 to 16

    # The class is passed, not an object, so that the seed also determines the initial weights. The buffer stores bytes.
    network = Torch(SmallConvNet, width=50)
    agents: dict[str, tuple[lim2.Agent, NDArray[np.uint8]]] = {
        "LiM2, conv net": (lim2.LiM2(N_ARMS, (1, 8, 8), representation=network, intercept=True, seed=0), images),
        "LinearTS": (lim2.LinearTS(N_ARMS, 64, seed=0), images.reshape(rounds, 64)),
    }
    table = Table("agent", title="Share of correct guesses", title_justify="left")
    for column in ("first third", "second third", "last third", "ms per round"):
        table.add_column(column, justify="right")
    console = Console()
    for name, (agent, contexts) in agents.items():
        with console.status(name):
            shares, milliseconds = play(agent, contexts, digits)
        table.add_row(name, *(f"{share:.0%}" for share in shares), f"{milliseconds:.1f}")
    console.print(table)


if __name__ == "__main__":
    main()
