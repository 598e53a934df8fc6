"""`python -m benchmarks.wide`: time and memory of act and update with many arms and wide contexts.

Every cell of the grid is a process of its own, held to 4 GiB and some seconds, so that its peak of memory is its own.
Besides, act with a column more is timed next to act without it, and 1,000 arms x 20 features are played until the
buffer is full and tuples leave it. Arms are drawn uniformly and nobody takes turns at the start, so that every act
scores. CPU time. Writes benchmarks/results/wide.json cell by cell: what this code has measured is not measured again,
unless with `--again`. With `--docs` nothing is measured, and docs/research/speed.md is written from what there is.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import lim2
from benchmarks.timing import median_ratio, side_by_side
from lim2.experiments.code import here as code
from lim2.experiments.report.markdown import table
from lim2.learner import Learner
from lim2.streams import Streams

AGENTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AdaptiveTS": (lim2.AdaptiveTS, {}),
    "LinearTS": (lim2.LinearTS, {}),
    "AdaptiveTS linear": (lim2.AdaptiveTS, {"hidden": ()}),
    "LiM2": (lim2.LiM2, {}),
}
ARMS, FEATURES = (2, 10, 100, 1000, 2000), (9, 20, 100, 512, 513, 1000, 5000)
STEPS = (8, 31, 64, 127, 255, 256, 511, 512, 1023)  # columns, next to one more
LIMIT, PLAYED, PATIENCE = 4 * 2**30, 0.5, 5.0  # bytes; seconds that a cell plays, and that it may take at most
LONG = (1000, 20, 120_000)  # arms, features, updates: past the buffer of 100,000, and the first tuples leave
OUT = Path(__file__).parent / "results" / "wide.json"
TOO_LARGE, TOO_LONG = "above 4 GiB", f"above {PATIENCE:.0f} s"


def made(name: str, n_arms: int, n_features: int) -> lim2.Agent:
    """Return a new agent, of which every act scores."""
    make, settings = AGENTS[name]
    agent: lim2.Agent = make(n_arms, n_features, initial_pulls=0, seed=0, **settings)
    return agent


def with_full_buffer(agent: lim2.Agent, rng: np.random.Generator) -> lim2.Agent:
    """Return LiM2 with as many tuples as its buffer holds: its updates depend on them, and it would take hours."""
    E = agent.state.memory
    arms = np.arange(E.capacity) % agent.n_arms
    contexts, rewards = rng.normal(size=(E.capacity, agent.n_features)), rng.random(E.capacity)
    stamps, counts = np.arange(E.capacity), np.bincount(arms, minlength=agent.n_arms)
    E = E._replace(
        contexts=contexts, arms=arms, rewards=rewards, stamps=stamps, counts=counts,
        free=E.capacity, held=E.capacity, stored=E.capacity,
    )  # fmt: skip
    pulls = np.zeros(agent.n_arms, dtype=np.intp)
    state = agent.state._replace(memory=E)
    return lim2.Agent.around(Learner(agent.algorithm, Streams(0), agent.arms, state, (pulls, pulls, 0)))


def played(agent: lim2.Agent, seconds: float, rounds: int | None = None, *, acts: bool = True) -> dict[str, Any]:
    """Play for some seconds of CPU, or some rounds; return the times in ms and the memory in MiB."""
    rng, clock = np.random.default_rng(1), time.process_time
    contexts = rng.normal(size=(64, agent.n_features))
    act: list[float] = []
    update: list[float] = []
    while len(update) < (rounds or 3) or (rounds is None and sum(act) + sum(update) < seconds):
        t = len(update)
        context, arm = contexts[t % len(contexts)], int(rng.integers(agent.n_arms))
        if acts and (len(act) < 3 or sum(act) <= sum(update)):
            start = clock()
            agent.act(context)
            act.append(clock() - start)
        reward = float(rng.random() < 0.3 + 0.2 * (context[0] > 0.0) * (arm % 2))
        start = clock()
        agent.update(context, arm, reward)
        update.append(clock() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    row: dict[str, Any] = {"updates": len(update), "state MiB": agent.nbytes / 2**20, "peak MiB": peak}
    for what, times in (("act", act), ("update", update)):
        if times:
            values = 1e3 * np.array(times)
            row |= {f"{what} median ms": float(np.median(values)), f"{what} mean ms": float(values.mean())}
            row |= {f"{what} 99.9% ms": float(np.percentile(values, 99.9)), f"{what} longest ms": float(values.max())}
    return {key: value if isinstance(value, int) else round(value, 3) for key, value in row.items()}


def cell(name: str, n_arms: int, n_features: int) -> dict[str, Any]:
    """Measure one cell in this process, which gets no more memory than the limit."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    try:
        agent = made(name, n_arms, n_features)
        if name == "LiM2":
            agent = with_full_buffer(agent, np.random.default_rng(0))
        return played(agent, PLAYED)
    except MemoryError:
        return {"failed": TOO_LARGE}


def in_a_process(call: Callable[..., Any], *arguments: Any, patience: float = math.inf) -> dict[str, Any]:
    """Return what a call returns in a process of its own, or that it took too many seconds of CPU."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    process = fork.Process(target=lambda: sender.send(call(*arguments)))
    process.start()
    sender.close()
    # A limit of the kernel's on CPU time would make the clock of CPU time coarse, so it is looked at from here.
    while not receiver.poll(0.2):
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        if sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") > patience:
            process.kill()
            process.join()
            return {"failed": TOO_LONG}
    row: dict[str, Any] = receiver.recv()  # an EOFError if the process died
    process.join()
    return row


def fails_like(grid: Mapping[str, Any], name: str, n_arms: int, n_features: int) -> dict[str, Any] | None:
    """Return the failure of a cell that is smaller in one way and larger in none; None if there is none."""
    for arms, features in itertools.product(ARMS, FEATURES):
        row = grid.get(f"{name} / {arms} / {features}", {})
        if arms <= n_arms and features <= n_features and "failed" in row:
            return dict(row)
    return None


def one_column_more(name: str, n_features: int, n_arms: int = 10, learned: int = 20) -> float:
    """Return act with a column more / act, the median ratio of blocks that alternate."""
    rng, calls = np.random.default_rng(0), []
    for width in (n_features, n_features + 1):
        agent, contexts = made(name, n_arms, width), rng.normal(size=(learned, width))
        for t, context in enumerate(contexts):
            agent.update(context, t % n_arms, float(rng.random()))
        calls.append((lambda agent=agent, context=contexts[0]: agent.act(context), 10))
    side_by_side(calls, 2)  # warm
    fewer, more = side_by_side(calls, 15, time.process_time)
    return round(median_ratio(more, fewer), 2)


def long_run() -> dict[str, Any]:
    """Play AdaptiveTS with many arms until tuples leave its buffer."""
    n_arms, n_features, updates = LONG
    return played(made("AdaptiveTS", n_arms, n_features), 0.0, updates, acts=False)


def measured(again: bool) -> None:
    """Measure what this code has not, and write after every cell."""
    known = json.loads(OUT.read_text()) if OUT.exists() and not again else {}
    if known.get("code") != code():
        known = {"code": code(), "grid": {}, "steps": {}, "long": {}}
    if not known["long"]:
        known["long"] = in_a_process(long_run)
        _write(known, "long", known["long"])
    for name, columns in itertools.product(AGENTS, STEPS):
        key = f"{name} / {columns}"
        if key not in known["steps"]:
            known["steps"][key] = one_column_more(name, columns)
            _write(known, key, known["steps"][key])
    for n_arms, n_features, name in itertools.product(ARMS, FEATURES, AGENTS):
        key = f"{name} / {n_arms} / {n_features}"
        if key not in known["grid"]:
            row = fails_like(known["grid"], name, n_arms, n_features)
            known["grid"][key] = row or in_a_process(cell, name, n_arms, n_features, patience=PATIENCE)
            _write(known, key, known["grid"][key])


def _write(known: Mapping[str, Any], key: str, value: Any) -> None:
    print(f"{key}: {value}", flush=True)
    part = OUT.with_suffix(".part")
    part.write_text(json.dumps(known, indent=1) + "\n")
    part.replace(OUT)


# The page


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _times(row: Mapping[str, Any] | None, what: str) -> str:
    if row is None:
        return "–"
    if "failed" in row:
        return str(row["failed"])
    return f"{_number(row[f'{what} median ms'])} / {_number(row[f'{what} 99.9% ms'])}"


def _memory(row: Mapping[str, Any] | None) -> str:
    if row is None or "failed" in row:
        return "–" if row is None else str(row["failed"])
    return f"{_number(row['state MiB'])} / {_number(row['peak MiB'])}"


def grid_table(grid: Mapping[str, Any], name: str, what: str) -> str:
    """Return one agent's table: a row per number of arms that was measured, a column per number of features."""
    rows = [
        [f"{n_arms:,} arms", *(
            _memory(row) if what == "memory" else _times(row, what)
            for row in (grid.get(f"{name} / {n_arms} / {n_features}") for n_features in FEATURES)
        )]
        for n_arms in ARMS
        if any(f"{name} / {n_arms} / {n_features}" in grid for n_features in FEATURES)
    ]  # fmt: skip
    return "\n".join(table(["", *(f"{n:,} features" for n in FEATURES)], rows))


def page(known: Mapping[str, Any]) -> str:
    """Return the part of docs/research/speed.md about many arms and wide contexts."""
    lines = ["## Many arms and wide contexts", ""]
    lines += [
        f"Measured by `python -m benchmarks.wide` (code {known['code']}) in CPU time. Each cell is a separate",
        f"process that runs for {PLAYED} s and is limited to 4 GiB and {PATIENCE:.0f} s. LiM2 has a full buffer.",
        "With fewer than 1,000 updates, the 99.9th percentile is close to the maximum. Python and its libraries take",
        "about 90 MiB of the peak. If a cell exceeds a limit, it and all larger cells are not measured. A dash, or a",
        "missing row, means that nothing has been measured there yet.",
        "",
    ]
    names = list(dict.fromkeys(key.split(" / ")[0] for key in (*known["grid"], *known["steps"])))
    for name in names:
        for what, title in (("act", "act, ms: median / 99.9%"), ("update", "update, ms: median / 99.9%"),
                            ("memory", "memory, MiB: state / peak of the process")):  # fmt: skip
            lines += [f"### {name}: {title}", "", grid_table(known["grid"], name, what), ""]
    lines += ["### Time of act with one more column, relative to act, 10 arms", ""]
    rows = [[name, *(str(known["steps"].get(f"{name} / {n}", "–")) for n in STEPS)] for name in names]
    lines += [*table(["", *(f"{n} to {n + 1}" for n in STEPS)], rows), ""]
    n_arms, n_features, updates = LONG
    lines += [f"### AdaptiveTS: {updates:,} updates of {n_arms:,} arms x {n_features} features", ""]
    shown = ("update median ms", "update mean ms", "update 99.9% ms", "update longest ms", "state MiB", "peak MiB")
    lines += [*table(list(shown), [[str(known["long"].get(key, "–")) for key in shown]]), ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--docs", action="store_true", help="measure nothing, write docs/research/speed.md")
    arguments = parser.parse_args()
    if not arguments.docs:
        measured(arguments.again)
    from benchmarks import readme  # which needs this module

    readme.SPEED_PAGE.write_text(readme.speed_page())


if __name__ == "__main__":
    main()
