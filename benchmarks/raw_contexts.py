"""`python -m benchmarks.raw_contexts`: what keys that mean nothing cost, and what a repeated user id earns.

A shop shows one of four banners to visitors who click in 2 to 6% of the visits. Its JSON is played as it is, and with
one more key: a session id that never repeats, the time of the visit, the number of the visit, or the id of the user,
who has a favourite banner of his own. Rewards are known at once, or late: a click after 1 to 60 visits, that there was
none after 360. The table has the expected clicks relative to the same shop without the key.
"""

import argparse
import heapq
import math
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lim2

AGENTS: dict[str, dict[str, Any]] = {
    "AdaptiveTS": {},
    "AdaptiveTS(change_threshold=inf)": {"algorithm": "AdaptiveTS", "change_threshold": math.inf},
    "AdaptiveTS linear": {"algorithm": "AdaptiveTS", "hidden": ()},
}
KEYS = ("session", "at", "visit", "user")
START = datetime(2026, 11, 2, tzinfo=UTC)
COUNTRIES, SOURCES = ("AT", "DE", "CH"), (None, "google", "newsletter", "instagram")
USERS = 100


class Shop(NamedTuple):
    """All visits of a run, with all four keys; the user decides about clicks in one shop only."""

    visits: list[dict[str, Any]]
    means: NDArray[np.float64]  # (rounds, banners)
    rewards: NDArray[np.float64]
    delays: NDArray[np.int64]


def shop(seed: int, rounds: int, loyal: bool) -> Shop:
    """Return the visits of a seed; `loyal`: users have favourites of their own."""
    rng = np.random.default_rng([33, seed])
    visits, scores = [], []
    favourites = rng.integers(4, size=USERS)
    for t in range(rounds):
        country, source, user = rng.choice(3, p=[0.3, 0.5, 0.2]), rng.integers(4), rng.integers(USERS)
        phone, back, age = rng.random() < 0.65, rng.random() < 0.3, int(rng.integers(18, 80))
        count, total = int(rng.poisson(1.0)), round(float(rng.exponential(40)), 2)
        visits.append(
            {
                "session": f"{rng.integers(2**62):016x}",
                "at": (START + timedelta(minutes=4 * t)).isoformat(),
                "visit": 1_000_000 + t,
                "user": f"u{user}",
                "country": COUNTRIES[country],
                "device": "phone" if phone else "laptop",
                "age": age,
                "returning": bool(back),
                "basket": {"items": count, "total": total},
                "referrer": SOURCES[source],
            }
        )
        score = np.array(
            [
                0.9 * (age < 35) + 0.3 * phone,
                0.8 * (country == 1) + 0.3 * (source == 3),
                0.9 * (age >= 60),
                1.1 * back - 0.4 * (not back) + 0.2 * min(count, 3),
            ]
        )
        if loyal:
            score[favourites[user]] += 2.0
        scores.append(score)
    means = 1.0 / (1.0 + np.exp(3.75 - np.array(scores)))
    rewards = (rng.random(means.shape) < means).astype(float)
    delays = np.where(rewards > 0, rng.integers(1, 61, means.shape), 360)
    return Shop(visits, means, rewards, delays)


def earned(agent: str, keys: tuple[str, ...], seed: int, rounds: int, late: bool, loyal: bool) -> float:
    """Return the expected clicks of one run, in which contexts have these of the four keys."""
    visits, means, rewards, delays = shop(seed, rounds, loyal)
    bandit = lim2.Bandit(arms=range(4), seed=seed, **AGENTS[agent])
    hidden = [key for key in KEYS if key not in keys]
    waiting: list[tuple[int, int, Any]] = []
    total = 0.0
    for t, visit in enumerate(visits):
        decision = bandit.decide({key: value for key, value in visit.items() if key not in hidden})
        total += means[t, decision.arm]
        heapq.heappush(waiting, (t + int(delays[t, decision.arm]) * late, t, decision))
        while waiting and waiting[0][0] <= t:
            _, then, known = heapq.heappop(waiting)
            bandit.update(known, float(rewards[then, known.arm]))
    return total


def possible(seed: int, rounds: int, loyal: bool) -> tuple[float, float]:
    """Return the expected clicks of random and of perfect play."""
    means = shop(seed, rounds, loyal).means
    return float(means.mean(axis=1).sum()), float(means.max(axis=1).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", default=";".join(list(AGENTS)[1:]), help="separated by ';'")
    parser.add_argument("--keys", default=",".join(KEYS))
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    seeds, rounds = range(options.first, options.first + options.seeds), options.rounds
    print("| agent | rewards | key | clicks with / without | lowest | lift without | with |")
    print("|:--|:--|:--|--:|--:|--:|--:|")
    with ProcessPoolExecutor(options.processes) as pool:
        cells = [
            (agent, late, key, key == "user")
            for agent in options.agents.split(";")
            for late in (False, True)
            for key in options.keys.split(",")
        ]
        runs: dict[Any, Any] = {}
        for agent, late, key, loyal in cells:
            for keys in ((), (key,)):
                if (agent, late, keys, loyal) not in runs:
                    jobs = [pool.submit(earned, agent, keys, seed, rounds, late, loyal) for seed in seeds]
                    runs[agent, late, keys, loyal] = jobs
        bounds = {loyal: np.array([possible(seed, rounds, loyal) for seed in seeds]).T for loyal in (False, True)}
        for agent, late, key, loyal in cells:
            without, having = (
                np.array([job.result() for job in runs[agent, late, keys, loyal]]) for keys in ((), (key,))
            )
            ratios, (low, high) = having / without, bounds[loyal]
            lifts = [((clicks - low) / (high - low)).mean() for clicks in (without, having)]
            error = ratios.std(ddof=1) / math.sqrt(len(ratios)) if len(ratios) > 1 else math.nan
            print(
                f"| {agent} | {'late' if late else 'prompt'} | {key} | {ratios.mean():.3f} ± {error:.3f} | "
                f"{ratios.min():.3f} | {lifts[0]:.2f} | {lifts[1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
