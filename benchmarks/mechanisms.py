"""`python -m benchmarks.mechanisms`: what each mechanism of AdaptiveTS earns in worlds of products.

Every variant leaves out one mechanism, and plays the same seeds as the agent as it is. Regret of a variant is relative
to that of the agent, over common seeds, with a standard error. Runs that are in benchmarks/results/mechanisms.csv are
not played again: delete the file after a change of the agent.
"""

import argparse
import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from multiprocessing import Pool
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.parts import OneBelief
from benchmarks.worlds import ratio_of
from lim2 import Agent, problems
from lim2.algorithms import AdaptiveTS, adaptive_ts, reward_scale
from lim2.experiments.report.markdown import table
from lim2.experiments.runner import false_changes, play

FILE = Path(__file__).parent / "results" / "mechanisms.csv"
COLUMNS = ("world", "variant", "seed", "regret", "false_changes")
WORLDS = ("ab-test", "useless-columns", "cold-start", "clicks", "outliers", "one-change", "late-better")
AS_IT_IS = "as it is"
# settings, and constants of a module that are replaced
VARIANTS: dict[str, tuple[dict[str, Any], dict[Any, dict[str, Any]]]] = {
    AS_IT_IS: ({}, {}),
    "no linear regression": ({"of": OneBelief}, {}),
    "no hidden layer": ({"hidden": ()}, {}),
    "no width by evidence": ({}, {adaptive_ts: {"WIDTHS": np.ones(1)}}),
    "noise of each arm alone": ({}, {adaptive_ts: {"LINEAR_A0": 15.0}}),
    "a lead that never fades": ({}, {adaptive_ts: {"LEAD_DECAY": 1.0}}),
    "scores of the full regression as wide as it is": ({}, {adaptive_ts: {"FULL_SCALE": 1.0}}),
    "a random part of 0.1": ({"temperature": 0.1}, {}),
    "plain Thompson sampling": ({"temperature": 1.0, "optimism": 0.0}, {}),
    "two turns": ({"initial_pulls": 2}, {}),
    "no test for a change": ({"change_threshold": math.inf}, {}),
    "one window of recent decisions": ({}, {adaptive_ts: {"LONGEST_WINDOW": 1}}),
    "a threshold of 6 nats": ({"change_threshold": 6.0}, {}),
    "no limit of outliers": ({}, {reward_scale: {"LIMIT_DEVIATIONS": math.inf}}),
}


def played(job: tuple[str, str, int]) -> tuple[str, str, int, float, int]:
    """Play a variant in a world; return its regret and the number of its false changes."""
    world, variant, seed = job
    settings, constants = VARIANTS[variant]
    problem = problems.load(world, seed=seed)
    with ExitStack() as replaced:
        for module, values in constants.items():
            replaced.enter_context(mock.patch.multiple(module, **values))
        rest = dict(settings)
        algorithm = rest.pop("of", AdaptiveTS)
        agent = Agent(algorithm(problem.n_arms, problem.n_features, seed=seed, **rest))
        run = play(agent, problem)
    regret = problem.best_rewards - problem.expected(run.arms)
    return world, variant, seed, round(float(regret.sum()), 3), false_changes(run.changes or [], problem.changes)


def kept() -> dict[tuple[str, str], dict[int, tuple[float, int]]]:
    """Return regret and false changes by world and variant, and by seed."""
    runs: dict[tuple[str, str], dict[int, tuple[float, int]]] = defaultdict(dict)
    if FILE.exists():
        with FILE.open(newline="") as lines:
            for row in csv.DictReader(lines):
                found = float(row["regret"]), int(row["false_changes"])
                runs[row["world"], row["variant"]][int(row["seed"])] = found
    return runs


def rows() -> Iterator[list[str]]:
    """Yield a row for each variant: its regret relative to that of the agent as it is, by world."""
    runs = kept()
    worlds = [world for world in WORLDS if runs[world, AS_IT_IS]]
    yield ["variant", *worlds]
    for variant in list(VARIANTS)[1:]:
        cells = []
        for world in worlds:
            one, other = runs[world, variant], runs[world, AS_IT_IS]
            common = sorted(one.keys() & other.keys())
            ratio = ratio_of([one[seed][0] for seed in common], [other[seed][0] for seed in common]) if common else "–"
            cells.append(f"{ratio}" + f" ({len(common)})" * bool(common))
        yield [variant, *cells]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="*", default=WORLDS)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--first", type=int, default=700, help="first seed")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds; 0: print the table only")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args(arguments)
    seeds, runs = range(given.first, given.first + given.seeds), kept()
    wanted = itertools.product(given.worlds, given.variants, seeds)
    jobs = [(world, variant, seed) for world, variant, seed in wanted if seed not in runs[world, variant]]
    with Pool(given.processes) as pool, FILE.open("a", newline="") as lines:
        writer = csv.writer(lines)
        if not lines.tell():
            writer.writerow(COLUMNS)
        for row in pool.imap_unordered(played, jobs):
            writer.writerow(row)
            lines.flush()
    head, *body = rows()
    print(*table(head, body), sep="\n")


if __name__ == "__main__":
    main()
