"""`python -m benchmarks.tuned`: Vowpal Wabbit with settings chosen for each problem, as a rival of AdaptiveTS.

With interactions of the context's features. On two seeds of its own (200 and 201) every setting of the grid plays:
with and without action features, and SquareCB's ``gamma_scale`` in decades. Where the smallest one is best, the grid
goes on below it; the largest ones are greedy, and hardly differ. The setting that earns most plays the fresh shuffles
(2000 to 2009), as ``vw:tuned``. What was earned in tuning is kept in docs/results/past-the-paper/tuning.csv, and a
problem that is there is not tuned again without ``--again``;
`python -m benchmarks.past_the_paper ... results/tuned/fresh` reads the rest.
Resumable: what is in the folder is not played again.
"""

import argparse
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.fresh import FRESH
from benchmarks.past_the_paper import OUT, PROBLEMS, ROUNDS, TUNED
from lim2.experiments import bench

GAMMAS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
LEAST = 1e-3  # of gammas that are tried where the smallest one is best
Grid = dict[str, tuple[str, dict[str, Any]]]
TUNING = range(200, 202)  # seeds


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
    parser.add_argument("--again", action="store_true", help="tune problems again whose tuning is kept")
    parser.add_argument("--out", type=Path, default=Path("results/tuned"))
    arguments = parser.parse_args()
    kept = {} if arguments.again else chosen_before()
    for problem in arguments.problems.split(","):
        chosen = kept.get(problem) or tuned(problem, arguments.out / "tuning")
        setting = grid_of([float(chosen.rpartition(" ")[2])])[chosen]
        _played(PROBLEMS[problem], {TUNED: setting}, FRESH, arguments.out / "fresh")
        print(f"{problem}: {chosen}", flush=True)


def chosen_before() -> dict[str, str]:
    """Return by problem the label of the setting that the kept tuning has chosen."""
    file = OUT / "tuning.csv"
    if not file.exists():
        return {}
    return {str(problem): best_of(rows) for (problem,), rows in pl.read_csv(file).group_by("problem")}


def tuned(problem: str, out: Path) -> str:
    """Play the grid, keep what was earned, and return the label of the best setting."""
    gammas = list(GAMMAS)
    while True:
        grid = grid_of(gammas)
        tuning = _played(PROBLEMS[problem], grid, TUNING, out)
        here = pl.col("problem").str.split(":").list.last() == problem  # a result has the name alone
        rewards = tuning.filter(here, pl.col("agent").is_in(list(grid))).select("agent", "seed", "rounds", "reward")
        chosen = best_of(rewards)
        if grid[chosen][1]["gamma_scale"] > gammas[0] or gammas[0] <= LEAST:
            break
        gammas.insert(0, gammas[0] / 10)
    file = OUT / "tuning.csv"
    lines = rewards.select(pl.lit(problem).alias("problem"), pl.all())
    before = [pl.read_csv(file).filter(pl.col("problem") != problem)] if file.exists() else []
    pl.concat([*before, lines]).sort("problem", "agent", "seed").write_csv(file)
    return chosen


def _played(problem: str, agents: Grid, seeds: range, out: Path) -> pl.DataFrame:
    asked = {"runs": len(seeds), "seed": seeds[0]}
    return bench([problem], agents, rounds=ROUNDS, out=out, jobs=1, quiet=True, report=False, **asked).runs  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
