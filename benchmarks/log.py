"""What the decision log costs: microseconds per call, beside the agent's own.

python -m benchmarks.log [rounds]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import lim2


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
    rng = np.random.default_rng(0)
    kinds, p = ["shoes", "shirts", "bags"], np.full(k, 1 / k)
    items = {
        f"sku{i}": {"price": round(float(rng.gamma(2, 30)), 2), "category": kinds[i % 3], "stock": i} for i in range(k)
    }
    decision = lim2.Decision("sku0", 1 / k, tuple(items), p, p, p)
    user = {"country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "at": "2026-11-16T10:00:00Z"}
    with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/l", synchronous=synchronous) as log:
        cost = timed(lambda _: log.record(decision, raw=user, raw_items=items), rounds)
        return {f"log.record, {k} raw items": cost, "bytes of file, per such decision": log.state.nbytes / rounds}


def main(rounds: int) -> None:
    full, normal = costs("full", rounds), costs("normal", rounds)
    print(f"{'us, median of ' + str(rounds):<34}{'full':>8}{'normal':>8}")
    for name, cost in full.items():
        print(f"{name:<34}{cost:>8.0f}{normal[name]:>8.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
