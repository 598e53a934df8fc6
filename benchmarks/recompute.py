"""`python -m benchmarks.recompute`: LiM2 on Statlog when only some of the buffer's features are recomputed in a round.

Writes benchmarks/results/recompute.json. For the same on Amazon, where it pays:
`python -m benchmarks.amazon --agents LiM2 --set recompute_every=20`, or `--set recompute_share=0.05`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import lim2
from lim2 import problems
from lim2.experiments import play

SETTINGS: list[dict[str, Any]] = [
    {},
    {"recompute_every": 5},
    {"recompute_every": 20},
    {"recompute_every": 100},
    {"recompute_share": 0.2},
    {"recompute_share": 0.05},
]


def cumulative_reward(seed: int, rounds: int, settings: dict[str, Any]) -> float:
    """Let LiM2 play one shuffle of Statlog."""
    problem = problems.load("statlog", rounds=rounds, seed=seed)
    played = play(lim2.LiM2(problem.n_arms, problem.n_features, seed=seed, **settings), problem)
    return float(problem.rewards[np.arange(rounds), played.arms].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs, rounds = parser.parse_args().runs, 5000
    rewards, seconds = np.empty((2, len(SETTINGS), runs))
    for seed in range(runs):
        for row, settings in enumerate(SETTINGS):  # next to each other, so that times compare
            start = time.process_time()
            rewards[row, seed] = cumulative_reward(seed, rounds, settings)
            seconds[row, seed] = time.process_time() - start
    table = Table("LiM2 on Statlog", title=f"{rounds:,} rounds, {runs} runs", title_justify="left")
    for column in ("reward", "ms per round", "times the default"):
        table.add_column(column, justify="right")
    results = []
    for settings, earned, took in zip(SETTINGS, rewards, seconds, strict=True):
        ms, ratio = 1e3 * float(np.median(took)) / rounds, float(np.median(took / seconds[0]))
        name = ", ".join(f"{k}={v}" for k, v in settings.items()) or "everything in every round"
        mean, std = float(earned.mean()), float(earned.std())
        table.add_row(name, f"{mean:,.0f} ± {std:.0f}", f"{ms:.2f}", f"{ratio:.2f}")
        reward = {"mean": round(mean, 1), "std": round(std, 1), "runs": runs}
        results.append({"settings": settings, **reward, "ms": round(ms, 3), "ratio": round(ratio, 2)})
    Console().print(table)
    out = Path(__file__).parent / "results" / "recompute.json"
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
