"""`python -m benchmarks.overhead`: what `lim2 bench` costs over a bare loop, and what a second core gains.

Both are ratios of what ran next to each other: CPU time of the runner's loop over that of a bare one, and wall time of
a whole bench with one process over that with two.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lim2
from lim2 import problems
from lim2.experiments.benchmark import bench
from lim2.experiments.runner import play


def bare(agent: lim2.Agent, problem: problems.Problem) -> None:
    """Play as a user would in a loop of their own."""
    contexts, rewards = problem.contexts, problem.rewards
    for t in range(problem.rounds):
        arm = agent.act(contexts[t])
        agent.update(contexts[t], arm, float(rewards[t, arm]))


def overhead(name: str, rounds: int, pairs: int) -> float:
    """Return the median ratio of the runner's CPU time to a bare loop's, in turns."""
    problem = problems.load("nonlinear", rounds=rounds, seed=0)
    ratios = []
    for pair in range(pairs):
        spent = {}
        ways: list[Callable[[lim2.Agent, problems.Problem], object]] = [bare, play]
        for way in ways if pair % 2 else ways[::-1]:
            agent = lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=0)
            start = time.process_time()
            way(agent, problem)
            spent[way] = time.process_time() - start
        ratios.append(spent[play] / spent[bare])
    return float(np.median(ratios))


def benched(jobs: int, rounds: int) -> tuple[float, float]:
    """Return the wall time of a plan of 2 problems x 2 agents x 4 runs, and how many of its runs ran at a time."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        results = bench(
            ["linear", "nonlinear"], ["LiM2", "NeuralLinear-NTK"], rounds=rounds, runs=4, jobs=jobs, out=Path(folder),
            quiet=True, report=False,
        )  # fmt: skip
        wall = time.perf_counter() - start
        return wall, float(results.runs["seconds"].sum()) / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3000)
    arguments = parser.parse_args()
    for name, rounds in (("LinearTS", 3000), ("NeuralLinear-NTK", 1000), ("LiM2", 600)):
        print(f"{name}: runner / bare loop = {overhead(name, rounds, arguments.pairs):.3f}")
    (one, _), (two, at_a_time) = benched(1, arguments.rounds), benched(2, arguments.rounds)
    print(f"wall time, one process over two: x {one / two:.2f}")
    # On a machine that others use, too, the wall times say little; this still tells whether processes wait.
    print(f"runs at a time with two processes: {at_a_time:.2f}")


if __name__ == "__main__":
    main()
