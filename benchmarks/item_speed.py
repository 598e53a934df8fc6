"""`python -m benchmarks.item_speed`: what a decision among 5, 20 and 50 items takes, with exact propensities.

AdaptiveTS as it is by default, with vectors of two shapes, and with raw dictionaries through `lim2.Bandit`; and what
Vowpal Wabbit's `--cb_explore_adf --squarecb -q` takes to predict on the same items: from text, as lim2's vectors become
its input, and from examples parsed beforehand, which is its arithmetic alone. CPU time, since machines are shared:
medians of blocks that take turns in one process; ratios are medians of the ratios of blocks of one turn.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import lim2
from benchmarks.timing import median_ratio, side_by_side
from lim2.experiments.peers import VowpalWabbitItems
from lim2.experiments.report.markdown import table

SHAPES = ((24, 20), (4, 18))  # of MovieLens and of the problem catalogue
COUNTS = (5, 20, 50)
CATEGORIES = ("bags", "books", "food", "games", "garden", "jewels", "music", "shoes", "toys", "watches")

Call = Callable[[], object]


def of_vectors(n_features: int, n_item_features: int, learned: int) -> dict[str, dict[int, Call]]:
    """Return what decides by vectors, by the number of items."""
    rng = np.random.default_rng(0)
    agent = lim2.AdaptiveTS(n_features=n_features, n_item_features=n_item_features, seed=0)
    peer = VowpalWabbitItems(n_features, n_item_features, seed=0)
    form = rng.normal(size=(n_features, n_item_features)) / np.sqrt(n_features * n_item_features)
    for _ in range(learned):
        user, items = rng.normal(size=n_features), rng.normal(size=(20, n_item_features))
        for player in (agent, peer):
            row = player.act(user, items)
            player.update(user, items[row], float(user @ form @ items[row] + rng.normal() > 0))
    user, most = rng.normal(size=n_features), rng.normal(size=(max(COUNTS), n_item_features))
    parsed = {k: peer._vw.parse(peer._lines(user, most[:k])) for k in COUNTS}
    shape = f"{n_features}/{n_item_features}"
    return {
        f"AdaptiveTS, vectors {shape}": {k: partial(agent.decide, user, most[:k]) for k in COUNTS},
        f"vw:adf-squarecb, vectors {shape}": {k: partial(peer.act, user, most[:k]) for k in COUNTS},
        f"vw:adf-squarecb, parsed {shape}": {k: partial(peer._vw.predict, parsed[k]) for k in COUNTS},
    }


def of_raw(learned: int) -> dict[str, dict[int, Call]]:
    """Return what decides by dictionaries, by the number of items."""
    rng = np.random.default_rng(0)

    def user() -> dict[str, Any]:
        age, basket = rng.normal(40, 10), rng.normal(60, 18)
        return {"country": "AT", "age": age, "device": "ios", "basket": basket, "at": "2026-11-16T10:00:00Z"}

    def items(k: int) -> dict[str, dict[str, Any]]:
        return {
            f"sku{i}": {
                "price": float(rng.uniform(1, 100)),
                "category": CATEGORIES[rng.integers(len(CATEGORIES))],
                "tags": [f"tag {tag}" for tag in rng.integers(0, 20, 2)],
                "embedding": rng.normal(size=8).tolist(),
            }
            for i in range(k)
        }

    bandit = lim2.Bandit(seed=0)
    for _ in range(learned):
        decision = bandit.decide(user(), items(20))
        bandit.update(decision, float(rng.random() < 0.3))
    now, most = user(), items(max(COUNTS))
    offers = {k: dict(list(most.items())[:k]) for k in COUNTS}
    return {"Bandit, raw": {k: partial(bandit.decide, now, offers[k]) for k in COUNTS}}


def report(figures: dict[str, dict[str, float]]) -> str:
    """Return the times as a table in Markdown."""
    rows = [[name, *(f"{value:,.1f}" for value in values.values())] for name, values in figures.items()]
    return "\n".join(table(["time of a decision", *next(iter(figures.values()))], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--repeat", type=int, default=50)
    parser.add_argument("--learned", type=int, default=1000, help="rewards learned before")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    deciders = {name: calls for shape in SHAPES for name, calls in of_vectors(*shape, arguments.learned).items()}
    deciders |= of_raw(arguments.learned)
    calls = [(call, arguments.repeat) for by_count in deciders.values() for call in by_count.values()]
    side_by_side(calls, 1)  # warm
    times = iter(side_by_side(calls, arguments.blocks, time.process_time))
    figures: dict[str, dict[str, float]] = {}
    for name in deciders:
        blocks = {k: next(times) for k in COUNTS}
        figures[name] = {f"{k} items, us": round(1e6 * float(np.median(blocks[k])), 1) for k in COUNTS}
        figures[name]["fastest block of 50, us"] = round(1e6 * min(blocks[COUNTS[-1]]), 1)
        figures[name]["50 / 5 items"] = round(median_ratio(blocks[COUNTS[-1]], blocks[COUNTS[0]]), 2)
    print(report(figures))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
