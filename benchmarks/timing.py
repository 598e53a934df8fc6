"""Timing side by side: these machines are noisy, so only ratios of what ran next to each other count."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

import lim2

Array = NDArray[np.float64]


class World:
    """Contexts and rewards that go round forever."""

    def __init__(self, contexts: Array, rewards: Array) -> None:
        self.contexts, self.rewards = np.array(contexts), np.array(rewards)
        self.n_features, self.n_arms = contexts.shape[1], rewards.shape[1]

    def play(self, agent: lim2.Agent, start: int, rounds: int) -> None:
        """Let an agent act and learn."""
        for t in range(start, start + rounds):
            row = t % len(self.contexts)
            context = self.contexts[row]
            arm = agent.act(context)
            agent.update(context, arm, self.rewards[row, arm])


def classification_world(n_features: int, n_arms: int, rows: int = 5000, seed: int = 0) -> World:
    """Make a world of uneven classes, as Statlog has them: half the rows of class 0, and so on downwards."""
    rng = np.random.default_rng(seed)
    shares = 0.5 ** np.arange(1, n_arms + 1) + 0.02
    labels = rng.choice(n_arms, size=rows, p=shares / shares.sum())
    centres = rng.normal(size=(n_arms, n_features))
    contexts = centres[labels] + 0.7 * rng.normal(size=(rows, n_features))
    return World(contexts, np.eye(n_arms)[labels])


def seconds_of(call: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of one call, averaged over a block."""
    start = clock()
    for _ in range(repeat):
        call()
    return (clock() - start) / repeat


def side_by_side(
    calls: Sequence[tuple[Callable[[], object], int]], blocks: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Time blocks of each call in turn; return the seconds per call, a list of blocks for each."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(blocks):
        for measured, (call, repeat) in zip(times, calls, strict=True):
            measured.append(seconds_of(call, repeat, clock))
    return times


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Return the median of the ratios of blocks that ran next to each other."""
    return float(np.median(np.array(numerator) / np.array(denominator)))


class Player:
    """One more block of rounds of an agent in a world, as a call without arguments."""

    def __init__(self, agent: lim2.Agent, world: World, warm_up: int) -> None:
        self.agent, self.world = agent, world
        world.play(agent, 0, warm_up)
        self.round = warm_up

    def __call__(self) -> None:
        """Play one round."""
        self.world.play(self.agent, self.round, 1)
        self.round += 1
