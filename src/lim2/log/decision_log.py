"""Decisions that wait for their rewards, in a file that survives a crash."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable
from datetime import timedelta
from pathlib import Path
from typing import Any

from lim2 import batches
from lim2.checks import LARGEST, positive_int, shown
from lim2.log import deciders, recording, rewarding
from lim2.log.changes import ADD, REMOVE, Change, make_change, to_text, write_change
from lim2.log.entries import LoggedDecision
from lim2.log.errors import LogError, PrunedLogError
from lim2.log.learning import Batch, learn, position_of
from lim2.log.pruning import prune
from lim2.log.raw import as_json
from lim2.log.reading import LogState, entries, read_one, read_state, read_table
from lim2.log.replaying import decide_again
from lim2.log.requests import both
from lim2.log.settings import Aggregate, Settings, agree, checked_settings, read_settings, write_settings
from lim2.log.settling import checked_id, checked_reward, discard, expire
from lim2.log.store import Lease, Model, open_store
from lim2.log.table import Table


class DecisionLog:
    """A file of decisions and their rewards, from which an agent learns each reward exactly once.

    What a call has returned is in the file: it survives `kill -9` at any later moment. Any number of threads,
    coroutines and processes on one machine may use one log. Threads and coroutines of a process that write at the same
    time share one transaction, and so one flush of the disk. An agent still belongs to one thread; others decide by its
    snapshot. Methods that write have a twin for coroutines, with an ``a`` before its name: ``await log.adecide(...)``.

    Parameters
    ----------
    path
        The file, an SQLite database in WAL mode (two files named ``-wal`` and ``-shm`` live beside it); on a local
        disk, not on a network share. It is made when it is not there.
    expire_after
        Seconds, or a `timedelta`, after which a decision is no longer waited for. It is kept in the file, with
        `default_reward` and `aggregate`, and holds for all who use the log; another one is a LogError. If none of the
        three is given: as the file says. If it says nothing: forever, and then decisions whose reward never comes pile
        up.
    default_reward
        The reward of a decision that expires, say 0 for a click that never came. None: it is dropped, nothing is
        learned.
    aggregate
        What several rewards of one decision make. None: a decision has one reward, a different one is an error.
        ``"first"``: the first counts, later ones are kept, but nothing is learned of them. ``"last"``, ``"sum"``,
        ``"mean"``, ``"max"``: rewards are collected until the decision expires, and then this is learned: a click now,
        a purchase later.
    keep
        How many settled decisions stay in the file, or for how long (a `timedelta`): for `replay`, for evaluation, and
        for saved agents to catch up with. None: all. They are deleted when an agent that has learned from them calls
        `apply`.
    synchronous
        ``"full"``: what was acknowledged survives a loss of power as well, at the price of one flush of the disk each.
        ``"normal"``: quicker; a loss of power may take the last few decisions and rewards with it, which can leave a
        saved agent ahead of its log.
    clock
        Returns the time in seconds. Give all processes that share a log the same clock.
    read_only
        Open a log to evaluate it or to replay it, and change nothing; also from a disk that cannot be written.

    Examples
    --------
    >>> import tempfile, lim2
    >>> folder = tempfile.TemporaryDirectory()
    >>> agent = lim2.LinearTS(arms=["red", "blue"], n_features=2, seed=0)
    >>> log = lim2.DecisionLog(f"{folder.name}/decisions.db", expire_after=3600, default_reward=0.0)
    >>> decision = log.decide(agent, [1.0, 0.5])
    >>> decision.arm, decision.propensity
    ('red', 1.0)
    >>> log.reward(decision.id, 1.0), log.reward(decision.id, 1.0)
    ('recorded', 'duplicate')
    >>> log.apply(agent), agent.rounds, agent.metadata["log_position"]
    (1, 1, 1)
    >>> log.close(); folder.cleanup()
    """

    def __init__(
        self,
        path: Path | str,
        *,
        expire_after: float | timedelta | None = None,
        default_reward: float | None = None,
        aggregate: Aggregate | None = None,
        keep: int | timedelta | None = 1_000_000,
        synchronous: str = "full",
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
    ) -> None:
        given = _settings(expire_after, default_reward, aggregate)
        if isinstance(keep, timedelta):
            _seconds("keep", keep)
        elif keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
            raise ValueError(f"keep must be a number of decisions, a timedelta, or None for all, got {keep!r}")
        if synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', got {synchronous!r}")
        self.keep, self.read_only = keep, read_only
        self.clock = clock
        self.store = open_store(path, synchronous, read_only)
        self._learning = threading.Lock()
        try:
            if given != Settings() and not read_only:
                self.store.write(lambda tables: agree(tables, given))
            self.id: str = self.store.look(lambda tables: tables.get("id"))
        except BaseException:
            self.store.close()
            raise

    @property
    def settings(self) -> Settings:
        """When decisions expire, what they earn then, and what several rewards make: as the file says."""
        return self.store.look(read_settings)

    @property
    def expire_after(self) -> float | None:
        """Seconds after which a decision is no longer waited for; None: forever."""
        return self.settings.expire_after

    @property
    def default_reward(self) -> float | None:
        """The reward of a decision that expires; None: it is dropped."""
        return self.settings.default_reward

    @property
    def aggregate(self) -> Aggregate | None:
        """What several rewards of one decision make."""
        return self.settings.aggregate

    def configure(
        self,
        *,
        expire_after: float | timedelta | None = None,
        default_reward: float | None = None,
        aggregate: Aggregate | None = None,
    ) -> None:
        """Change, from now on and for all who use the log, when decisions expire and what they earn.

        Decisions that wait at the moment are settled by the new settings.

        Parameters
        ----------
        expire_after
            As for the log itself; None: never.
        default_reward
            As for the log itself; None: expired decisions are dropped.
        aggregate
            As for the log itself; None: a decision has one reward.
        """
        given = _settings(expire_after, default_reward, aggregate)
        self.store.write(lambda tables: write_settings(tables, given))

    # Deciding, each with its twin for coroutines

    decide, adecide = both(recording.decide)
    decide_many, adecide_many = both(recording.decide_many)
    rank, arank = both(recording.rank)
    record, arecord = both(recording.record)
    record_many, arecord_many = both(recording.record_many)
    record_slate, arecord_slate = both(recording.record_slate)

    # Rewards

    reward, areward = both(rewarding.reward)
    reward_many, areward_many = both(rewarding.reward_many)
    activate, aactivate = both(rewarding.activate)

    def expire(self) -> int:
        """Settle the decisions that are overdue, as `apply` and `reward` do by themselves; return how many."""
        after, now = self.expire_after, self.clock()
        if after is None or self.read_only:
            return 0
        oldest = self.store.look(lambda tables: tables.oldest())
        if oldest is None or oldest > now - after:
            return 0
        return self.store.write(lambda tables: expire(tables, now))

    def discard(self, id: str) -> None:
        """Leave a decision out: nothing is learned from it, and it is not part of any evaluation.

        If an agent has learned its reward already, that stays learned; `replay` then gives a different agent.

        Parameters
        ----------
        id
            Of the decision, with or without a reward.
        """
        key, now = checked_id(id), self.clock()
        self.store.write(lambda tables: discard(tables, key, now))

    def erase(self, key: str) -> int:
        """Delete all decisions of a person for good: contexts, candidates, metadata and rewards.

        The bytes are overwritten in the file. An agent that has learned from them goes on as it is, and may hold their
        contexts in its buffer; `replay` leaves them out, so it gives a different agent, one that has never seen them.
        Copies, such as backups and saved agents, are not touched.

        Parameters
        ----------
        key
            As it was given when the decisions were made.

        Returns
        -------
        int
            How many decisions were deleted.
        """
        person = checked_id(key, "a key")
        erased = self.store.write(lambda tables: tables.erase(person))
        self.store.purge()
        return erased

    # Learning

    def apply(self, agent: Any, limit: int | None = None, *, batch: Batch = 1) -> int:
        """Let an agent learn the rewards that have arrived since it last did, in order of arrival, each exactly once.

        How far it has come is in ``agent.metadata["log_position"]``, and saved with the agent: after a crash, a saved
        agent catches up here. A reward of an arm that was removed meanwhile is passed over.

        Parameters
        ----------
        agent
            It must have been made, or loaded, as it was when this log began, or have learned from this log.
        limit
            Learn at most this many. None: all.
        batch
            How many events are learned as one: many times faster, for algorithms that bear it. ``"auto"`` begins with
            one and grows to 256. Where batches end is written into the log, and all who learn from it follow: those
            batches are never split, not even by `limit`. Let all learners of a log give the same `batch`: who learns
            one by one writes down nothing.

        Returns
        -------
        int
            How many rewards were learned.
        """
        deciders.check_learner(agent)
        if limit is not None:
            positive_int("limit", limit, least=0)
        size = batches.checked(batch, deciders.learns_batches(agent), f"{shown(agent)} learns one reward at a time")
        with self._learning:
            self.expire()
            learned = learn(self.store, agent, batch=size, limit=limit)
            if not self.read_only:
                prune(self.store, self.keep, position_of(agent), self.clock())
        return learned

    def replay(self, agent: Any, *, decisions: bool = False, allow_partial: bool = False) -> int:
        """Let a fresh agent learn everything from the beginning.

        An agent with the settings and seed of the one that learned live knows the same, bit for bit, since decisions
        and learning draw from random streams of their own, and batches are those of the log. A `lim2.Bandit` with
        another encoder learns from the raw contexts and items, if they were kept. With ``decisions=True`` the decisions
        are made again as well, each after as many rewards as it had been made after, and compared: then the agent goes
        on deciding like the live one, too. That needs a life without a restart, in which one agent made all decisions
        through `decide`.

        Parameters
        ----------
        agent
            As the live one was when the log began; any other to see what it would have learned.
        decisions
            Whether decisions are made again.
        allow_partial
            Learn from what is left, if the beginning has been deleted (`keep`).

        Returns
        -------
        int
            How many rewards were learned.
        """
        deciders.check_learner(agent)
        if "log_position" in agent.metadata:
            raise LogError("replay starts from the beginning: give it a fresh agent, or use apply to go on")
        pruned = self.store.look(lambda tables: tables.get("pruned"))
        if pruned and not allow_partial:
            raise PrunedLogError(
                f"the log begins after position {pruned}: what came before was deleted, as keep={self.keep!r} says. "
                f"allow_partial=True replays the rest, which gives a different agent."
            )
        with self._learning:
            agent.metadata.update(log_id=self.id, log_position=pruned)
            learned = decide_again(self.store, agent) if decisions else 0
            return learned + learn(self.store, agent)

    def save(self, agent: Any, path: Path | str) -> None:
        """Save an agent as ``agent.save(path)`` does, but never while another thread is in `apply`.

        Between learning a reward and noting its position an agent is no agent to save: it would learn the reward again.

        Parameters
        ----------
        agent
            Who has learned from this log.
        path
            The agent's file.
        """
        with self._learning:
            agent.save(path)

    def lead(self) -> Lease | None:
        """Return the right to learn and to publish, which one has at a time; None if somebody else has it.

        It ends by ``lease.release()`` or with the process, whatever happens to it. Nothing else in the log asks for it:
        it is for several processes of which one learns for all.
        """
        return self.store.lead()

    def publish(self, agent: Any) -> int:
        """Put an agent into the log, for other processes to decide by; return its version.

        Parameters
        ----------
        agent
            Who has learned from this log.
        """
        with self._learning:
            data, position, now = agent.to_bytes(), position_of(agent), self.clock()
        return self.store.write(lambda tables: tables.add_model(position, now, data))

    def model(self, after: int = 0) -> Model | None:
        """Return the latest published agent, None if there is none; `lim2.from_bytes` makes an agent of its data.

        Parameters
        ----------
        after
            A version: only a later one is returned.
        """
        return self.store.look(lambda tables: tables.model(after))

    def add_arm(
        self, agent: Any, name: Hashable, like: Hashable | None = None, *, features: Any = None, batch: Batch = 1
    ) -> bool:
        """Add an arm to an agent, and write it down, so that restarts and replay add it at the same place.

        If another agent has added it meanwhile, that is learned from the log, and nothing is written.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name, like, features
            As `agent.add_arm` takes them; features only where arms have some.
        batch
            As for `apply`.

        Returns
        -------
        bool
            Whether this call has added it.
        """
        own = None if features is None else as_json(features, "an arm")
        return self._change(agent, Change(ADD, name, like, own), batch)

    def remove_arm(self, agent: Any, name: Hashable, *, batch: Batch = 1) -> bool:
        """Remove an arm from an agent, and write it down, so that restarts and replay remove it at the same place.

        If another agent has removed it meanwhile, that is learned from the log, and nothing is written.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name
            Of the arm.
        batch
            As for `apply`.

        Returns
        -------
        bool
            Whether this call has removed it.
        """
        return self._change(agent, Change(REMOVE, name), batch)

    def _change(self, agent: Any, change: Change, batch: Batch) -> bool:
        to_text(change)  # what cannot be written down is refused before anything is learned
        had, written = deciders.has(agent, change.name), False
        while not written:
            self.apply(agent, batch=batch)
            if deciders.has(agent, change.name) != had:  # somebody else was first
                return False
            make_change(copy.deepcopy(agent), change)  # what cannot be done must not be written down
            position, now = position_of(agent), self.clock()
            written = self.store.write(lambda tables: write_change(tables, change, position, now))  # noqa: B023
        self.apply(agent, batch=batch)
        return True

    # Looking

    @property
    def position(self) -> int:
        """The position of the last event: how many there have been."""
        return self.store.look(lambda tables: tables.last())

    def get(self, id: str) -> LoggedDecision:
        """Return a decision, with its reward if it has one.

        Parameters
        ----------
        id
            Of the decision.
        """
        return read_one(self.store, checked_id(id))

    def pending(self) -> list[LoggedDecision]:
        """Return the decisions that wait for their reward, the oldest first."""
        return list(entries(self.store, "pending"))

    def table(self, last: int | None = None) -> Table:
        """Return the decisions that have a reward, default rewards included, as arrays for evaluation.

        Of slates it has the first positions, whose propensities are known.

        Parameters
        ----------
        last
            Only the newest of all decisions, as many. None: all that are in the file.
        """
        if last is not None:
            positive_int("last", last, least=0)
        return read_table(self.store, last)

    @property
    def state(self) -> LogState:
        """How many decisions wait, since when, what became of the others, and how large the file is."""
        return read_state(self.store, self.clock())

    def backup(self, path: Path | str) -> None:
        """Write a consistent copy to a new file, while others go on using the log.

        Save the agent first: then the copy has everything that the saved agent has learned, and it catches up.

        Parameters
        ----------
        path
            The copy.
        """
        self.store.copy(path)

    def close(self) -> None:
        """Let go of the file; nothing needs to be written."""
        self.store.close()

    def __enter__(self) -> DecisionLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DecisionLog({self.store.name!r})"


def _settings(
    expire_after: float | timedelta | None, default_reward: float | None, aggregate: Aggregate | None
) -> Settings:
    after = None if expire_after is None else _seconds("expire_after", expire_after)
    return checked_settings(after, None if default_reward is None else checked_reward(default_reward), aggregate)


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < LARGEST:
        raise ValueError(f"{name} must be a positive number of seconds or a timedelta, got {shown(value)}")
    return float(seconds)
