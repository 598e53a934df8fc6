"""`python -m benchmarks.round_time`: a round of the default agent next to Vowpal Wabbit's, with the reward of both.

Both play the same rounds, in blocks that take turns in one process: vectors of Statlog's and Covertype's shape,
dictionaries with 10 arms through `lim2.Bandit`, and dictionaries with 50 and 1,000 items. Vowpal Wabbit plays
`--cb_explore_adf --squarecb -q`; making its text is part of its round. What is compared is CPU time: medians over
blocks of the ratios of the blocks' medians, and of their means, in which refits count. Each case is played with
compiled kernels and once more, in another process, with those in NumPy. Then come the longest updates of large agents
and, where valgrind is installed, `--instructions` counts the instructions of a round. Writes
benchmarks/results/round_time.json.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2._kernels import DESCRIPTION
from lim2.experiments.peers import VowpalWabbit, VowpalWabbitRaw
from lim2.experiments.report.markdown import table

RESULTS = Path(__file__).parent / "results" / "round_time.json"
SHAPES = {"Statlog's shape": (7, 9), "Covertype's shape": (7, 54)}
LARGE = ((100, 9), (10, 200))  # arms, features
COUNTRIES, DEVICES, CATEGORIES = 12, 4, 10
Play = Callable[[int], float]  # a round -> its reward


def world(n_arms: int, n_features: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    rng = np.random.default_rng(0)
    shares = 0.5 ** np.arange(1, n_arms + 1) + 0.02
    labels = rng.choice(n_arms, size=rows, p=shares / shares.sum())
    centres = rng.normal(size=(n_arms, n_features))
    return centres[labels] + 0.7 * rng.normal(size=(rows, n_features)), labels


def of_vectors(shape: tuple[int, int], rounds: int, **settings: Any) -> tuple[Play, Play]:
    contexts, labels = world(*shape, rounds)
    ours: Any = lim2.AdaptiveTS(*shape, seed=0, **settings)
    peer: Any = VowpalWabbit(*shape, algorithm="squarecb", action_features=True, seed=0)

    def play(agent: Any, row: int) -> float:
        arm = agent.act(contexts[row])
        reward = float(arm == labels[row])
        agent.update(contexts[row], arm, reward)
        return reward

    return lambda row: play(ours, row), lambda row: play(peer, row)


def visitors(rounds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {
            "country": f"c{rng.integers(COUNTRIES)}", "device": f"d{rng.integers(DEVICES)}", "age": rng.normal(40, 10),
            "basket": float(rng.gamma(2.0, 30.0)), "member": bool(rng.random() < 0.3), "visits": int(rng.poisson(4)),
            "at": f"2026-11-{rng.integers(1, 29):02}T{rng.integers(24):02}:00:00Z",
        }
        for _ in range(rounds)
    ]  # fmt: skip


def of_dictionaries(n_arms: int, rounds: int) -> tuple[Play, Play]:
    rng = np.random.default_rng(2)
    contexts, names = visitors(rounds), [f"arm {i}" for i in range(n_arms)]
    clicks = dict(zip(names, rng.beta(1.0, 3.0, size=(n_arms, COUNTRIES)).tolist(), strict=True))
    luck = rng.random(rounds)
    ours, peer = lim2.Bandit(arms=names, seed=0), VowpalWabbitRaw(names, seed=0)

    def play(bandit: Any, row: int) -> float:
        decision = bandit.decide(contexts[row])
        country = int(contexts[row]["country"][1:])
        reward = float(luck[row] < clicks[decision.arm][country])
        bandit.update(decision, reward)
        return reward

    return lambda row: play(ours, row), lambda row: play(peer, row)


def of_items(count: int, rounds: int) -> tuple[Play, Play]:
    rng = np.random.default_rng(3)
    contexts, luck = visitors(rounds), rng.random(rounds)
    clicks = rng.beta(1.0, 6.0, size=(CATEGORIES, DEVICES)).tolist()
    categories = rng.integers(CATEGORIES, size=count).tolist()
    items: dict[Any, dict[str, Any]] = {
        f"sku{i}": {"category": f"k{category}", "price": float(rng.gamma(2.0, 20.0)), "new": bool(rng.random() < 0.2)}
        for i, category in enumerate(categories)
    }
    ours, peer = lim2.Bandit(seed=0), VowpalWabbitRaw(None, seed=0)

    def play(bandit: Any, row: int) -> float:
        decision = bandit.decide(contexts[row], items)
        category, device = int(items[decision.arm]["category"][1:]), int(contexts[row]["device"][1:])
        reward = float(luck[row] < clicks[category][device])
        bandit.update(decision, reward)
        return reward

    return lambda row: play(ours, row), lambda row: play(peer, row)


class Case(NamedTuple):
    """What is played, and for how long: rounds before, rounds of a block, number of blocks."""

    make: Callable[..., tuple[Play, Play]]
    settings: dict[str, Any]
    warm: int
    block: int
    blocks: int


CASES: dict[str, Case] = {
    **{name: Case(of_vectors, {"shape": shape}, 1500, 250, 12) for name, shape in SHAPES.items()},
    **{
        f"{name}, no hidden layer": Case(of_vectors, {"shape": shape, "hidden": ()}, 1500, 250, 8)
        for name, shape in SHAPES.items()
    },
    "Dictionaries, 10 arms": Case(of_dictionaries, {"n_arms": 10}, 1500, 250, 8),
    "Dictionaries, 50 items": Case(of_items, {"count": 50}, 300, 75, 6),
    "Dictionaries, 1,000 items": Case(of_items, {"count": 1000}, 75, 15, 5),
}


def compared(case: Case) -> dict[str, float]:
    """Return medians and means of the time of a round, their ratios, and mean rewards."""
    make, settings, warm, block, blocks = case
    players = make(rounds=warm + block * blocks, **settings)
    for player in players:
        for row in range(warm):
            player(row)
    taken = np.empty((blocks, 2, block))
    rewards = np.zeros(2)
    for at in range(blocks):
        for place, player in enumerate(players):
            for step in range(block):
                start = time.process_time_ns()
                rewards[place] += player(warm + at * block + step)
                taken[at, place, step] = 1e-3 * (time.process_time_ns() - start)
    medians, means = np.median(taken, axis=2), taken.mean(axis=2)
    return {
        "median us": round(float(np.median(medians[:, 0])), 1),
        "mean us": round(float(np.median(means[:, 0])), 1),
        "vw median us": round(float(np.median(medians[:, 1])), 1),
        "vw mean us": round(float(np.median(means[:, 1])), 1),
        "ratio": round(float(np.median(medians[:, 0] / medians[:, 1])), 2),
        "mean ratio": round(float(np.median(means[:, 0] / means[:, 1])), 2),
        "reward": round(float(rewards[0]) / (blocks * block), 3),
        "vw reward": round(float(rewards[1]) / (blocks * block), 3),
    }


def longest(n_arms: int, n_features: int) -> dict[str, float]:
    """Return how long updates take from the start until refits have been under way for long."""
    rounds = 3000
    contexts, labels = world(n_arms, n_features, rounds)
    agent, taken = lim2.AdaptiveTS(n_arms, n_features, seed=0), []
    for t, (context, label) in enumerate(zip(contexts, labels.tolist(), strict=True)):
        arm = t % n_arms
        start = time.process_time_ns()
        agent.update(context, arm, float(arm == label))
        taken.append(1e-6 * (time.process_time_ns() - start))
    median, late, most = np.median(taken), np.percentile(taken, 99.9), max(taken)
    return {"median ms": round(float(median), 2), "99.9% ms": round(float(late), 2), "longest ms": round(most, 2)}


COUNTED = """
import sys
from benchmarks.round_time import CASES
case = CASES[sys.argv[1]]
play = case.make(rounds=1200, **case.settings)[0]
for row in range(int(sys.argv[2])):
    play(row)
"""


def instructions(name: str, kernels: str) -> int:
    """Return the instructions of a round under valgrind: those of 1,100 rounds minus those of 900."""
    counts = []
    for rounds in (900, 1100):
        tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        environment = {**os.environ, "LIM2_KERNELS": kernels, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            [*tool, sys.executable, "-c", COUNTED, name, str(rounds)],
            capture_output=True, text=True, check=True, env=environment,
        )  # fmt: skip
        counts.append(int(done.stderr.rpartition("Collected :")[2].split()[0]))
    return (counts[1] - counts[0]) // 200


def in_numpy(name: str) -> dict[str, float]:
    """Return what :func:`compared` does of a case in a process that uses no compiled kernels."""
    code = "import sys, json; from benchmarks.round_time import *; print(json.dumps(compared(CASES[sys.argv[1]])))"
    environment = {**os.environ, "LIM2_KERNELS": "numpy"}
    done = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, check=True, env=environment
    )
    row: dict[str, float] = json.loads(done.stdout)
    return row


def report(results: dict[str, Any]) -> str:
    """Return the tables of docs/research/speed.md."""
    two = ("ratio", "mean ratio", "NumPy ratio", "NumPy mean ratio")
    three = ("reward", "vw reward")
    rows = [
        [name, *(f"{row[key]:,.0f}" for key in ("median us", "mean us")), *(f"{row[key]:.2f}" for key in two),
         *(f"{row[key]:.3f}" for key in three)]
        for name, row in results["rounds"].items()
    ]  # fmt: skip
    head = ["", "median us", "mean us", "median / VW", "mean / VW", "median in NumPy / VW", "mean", "reward", "VW's"]
    counts = ("instructions", "NumPy instructions")
    counted = [
        [name, *(f"{row[key]:,}" for key in counts)] for name, row in results["rounds"].items() if counts[0] in row
    ]
    updates = [[name, *(f"{value:.2f}" for value in row.values())] for name, row in results["updates"].items()]
    lines = [
        f"Measured by `python -m benchmarks.round_time`, in CPU time (kernels: {results['kernels']}). A",
        "round is a decision and an update, of the default agent and of Vowpal Wabbit (VW), `--cb_explore_adf",
        "--squarecb -q`, with the making of its text. Means include refits. In NumPy: without compiled kernels.",
        "", *table(head, rows), "",
    ]  # fmt: skip
    if counted:
        lines += ["Instructions of a round, counted by valgrind:", "", *table(["", "compiled", "NumPy"], counted), ""]
    lines += ["Updates from the start until refits have been under way for long:", ""]
    return "\n".join([*lines, *table(["", "median ms", "99.9% ms", "longest ms"], updates)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--instructions", action="store_true", help="Count instructions, which takes minutes.")
    counts = parser.parse_args().instructions and shutil.which("valgrind") is not None
    rows: dict[str, dict[str, float]] = {}
    for name, case in CASES.items():
        plain = in_numpy(name)
        rows[name] = {**compared(case), "NumPy ratio": plain["ratio"], "NumPy mean ratio": plain["mean ratio"]}
        if counts and case.make is not of_items:
            rows[name] |= {"instructions": instructions(name, ""), "NumPy instructions": instructions(name, "numpy")}
        print(f"{name}: {', '.join(f'{key} {value:,}' for key, value in rows[name].items())}", flush=True)
    updates = {f"{n_arms} arms, {n_features} features": longest(n_arms, n_features) for n_arms, n_features in LARGE}
    for name, row in updates.items():
        print(f"updates of {name}: {', '.join(f'{key} {value:,}' for key, value in row.items())}")
    RESULTS.write_text(json.dumps({"kernels": DESCRIPTION, "rounds": rows, "updates": updates}, indent=1) + "\n")


if __name__ == "__main__":
    main()
