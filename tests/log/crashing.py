"""A service that decides, records rewards, learns and saves, until it is killed; its parent starts it over.

The parent writes a number to standard input; a process is forked that works in the folder until it is killed, and
writes down every call that has returned: one line each, in one write, which a kill cannot tear.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lim2

N_FEATURES = 3
EXPIRE_AFTER = 400.0


def make_agent() -> Any:
    return lim2.LiM2(arms=["a", "b", "c"], n_features=N_FEATURES, hidden=(4,), batch=6, buffer=12, seed=7)


def open_log(folder: Path, ticks: Iterator[float]) -> lim2.DecisionLog:
    return lim2.DecisionLog(
        folder / "log.db", expire_after=EXPIRE_AFTER, default_reward=-1.0, clock=lambda: next(ticks), keep=None
    )


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def ticking(life: int) -> Iterator[float]:
    now = 1000.0 * life
    while True:
        now += 1.0
        yield now


def work(folder: Path, life: int) -> None:
    rng = np.random.default_rng(life)
    file = folder / "agent.lim2"
    log = open_log(folder, ticking(life))
    agent: Any = lim2.load(file) if file.exists() else make_agent()
    say("loaded", agent.metadata.get("log_position", 0), agent.rounds)
    log.apply(agent)
    waiting = [decision.id for decision in log.pending()]
    while True:
        decision = log.decide(agent, rng.normal(size=N_FEATURES))
        say("decided", decision.id, decision.arm)
        waiting.append(decision.id)
        while waiting and rng.random() < 0.45:
            id, reward = waiting.pop(rng.integers(len(waiting))), float(rng.normal())
            if log.reward(id, reward) == "recorded":
                say("rewarded", id, reward.hex())
        if rng.random() < 0.3:
            log.apply(agent)
        if rng.random() < 0.15:
            agent.save(file)
            say("saved", agent.metadata["log_position"])
        if rng.random() < 0.03:
            if len(agent.arms) > 3:
                log.remove_arm(agent, agent.arms[rng.integers(len(agent.arms))])
            else:
                log.add_arm(agent, f"arm-{life}-{log.position}", like=agent.arms[0] if rng.random() < 0.5 else None)


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            work(folder, int(line))
        say("started", child)
        os.waitpid(child, 0)
        say("ended", child)


if __name__ == "__main__":
    main()
