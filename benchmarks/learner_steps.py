"""`python -m benchmarks.learner_steps`: what keeps requests from waiting while the service learns, step by step.

The design has a thread that learns. `lim2 serve` takes three more steps, each of which `without` can leave out. Four
services, each with one step more than the one before, run beside each other. Blocks with and without learning take
turns in each of them, and the services take turns, too. A figure is the median of the ratios of neighbours, as in
`benchmarks.serve`. It goes to `docs/research/decisions/service.md`.
"""

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bare import PATH
from benchmarks.load import open_loop, post
from benchmarks.passages import write_passage
from benchmarks.serve import KEY, LEARNED, LOAD, PAUSE, ROOT, Server, block, bodies, in_turn, p99, rewarded, spread
from lim2.experiments.report.markdown import table

MODULE, STEPS = "benchmarks.learner_steps", "LIM2_LEARNER_STEPS"  # how many are taken, for all processes of a service
PAGE, MARKER = ROOT / "docs" / "research" / "decisions" / "service.md", "learner steps"
NAMES = [
    "a thread learns",
    "a process learns, and sends snapshots",
    "its priority is lower, and long passes are followed by long pauses",
    "it gives way while a processor is idle: `lim2 serve`",
]


def without(steps: int) -> None:
    """Change this process so that it leaves out all steps after the first ones."""
    from lim2.serve import learner, learner_main, learner_process, run, yielding

    left_out: list[list[tuple[Any, str, Any]]] = [
        [(run, "learner_process", lambda _: contextlib.nullcontext())],
        [(learner_main, "NICE", 0), (learner, "SHARE", 1.0)],
        [(yielding.Yielding, "run", lambda _, work: work())],
    ]
    for target, name, value in itertools.chain.from_iterable(left_out[steps:]):
        setattr(target, name, value)
    learner_process.MODULE = MODULE  # so that the process that learns comes here, too


def served() -> None:
    """Be a process of a service that leaves out some steps: the one that answers, or the one that learns."""
    without(int(os.environ[STEPS]))
    if sys.argv[1:] == ["serve"]:
        from lim2.__main__ import main as program

        program()
    else:
        from lim2.serve.learner_main import main as learn

        learn(int(sys.argv[1]))


def measured(services: list[Server], blocks: int, requests: int) -> dict[str, Any]:
    """Return the ratios of all services."""
    rng, load = np.random.default_rng(0), os.getloadavg()[0]
    messages = itertools.cycle([post(PATH, body, KEY) for body in bodies(rng)])
    reward = functools.partial(rewarded, rng)
    for service in services:
        asyncio.run(open_loop(service.port, messages, LEARNED, 200.0, reward))
        time.sleep(PAUSE)
    rate = LOAD * float(np.median([block(services[-1], messages, requests, 16)[1] for _ in range(5)]))
    ratios: list[list[float]] = [[] for _ in services]
    for number in range(blocks):
        for which in np.roll(range(len(services)), number):
            quiet, learning = in_turn(
                1,
                functools.partial(p99, services[which], messages, requests, rate, None),
                functools.partial(p99, services[which], messages, requests, rate, reward),
            )
            ratios[which].append(learning[0] / quiet[0])
    return {
        "p99 while learning / without": dict(zip(NAMES, map(spread, ratios), strict=True)),
        "ranks per second": round(rate, 1),
        "load average of the machine before": round(load, 1),
        "load average of the machine after": round(os.getloadavg()[0], 1),
    }


def report(figures: dict[str, Any]) -> str:
    """Return the ratios as a table."""
    ratios = figures["p99 while learning / without"]
    rows = [[name, f"{own['median']:g}", f"{own['low']:g} to {own['high']:g}"] for name, own in ratios.items()]
    return "\n".join(table(["also", "p99 while learning / without", "middle half of the blocks"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--blocks", type=int, default=25, help="pairs of each service")
    parser.add_argument("--requests", type=int, default=360, help="per block")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "learner_steps.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        services = [
            running.enter_context(
                Server(
                    MODULE, "serve", LIM2_API_KEY=KEY, LIM2_PORT="0", LIM2_SERVE_DATA=f"{folder}/{n}", **{STEPS: str(n)}
                )
            )
            for n in range(len(NAMES))
        ]
        figures = measured(services, arguments.blocks, arguments.requests)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")
    write_passage(PAGE, MARKER, report(figures))


if __name__ == "__main__":
    served() if STEPS in os.environ else main()
