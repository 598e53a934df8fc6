"""`python -m benchmarks.throughput`: rewards learned per second, one by one and in batches, and what batches cost.

Three parts. Speed: logged rewards of Statlog's shape, learned after 2,000 rounds, one by one and in batches, in turn in
one process; CPU time, medians over repeats. Reward: Statlog, Covertype and Adult, paired runs of 5,000 rounds: a loop;
decisions that are frozen for 64 rounds and then learned one by one; the same, learned as one batch. The middle column
says how much is due to the delay. Warm start: a million rows of a table. Writes benchmarks/results/throughput.json and
the tables of docs/guides/batches.md.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import lim2
from benchmarks.passages import write_passage
from benchmarks.timing import classification_world
from lim2 import batches, problems
from lim2.log.table import Table
from lim2.problems import Problem

HERE = Path(__file__).parent
OUT, PAGE = HERE / "results" / "throughput.json", HERE.parent / "docs" / "guides" / "batches.md"
AGENTS: dict[str, dict[str, Any]] = {"AdaptiveTS": {}, "LinearTS": {}, "AdaptiveTS linear": {"hidden": ()}}
SIZES = (8, 64, 256, "auto")
WARM, BLOCK, REPEATS = 2000, 1024, 9
FROZEN, ROUNDS, RUNS = 64, 5000, 5
DATASETS = ("statlog", "covertype", "adult")


def speed() -> list[dict[str, Any]]:
    """Return microseconds of CPU per reward, and how many times as fast as the loop each size of batches is."""
    world = classification_world(9, 7, rows=WARM + BLOCK)
    arms = np.random.default_rng(0).integers(0, 7, WARM + BLOCK)
    rewards = world.rewards[np.arange(len(arms)), arms]
    early, late, rows = slice(WARM), slice(WARM, None), []
    for name, settings in AGENTS.items():
        start = lim2.AGENTS[name.split()[0]](7, 9, seed=0, **settings)
        start.update(world.contexts[early], arms[early], rewards[early])
        taken: dict[Any, list[float]] = {size: [] for size in (1, *SIZES)}
        for _ in range(REPEATS):
            for size, times in taken.items():
                agent = start.copy()
                begun = time.process_time()
                agent.update(world.contexts[late], arms[late], rewards[late], batch=size)
                times.append(1e6 * (time.process_time() - begun) / BLOCK)
        loop = np.array(taken[1])
        row: dict[str, Any] = {"agent": name, "loop us": round(float(np.median(loop)), 1)}
        rows.append(row | {str(size): round(float(np.median(loop / taken[size])), 1) for size in SIZES})
        print(rows[-1], flush=True)
    return rows


def play(problem: Problem, agent: lim2.Agent, frozen: int, batched: bool) -> float:
    """Return what an agent earns whose decisions are frozen for some rounds at a time, and then learned."""
    total = 0.0
    for piece in batches.slices(problem.rounds, frozen, 0):
        rows = np.arange(piece.start, piece.stop)
        arms = agent.act_many(problem.contexts[piece])
        agent.update(problem.contexts[piece], arms, problem.rewards[rows, arms], batch=frozen if batched else 1)
        total += float(problem.expected_rewards[rows, arms].sum())
    return total


def reward(names: tuple[str, ...], runs: int, rounds: int, agent: str = "AdaptiveTS") -> list[dict[str, Any]]:
    """Return the rewards of the four ways on each dataset, and the losses against the loop in per cent."""
    out = []
    for name in names:
        earned = []
        for seed in range(runs):
            problem = problems.load(name, rounds=rounds, seed=seed)
            ways: tuple[tuple[Any, bool], ...] = ((1, False), (FROZEN, False), (FROZEN, True), ("auto", True))
            earned.append(
                [play(problem, lim2.AGENTS[agent](problem.n_arms, problem.n_features, seed=seed), *way) for way in ways]
            )
        rewards = np.array(earned)
        out.append({"dataset": name, "rewards": rewards.round(1).tolist(), **losses(rewards)})
        print(out[-1], flush=True)
    return out


def losses(rewards: Any) -> dict[str, list[float]]:
    """Return mean losses against the first column in per cent, with the half widths of their 95% intervals, paired.

    Of the delay, of delay and batch, of the batch against the delay alone, and of batches that grow.

    Examples
    --------
    >>> losses(np.array([[100.0, 99.0, 98.0, 99.0], [100.0, 97.0, 98.0, 99.0]]))["batch"][0]
    2.0
    """
    loop, delayed, batch, growing = rewards.T
    pairs = {
        "delay": (loop, delayed), "batch": (loop, batch), "batch against delay": (delayed, batch),
        "growing": (loop, growing),
    }  # fmt: skip
    out = {}
    for name, (before, after) in pairs.items():
        lost = 100.0 * (1.0 - after / before)
        width = float(stats.t.ppf(0.975, len(lost) - 1) * lost.std(ddof=1) / np.sqrt(len(lost)))
        out[name] = [round(float(lost.mean()), 2), round(width, 2)]
    return out


def warm(rows: int) -> list[dict[str, Any]]:
    """Return how long a warm start takes: the clock on the wall, and CPU time."""
    world = classification_world(9, 7, rows=rows)
    arms = np.random.default_rng(1).integers(0, 7, rows)
    table = Table.of(world.contexts, arms.tolist(), world.rewards[np.arange(rows), arms], np.full(rows, 1 / 7))
    out = []
    for name, settings in AGENTS.items():
        agent = lim2.AGENTS[name.split()[0]](7, 9, seed=0, **settings)
        wall, cpu = time.perf_counter(), time.process_time()
        learned = table.replay(agent, "auto")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        out.append({"agent": name, "rows": learned, "s": round(wall, 1), "CPU s": round(cpu, 1)})
        print(out[-1], flush=True)
    return out


def lines_of(results: dict[str, Any]) -> list[str]:
    """Return the tables of the page."""
    out = ["| agent | loop, us per reward | k = 8 | k = 64 | k = 256 | auto |", "|---|---|---|---|---|---|"]
    for row in results["speed"]:
        ratios = " | ".join(f"{row[str(size)]:.1f} times" for size in SIZES)
        out.append(f"| {row['agent']} | {row['loop us']:,.0f} | {ratios} |")
    out += ["", "| dataset | loop | frozen for 64 rounds | lost | k = 64 | lost | by the batch alone | auto | lost |"]
    out.append("|---|---|---|---|---|---|---|---|---|")
    for row in results["reward"]:
        loop, delayed, batch, growing = np.mean(row["rewards"], axis=0)
        kinds = ("delay", "batch", "batch against delay", "growing")
        lost = [f"{mean:.1f} ± {width:.1f}%" for mean, width in (row[kind] for kind in kinds)]
        out.append(
            f"| {row['dataset']} | {loop:,.0f} | {delayed:,.0f} | {lost[0]} | {batch:,.0f} | {lost[1]} | {lost[2]} "
            f"| {growing:,.0f} | {lost[3]} |"
        )
    out += ["", "| agent | rows | seconds | CPU seconds | rows per CPU second |", "|---|---|---|---|---|"]
    for row in results["warm"]:
        rate = row["rows"] / row["CPU s"]
        out.append(f"| {row['agent']} | {row['rows']:,} | {row['s']:,.0f} | {row['CPU s']:,.0f} | {rate:,.0f} |")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for part in ("speed", "reward", "warm"):
        parser.add_argument(f"--{part}", action="append_const", dest="parts", const=part, help="this part only")
    parts = parser.parse_args().parts or ["speed", "reward", "warm"]
    results: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    calls: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "speed": speed,
        "reward": lambda: reward(DATASETS, RUNS, ROUNDS),
        "warm": lambda: warm(1_000_000),
    }
    for part in parts:
        results[part] = calls[part]()
        OUT.write_text(json.dumps(results, indent=1) + "\n")
    if set(calls) <= set(results):
        write_passage(PAGE, "throughput", "\n".join(lines_of(results)))


if __name__ == "__main__":
    main()
