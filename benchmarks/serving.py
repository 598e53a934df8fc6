"""`python -m benchmarks.serving`: what a snapshot and a save cost, and how fast threads decide while another learns.

On the shape of Statlog (7 arms, 9 features), made-up data. Ratios of what ran next to each other.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import lim2
from benchmarks.timing import Player, classification_world, median_ratio, seconds_of, side_by_side


def costs(name: str, blocks: int) -> str:
    """Measure snapshot and save next to a round."""
    world = classification_world(9, 7)
    agent = lim2.AGENTS[name](7, 9, seed=0)
    player = Player(agent, world, warm_up=800)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.lim2"
        calls: list[Any] = [(player, 100), (agent.snapshot, 100), (lambda: agent.save(path), 3)]
        rounds, snapshots, saves = side_by_side(calls, blocks)
        size = path.stat().st_size
    return (
        f"{name}: a round {1e6 * float(np.median(rounds)):.0f} us, "
        f"a snapshot {1e6 * float(np.median(snapshots)):.0f} us "
        f"({median_ratio(snapshots, rounds):.1%} of a round), a save {1e3 * float(np.median(saves)):.1f} ms "
        f"of {size / 1000:.0f} kB"
    )


def latencies(name: str, seconds: float, writes: bool) -> list[float]:
    """Return how long each ``act`` of one reader took, in us, with or without a writer that never rests."""
    world = classification_world(9, 7)
    agent = lim2.AGENTS[name](7, 9, seed=0)
    player = Player(agent, world, warm_up=200)
    published = [agent.snapshot()]
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            player()
            published[0] = agent.snapshot()

    writer = threading.Thread(target=write)
    if writes:
        writer.start()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        context = world.contexts[len(times) % len(world.contexts)]
        snapshot = published[0]
        times.append(1e6 * seconds_of(lambda: snapshot.act(context), 1))  # noqa: B023
        time.sleep(0.001)  # requests come one by one
    done.set()
    if writes:
        writer.join()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", default="LinearTS,LiM2")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    for name in arguments.agents.split(","):
        print(costs(name, arguments.blocks))
        for writes in (False, True):
            times = latencies(name, arguments.seconds, writes)
            middle, high = np.percentile(times, [50, 99])
            when = "while another thread learns" if writes else "alone"
            print(f"  act on a snapshot {when}: median {middle:.0f} us, 99% within {high:.0f} us ({len(times)} acts)")


if __name__ == "__main__":
    main()
