"""A small world for the log: agents that learn quickly, and what they know."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from helpers import postgres
from helpers.clock import Clock

import lim2
from lim2.persistence.container import unpack

ARMS = ("a", "b", "c")
N_FEATURES = 4


def make_agent(kind: str = "LinearTS", seed: int = 0, **settings: Any) -> Any:
    small = {} if kind == "LinearTS" else {"hidden": (5,), "batch": 8, "buffer": 20}
    return lim2.AGENTS[kind](arms=ARMS, n_features=N_FEATURES, seed=seed, **small, **settings)


# Where each kind of store keeps the log of a folder. All tests of the log run over all of them (conftest.py), except
# those of a store's own files.
STORES: dict[str, Callable[[Path], Path | str]] = {
    "sqlite": lambda folder: folder / "decisions.db",
    "postgres": postgres.address,
}
used = ["sqlite"]  # the kind that the test under way runs over


def address(folder: Path) -> Path | str:
    """Return where the log of a folder is."""
    return STORES[used[0]](folder)


def make_log(folder: Path, **settings: Any) -> lim2.DecisionLog:
    return lim2.DecisionLog(address(folder), **{"clock": Clock(), "synchronous": "normal", **settings})


def contents(folder: Path) -> bytes:
    """Return all bytes that a store has of the log of a folder."""
    if used[0] == "postgres":
        return postgres.contents(folder)
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def contexts(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, N_FEATURES))


def learned(agent: Any) -> bytes:
    """Return all that an agent has learned, bit for bit: what is saved of it, without what deciding changes."""
    header, arrays = unpack(agent.to_bytes())
    header["streams"] = header["streams"]["learn"]
    learning = (name.encode() + array.tobytes() for name, array in arrays.items() if name != "asked")
    return b"".join([json.dumps(header).encode(), *learning])


def live(log: lim2.DecisionLog, agent: Any, rounds: int = 60, seed: int = 0) -> list[str]:
    """Decide, with rewards that arrive late and out of order, applied now and then; return the ids."""
    rng = np.random.default_rng(seed)
    waiting: list[str] = []
    ids = []
    for context in contexts(rounds, seed):
        decision = log.decide(agent, context)
        waiting.append(decision.id)
        ids.append(decision.id)
        while waiting and rng.random() < 0.6:
            log.reward(waiting.pop(rng.integers(len(waiting))), float(rng.normal()))
        if rng.random() < 0.3:
            log.apply(agent)
    for id in waiting:
        log.reward(id, 0.5)
    log.apply(agent)
    return ids
