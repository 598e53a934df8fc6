"""`python -m benchmarks.walk`: what a reader walks through to follow one act and one update of each agent and bandit.

Counts the functions of lim2 that are called, the files they are in, and the calls from one file into another, by
tracing one call of an agent whose buffer is full.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import lim2

PACKAGE = str(Path(lim2.__file__).parent)
N_ARMS, N_FEATURES = 3, 4
SMALL: dict[str, dict[str, Any]] = {"NeuralUCB": {"iterations": 20}, "NeuralTS": {"iterations": 20}}


class Walk(NamedTuple):
    """What one call goes through."""

    functions: set[tuple[str, str]]
    jumps: int  # calls from one file into another

    @property
    def files(self) -> set[str]:
        """The files that the functions are in."""
        return {file for file, _ in self.functions}


def walked(call: Callable[[], object]) -> Walk:
    """Trace a call; comprehensions and lambdas belong to the function around them."""
    functions: set[tuple[str, str]] = set()
    jumps = 0

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal jumps
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name.startswith("<"):
            return
        functions.add((code.co_filename, code.co_qualname))
        caller = frame.f_back
        jumps += caller is not None and caller.f_code.co_filename not in (code.co_filename, __file__)

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return Walk(functions, jumps)


def rows() -> list[tuple[str, str, Walk]]:
    """Return (agent, call, walk) for one act and one update of each agent."""
    out = []
    contexts = np.random.default_rng(0).normal(size=(400, N_FEATURES))
    for name, make in lim2.AGENTS.items():
        agent = make(N_ARMS, N_FEATURES, seed=0, **SMALL.get(name, {}))
        for t, context in enumerate(contexts):
            agent.update(context, agent.act(context), float(t % 2))
        context = contexts[0]
        out.append((name, "act", walked(lambda agent=agent, context=context: agent.act(context))))  # type: ignore[misc]
        out.append((name, "update", walked(lambda agent=agent, context=context: agent.update(context, 0, 1.0))))  # type: ignore[misc]
    context = {"country": "AT", "age": 31, "basket": {"items": 3, "total": 80.5}, "device": None}
    for name in ("LinearTS", "AdaptiveTS"):
        bandit = lim2.Bandit(arms=range(N_ARMS), algorithm=name, seed=0)
        for t in range(400):
            bandit.update(bandit.decide({**context, "age": t % 50}), float(t % 2))
        decision = bandit.decide(context)
        out.append((f"Bandit, {name}", "decide", walked(lambda bandit=bandit: bandit.decide(context))))  # type: ignore[misc]
        call = lambda bandit=bandit, decision=decision: bandit.update(decision, 1.0)  # noqa: E731
        out.append((f"Bandit, {name}", "update", walked(call)))
    return out


def main() -> None:
    """Print a table; with an agent's name, also the functions in it."""
    table = Table("agent", "call", "functions", "files", "calls between files")
    asked = sys.argv[1:]
    for name, call, walk in rows():
        table.add_row(name, call, str(len(walk.functions)), str(len(walk.files)), str(walk.jumps))
        if name in asked:
            for file, function in sorted(walk.functions):
                print(f"{name}.{call}: {Path(file).relative_to(PACKAGE)}: {function}")
    Console().print(table)


if __name__ == "__main__":
    main()
