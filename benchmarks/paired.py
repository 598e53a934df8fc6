"""Settings side by side: the same problems, shuffles and seeds, and the differences of their rewards."""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lim2
from benchmarks.passages import write_passage
from lim2 import problems

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "concepts" / "learning.md"


class Run(NamedTuple):
    """One agent on one draw of a problem."""

    problem: str
    problem_settings: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    rounds: int
    seed: int

    @property
    def key(self) -> str:
        """What the run is stored under."""
        return json.dumps(self, sort_keys=True)


def reward(run: Run) -> float:
    """Play, and return the sum of what the played arms were expected to pay."""
    problem = problems.load(run.problem, rounds=run.rounds, seed=run.seed, **run.problem_settings)
    agent = lim2.AGENTS[run.agent](problem.n_arms, problem.n_features, seed=run.seed, **run.settings)
    total = 0.0
    for t in range(problem.rounds):
        context = problem.contexts[t]
        arm = agent.act(context)
        agent.update(context, arm, float(problem.rewards[t, arm]))
        total += float(problem.expected_rewards[t, arm])
    return total


class Results:
    """The rewards of runs, in a file to which every finished run is written at once."""

    def __init__(self, name: str) -> None:
        self.path = HERE / "results" / f"{name}.json"
        self.rewards: dict[str, float] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def play(self, runs: Iterable[Run], jobs: int) -> None:
        """Play what has not been played yet, several at a time."""
        missing = [run for run in runs if run.key not in self.rewards]
        with ProcessPoolExecutor(jobs) as pool:
            for run, total in zip(missing, pool.map(reward, missing), strict=True):
                self.rewards[run.key] = round(total, 3)
                self.path.write_text(json.dumps(dict(sorted(self.rewards.items())), indent=1) + "\n")

    def paired(self, ways: Sequence[Sequence[Run]]) -> list[list[float]]:
        """Return the rewards of each way, over the draws that have been played in all of them."""
        complete = [runs for runs in zip(*ways, strict=True) if all(run.key in self.rewards for run in runs)]
        return [[self.rewards[runs[way].key] for runs in complete] for way in range(len(ways))]


def mean_and_std(values: Sequence[float]) -> str:
    """Return rewards as text."""
    return f"{np.mean(values):,.0f} ± {np.std(values, ddof=1):,.0f}"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the mean of the paired differences and its standard error, as text."""
    gaps = np.subtract(ours, theirs)
    return f"{gaps.mean():+,.0f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):,.0f}"


def write_table(marker: str, lines: Sequence[str]) -> None:
    """Replace the table between two markers of docs/concepts/learning.md, and show it."""
    write_passage(PAGE, marker, "\n".join(lines))
