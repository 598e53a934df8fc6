"""kill -9 at random moments, again and again: nothing that was acknowledged is lost, nothing is learned twice.

`LIM2_KILLS=200` for the long version.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from log.crashing import make_agent, open_log
from log.world import learned

import lim2

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")

KILLS = int(os.environ.get("LIM2_KILLS", "20"))


class Witness:
    """What the killed processes had acknowledged, by their own words."""

    def __init__(self) -> None:
        self.decided: dict[str, str] = {}
        self.rewarded: dict[str, float] = {}
        self.saved = 0
        self.loaded: list[tuple[int, int]] = []

    def hear(self, word: str, *rest: str) -> None:
        if word == "decided":
            assert rest[0] not in self.decided
            self.decided[rest[0]] = rest[1]
        elif word == "rewarded":
            assert rest[0] not in self.rewarded
            self.rewarded[rest[0]] = float.fromhex(rest[1])
        elif word == "saved":
            self.saved = int(rest[0])
        elif word == "loaded":
            position, rounds = map(int, rest)
            assert position >= self.saved
            self.loaded.append((position, rounds))


def live_and_die(folder: Path, lives: int) -> Witness:
    moments, witness = random.Random(0), Witness()
    command = [sys.executable, str(Path(__file__).parent / "crashing.py"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines = (line.split() for line in process.stdout)
        for life in range(lives):
            process.stdin.write(f"{life}\n")
            process.stdin.flush()
            one_life(lines, witness, moments)
        process.stdin.close()
        assert process.wait() == 0
    return witness


def one_life(lines: Iterator[list[str]], witness: Witness, moments: random.Random) -> None:
    """Listen for a while, then kill, and hear what had been said before."""
    patience = moments.choice([0, 1, 2, 5, 20, 60])
    child = None
    for word, *rest in lines:
        if word == "started":
            child = int(rest[0])
        elif word == "ended":
            break
        else:
            witness.hear(word, *rest)
            patience -= 1
        if patience <= 0 and child is not None:
            for _ in range(moments.randrange(20_000)):  # a little later, never at the same point
                pass
            os.kill(child, signal.SIGKILL)
            patience = 1_000_000_000
    else:
        pytest.fail("the service ended by itself")


def ticks_at_the_end() -> Iterator[float]:
    while True:
        yield 1e12


def test_nothing_is_lost_and_nothing_learned_twice(tmp_path: Path) -> None:
    witness = live_and_die(tmp_path, KILLS)
    assert len(witness.loaded) >= KILLS // 2
    assert len(witness.rewarded) > KILLS
    with open_log(tmp_path, ticks_at_the_end()) as log:
        for id, arm in witness.decided.items():
            assert log.get(id).arm == arm
        for id, reward in witness.rewarded.items():
            assert (log.get(id).status, log.get(id).reward) == ("reward", reward)
        events = log.store.look(lambda tables: tables.events(0, 10**9, 10**9))
        settled = [event.row[0] for event in events if event.change is None]
        assert len(settled) == len(set(settled))
        agent: Any = lim2.load(tmp_path / "agent.lim2")
        log.apply(agent)
        assert (log.state.pending, agent.metadata["log_position"]) == (0, log.position)
        fresh = make_agent()
        assert log.replay(fresh) == agent.rounds
        assert learned(fresh) == learned(agent)
        assert fresh.arms == agent.arms
        rounds_at = rounds_by_position(log)
        for position, rounds in witness.loaded:
            assert rounds == rounds_at[position]


def rounds_by_position(log: lim2.DecisionLog) -> list[int]:
    """Return how many rewards an agent has learned when it stands at each position."""
    agent, rounds = make_agent(), [0]
    agent.metadata.clear()
    while agent.metadata.get("log_position", 0) < log.position:
        before = agent.metadata.get("log_position", 0)
        log.apply(agent, limit=1)
        rounds += [agent.rounds - 1] * (agent.metadata["log_position"] - before - 1) + [agent.rounds]
    return rounds
