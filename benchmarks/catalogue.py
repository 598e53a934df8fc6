"""`python -m benchmarks.catalogue`: raw dictionaries through `lim2.Bandit()` on a catalogue that grows, beside vectors.

The problem `catalogue`: 500 items that become 650, 20 eligible at a time, clicks by user x item effects. The figure is
the share of the way from random to best over rounds 1,000 to 4,000, in expected clicks: 0 is a random choice, 1 the
best of the eligible items in every round. `Bandit` gets the dictionaries; the agents get the same as vectors, the
category as ten columns of 0 and 1. One linear agent has no products of user and item, to see what they are worth.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.experiments.items import Scale
from lim2.experiments.peers import VowpalWabbitItems
from lim2.experiments.report.markdown import table
from lim2.problems import ItemProblem, load

Array = NDArray[np.float64]

ROUNDS, WARM_UP = 4000, 1000


def with_bandit(problem: ItemProblem, seed: int, **settings: Any) -> Array:
    """Return the expected clicks of what a bandit chooses, a number per round, from raw dictionaries."""
    bandit = lim2.Bandit(seed=seed, **settings)
    expected = np.empty(problem.rounds)
    for t in range(problem.rounds):
        user, items = problem.raw(t)
        decision = bandit.decide(user, items)
        row = problem.names(t).index(decision.arm)
        bandit.update(decision, float(problem.rewards[problem.rows(t)][row]))
        expected[t] = problem.expected_rewards[problem.rows(t)][row]
    return expected


def with_vectors(problem: ItemProblem, agent: Any) -> Array:
    """Return the expected clicks of what an agent chooses from vectors."""
    expected = np.empty(problem.rounds)
    for t, (context, items, rewards) in enumerate(problem):
        row = agent.act(context, items)
        agent.update(context, items[row], float(rewards[row]))
        expected[t] = problem.expected_rewards[problem.rows(t)][row]
    return expected


def of_vectors(make: Callable[..., Any], **settings: Any) -> Callable[[ItemProblem, int], Array]:
    """Return what plays with such an agent."""

    def play(problem: ItemProblem, seed: int) -> Array:
        sizes = {"n_features": problem.n_features, "n_item_features": problem.n_item_features}
        return with_vectors(problem, make(**sizes, seed=seed, **settings))

    return play


class WithoutProducts:
    """Marginal Thompson sampling by AdaptiveTS over a context and an item side by side."""

    def __init__(self, n_features: int, n_item_features: int, seed: int) -> None:
        self._agent = lim2.AdaptiveTS(n_arms=1, n_features=n_features + n_item_features, hidden=(), seed=seed)
        self._rng = np.random.default_rng(seed)

    def act(self, context: Array, items: Array) -> int:
        """Draw a score per item; return the row of the largest."""
        rows = np.hstack((np.tile(context, (len(items), 1)), items))
        means, variances = self._agent.means(rows)[:, 0], self._agent.variances(rows)[:, 0]
        if not np.isfinite(variances).all():
            return int(self._rng.integers(len(items)))
        return int(self._rng.normal(means, np.sqrt(variances)).argmax())

    def update(self, context: Array, item: Array, reward: float) -> None:
        """Learn from the reward of an item."""
        self._agent.update(np.concatenate((context, item)), 0, reward)


def vowpal_wabbit(problem: ItemProblem, seed: int) -> Array:
    """Return the same of Vowpal Wabbit, which is given scaled columns."""
    scales = Scale.of(problem.contexts), Scale.of(problem.candidates)
    sizes = problem.n_features, problem.n_item_features
    return with_vectors(problem, VowpalWabbitItems(*sizes, scales=scales, seed=seed))


PLAYERS: dict[str, Callable[[ItemProblem, int], Array]] = {
    "Bandit, raw": with_bandit,
    "AdaptiveTS, vectors": of_vectors(lim2.AdaptiveTS),
    "AdaptiveTS linear, vectors": of_vectors(lim2.AdaptiveTS, hidden=()),
    "AdaptiveTS linear, vectors, no products": of_vectors(WithoutProducts),
    "vw:adf-squarecb, vectors": vowpal_wabbit,
}


def share(problem: ItemProblem, expected: Array, start: int) -> float:
    """Return the share of the way from random to best, from round `start` on."""
    spans = [problem.expected_rewards[problem.rows(t)] for t in range(start, problem.rounds)]
    random, best = np.mean([each.mean() for each in spans]), np.mean([each.max() for each in spans])
    return float((expected[start:].mean() - random) / (best - random))


def report(record: dict[str, Any]) -> str:
    """Return the shares of every player as a table in Markdown."""
    shares = record["shares"].items()
    rows = [[name, *(f"{of(values):.3f}" for of in (np.mean, min, max))] for name, values in shares]
    first, runs = record["seed"], len(next(iter(record["shares"].values())))
    head = f"rounds {record['start']:,} to {record['rounds']:,}, seeds {first} to {first + runs - 1}"
    return "\n".join(table([f"share of the way from random to best, {head}", "mean", "lowest", "highest"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--start", type=int, default=WARM_UP, help="the first round that counts")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--players", nargs="+", default=list(PLAYERS), choices=list(PLAYERS))
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    shares: dict[str, list[float]] = {name: [] for name in arguments.players}
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        problem = load("catalogue", rounds=arguments.rounds, seed=seed)
        assert isinstance(problem, ItemProblem)
        for name in arguments.players:
            began = time.perf_counter()
            shares[name].append(round(share(problem, PLAYERS[name](problem, seed), arguments.start), 4))
            print(f"seed {seed}, {name}: {shares[name][-1]:.3f} ({time.perf_counter() - began:.0f} s)", flush=True)
    record = {"rounds": arguments.rounds, "start": arguments.start, "seed": arguments.seed, "shares": shares}
    print(f"\n{report(record)}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
