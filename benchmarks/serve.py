"""`python -m benchmarks.serve`: what a rank costs the service, and how long it takes while the service learns.

A bounded load on 127.0.0.1: ranks of 10 actions with features, by Personalizer's protocol, with a log that commits in
groups, against a service in a process of its own. Beside it runs `benchmarks.bare`, an endpoint that only decodes and
encodes the same JSON. CPU time is that of the server's process. Blocks take turns; ratios are medians of the ratios of
blocks that ran next to each other. Latencies are those of requests that come at a steady rate, from when they were due.
"""

import argparse
import asyncio
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.bare import PATH
from benchmarks.load import Served, closed_loop, open_loop, post
from lim2.experiments.report.markdown import table

KEY = "a-key-for-the-benchmark"
ROOT = Path(__file__).parent.parent
PAGE, MARKER = ROOT / "docs" / "serve.md", "load"
ACTIONS, DISTINCT = 10, 400
CONNECTIONS = (1, 16, 64)
LOAD = 0.3  # of the service's throughput, at which latencies are measured
TURNS = 6  # in which the ways of a block alternate
TICK = os.sysconf("SC_CLK_TCK")

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
        """Return the CPU seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

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


def p99s(
    server: Server, messages: Iterator[bytes], requests: int, rate: float, ways: Sequence[Then | None]
) -> list[float]:
    """Return the 99th percentile of the latency of ranks, for each of several ways to go on after one.

    They take turns of a few seconds, so that all of them meet the same neighbours on the machine.
    """
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(TURNS):
        for found, then in zip(seconds, ways, strict=True):
            served = good(asyncio.run(open_loop(server.port, messages, 2 * requests // TURNS, rate, then)))
            found += [one.seconds for one in served]
    return [float(np.percentile(found, 99)) for found in seconds]


def measured(service: Server, bare: Server, blocks: int, requests: int) -> dict[str, Any]:
    """Return all figures."""
    rng = np.random.default_rng(0)
    messages = itertools.cycle([post(PATH, body, KEY) for body in bodies(rng)])
    reward = lambda body: rewarded(rng, body)  # noqa: E731
    asyncio.run(open_loop(service.port, messages, requests, 200.0, reward))  # a model that has learned
    ours, theirs, speeds = ({n: list[float]() for n in CONNECTIONS} for _ in range(3))
    for _ in range(blocks):
        for n in CONNECTIONS:
            k = requests if n > 1 else requests // 4  # alone, each waits for the disk
            cpu, speed = block(service, messages, k, n)
            ours[n].append(cpu)
            speeds[n].append(speed)
            theirs[n].append(block(bare, messages, 2 * requests, n)[0])
    rate = LOAD * float(np.median(speeds[16]))
    quiet, learning = [], []
    for _ in range(blocks):
        without, beside = p99s(service, messages, requests, rate, [None, reward])
        quiet.append(without)
        learning.append(beside)
    return {
        "CPU of a rank / of the bare endpoint": {plural(n): spread(np.divide(ours[n], theirs[n])) for n in CONNECTIONS},
        "CPU of a rank, ms": {plural(n): spread(1e3 * np.array(ours[n])) for n in CONNECTIONS},
        "p99 while learning / without": spread(np.divide(learning, quiet)),
        "p99 without learning, ms": spread(1e3 * np.array(quiet)),
        "p99 while learning, ms": spread(1e3 * np.array(learning)),
        "ranks per second at which p99 was measured": round(rate, 1),
        "decisions per second": {plural(n): spread(found) for n, found in speeds.items()},
    }


def spread(values: Any) -> dict[str, float]:
    """Return the median, the least and the most."""
    low, middle, high = np.percentile(values, [0, 50, 100])
    return {"median": round(float(middle), 3), "least": round(float(low), 3), "most": round(float(high), 3)}


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
                rows.append([label, f"{own['median']:g}", f"{own['least']:g} to {own['most']:g}"])
    return "\n".join(table(["", "median", "blocks"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--requests", type=int, default=200, help="per block")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "serve.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = {"LIM2_API_KEY": KEY, "LIM2_PORT": "0", "LIM2_SERVE_DATA": f"{folder}/data"}
        with Server("lim2.cli", "serve", **own) as service, Server("benchmarks.bare") as bare:
            figures = measured(service, bare, arguments.blocks, arguments.requests)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    made = report(figures)
    print(made)
    before, rest = PAGE.read_text().split(f"<!-- {MARKER} -->\n")
    PAGE.write_text(f"{before}<!-- {MARKER} -->\n{made}\n<!-- /{MARKER} -->{rest.split(f'<!-- /{MARKER} -->')[1]}")


if __name__ == "__main__":
    main()
