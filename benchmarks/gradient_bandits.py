"""NeuralUCB and NeuralTS: time per round against the literal oracle on the explicit concatenation.

Run as ``python -m benchmarks.gradient_bandits``; :func:`rows` is what other benchmarks call.
"""

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lim2
from lim2._blas import one_thread
from lim2.algorithms.gradient import State

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from oracle.gradient_bandit import OracleGradientBandit

SHAPES = {"Statlog": (9, 7), "Census": (377, 9)}  # features, arms
AGENTS = {"NeuralUCB": "ucb", "NeuralTS": "thompson"}  # what the oracle calls their exploration


class Row(NamedTuple):
    """One line: medians of a whole round, act and update, in microseconds."""

    name: str
    ours: float
    oracle: float

    @property
    def ratio(self) -> float:
        """How many times as long the oracle takes."""
        return self.oracle / self.ours


def rows(history: int = 1000, rounds: int = 15, oracle_rounds: int = 2) -> list[Row]:
    """Time both agents in both shapes, with so many tuples in the history: 1,000 training steps per round."""
    return [_measure(name, shape, history, rounds, oracle_rounds) for shape in SHAPES for name in AGENTS]


def _measure(name: str, shape: str, history: int, rounds: int, oracle_rounds: int) -> Row:
    (n_features, n_arms), rng = SHAPES[shape], np.random.default_rng(0)
    agent = lim2.AGENTS[name](n_arms, n_features, seed=0, stop_loss=0.0)
    oracle = _oracle_like(agent.state, AGENTS[name])
    for _ in range(history):
        context, arm, reward = rng.normal(size=n_features), int(rng.integers(n_arms)), float(rng.random() < 0.3)
        agent.update(context, arm, reward)
        oracle.history.append((oracle.encode(context, arm), reward))

    def our_round() -> None:
        context = rng.normal(size=n_features)
        agent.update(context, agent.act(context), float(rng.random() < 0.3))

    def oracle_round() -> None:
        context = rng.normal(size=n_features)
        arm = oracle.act(context, rng.normal(size=n_arms))
        oracle.update(context, arm, float(rng.random() < 0.3), rng.permutation(len(oracle.history) + 1).tolist())

    with one_thread:
        return Row(f"{name}, {shape}", _median(our_round, rounds), _median(oracle_round, oracle_rounds))


def _oracle_like(state: State, exploration: str) -> OracleGradientBandit:
    n_arms, n_features, hidden = state.network.weights.shape
    concatenated = state.network.weights.transpose(2, 0, 1).reshape(hidden, n_arms * n_features)
    layers = concatenated, state.network.bias, state.network.head, float(state.network.head_bias[0])
    return OracleGradientBandit(*layers, n_arms, exploration=exploration, stop_loss=0.0)


def _median(work: Any, times: int) -> float:
    work()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e6


def main() -> None:
    print(f"{'a round: act, update':24} {'lim2, us':>10} {'oracle, us':>12} {'ratio':>7}")
    for row in rows():
        print(f"{row.name:24} {row.ours:10.0f} {row.oracle:12.0f} {row.ratio:7.0f}")


if __name__ == "__main__":
    main()
