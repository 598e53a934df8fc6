"""What the decision log costs: microseconds per call, beside the agent's own.

python -m benchmarks.log [rounds]
"""

import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import lim2
from lim2.log import raw


def timed(call: Callable[[int], object], times: int) -> float:
    """Return the median of microseconds."""
    seconds = []
    for number in range(times):
        start = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - start)
    return 1e6 * median(seconds)


def costs(synchronous: str, rounds: int) -> dict[str, float]:
    """Return what each call costs."""
    contexts = np.random.default_rng(0).normal(size=(rounds, 20))
    agent = lim2.LinearTS(n_arms=10, n_features=20, seed=0)
    with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/l", synchronous=synchronous) as log:
        ids: list[str] = []
        found = {
            "agent.decide": timed(lambda i: agent.decide(contexts[i]), rounds),
            "log.decide": timed(lambda i: ids.append(log.decide(agent, contexts[i]).id), rounds),
            "log.reward": timed(lambda i: log.reward(ids[i], 1.0), rounds // 2),
        }
        rest = [(key, 1.0) for key in ids[rounds // 2 :]]
        found["log.reward_many, per reward"] = timed(lambda _: log.reward_many(rest), 1) / len(rest)
        found["log.apply, per reward"] = timed(lambda _: log.apply(agent), 1) / rounds
        found["agent.update"] = timed(lambda i: agent.update(contexts[i], 0, 1.0), rounds)
        found["bytes of file, per decision"] = log.state.nbytes / rounds
    return found | raw_costs(synchronous, rounds)


def raw_costs(synchronous: str, rounds: int, k: int = 20) -> dict[str, float]:
    """Return what a decision among k items with raw features costs, without the agent's part."""
    items, p = raw_items(k), np.full(k, 1 / k)
    decision = lim2.Decision("sku0", 1 / k, tuple(items), p, p, p)
    user = {"country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "at": "2026-11-16T10:00:00Z"}
    with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/l", synchronous=synchronous) as log:
        cost = timed(lambda _: log.record(decision, raw=user, raw_items=items), rounds)
        return {f"log.record, {k} raw items": cost, "bytes of file, per such decision": log.state.nbytes / rounds}


def raw_items(k: int) -> dict[str, dict[str, Any]]:
    """Return a catalogue of k items with five features."""
    rng = np.random.default_rng(0)
    kinds, tags = ["shoes", "shirts", "bags", "hats"], ["new", "red", "sale", "blue"]
    return {
        f"sku{i}": {
            "price": round(float(rng.uniform(1, 200)), 2),
            "category": str(rng.choice(kinds)),
            "tags": rng.choice(tags, 2, replace=False).tolist(),
            "stock": int(rng.integers(100)),
            "brand": f"brand{rng.integers(50)}",
        }
        for i in range(k)
    }


def compression(k: int) -> str:
    """Return bytes and microseconds of k candidates: as they are, and compressed."""
    rng = np.random.default_rng(0)
    items = list(raw_items(k).values())
    forms = {
        "JSON": raw.dumps(items),
        "one-hot": np.eye(20)[rng.integers(20, size=k)].tobytes(),
        "normal": rng.normal(size=(k, 20)).tobytes(),
    }
    lines = []
    for name, plain in forms.items():
        line = f"{k:>4} items, {name:<8}{len(plain):>8} bytes"
        for level in (1, 6):
            took = timed(lambda _, level=level, plain=plain: zlib.compress(plain, level), 50)  # type: ignore[misc]
            line += f"   level {level}: {len(zlib.compress(plain, level)):>6} bytes, {took:>5.0f} us"
        lines.append(line)
    return "\n".join(lines)


def main(rounds: int) -> None:
    full, normal = costs("full", rounds), costs("normal", rounds)
    print(f"{'us, median of ' + str(rounds):<34}{'full':>8}{'normal':>8}")
    for name, cost in full.items():
        print(f"{name:<34}{cost:>8.0f}{normal[name]:>8.0f}")
    print(compression(20), compression(500), sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
