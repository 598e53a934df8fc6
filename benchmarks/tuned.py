"""`python -m benchmarks.tuned`: Vowpal Wabbit with settings chosen for each problem, as a rival of AdaptiveTS.

With interactions of the context's features. On two seeds of its own (200 and 201) every setting of the grid plays:
with and without action features, and SquareCB's ``gamma_scale`` in decades. Where the smallest one is best, the grid
goes on below it; the largest ones are greedy, and hardly differ. The setting that earns most plays the fresh shuffles
(1000 to 1009), as ``vw:tuned``. What was earned in tuning is kept in docs/results/past-the-paper/tuning.csv;
`python -m benchmarks.past_the_paper ... results/tuned/fresh` reads the rest.
Resumable: what is in the folder is not played again.
"""

import argparse
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.past_the_paper import OUT, PROBLEMS, ROUNDS, TUNED
from lim2.experiments import bench

GAMMAS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
LEAST = 1e-3  # of gammas that are tried where the smallest one is best
Grid = dict[str, tuple[str, dict[str, Any]]]
TUNING, FRESH = range(200, 202), range(1000, 1010)  # seeds


def grid_of(gammas: Iterable[float]) -> Grid:
    """Return the settings that play, by label.

    Examples
    --------
    >>> list(grid_of([0.1, 1e4]))[1:3]
    ['squarecb, gamma_scale 10000', 'adf-squarecb, gamma_scale 0.1']
    """
    return {
        f"{name}, gamma_scale {gamma:g}": (f"vw:{name}", {"interactions": True, "gamma_scale": gamma})
        for name, gamma in product(("squarecb", "adf-squarecb"), gammas)
    }


def best_of(rewards: pl.DataFrame) -> str:
    """Return the label of the setting with the highest mean reward.

    Parameters
    ----------
    rewards
        Columns ``agent`` and ``reward``, of one problem.

    Examples
    --------
    >>> best_of(pl.DataFrame({"agent": ["a", "b", "a"], "reward": [1.0, 2.0, 4.0]}))
    'a'
    """
    means = rewards.group_by("agent").agg(pl.col("reward").mean()).sort("reward", "agent", descending=[True, False])
    return str(means["agent"][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--out", type=Path, default=Path("results/tuned"))
    arguments = parser.parse_args()
    for problem in arguments.problems.split(","):
        named, gammas = PROBLEMS[problem], list(GAMMAS)
        while True:
            grid = grid_of(gammas)
            tuning = _played(named, grid, TUNING, arguments.out / "tuning")
            here = pl.col("problem").str.split(":").list.last() == problem  # a result has the name alone
            rewards = tuning.filter(here, pl.col("agent").is_in(list(grid))).select("agent", "seed", "rounds", "reward")
            chosen = best_of(rewards)
            if grid[chosen][1]["gamma_scale"] > gammas[0] or gammas[0] <= LEAST:
                break
            gammas.insert(0, gammas[0] / 10)
        _played(named, {TUNED: grid[chosen]}, FRESH, arguments.out / "fresh")
        file = OUT / "tuning.csv"
        lines = rewards.select(pl.lit(problem).alias("problem"), pl.all())
        before = [pl.read_csv(file).filter(pl.col("problem") != problem)] if file.exists() else []
        pl.concat([*before, lines]).sort("problem", "agent", "seed").write_csv(file)
        print(f"{problem}: {chosen}", flush=True)


def _played(problem: str, agents: Grid, seeds: range, out: Path) -> pl.DataFrame:
    asked = {"runs": len(seeds), "seed": seeds[0]}
    return bench([problem], agents, rounds=ROUNDS, out=out, jobs=1, quiet=True, report=False, **asked).runs  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
