"""`python -m benchmarks.shop`: what `lim2.Bandit` earns from a shop's raw JSON, beside columns encoded by hand.

A country, a device, a category, a time and a price in cents, some of them missing; four arms, clicks. The columns by
hand are one-hot, circles of hour and weekday, and a price scaled by its true mean and deviation; AdaptiveTS plays
them. Both play the same rounds. The first figure is what raw contexts earn as a share of what columns by hand earn,
paired by seed. The second is what another unit of the price costs: earnings with prices times each of
`--price-scale`, as a share of those with prices in cents, 100.
"""

import argparse
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lim2
from lim2.encoding import Encoder
from lim2.experiments.report.markdown import table

Array = NDArray[np.float64]

DEVICES = ("ios", "android", "desktop", "tablet")
START = datetime(2026, 1, 1, tzinfo=UTC)
N_ARMS = 4
CENTS = 100.0


class Shop(NamedTuple):
    """Rounds of a shop: raw contexts, the same by hand, and each arm's chance of a click and click."""

    raw: list[dict[str, Any]]
    by_hand: Array
    chances: Array
    clicks: Array


def shop(rounds: int, seed: int, price_scale: float, n_countries: int, n_categories: int) -> Shop:
    """Make a shop; ``price_scale`` is what prices, of about 30, are multiplied by in raw contexts."""
    rng = np.random.default_rng(seed)
    country, device, category = (rng.integers(0, n, rounds) for n in (n_countries, len(DEVICES), n_categories))
    no_device, no_price = rng.random(rounds) < 0.1, rng.random(rounds) < 0.15
    log_price = rng.normal(3.0, 0.7, rounds)
    price = np.exp(log_price)
    at = [START + timedelta(seconds=600.0 * t + float(rng.uniform(0, 300))) for t in range(rounds)]
    hours = 2 * np.pi * np.array([t.hour * 3600 + t.minute * 60 + t.second for t in at]) / 86400
    days = 2 * np.pi * np.array([t.weekday() for t in at]) / 7
    scaled = np.where(no_price, 0.0, (price - price.mean()) / price.std())
    by_hand = np.column_stack(
        (
            np.eye(n_countries)[country],
            np.eye(len(DEVICES) + 1)[np.where(no_device, len(DEVICES), device)],
            np.eye(n_categories)[category],
            np.column_stack((np.sin(hours), np.cos(hours), np.sin(days), np.cos(days), scaled, no_price)),
        )
    )
    effects = rng.normal(size=(N_ARMS, by_hand.shape[1])) * 0.8
    chances = 1.0 / (1.0 + np.exp(1.5 - by_hand @ effects.T))
    clicks = (rng.random((rounds, N_ARMS)) < chances).astype(float)
    raw = []
    for t in range(rounds):
        context: dict[str, Any] = {
            "customer": {"country": f"country {country[t]}"},
            "category": f"category {category[t]}",
            "device": None if no_device[t] else DEVICES[device[t]],
            "at": at[t].isoformat(),
        }
        if not no_price[t]:
            context["price"] = round(float(price[t]), 2) * price_scale
        raw.append(context)
    return Shop(raw, by_hand, chances, clicks)


def earned_by_hand(world: Shop, seed: int) -> float:
    """Return the mean chance of a click of the arms that an agent plays with columns by hand."""
    agent = lim2.AdaptiveTS(n_arms=N_ARMS, n_features=world.by_hand.shape[1], seed=seed)
    total = 0.0
    for t, x in enumerate(world.by_hand):
        arm = agent.act(x)
        total += world.chances[t, arm]
        agent.update(x, arm, world.clicks[t, arm])
    return total / len(world.by_hand)


def earned_raw(world: Shop, seed: int, encoder: Encoder) -> float:
    """Return the mean chance of a click of the arms that a bandit plays from raw contexts."""
    bandit = lim2.Bandit(arms=range(N_ARMS), encoder=encoder, seed=seed)
    total = 0.0
    for t, raw in enumerate(world.raw):
        decision = bandit.decide(raw)
        total += world.chances[t, decision.arm]
        bandit.update(decision, world.clicks[t, decision.arm])
    return total / len(world.raw)


def report(record: dict[str, Any]) -> str:
    """Return what raw contexts earn as a table in Markdown; the first row is of prices in cents."""
    rows = []
    for scale, raw in zip(record["scales"], record["raw"], strict=True):
        of_hand, of_cents = np.divide(raw, record["by_hand"]), np.divide(raw, record["raw"][0])
        rows.append(
            [f"{scale:g}", *(f"{x:.4f}" for x in (of_hand.mean(), of_hand.min(), of_cents.mean(), of_cents.min()))]
        )
    head = ["factor on prices", "relative to hand-made columns", "lowest run", "relative to cents", "lowest run"]
    first, runs = record["seed"], len(record["by_hand"])
    return "\n".join([*table(head, rows), "", f"{record['rounds']:,} rounds, seeds {first} to {first + runs - 1}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--price-scale", type=float, nargs="*", default=[1e-6, 1e-3, 1e3, 1e6, 1e9])
    parser.add_argument("--numbers", type=int, default=Encoder().numbers)
    parser.add_argument("--buckets", type=int, default=Encoder().buckets)
    parser.add_argument("--hashes", type=int, default=Encoder().hashes)
    parser.add_argument("--countries", type=int, default=8)
    parser.add_argument("--categories", type=int, default=12)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file, too")
    arguments = parser.parse_args()
    scales = [CENTS, *arguments.price_scale]
    hand: list[float] = []
    raw: list[list[float]] = [[] for _ in scales]
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        encoder = Encoder(numbers=arguments.numbers, buckets=arguments.buckets, hashes=arguments.hashes, seed=seed)
        for scale, earned in zip(scales, raw, strict=True):
            world = shop(arguments.rounds, seed, scale, arguments.countries, arguments.categories)
            if scale == CENTS:
                hand.append(earned_by_hand(world, seed))
                best, chance = world.chances.max(axis=1).mean(), world.chances.mean()
                print(f"seed {seed}: random {chance:.4f}, by hand {hand[-1]:.4f}, best {best:.4f}", flush=True)
            earned.append(earned_raw(world, seed, encoder))
            print(f"  prices x {scale:g}: raw {earned[-1]:.4f}", flush=True)
    record = {"rounds": arguments.rounds, "seed": arguments.seed, "scales": scales, "by_hand": hand, "raw": raw}
    print(f"\n{report(record)}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
