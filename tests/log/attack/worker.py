"""The attackers: processes that use one log until they are killed, or asked to stop.

A parent that has imported everything forks them (`main`). Every call that has returned is said in one line, written by
one write, which a kill cannot tear: name, word, and what belongs to it. Calls that a timer has interrupted are not
said: they may have taken effect or not.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
from log.attack.timers import Timer
from log.attack.world import (
    ARMS,
    address,
    batch,
    digest,
    draw_context,
    key_of,
    make_agent,
    newest_agent,
    open_log,
    position_of,
    reward_of,
    saved_file,
)

import lim2
from lim2.log import LogError, PrunedLogError, StoreUnavailableError, UnknownDecisionError

THREADS = 4
KEEP = 20  # settled decisions that the pruner leaves
LEAST = 150  # events from one backup to the next

Attempt = Callable[[Callable[[], Any]], tuple[bool, Any]]


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def uninterrupted(call: Callable[[], Any]) -> tuple[bool, Any]:
    return True, call()


def while_there(name: str, attempt: Attempt, call: Callable[[], Any]) -> tuple[bool, Any]:
    """Make a call; if the database is unreachable, or goes away, it may have taken effect or not."""
    try:
        return attempt(call)
    except StoreUnavailableError:
        say(name, "away")
        time.sleep(0.02)
        return False, None


class Process:
    """What all attackers have: a name, the log, a main thread that timers interrupt, and an agent that learns."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        self.folder, self.name, self.life = folder, name, life
        self.rng = random.Random(f"{name} {life}")
        # Filled when the process is asked to stop. A method written in C does it: within a handler written in Python
        # the timer could ring, and the request would be lost.
        self.stopping: dict[int, FrameType | None] = {}
        signal.signal(signal.SIGTERM, self.stopping.setdefault)
        timer = Timer(random.Random(f"timer {name} {life}"), lambda: say(name, "interrupted"))
        self.attempt: Attempt = partial(while_there, name, timer.attempt)
        self.log = self.opened()
        own = saved_file(folder, name)
        self.agent = lim2.load(own) if own.exists() else make_agent()
        self.saved = position_of(self.agent)
        self.report("loaded")

    def opened(self, keep: int | None = None) -> lim2.DecisionLog:
        def call() -> lim2.DecisionLog:
            return open_log(address(self.folder), keep=keep)

        while True:
            done, log = self.attempt(call)
            if done:
                return cast(lim2.DecisionLog, log)

    def learn(self, limit: int | None = None) -> None:
        """Learn what has arrived; who is too far behind goes on with the agent that has come furthest."""
        try:
            self.attempt(lambda: self.log.apply(self.agent, limit=limit, batch=batch()))
        except PrunedLogError:
            say(self.name, "pruned", position_of(self.agent))
            self.agent = newest_agent(self.folder)
            self.report("taken")

    def report(self, word: str) -> None:
        say(self.name, word, position_of(self.agent), self.agent.rounds, digest(self.agent))

    def save(self) -> None:
        done, _ = self.attempt(lambda: self.log.save(self.agent, saved_file(self.folder, self.name)))
        if done:
            self.saved = position_of(self.agent)
            self.report("saved")

    def change_arms(self) -> None:
        """Add an arm or remove one, if nobody else does it first."""
        arm = self.rng.choice(ARMS)
        adds = arm not in self.agent.arms
        like = self.rng.choice([None, *self.agent.arms])
        try:
            if adds:
                done, changed = self.attempt(lambda: self.log.add_arm(self.agent, arm, like=like, batch=batch()))
            else:
                done, changed = self.attempt(lambda: self.log.remove_arm(self.agent, arm, batch=batch()))
        except PrunedLogError:
            return  # the next time that it learns, it goes on with another agent
        except LogError:
            raise
        except ValueError:
            return  # the last arm; or the one that it should be like has been removed meanwhile
        if done and changed:
            say(self.name, "added" if adds else "removed", arm)


class Decider(Process):
    """Decides and rewards in several threads, by snapshots of an agent that the main thread lets learn."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        super().__init__(folder, name, life)
        self.waiting: deque[tuple[str, Any]] = deque(maxlen=200)  # ids and contexts, for all threads
        self.agent = newest_agent(folder)
        self.report("taken")
        self.publish()
        # Of the turns that other threads have. They get new ones when the agent has learned, so that decisions
        # are not made faster than they are learned.
        self.turns = threading.Semaphore(0)

    def publish(self) -> None:
        self.agent.reseed(self.rng.randrange(2**32))
        self.current = self.agent.snapshot()

    def work(self) -> None:
        threads = [threading.Thread(target=self.serve, args=(number,), daemon=True) for number in range(1, THREADS)]
        for thread in threads:
            thread.start()
        hand = Hand(self, 0, self.attempt)
        while not self.stopping:
            self.turns.release(2 * (THREADS - 1))
            self.learn(self.rng.choice([None, 1, 10]))
            self.publish()
            for _ in range(2):
                hand.act()
            if self.rng.random() < 0.03:
                self.change_arms()
            if self.rng.random() < 0.05:
                self.report("knows")
        for thread in threads:
            thread.join()

    def serve(self, number: int) -> None:
        hand = Hand(self, number, partial(while_there, self.name, uninterrupted))
        with failures_said(self.name):
            while not self.stopping:
                if self.turns.acquire(timeout=1.0):
                    hand.act()


class Hand:
    """One thread of a decider."""

    def __init__(self, owner: Decider, number: int, attempt: Attempt) -> None:
        self.owner, self.attempt = owner, attempt
        self.name = f"{owner.name}/{number}"
        self.rng = random.Random(f"{self.name} {owner.life}")
        self.contexts = np.random.default_rng([owner.life, *self.name.encode()])
        self.ids = 0

    def act(self) -> None:
        chance = self.rng.random()
        if chance < 0.45:
            self.decide()
        elif chance < 0.8:
            self.reward(self.some(1))
        elif chance < 0.9:
            self.reward_many(self.some(self.rng.randint(2, 6)))
        elif chance < 0.95:
            self.reward_others()
        else:
            self.look()

    def decide(self) -> None:
        log, context = self.owner.log, draw_context(self.contexts)
        self.ids += 1
        own = f"{self.name}:{self.owner.life}:{self.ids}" if self.rng.random() < 0.3 else None
        done, decision = self.attempt(lambda: log.decide(self.owner.current, context, id=own))
        if done:
            say(self.name, "decided", decision.id, key_of(context), decision.arm)
            self.owner.waiting.append((decision.id, context))

    def some(self, count: int) -> list[tuple[str, Any]]:
        """Return some decisions of this process. They may be rewarded again, by this thread or another."""
        waiting = list(self.owner.waiting)
        return self.rng.sample(waiting, min(count, len(waiting)))

    def reward(self, decisions: list[tuple[str, Any]]) -> None:
        for id, context in decisions:
            try:
                done, outcome = self.attempt(lambda: self.owner.log.reward(id, reward_of(context)))  # noqa: B023
            except UnknownDecisionError:
                say(self.name, "missed", id, key_of(context))  # it was settled, learned and deleted
            else:
                if done:
                    say(self.name, outcome, id, key_of(context))

    def reward_many(self, decisions: list[tuple[str, Any]]) -> None:
        pairs = [(id, reward_of(context)) for id, context in decisions]
        try:
            done, outcomes = self.attempt(lambda: self.owner.log.reward_many(pairs))
        except UnknownDecisionError:
            return
        if done:
            for (id, context), outcome in zip(decisions, outcomes, strict=True):
                say(self.name, outcome, id, key_of(context))

    def reward_others(self) -> None:
        """Reward what waits in the log, whoever has decided it and may be about to reward it, too."""
        done, pending = self.attempt(self.owner.log.pending)
        if done:
            found = [(one.id, one.context) for one in pending]
            self.reward(self.rng.sample(found, min(3, len(found))))

    def look(self) -> None:
        """Read, while others write and delete."""
        self.attempt(lambda: self.owner.log.table(last=20))
        done, state = self.attempt(lambda: self.owner.log.state)
        if done:
            assert state.pruned <= state.position, state
            assert state.pending >= 0, state


class Learner(Process):
    """Learns and saves; changes arms now and then."""

    def work(self) -> None:
        while not self.stopping:
            self.learn(self.rng.choice([None, None, 1, 5, 50]))
            if self.rng.random() < 0.2:
                self.save()
            if self.rng.random() < 0.05:
                self.change_arms()


class Pruner(Process):
    """Learns, and deletes what it has learned: but first makes a backup, so that together they are all of history."""

    def __init__(self, folder: Path, name: str, life: int) -> None:
        super().__init__(folder, name, life)
        self.pruning = self.opened(keep=KEEP)
        self.agent, self.saved = newest_agent(folder), -1
        self.report("taken")
        self.kept = 0  # up to which position the backups have everything
        self.backups = 0

    def work(self) -> None:
        while not self.stopping:
            self.back_up()
            self.learn(self.rng.choice([None, 1, 5, 20]))
            if self.saved < position_of(self.agent) <= self.kept:
                self.save()
            if self.saved == position_of(self.agent) <= self.kept:
                self.prune()
            if self.rng.random() < 0.02:
                self.change_arms()

    def back_up(self) -> None:
        done, position = self.attempt(lambda: self.log.position)
        if not done or position < self.kept + LEAST:
            return
        path = self.folder / f"backup-{self.life:04}-{self.backups:04}.db"
        self.backups += 1
        done, _ = self.attempt(lambda: self.log.backup(path))
        if done:
            self.kept = position
            say(self.name, "backup", path.name, position)

    def prune(self) -> None:
        """Delete: a backup has all that this agent has learned, and a file has the agent, for others to go on with."""
        done, _ = self.attempt(lambda: self.pruning.apply(self.agent, limit=0))
        if done:
            say(self.name, "prunes", position_of(self.agent))


KINDS: dict[str, Callable[[Path, str, int], Any]] = {"decider": Decider, "learner": Learner, "pruner": Pruner}


@contextmanager
def failures_said(name: str) -> Iterator[None]:
    """Say what fails, and end the process, in whichever thread it was."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 (the coordinator raises it)
        say(name, "failed", json.dumps("".join(traceback.format_exception(error))[-3000:]))
        os._exit(1)


def live(folder: Path, name: str, life: int) -> None:
    with failures_said(name):
        KINDS[name.split("-")[0]](folder, name, life).work()
        say(name, "stopped")
    os._exit(0)


def warm_up(folder: Path) -> None:
    """Import and compile what all of them will use: Python itself does not bear interrupted imports."""
    with open_log(address(folder, "first")) as log:
        agent = make_agent()
        log.reward(log.decide(agent, np.zeros(3)).id, 1.0)
        log.apply(agent)


def main() -> None:
    """Fork a process for every line ``start name life``, and wait for its end at ``reap pid``."""
    folder = Path(sys.argv[1])
    faulthandler.register(signal.SIGUSR1)
    warm_up(folder)
    for line in sys.stdin:
        order, *rest = line.split()
        if order == "start":
            child = os.fork()
            if child == 0:
                live(folder, rest[0], int(rest[1]))
            say("parent", "started", rest[0], child)
        else:
            status = os.waitstatus_to_exitcode(os.waitpid(int(rest[0]), 0)[1])
            say("parent", "ended", rest[0], status)
    os.killpg(0, signal.SIGKILL)  # the coordinator has ended, however: nobody is left


if __name__ == "__main__":
    main()
