"""`python -m benchmarks.walk`: what a reader walks through to follow one act and one update of each agent and bandit.

Counts the functions of lim2 that are called, the files they are in, and the calls from one file into another, by
tracing one call of an agent whose buffer is full. `--serve` does the same for the service: from the request with a
reward to the snapshot that decides after it, and the calls of an idle second.
"""

import asyncio
import json
import math
import sys
import tempfile
import threading
import time
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

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
        threading.settrace(None)
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


# The service


def served() -> tuple[Walk, int]:
    """Return the walk from a reward to a new snapshot, and the calls of an idle second with two bandits."""
    from lim2.serve import native
    from lim2.serve.catalog import open_catalog
    from lim2.serve.config import load
    from lim2.serve.learner import Learner
    from lim2.serve.limits import most_logs
    from lim2.serve.operations import Endpoint
    from lim2.serve.service import Service
    from lim2.serve.spec import BanditSpec

    with tempfile.TemporaryDirectory() as folder:
        config = load(environment={}, given={"data": folder, "api_key": "a-key-for-this"})
        service = Service(config)
        learner = Learner(open_catalog(config), config.open_bandits, most_logs(), service.metrics, poll=config.poll)
        service.bandits.create("shop", BanditSpec(arms=["a", "b"], algorithm="LinearTS"))
        endpoints = {own.name: Endpoint(own, service) for own in native.OPERATIONS}

        def ask(name: str, body: object) -> dict[str, Any]:
            answer = bytearray()

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": json.dumps(body).encode()}

            async def send(message: dict[str, Any]) -> None:
                answer.extend(message.get("body", b""))

            scope = {
                "type": "http", "method": "POST", "path": f"/v1/bandits/shop/{name}", "query_string": b"",
                "path_params": {"name": "shop"}, "headers": [(b"authorization", b"Bearer a-key-for-this")],
            }  # fmt: skip
            asyncio.run(endpoints[name](scope, receive, send))
            found: dict[str, Any] = json.loads(answer)
            return found

        def reward() -> None:
            made = ids.pop()
            ask("reward", {"id": made, "reward": 1.0})
            while learner.step({"shop"}) or learner.opened["shop"].has_news:
                pass
            service.follower.look({"shop"})

        ids = [ask("decide", {})["id"] for _ in range(9)]
        for _ in range(8):
            reward()
        before = service.bandits.opened["shop"].rounds
        learner._looks_at = learner.opened["shop"]._tidies_at = math.inf  # what is done once a second is not on the way
        walk = walked(reward)
        learner._looks_at = learner.opened["shop"]._tidies_at = -math.inf
        assert service.bandits.opened["shop"].rounds == before + 1
        calls = [0]

        def count(frame: FrameType, event: str, _: Any) -> None:
            calls[0] += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

        threading.setprofile(count)
        service.follower.start()
        learner.start()
        time.sleep(5.0)  # until they have come to rest
        before = calls[0]
        time.sleep(10.0)
        idle = (calls[0] - before) // 10
        threading.setprofile(None)
        service.follower.stop()
        learner.stop()
        learner.catalog.close()
        service.bandits.close()
        service.catalog.close()
    return walk, idle


def main() -> None:
    """Print a table; with an agent's name, also the functions in it."""
    if "--serve" in sys.argv:
        walk, idle = served()
        print(f"from a reward to a new snapshot: {len(walk.functions)} functions in {len(walk.files)} files")
        print(f"an idle second with two bandits: {idle} calls")
        if "--functions" in sys.argv:
            for file, function in sorted(walk.functions):
                print(f"{Path(file).relative_to(PACKAGE)}: {function}")
        return
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
