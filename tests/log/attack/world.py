"""What the attackers and their judge agree on: the log, the agents, and what a context earns."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from log.world import learned

import lim2

FIRST_ARMS = ("a", "b", "c")
ARMS = (*FIRST_ARMS, "d", "e", "f")  # all there ever are: the same ones come and go
N_FEATURES = 3
EXPIRE_AFTER = 1.5  # seconds
DEFAULT = -9.0  # the reward of a decision that expires, which no context earns


def address(folder: Path, name: str = "log") -> Path | str:
    """Return where a log of the attack is: in its folder, or in the database that the environment names."""
    url = os.environ.get("LIM2_ATTACK_DATABASE")
    return folder / f"{name}.db" if url is None else f"{url}#{folder.name} {name}"


def open_log(
    address: Path | str,
    *,
    keep: int | None = None,
    clock: Callable[[], float] = time.time,
    read_only: bool = False,
) -> lim2.DecisionLog:
    """Open the log at an address; all the attack's logs are opened here."""
    return lim2.DecisionLog(
        address,
        expire_after=None if read_only else EXPIRE_AFTER,
        default_reward=None if read_only else DEFAULT,
        keep=keep,
        synchronous=os.environ.get("LIM2_ATTACK_SYNCHRONOUS", "normal"),  # a kill takes nothing from the system
        clock=clock,
        read_only=read_only,
    )


def batch() -> Any:
    """Return how many events all of them learn as one; the coordinator's environment says so."""
    return os.environ.get("LIM2_ATTACK_BATCH", 1)


def make_agent() -> Any:
    if batch() != 1:
        return lim2.AdaptiveTS(arms=FIRST_ARMS, n_features=N_FEATURES, hidden=4, buffer=60, seed=7)
    return lim2.LiM2(arms=FIRST_ARMS, n_features=N_FEATURES, hidden=(4,), batch=6, buffer=12, seed=7)


def reward_of(context: Any) -> float:
    """Return what a context earns. Whoever records the reward of a decision records this one."""
    return float(context[0] - 0.5 * context[1])


def key_of(context: Any) -> str:
    """Return what tells a context from all others; the judge knows decisions by it, whatever their ids."""
    return float(context[0]).hex()


def position_of(agent: Any) -> int:
    return int(agent.metadata.get("log_position", 0))


def digest(agent: Any) -> str:
    """Return a short text that is the same for two agents if they have learned the same, bit for bit."""
    return hashlib.blake2b(learned(agent), digest_size=12).hexdigest()


def saved_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.lim2"


def newest_agent(folder: Path) -> Any:
    """Return the saved agent, of anybody, that has come furthest; a fresh one if there is none."""
    saved = [lim2.load(file) for file in sorted(folder.glob("*.lim2"))]
    return max([make_agent(), *saved], key=position_of)


def draw_context(rng: np.random.Generator) -> Any:
    return rng.normal(size=N_FEATURES)
