"""`python -m benchmarks.serve`: what a rank costs the service, and how long it takes while the service learns.

A bounded load on 127.0.0.1: ranks of 10 actions with features, by Personalizer's protocol, with a log that commits in
groups, against a service in a process of its own. Beside it runs `benchmarks.bare`, an endpoint that only decodes and
encodes the same JSON. The machine need not be quiet: many short blocks of one and of the other take turns, and a ratio
is the median of the ratios of neighbours. CPU time is that of the server's processes, with the one that learns.
Latencies are those of requests that come at a steady rate, from when they were due.
Blocks in which every rank gets a reward, which is learned meanwhile, take turns with blocks without.
"""

import argparse
import asyncio
import functools
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.bare import PATH
from benchmarks.load import Served, closed_loop, open_loop, post
from benchmarks.passages import write_passage
from benchmarks.processes import children, cpu_of
from lim2.experiments.report.markdown import table

KEY = "a-key-for-the-benchmark"
ROOT = Path(__file__).parent.parent
PAGE, MARKER = ROOT / "docs" / "service" / "run.md", "load"
ACTIONS, DISTINCT = 10, 400
CONNECTIONS = (1, 16, 64)
LEARNED = 1000  # rewards before anything is measured
LOAD = 0.25  # of the service's throughput, at which latencies are measured
PAUSE = 0.5  # seconds after which what a block has left behind is learned

Then = Callable[[bytes], bytes]


class Server:
    """A server in a process of its own, and the CPU time that it takes."""

    def __init__(self, *command: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2])
        while not self._listens():
            if self.process.poll() is not None:
                raise RuntimeError(f"{command} has ended before it was ready")
            time.sleep(0.05)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1.0).close()
        except OSError:
            return False
        return True

    def cpu(self) -> float:
        """Return the CPU seconds so far, with those of the process that learns beside it."""
        return sum(map(cpu_of, (self.process.pid, *children(self.process.pid))))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=60)


def bodies(rng: np.random.Generator) -> list[bytes]:
    """Return requests of a shop: who is there, and ten things to show."""

    def action(number: int) -> dict[str, Any]:
        tags = [f"tag {tag}" for tag in rng.integers(0, 20, 2)]
        return {
            "id": f"sku{number}",
            "features": [
                {"category": f"category {rng.integers(10)}", "price": round(rng.uniform(1, 100), 2), "tags": tags},
                {"stock": int(rng.integers(100)), "new": bool(rng.random() < 0.2)},
            ],
        }

    def request() -> dict[str, Any]:
        who = {"country": f"country {rng.integers(8)}", "age": int(rng.integers(18, 80)), "returning": True}
        basket = {"items": int(rng.integers(6)), "total": round(rng.uniform(0, 300), 2)}
        numbers = rng.choice(1000, ACTIONS, replace=False)
        return {"contextFeatures": [who, {"basket": basket}], "actions": [action(int(one)) for one in numbers]}

    return [json.dumps(request()).encode() for _ in range(DISTINCT)]


def rewarded(rng: np.random.Generator, body: bytes) -> bytes:
    """Return the request that rewards a rank."""
    event = json.loads(body)["eventId"]
    return post(f"/personalizer/v1.0/events/{event}/reward", b'{"value": %d}' % (rng.random() < 0.3), KEY)


def good(served: list[Served]) -> list[Served]:
    """Return answers, all of which must be those of a rank."""
    statuses = {one.status for one in served}
    if statuses != {201}:
        raise RuntimeError(f"the server answered {sorted(statuses)}, expected 201 only")
    return served


def block(server: Server, messages: Iterator[bytes], requests: int, connections: int) -> tuple[float, float]:
    """Return the CPU seconds of a rank, and the ranks per second."""
    before, began = server.cpu(), time.perf_counter()
    good(asyncio.run(closed_loop(server.port, messages, requests, connections)))
    return (server.cpu() - before) / requests, requests / (time.perf_counter() - began)


def p99(server: Server, messages: Iterator[bytes], requests: int, rate: float, then: Then | None) -> float:
    """Return the 99th percentile of the latency of ranks that come at a rate."""
    served = good(asyncio.run(open_loop(server.port, messages, requests, rate, then)))
    time.sleep(PAUSE)
    return float(np.percentile([one.seconds for one in served], 99))


def in_turn(blocks: int, first: Callable[[], Any], second: Callable[[], Any]) -> tuple[list[Any], list[Any]]:
    """Return the results of blocks that take turns; every other time the second one comes first."""
    found: tuple[list[Any], list[Any]] = [], []
    for number in range(blocks):
        for which in (0, 1) if number % 2 else (1, 0):
            found[which].append((first, second)[which]())
    return found


def measured(service: Server, bare: Server, blocks: int, requests: int) -> dict[str, Any]:
    """Return all figures."""
    rng, load = np.random.default_rng(0), os.getloadavg()[0]
    messages = itertools.cycle([post(PATH, body, KEY) for body in bodies(rng)])
    reward = lambda body: rewarded(rng, body)  # noqa: E731
    asyncio.run(open_loop(service.port, messages, LEARNED, 200.0, reward))
    time.sleep(PAUSE)
    ours, theirs, speeds = ({n: np.empty(blocks) for n in CONNECTIONS} for _ in range(3))
    for n in CONNECTIONS:
        own, other = in_turn(
            blocks,
            functools.partial(block, service, messages, requests, n),
            functools.partial(block, bare, messages, 3 * requests, n),
        )
        (ours[n], speeds[n]), theirs[n] = np.transpose(own), np.transpose(other)[0]
    rate = LOAD * float(np.median(speeds[16]))
    count = max(3 * requests, 100)
    quiet, learning = in_turn(
        blocks,
        functools.partial(p99, service, messages, count, rate, None),
        functools.partial(p99, service, messages, count, rate, reward),
    )
    return {
        "CPU of a rank / of the bare endpoint": {plural(n): spread(ours[n] / theirs[n]) for n in CONNECTIONS},
        "CPU of a rank, ms": {plural(n): spread(1e3 * ours[n]) for n in CONNECTIONS},
        "p99 while learning / without": spread(np.divide(learning, quiet)),
        "p99 without learning, ms": spread(1e3 * np.array(quiet)),
        "p99 while learning, ms": spread(1e3 * np.array(learning)),
        "ranks per second at which p99 was measured": round(rate, 1),
        "decisions per second": {plural(n): spread(speeds[n]) for n in CONNECTIONS},
        "load average of the machine before": round(load, 1),
        "load average of the machine after": round(os.getloadavg()[0], 1),
    }


def spread(values: Any) -> dict[str, float]:
    """Return the median and the quartiles."""
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {"median": round(float(middle), 2), "low": round(float(low), 2), "high": round(float(high), 2)}


def plural(n: int) -> str:
    """Return how many connections."""
    return f"{n} connection{'s' * (n > 1)}"


def report(figures: dict[str, Any]) -> str:
    """Return the figures as a table."""
    rows = []
    for name, found in figures.items():
        if not isinstance(found, dict):
            rows.append([name, f"{found:g}", ""])
        else:
            parts = {"": found} if "median" in found else found
            for part, own in parts.items():
                label = f"{name}, {part}" if part else name
                rows.append([label, f"{own['median']:g}", f"{own['low']:g} to {own['high']:g}"])
    return "\n".join(table(["", "median", "middle half of the blocks"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=21, help="pairs of each kind")
    parser.add_argument("--requests", type=int, default=120, help="per block")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "serve.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = {"LIM2_API_KEY": KEY, "LIM2_PORT": "0", "LIM2_SERVE_DATA": f"{folder}/data"}
        with Server("lim2", "serve", **own) as service, Server("benchmarks.bare") as bare:
            figures = measured(service, bare, arguments.blocks, arguments.requests)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    write_passage(PAGE, MARKER, report(figures))


if __name__ == "__main__":
    main()
