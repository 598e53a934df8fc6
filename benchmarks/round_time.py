"""`python -m benchmarks.round_time`: AdaptiveTS next to Vowpal Wabbit, and its longest update with 100 arms.

Both play the same made-up rounds, of Statlog's and of Covertype's shape, in blocks that alternate in one process. What
is compared is CPU time: medians of the ratios of neighbouring blocks. Then 100 arms with 9 features are played until
the buffer is full and refits are under way, and the longest update is reported. Writes
benchmarks/results/round_time.json.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.experiments.peers import VowpalWabbit

SHAPES = {"Statlog's shape": (7, 9), "Covertype's shape": (7, 54)}
BLOCKS, BLOCK, WARM = 20, 250, 1500


def world(n_arms: int, n_features: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    rng = np.random.default_rng(0)
    shares = 0.5 ** np.arange(1, n_arms + 1) + 0.02
    labels = rng.choice(n_arms, size=rows, p=shares / shares.sum())
    centres = rng.normal(size=(n_arms, n_features))
    return centres[labels] + 0.7 * rng.normal(size=(rows, n_features)), labels


def play(agent: Any, contexts: NDArray[np.float64], labels: NDArray[np.intp]) -> float:
    """Return the CPU microseconds per round of act and update."""
    start = time.process_time()
    for context, label in zip(contexts, labels.tolist(), strict=True):
        arm = agent.act(context)
        agent.update(context, arm, float(arm == label))
    return 1e6 * (time.process_time() - start) / len(contexts)


def compared(n_arms: int, n_features: int) -> dict[str, float]:
    contexts, labels = world(n_arms, n_features, WARM + BLOCKS * BLOCK)
    ours = lim2.AdaptiveTS(n_arms, n_features, seed=0)
    peer = VowpalWabbit(n_arms, n_features, algorithm="squarecb", action_features=True, seed=0)
    times = []
    for agent in (ours, peer):
        play(agent, contexts[:WARM], labels[:WARM])
    for block in range(BLOCKS):
        rows = slice(WARM + block * BLOCK, WARM + (block + 1) * BLOCK)
        times.append([play(agent, contexts[rows], labels[rows]) for agent in (ours, peer)])
    values = np.array(times)
    ratio = float(np.median(values[:, 0] / values[:, 1]))
    mine, others = np.median(values, axis=0)
    return {"AdaptiveTS us": round(mine, 1), "vw:adf-squarecb us": round(others, 1), "ratio": round(ratio, 2)}


def longest(n_arms: int = 100, n_features: int = 9, rounds: int = 13_000) -> dict[str, float]:
    contexts, labels = world(n_arms, n_features, rounds)
    agent, taken = lim2.AdaptiveTS(n_arms, n_features, seed=0), []
    for t, (context, label) in enumerate(zip(contexts, labels.tolist(), strict=True)):
        arm = t % n_arms
        start = time.process_time()
        agent.update(context, arm, float(arm == label))
        taken.append(1e3 * (time.process_time() - start))
    median, late, most = np.median(taken), np.percentile(taken, 99.9), max(taken)
    return {"median ms": round(float(median), 2), "99.9% ms": round(float(late), 2), "longest ms": round(most, 2)}


def main() -> None:
    results: dict[str, dict[str, float]] = {label: compared(*shape) for label, shape in SHAPES.items()}
    results["updates of 100 arms, 9 features"] = longest()
    for label, row in results.items():
        print(f"{label}: {', '.join(f'{name} {value:,}' for name, value in row.items())}")
    (Path(__file__).parent / "results" / "round_time.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
