"""`python -m benchmarks.statlog`: the agents on Statlog next to the paper; writes benchmarks/results/statlog.json."""

import argparse
import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import lim2
from lim2 import problems

# Mean and standard deviation of 10 runs: the paper's table of raw results.
PUBLISHED = {
    "LinearTS": (4460, 19),
    "NeuralLinear": (4729, 6),
    "LiM2": (4820, 68),
    "NeuralLinear-MM": (4545, 34),
    "NeuralLinear-Naive": (4476, 19),
    "NeuralLinear-NTK": (4722, 12),
    "NeuralUCB": (4075, 3),
    "NeuralTS": (4348, 265),
}


def cumulative_reward(name: str, seed: int, rounds: int = 5000, **settings: Any) -> float:
    """Play one shuffle of Statlog; return the sum of rewards."""
    problem = problems.load("statlog", rounds=rounds, seed=seed)
    agent = lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=seed, **settings)
    total = 0.0
    for context, rewards in zip(problem.contexts, problem.rewards, strict=True):
        arm = agent.act(context)
        agent.update(context, arm, rewards[arm])
        total += rewards[arm]
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default=",".join(PUBLISHED))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the agents")
    arguments = parser.parse_args()
    settings = {}
    for setting in arguments.set:
        name, value = setting.split("=", 1)
        settings[name] = ast.literal_eval(value)
    console = Console()
    table = Table("agent", title=f"Statlog, 5,000 rounds, {arguments.runs} runs", title_justify="left")
    for column in ("reward", "published"):
        table.add_column(column, justify="right")
    rows = []
    for name in arguments.agents.split(","):
        with console.status(name):
            rewards = [cumulative_reward(name, seed, **settings) for seed in range(arguments.runs)]
        mean, std = float(np.mean(rewards)), float(np.std(rewards))
        published = PUBLISHED.get(name, (np.nan, np.nan))
        table.add_row(name, f"{mean:,.0f} ± {std:.0f}", f"{published[0]:,} ± {published[1]}")
        rows.append({"agent": name, "mean": round(mean, 1), "std": round(std, 1), "runs": arguments.runs})
    console.print(table)
    if not settings and arguments.agents == parser.get_default("agents"):
        out = Path(__file__).parent / "results" / "statlog.json"
        out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
