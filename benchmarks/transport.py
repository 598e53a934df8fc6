"""`python -m benchmarks.transport`: what a round of TransportTS costs next to LiM2's, and how often it refits.

Both agents play Statlog in turns, a block of rounds each, so that whatever else the machine does falls on both; times
are processor times. Then TransportTS plays on for 100,000 rounds in all. Writes benchmarks/results/transport.json.
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student_t

import lim2
from lim2 import problems
from lim2.experiments.renamed import today

BLOCK = 500
DATASETS = ("statlog", "epileptic", "covertype", "jester", "adult")
TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.4)


def play(agent: lim2.Agent, contexts: Any, rewards: Any) -> tuple[float, float]:
    """Play a block; return the microseconds of a round, and the reward."""
    total, started = 0.0, time.process_time()
    for context, paid in zip(contexts, rewards, strict=True):
        arm = agent.act(context)
        agent.update(context, arm, float(paid[arm]))
        total += float(paid[arm])
    return 1e6 * (time.process_time() - started) / len(contexts), total


def _refits(agent: lim2.Agent) -> int:
    return 0 if agent.info is None else agent.info.refits or 0


def side_by_side(rounds: int) -> dict[str, Any]:
    """Return what a round costs, averaged over all of them, and over the last fifth."""
    problem = problems.load("statlog", rounds=rounds, seed=0)
    agents = {name: lim2.AGENTS[name](problem.n_arms, problem.n_features, seed=0) for name in ("LiM2", "TransportTS")}
    times: dict[str, list[float]] = {name: [] for name in agents}
    for start in range(0, rounds, BLOCK):
        block = slice(start, start + BLOCK)
        for name, agent in agents.items():
            times[name].append(play(agent, problem.contexts[block], problem.rewards[block])[0])
    mean = {name: float(np.mean(values)) for name, values in times.items()}
    late = {name: float(np.mean(values[-len(values) // 5 :])) for name, values in times.items()}
    return {
        "rounds": rounds,
        "us_per_round": {name: round(value, 1) for name, value in mean.items()},
        "us_per_round_late": {name: round(value, 1) for name, value in late.items()},
        "ratio": round(mean["LiM2"] / mean["TransportTS"], 2),
    }


def long_run(rounds: int) -> dict[str, Any]:
    """Play Statlog over and over; return rounds per second, the share of rounds that refit, and the size of state."""
    problem = problems.load("statlog", rounds=20_000, seed=0)
    agent = lim2.TransportTS(problem.n_arms, problem.n_features, seed=0)
    parts, sizes = [], []
    for start in range(0, rounds, len(problem)):
        stop = min(len(problem), rounds - start)
        before = _refits(agent)
        us, _ = play(agent, problem.contexts[:stop], problem.rewards[:stop])
        parts.append({"until": start + stop, "us_per_round": round(us, 1), "refits": _refits(agent) - before})
        sizes.append(agent.nbytes)
    mean = float(np.mean([part["us_per_round"] for part in parts]))
    return {
        "rounds": rounds,
        "rounds_per_second": round(1e6 / mean),
        "share_that_refits": _refits(agent) / rounds,
        "nbytes": sizes,
        "parts": parts,
    }


def with_tolerance(name: str, tolerance: float, seed: int) -> tuple[float, float, int]:
    """Return reward, microseconds of a round and refits of 5,000 rounds."""
    problem = problems.load(name, rounds=5000, seed=seed)
    agent = lim2.TransportTS(problem.n_arms, problem.n_features, seed=seed, tolerance=tolerance)
    us, reward = play(agent, problem.contexts, problem.rewards)
    return reward, us, _refits(agent)


def by_tolerance(runs: int) -> list[dict[str, Any]]:
    """Return reward, time and refits on each tuning dataset, for several tolerances, and what 0 earns more or less."""
    cases = [(name, tolerance) for name in DATASETS for tolerance in TOLERANCES]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        played = {case: [pool.submit(with_tolerance, *case, seed) for seed in range(runs)] for case in cases}
        results = {case: np.array([run.result() for run in played[case]]) for case in cases}
    rows = []
    for name, tolerance in cases:
        reward, us, refits = results[name, tolerance].T
        less = reward - results[name, 0.0][:, 0]  # paired: the same shuffle
        half = student_t.ppf(0.975, runs - 1) * less.std(ddof=1) / np.sqrt(runs) if runs > 1 else np.inf
        row = {"problem": name, "tolerance": tolerance, "runs": runs, "reward": round(reward.mean(), 1)}
        row |= {"difference": round(less.mean(), 1), "half": round(half, 1)}
        rows.append({**row, "us_per_round": round(np.median(us)), "refits": refits.mean() / 5000})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--tolerance-runs", type=int, default=0, help="runs per dataset and tolerance; 0 leaves it out")
    arguments = parser.parse_args()
    console = Console()
    out = Path(__file__).parent / "results" / "transport.json"
    results = json.loads(today(out.read_text())) if out.exists() else {}
    if arguments.rounds:
        results["side_by_side"] = side_by_side(arguments.rounds)
    if arguments.long:
        results["long_run"] = long_run(arguments.long)
    if arguments.tolerance_runs:
        results["by_tolerance"] = by_tolerance(arguments.tolerance_runs)
        keys = "problem", "tolerance", "reward", "difference", "half", "us_per_round", "refits"
        table = Table(*keys)
        for row in results["by_tolerance"]:
            table.add_row(*(str(row[key]) for key in keys))
        console.print(table)
    console.print({key: results.get(key) for key in ("side_by_side", "long_run")})
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
