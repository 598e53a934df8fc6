"""`make bench`: how fast lim2 is, as medians and ratios measured side by side in one process.

Prints a table and writes `benchmarks/results/speed.json`. Times are of this machine on this day; ratios are what to
compare. With Statlog in LIM2_DATA its contexts are used, otherwise a synthetic world of the same shape. With `--only`
the sections whose titles start so are measured, the others stay as they were.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import lim2
from benchmarks import readme
from benchmarks.floor import calls_of_a_round
from benchmarks.gradient_bandits import rows as gradient_bandit_rows
from benchmarks.timing import Player, World, classification_world, median_ratio, seconds_of, side_by_side
from lim2 import problems
from lim2._blas import one_thread
from lim2.experiments.code import here as code
from lim2.learner import Learner
from lim2.memory import store
from lim2.streams import Streams

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))  # for the oracle
Row = dict[str, Any]


def statlog() -> tuple[World, str]:
    """Return Statlog if it is here, else its shape."""
    if os.environ.get("LIM2_DATA"):
        problem = problems.load("statlog", rounds=20_000, seed=0)
        return World(problem.contexts, problem.rewards), "Statlog"
    return classification_world(9, 7), "a synthetic world of Statlog's shape"


def us(seconds: Iterable[float]) -> float:
    """Return the median in microseconds."""
    return round(1e6 * float(np.median(list(seconds))), 1)


def against_floor(world: World) -> list[Row]:
    """LiM2's round, its floor, and act alone."""
    player = Player(lim2.LiM2(world.n_arms, world.n_features, seed=0), world, warm_up=2000)
    agent = player.agent
    most = int(agent.state.memory.counts.argmax())
    calls = [call for _, call in calls_of_a_round(agent, most, np.random.default_rng(0))]

    def floor() -> None:
        for call in calls:
            call()

    context = world.contexts[0]
    with one_thread:
        rounds, floors, acts = side_by_side([(player, 40), (floor, 40), (lambda: agent.act(context), 200)], blocks=60)
    return [
        {"what": "LiM2: act + update", "us": us(rounds)},
        {"what": "its floor, BLAS and LAPACK calls", "us": us(floors), "calls": len(calls)},
        {"what": "LiM2 / its floor", "ratio": round(median_ratio(rounds, floors), 2)},
        {"what": "LiM2: act alone", "us": us(acts)},
    ]


def against_oracle(world: World) -> list[Row]:
    """LiM2's round against the paper's pseudo-code as a reader would write it."""
    from oracle import Network, OracleLiM2

    player = Player(lim2.LiM2(world.n_arms, world.n_features, seed=0), world, warm_up=1000)
    rng = np.random.default_rng(0)
    sizes = [(world.n_features, 50), (50, world.n_arms)]
    network = Network([rng.uniform(-0.3, 0.3, s) for s in sizes], [np.zeros(s[1]) for s in sizes])
    memory, batch = player.agent.state.memory, 16 * world.n_arms
    oracle = OracleLiM2(network, world.n_arms, buffer=memory.capacity)
    for row in memory.rows():  # the same buffer, without the hours that training would take
        oracle.store(memory.contexts[row], int(memory.arms[row]), float(memory.rewards[row]))
        oracle.t += 1

    # A stamp drawn may be the one evicted in this very round: take the batch from what is surely kept.
    def slow_round() -> None:
        context, rewards = world.contexts[oracle.t], world.rewards[oracle.t]
        arm = oracle.act(context, rng.standard_t(2 * oracle.a))
        oldest = next(e.stamp for e in oracle.buffer.tuples if e.arm == arm)
        kept = [e.stamp for e in oracle.buffer.tuples if e.stamp != oldest]
        oracle.update(context, arm, float(rewards[arm]), [rng.choice(kept, batch).tolist()])

    fast, slow_times = side_by_side([(player, 40), (slow_round, 1)], blocks=15)
    return [
        {"what": "the oracle: act + update", "us": us(slow_times)},
        {"what": "the oracle / LiM2", "ratio": round(median_ratio(slow_times, fast), 1)},
    ]


def every_agent(world: World) -> list[Row]:
    """Time each agent, and LiM2's settings, next to LiM2 as it is."""
    settings: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in lim2.AGENTS if name != "LiM2"}
    settings |= {
        'LiM2, matching="sample"': ("LiM2", {"matching": "sample"}),
        'LiM2, matching="solve"': ("LiM2", {"matching": "solve"}),
        "LiM2, matching=None": ("LiM2", {"matching": None}),
    }
    reference = Player(lim2.LiM2(world.n_arms, world.n_features, seed=0), world, warm_up=1000)
    rows = []
    for label, (name, options) in settings.items():
        slow = name in ("NeuralUCB", "NeuralTS")
        agent = lim2.AGENTS[name](world.n_arms, world.n_features, seed=0, **options)
        player = Player(agent, world, warm_up=100 if slow else 1000)
        # whole training phases of the full-memory agent: 400 rounds
        block = {"NeuralLinear": 400}.get(name, 10 if slow else 40)
        times, references = side_by_side([(player, block), (reference, 40)], blocks=5 if block > 40 else 20)
        rows.append({"what": label, "us": us(times), "ratio": round(median_ratio(times, references), 2)})
    return rows


def growth(vary: str, values: Iterable[int]) -> list[Row]:
    """How a round of LiM2 grows with one size, the others at Statlog's."""
    rows = []
    base = Player(lim2.LiM2(7, 9, seed=0), classification_world(9, 7), warm_up=1000)
    for value in values:
        n_arms = value if vary == "n_arms" else 7
        n_features = value if vary == "n_features" else 9
        options: dict[str, Any] = {"hidden": (value,)} if vary == "hidden" else {}
        if vary == "buffer":
            options = {"buffer": value * n_arms}
        world = classification_world(n_features, n_arms)
        agent = lim2.LiM2(n_arms, n_features, seed=0, **options)
        capacity = agent.state.memory.capacity
        player = Player(agent, world, warm_up=min(capacity + 100, 2000))
        player.agent = filled(agent, world)  # a large buffer is filled without training
        times, references = side_by_side([(player, 10), (base, 10)], blocks=12)
        rows.append({"what": f"{vary} = {value}", "us": us(times), "ratio": round(median_ratio(times, references), 2)})
    return rows


def filled(agent: lim2.Agent, world: World) -> lim2.Agent:
    """Return an agent whose buffer is full with tuples as the world has them."""
    E, t = agent.copy().state.memory, 0
    while E.held < E.capacity:
        row = t % len(world.contexts)
        E, t = store(E, world.contexts[row], int(world.rewards[row].argmax()), 1.0)[0], t + 1
    counts = agent.pulls, agent.pulls, agent.rounds
    return lim2.Agent.around(Learner(agent.algorithm, Streams(0), agent.arms, agent.state._replace(memory=E), counts))


def forever(world: World) -> list[Row]:
    """Time against t, and memory after 5,000 and 50,000 rounds."""
    agent = lim2.LiM2(world.n_arms, world.n_features, seed=0)
    player = Player(agent, world, warm_up=0)
    clock = Player(lim2.LiM2(world.n_arms, world.n_features, seed=1), world, warm_up=2000)
    frozen = clock.round
    tenths: dict[int, list[float]] = {1: [], 9: []}
    sizes, resident = {}, {}
    for t in range(0, 50_000, 50):
        tenth = t // 2000
        seconds = seconds_of(player, 50)
        if tenth in tenths:
            clock.round = frozen  # the same rounds again, as a clock
            tenths[tenth].append(seconds / seconds_of(clock, 25))
        if t + 50 in (5_000, 50_000):
            sizes[t + 50] = agent.nbytes
            resident[t + 50] = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
    flat = float(np.median(tenths[9]) / np.median(tenths[1]))
    return [
        {"what": "last tenth of 20,000 rounds / second tenth", "ratio": round(flat, 3)},
        {"what": "state after 5,000 rounds", "KiB": round(sizes[5_000] / 1024, 1)},
        {"what": "state after 50,000 rounds", "KiB": round(sizes[50_000] / 1024, 1)},
        {"what": "process, after 50,000 rounds minus after 5,000", "MiB": round(resident[50_000] - resident[5_000], 2)},
    ]


def against_mabwiser() -> list[Row]:
    """LinearTS against MABWiser's LinTS: 54 features, 7 arms, act + update."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mabwiser.mab import MAB, LearningPolicy

    world = classification_world(54, 7)
    ours = Player(lim2.LinearTS(7, 54, seed=0), world, warm_up=500)
    theirs = MAB(arms=list(range(7)), learning_policy=LearningPolicy.LinTS(alpha=1.0), seed=0)
    rows = np.arange(200)
    theirs.fit(rows % 7, world.rewards[rows, rows % 7], world.contexts[:200])
    clock = iter(range(10**9))

    def their_round() -> None:
        row = next(clock) % len(world.contexts)
        context = world.contexts[row : row + 1]
        arm = theirs.predict(context)
        theirs.partial_fit([arm], [world.rewards[row, arm]], context)

    mine, other = side_by_side([(ours, 100), (their_round, 10)], blocks=30)
    return [
        {"what": "LinearTS: act + update, 54 features, 7 arms", "us": us(mine)},
        {"what": "MABWiser LinTS, the same", "us": us(other)},
        {"what": "MABWiser LinTS / LinearTS", "ratio": round(median_ratio(other, mine), 1)},
    ]


def gradient_bandits() -> list[Row]:
    """NeuralUCB and NeuralTS against the oracle on the explicit concatenation."""
    return [
        {"what": f"{row.name}: act + update", "us": round(row.ours, 1), "ratio": round(row.ratio, 1)}
        for row in gradient_bandit_rows()
    ]


def fresh_process() -> list[Row]:
    """Import time, and time to the first decision and update without a writable folder."""
    importing = "import time; t = time.perf_counter(); import lim2; print(time.perf_counter() - t)"
    deciding = """
import time; t = time.perf_counter()
import lim2
agent = lim2.LiM2(n_arms=7, n_features=9, seed=0)
agent.update([0.5] * 9, agent.act([0.5] * 9), 1.0); agent.update([0.5] * 9, agent.act([0.5] * 9), 1.0)
print(time.perf_counter() - t)
"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o500)
        environment = {"PATH": "", "HOME": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}

        def run(code: str) -> float:
            call = [sys.executable, "-c", code]
            return float(subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout)

        imports, decisions = [run(importing) for _ in range(7)], [run(deciding) for _ in range(7)]
    return [
        {"what": "import lim2, fresh process", "s": round(float(np.median(imports)), 3)},
        {"what": "import, first decision and update, no writable cache", "s": round(float(np.median(decisions)), 3)},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="TITLE", help="measure the sections that start so")
    chosen = parser.parse_args().only
    console = Console()
    world, source = statlog()
    sections: dict[str, Callable[[], list[Row]]] = {
        f"A round of LiM2 on {source}": lambda: against_floor(world),
        "Against the oracle": lambda: against_oracle(world),
        "Every agent, and LiM2's settings (ratio to LiM2)": lambda: every_agent(world),
        "Growth with the number of arms (ratio to 7)": lambda: growth("n_arms", (2, 4, 8, 16, 32, 64)),
        "Growth with the hidden width (ratio to 50)": lambda: growth("hidden", (16, 32, 64, 128, 256)),
        "Growth with the size of a context (ratio to 9)": lambda: growth("n_features", (9, 54, 117, 377, 561)),
        "Growth with the buffer, tuples per arm (ratio to 100)": lambda: growth("buffer", (10, 30, 100, 300, 1000)),
        "Forever": lambda: forever(world),
        "LinearTS against MABWiser": against_mabwiser,
        "NeuralUCB and NeuralTS, 1,000 steps per round (ratio of the oracle to it)": gradient_bandits,
        "A fresh process": fresh_process,
    }
    out = HERE / "results" / "speed.json"
    before: dict[str, Any] = json.loads(out.read_text()) if chosen and out.exists() else {"sections": {}}
    results: dict[str, list[Row]] = before["sections"]
    by: dict[str, str] = before.get("code", {})  # which code each section was measured with
    started = time.perf_counter()
    for title, section in sections.items():
        if chosen and not title.startswith(tuple(chosen)):
            continue
        by[title] = code()
        with console.status(title):
            results[title] = section()
        table = Table("", "value", title=title, title_justify="left", show_header=False, min_width=72)
        for row in results[title]:
            cells = [
                f"{value:,} {unit}" if unit != "ratio" else f"x {value:,}" for unit, value in list(row.items())[1:]
            ]
            table.add_row(row["what"], "   ".join(cells))
        console.print(table)
    machine = {"python": platform.python_version(), "numpy": np.__version__, "lim2": lim2.__version__}
    machine |= {"machine": platform.machine(), "cores": str(os.cpu_count())}
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "code": by, "sections": results}, indent=1) + "\n")
    readme.main()
    console.print(
        f"{time.perf_counter() - started:.0f} s; written to {out.relative_to(HERE.parent)} and docs/research/speed.md"
    )


if __name__ == "__main__":
    main()
