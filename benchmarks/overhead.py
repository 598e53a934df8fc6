"""`python -m benchmarks.overhead`: what `lim2 bench` costs over a bare loop, and what a second core gains.

What the runner adds to a round is measured around an agent that does nothing, where it can be seen; the rest are ratios
of what ran next to each other.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lim2
from lim2 import problems
from lim2.experiments.benchmark import bench
from lim2.experiments.runner import Plays, play


class Nothing:
    """An agent that costs nothing, so that what is around it shows; its size is asked for as that of others."""

    nbytes = 0

    def act(self, context: object) -> int:  # noqa: ARG002
        """Play the first arm."""
        return 0

    def update(self, context: object, arm: int, reward: float) -> None:
        """Learn nothing."""


def bare(agent: Plays, problem: problems.Problem) -> None:
    """Play as a user would in a loop of their own."""
    contexts, rewards = problem.contexts, problem.rewards
    for t in range(problem.rounds):
        arm = agent.act(contexts[t])
        agent.update(contexts[t], arm, float(rewards[t, arm]))


def ticked(agent: Plays, problem: problems.Problem) -> None:
    """Play as a worker does, reporting how far it is."""
    play(agent, problem, lambda *_: None)


def fastest(way: Callable[[Plays, problems.Problem], None], name: str, rounds: int, repeats: int) -> float:
    """Return the microseconds of a round, CPU time, in the fastest of some repeats: others can only slow it down."""
    problem = problems.load("nonlinear", rounds=rounds, seed=0)
    times = []
    for _ in range(repeats):
        agent = lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=0) if name else Nothing()
        start = time.process_time()
        way(agent, problem)
        times.append(time.process_time() - start)
    return 1e6 * min(times) / rounds


def benched(jobs: int, rounds: int) -> tuple[float, float]:
    """Return the wall time of a plan of 2 problems x 2 agents x 4 runs, and how many of its runs ran at a time."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        results = bench(
            ["linear", "nonlinear"], ["LiM2", "NeuralLinearNTK"], rounds=rounds, runs=4, jobs=jobs, out=Path(folder),
            quiet=True, report=False,
        )  # fmt: skip
        wall = time.perf_counter() - start
        return wall, float(results.runs["seconds"].sum()) / wall


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3000)
    arguments = parser.parse_args()
    extra = fastest(ticked, "", 5000, arguments.repeats) - fastest(bare, "", 5000, arguments.repeats)
    print(f"a round of the runner costs {extra:+.2f} us over a round of a bare loop")
    for name, rounds in (("LinearTS", 2000), ("NeuralLinearNTK", 1000), ("LiM2", 500)):
        own = fastest(bare, name, rounds, max(arguments.repeats // 3, 3))
        print(f"  {name}: {own:.0f} us per round, overhead {extra / own:+.2%}")
    (one, _), (two, at_a_time) = benched(1, arguments.rounds), benched(2, arguments.rounds)
    print(f"wall time, one process over two: x {one / two:.2f}")
    # On a machine that others use, too, the wall times say little; this still shows whether processes wait.
    print(f"runs at a time with two processes: {at_a_time:.2f}")


if __name__ == "__main__":
    main()
