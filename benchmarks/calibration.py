"""`python -m benchmarks.calibration`: how many 90% intervals of the arms' expected rewards hold the truth.

On the `linear` problem the truth is known. An agent plays 2,000 rounds, learning its representation all the while; then
for contexts that it has not seen, and every arm, the 90% interval of the expected reward is compared with the truth.
Writes benchmarks/results/calibration.json.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student_t

import lim2
from benchmarks.parts import NetworkAlone, OneBelief
from lim2 import problems
from lim2.agents import agent_of

OWN = {algorithm.__name__: algorithm for algorithm in (OneBelief, NetworkAlone)}

# label: (agent, settings)
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "AdaptiveTS": ("AdaptiveTS", {}),
    "AdaptiveTS, untrained": ("AdaptiveTS", {"train_every": 10**6}),
    "AdaptiveTS, one belief": ("OneBelief", {}),
    "AdaptiveTS, the network alone": ("NetworkAlone", {}),
    "LiM2": ("LiM2", {}),
    "LinearTS": ("LinearTS", {}),
    "AdaptiveTS linear": ("AdaptiveTS", {"hidden": ()}),
}


def covered(agent: lim2.Agent, contexts: NDArray[np.float64], truth: NDArray[np.float64], level: float = 0.9) -> float:
    """Return the share of (context, arm) whose expected reward lies in the central interval of that level."""
    score = agent.algorithm.score(agent.state, contexts)
    half = student_t.ppf(0.5 + 0.5 * level, score.freedom) * score.scale
    return float(np.mean(np.abs(truth - score.mean) <= half))


def coverage(name: str, seed: int, rounds: int = 2000, fresh: int = 500, **settings: Any) -> float:
    """Play, then return the coverage of the 90% intervals over contexts that were not played."""
    problem = problems.load("linear", rounds=rounds + fresh, seed=seed)
    make = agent_of(OWN[name]) if name in OWN else lim2.AGENTS[name]
    agent = make(problem.n_arms, problem.n_features, seed=seed, **settings)
    for context, rewards in zip(problem.contexts[:rounds], problem.rewards, strict=False):
        arm = agent.act(context)
        agent.update(context, arm, float(rewards[arm]))
    return covered(agent, problem.contexts[rounds:], problem.expected_rewards[rounds:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1000, help="the first run's")
    arguments = parser.parse_args()
    table = Table("agent", "coverage of 90% intervals", "least", "most")
    rows = []
    console = Console()
    for label, (name, settings) in AGENTS.items():
        with console.status(label):
            shares = [
                coverage(name, seed, **settings) for seed in range(arguments.seed, arguments.seed + arguments.runs)
            ]
        rows.append({"agent": label, "mean": round(float(np.mean(shares)), 4), "runs": [round(s, 4) for s in shares]})
        table.add_row(label, f"{np.mean(shares):.1%}", f"{min(shares):.1%}", f"{max(shares):.1%}")
    console.print(table)
    out = Path(__file__).parent / "results" / "calibration.json"
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
