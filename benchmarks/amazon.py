"""`python -m benchmarks.amazon`: the agents with the paper's text network on Amazon's reviews, next to the paper.

Runs are appended to benchmarks/results/amazon.jsonl as they finish, and those it already holds are not run again;
`--table` shows what it holds. Needs the reviews (LIM2_DATA) and PyTorch; a run takes some minutes on one thread.
"""

import argparse
import ast
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import lim2
from lim2 import problems
from lim2.paper.published import dataset
from lim2.representation import TextCNN, Torch

RESULTS = Path(__file__).parent / "results" / "amazon.jsonl"
PUBLISHED = dataset("amazon").raw


class Clock:
    """Adds up the processor's seconds spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time counted."""

        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            result = function(*args, **kwargs)
            self.seconds += time.process_time() - start
            return result

        return call


def run(name: str, seed: int, rounds: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Play one shuffle; return its reward, the ms per round, and the share outside forward and backward.

    ``ms`` is time that passed, and depends on what else the machine does; ``cpu_ms`` is the processor's, of one thread.
    """
    problem = problems.load("amazon", rounds=rounds, seed=seed)
    assert problem.n_tokens is not None
    representation = Torch(partial(TextCNN, problem.n_tokens))
    agent = lim2.AGENTS[name](problem.n_arms, representation=representation, seed=seed, **settings)
    network = Clock()
    forward, backward = network.timed(TextCNN.forward), network.timed(torch.Tensor.backward)
    with patch.object(TextCNN, "forward", forward), patch.object(torch.Tensor, "backward", backward):
        total, start, cpu_start = 0.0, time.perf_counter(), time.process_time()
        for context, rewards in zip(problem.contexts, problem.rewards, strict=True):
            arm = agent.act(context)
            agent.update(context, arm, rewards[arm])
            total += rewards[arm]
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return {
        "agent": name,
        "seed": seed,
        "rounds": rounds,
        "settings": settings,
        "reward": float(total),
        "ms": round(1e3 * seconds / rounds, 2),
        "cpu_ms": round(1e3 * cpu_seconds / rounds, 2),
        "outside": round(1.0 - network.seconds / cpu_seconds, 4),
    }


def results() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def show(console: Console) -> None:
    table = Table("agent", "settings", title="Amazon, text CNN", title_justify="left")
    for column in ("rounds", "runs", "reward", "published", "ms per round", "of the processor", "outside the network"):
        table.add_column(column, justify="right")
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in results():
        groups.setdefault((row["agent"], json.dumps(row["settings"]), row["rounds"]), []).append(row)
    for (name, settings, rounds), rows in sorted(groups.items()):
        rewards = [row["reward"] for row in rows]
        mean, std = PUBLISHED[name]
        table.add_row(
            name,
            settings,
            f"{rounds:,}",
            str(len(rows)),
            f"{np.mean(rewards):,.0f} ± {np.std(rewards):.0f}",
            f"{mean:,} ± {std}" if rounds == 5000 else "",
            f"{np.median([row['ms'] for row in rows]):.0f}",
            f"{np.median([row['cpu_ms'] for row in rows if 'cpu_ms' in row] or [np.nan]):.0f}",
            f"{np.median([row['outside'] for row in rows]):.1%}",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default=",".join(PUBLISHED))
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the agents")
    parser.add_argument("--table", action="store_true", help="only show what has been run")
    arguments = parser.parse_args()
    settings = {name: ast.literal_eval(value) for name, value in (s.split("=", 1) for s in arguments.set)}
    torch.set_num_threads(1)
    if not arguments.table:
        RESULTS.parent.mkdir(exist_ok=True)
        for seed in map(int, arguments.seeds.split(",")):
            for name in arguments.agents.split(","):
                what = {"agent": name, "seed": seed, "rounds": arguments.rounds, "settings": settings}
                if not any(what.items() <= row.items() for row in results()):
                    row = run(name, seed, arguments.rounds, settings)
                    with RESULTS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    show(Console())


if __name__ == "__main__":
    main()
