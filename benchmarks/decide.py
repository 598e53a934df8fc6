"""`python -m benchmarks.decide`: what a decision with its propensities costs, beside one without.

Ten arms after some rounds of learning. The figure to look at is the time of the propensities themselves: of one row,
and per row of many. CPU time of the fastest block, since others on the machine can only slow it down.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import lim2
from benchmarks.timing import classification_world
from lim2.exploration.propensity import chances_of_largest

Array = NDArray[np.float64]

AGENTS = ("LinearTS", "LiM2", "NeuralTS")


def microseconds(call: Callable[[], object], blocks: int, repeat: int = 50) -> float:
    """Return the CPU time of a call in the fastest of some blocks."""
    times = []
    for _ in range(blocks):
        start = time.process_time()
        for _ in range(repeat):
            call()
        times.append((time.process_time() - start) / repeat)
    return 1e6 * min(times)


def measured(name: str, n_arms: int, rounds: int, blocks: int) -> dict[str, float]:
    """Let an agent learn, then time its decisions in one context."""
    world = classification_world(20, n_arms)
    agent = lim2.AGENTS[name](n_arms, 20, seed=0)
    world.play(agent, 0, rounds)
    context = world.contexts[0]
    act = microseconds(lambda: agent.act(context), blocks)
    decide = microseconds(lambda: agent.decide(context), blocks)
    return {"act": act, "decide": decide, "decide / act": decide / act}


def quadrature(n_arms: int, n_rows: int, blocks: int) -> dict[str, float]:
    """Time the propensities alone: posteriors of the same kind, with scales from 1e-6 to 1, and rows of both."""
    rng = np.random.default_rng(0)
    means, freedom = rng.normal(size=(n_rows, n_arms)), 12.0 + rng.integers(0, 189, n_arms)
    alike, apart = rng.uniform(0.2, 1.0, means.shape), 10.0 ** rng.uniform(-6.0, 0.0, means.shape)
    rounds = itertools.count()

    def after_an_update() -> None:
        t = next(rounds)
        more = freedom.copy()
        more[t % n_arms] += 1.0 + t % 1000
        chances_of_largest(means[t % n_rows], alike[t % n_rows], more)

    def per_row(scales: Array) -> float:
        return microseconds(lambda: chances_of_largest(means, scales, freedom), blocks, repeat=1) / n_rows

    return {
        "one row": microseconds(lambda: chances_of_largest(means[0], alike[0], freedom), blocks),
        "one row after an update": microseconds(after_an_update, blocks),
        "one row, scales 1e-6 to 1": microseconds(lambda: chances_of_largest(means[0], apart[0], freedom), blocks),
        f"a row of {n_rows}": per_row(alike),
        f"a row of {n_rows}, scales 1e-6 to 1": per_row(apart),
        "NumPy's addition of two such rows": microseconds(lambda: means[0] + alike[0], blocks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    figures = {"propensities": quadrature(arguments.arms, arguments.rows, arguments.blocks)}
    for name in AGENTS:
        figures[name] = measured(name, arguments.arms, arguments.rounds, arguments.blocks)
    result = {"arms": arguments.arms, "rounds": arguments.rounds, "microseconds": figures}
    for what, values in figures.items():
        shown = ", ".join(f"{k} {v:.1f}{'' if '/' in k else ' us'}" for k, v in values.items())
        print(f"{what}: {shown}")
    print(json.dumps(result))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
