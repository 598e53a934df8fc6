"""Results without running anything, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lim2.experiments.benchmark import planned
from lim2.experiments.runner import identity
from lim2.experiments.store import SCHEMA, Store


def made(
    folder: Path,
    rewards: Mapping[tuple[str, str], list[float]],
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    agents: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    seed: int = 0,
    delay: int | Sequence[int] = 0,
    batch: int | Sequence[int] = 1,
    **changes: Any,
) -> Store:
    """Fill a folder with runs of given rewards, by (problem, agent); a round of delay costs a reward of 0.1."""
    problems = list(dict.fromkeys(problem for problem, _ in rewards))
    labels = list(dict.fromkeys(agent for _, agent in rewards))
    runs = max(len(values) for values in rewards.values())
    plan = planned(
        problems, agents or labels, rounds=100, runs=runs, seed=seed, delay=delay, batch=batch, settings=settings
    )
    store = Store(folder)
    store.ask(plan, ["lim2", "bench", "--agents", "<b>&"])
    rounds = np.arange(1, 101)
    for run in plan:
        values = rewards.get((run.problem.label, run.agent.label), [])
        if run.seed - seed >= len(values):
            continue
        reward = values[run.seed - seed] - 0.1 * run.feedback.delay
        record: dict[str, Any] = {
            name: 1.0 if dtype == SCHEMA["reward"] else "x" if dtype == SCHEMA["key"] else 1
            for name, dtype in SCHEMA.items()
            if not name.startswith(("curve", "memory", "modules", "notes", "warnings"))
        }
        record |= {
            **identity(run),
            "status": "ok",
            "error": None,
            "started": datetime(2021, 7, 18, tzinfo=UTC),
            "rounds": 100,
            "reward": reward,
            "regret": 200 - reward,
            "curve_round": rounds.tolist(),
            "curve_reward": (reward * rounds / 100).tolist(),
            "curve_regret": ((200 - reward) * rounds / 100).tolist(),
            "curve_optimal": (rounds // 2).tolist(),
            "memory_round": [50, 100],
            "memory_mb": [0.5, 1.0],
            "notes": [],
            "warnings": [],
            "us_per_round": 10.0 + reward,
        }
        store.put(run, record | changes)
    return store
