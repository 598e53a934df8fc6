"""The decision log: decisions and their rewards in a database that survives a crash."""

from __future__ import annotations

import copy
import threading
import time
import zlib
from collections.abc import Callable, Hashable
from datetime import timedelta
from pathlib import Path
from typing import Any

from lim2 import batches
from lim2.checks import LARGEST, positive_int, shown
from lim2.log import decisions, rewards
from lim2.log.changes import ADD, REMOVE, Change, make_change, to_text, write_change
from lim2.log.entries import LoggedDecision
from lim2.log.errors import LogError, PrunedLogError
from lim2.log.ids import checked_id
from lim2.log.learning import Batch, check_learner, has, learn, position_of
from lim2.log.proof import Proof, catch_up, prove, question_of
from lim2.log.pruning import prune, prune_now
from lim2.log.reading import LogState, entries, read_one, read_state, read_table
from lim2.log.replaying import decide_again
from lim2.log.serialization import as_json
from lim2.log.settings import Aggregate, Settings, agree, checked_settings, read_settings, write_settings
from lim2.log.store import Lease, Model, Tables, check_lease, open_store
from lim2.log.table import Table
from lim2.log.transactions import sync_and_async
from lim2.persistence.container import MAGIC


class DecisionLog:
    """Durable log of decisions and rewards, in SQLite or PostgreSQL. An agent learns each reward exactly once from it.

    When a call returns, its data is committed and survives `kill -9`. Any number of threads, coroutines and processes
    on one machine may use a log; with PostgreSQL, on any number of machines. Threads and coroutines of a process that
    write at the same time share one transaction, and so one flush of the disk. Use an agent in one thread at a time;
    other threads decide with a snapshot. Each method that writes has an asynchronous version whose name starts with
    ``a``: ``await log.adecide(...)``.

    Parameters
    ----------
    path
        Path of an SQLite file on a local disk, not on a network share. It is in WAL mode, with two files ``-wal`` and
        ``-shm`` next to it. Or the address of a log in PostgreSQL, ``"postgresql://user@host/database#name"``, which
        needs ``pip install 'lim2[postgres]'``. The log is created if it does not exist.
    expire_after
        Seconds, or a `timedelta`, after which a decision without a reward expires. This setting, `default_reward` and
        `aggregate` are stored in the log and hold for everyone who uses it; a different value raises a LogError. If
        you give none of the three, the stored values hold. Without a stored value decisions never expire, and those
        without a reward accumulate.
    default_reward
        Reward of a decision that expires, for example 0 for a click that never came. None: the decision is dropped
        and nothing is learned from it.
    aggregate
        How several rewards of one decision are combined. None: a decision has one reward, and a different second one
        is an error. ``"first"``: the first is learned, later ones are stored only. ``"last"``, ``"sum"``, ``"mean"``,
        ``"max"``: rewards are collected until the decision expires, then the result is learned. Use this for a click
        now and a purchase later.
    keep
        Number of settled decisions that the log keeps, or a `timedelta` for how long. `replay`, evaluation and saved
        agents that catch up need them. None: keep all. Older ones are deleted when an agent that has learned from them
        calls `apply`.
    synchronous
        ``"full"``: committed data survives a power failure, at the cost of one flush of the disk per transaction.
        ``"normal"``: faster, but a power failure or a crash of PostgreSQL may lose the last few decisions and rewards,
        and a saved agent may then be ahead of its log.
    clock
        Function that returns the time in seconds. All processes that share a log need the same clock.
    read_only
        Open the log without changing it, for evaluation or replay. This works on a read-only disk, too.

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
        settings = _settings(expire_after, default_reward, aggregate)
        _check_keep(keep)
        if synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', got {synchronous!r}")
        self.keep, self.read_only = keep, read_only
        self.clock = clock
        self.store = open_store(path, synchronous, read_only)
        self._learning = threading.Lock()
        try:
            if settings != Settings() and not read_only:
                self.store.write(lambda tables: agree(tables, settings))
            self.id: str = self.store.look(lambda tables: tables.get("id"))
        except BaseException:
            self.store.close()
            raise

    @property
    def settings(self) -> Settings:
        """The stored settings: `expire_after`, `default_reward` and `aggregate`."""
        return self.store.look(read_settings)

    @property
    def expire_after(self) -> float | None:
        """Seconds after which a decision without a reward expires; None: never."""
        return self.settings.expire_after

    @property
    def default_reward(self) -> float | None:
        """Reward of a decision that expires; None: the decision is dropped."""
        return self.settings.default_reward

    @property
    def aggregate(self) -> Aggregate | None:
        """How several rewards of one decision are combined."""
        return self.settings.aggregate

    def configure(
        self,
        *,
        expire_after: float | timedelta | None = None,
        default_reward: float | None = None,
        aggregate: Aggregate | None = None,
    ) -> None:
        """Change the stored settings for everyone who uses the log.

        Pending decisions are settled by the new settings.

        Parameters
        ----------
        expire_after
            Seconds or a `timedelta`, as for `DecisionLog`; None: decisions never expire.
        default_reward
            Reward of a decision that expires; None: the decision is dropped.
        aggregate
            How several rewards are combined, as for `DecisionLog`; None: a decision has one reward.
        """
        settings = _settings(expire_after, default_reward, aggregate)
        self.store.write(lambda tables: write_settings(tables, settings))

    # Decisions, each with its asynchronous version

    decide, adecide = sync_and_async(decisions.decide)
    decide_many, adecide_many = sync_and_async(decisions.decide_many)
    rank, arank = sync_and_async(decisions.rank)
    record, arecord = sync_and_async(decisions.record)
    record_many, arecord_many = sync_and_async(decisions.record_many)
    record_slate, arecord_slate = sync_and_async(decisions.record_slate)

    # Rewards

    reward, areward = sync_and_async(rewards.reward)
    reward_many, areward_many = sync_and_async(rewards.reward_many)
    activate, aactivate = sync_and_async(rewards.activate)

    def expire(self) -> int:
        """Settle overdue decisions and return their number; `apply` and `reward` call it automatically."""
        after, now = self.expire_after, self.clock()
        if after is None or self.read_only:
            return 0
        oldest = self.store.look(lambda tables: tables.oldest())
        if oldest is None or oldest > now - after:
            return 0
        return self.store.write(lambda tables: rewards.expire_overdue(tables, now))

    def discard(self, id: str) -> None:
        """Exclude a decision from learning and evaluation.

        If an agent has already learned its reward, the agent does not change, and `replay` gives a different agent.
        """
        key, now = checked_id(id), self.clock()
        self.store.write(lambda tables: rewards.discard_decision(tables, key, now))

    def erase(self, key: str) -> int:
        """Delete all decisions of a person permanently: contexts, candidates, metadata and rewards.

        SQLite overwrites the bytes in the file; PostgreSQL removes the rows by VACUUM. An agent that has learned from
        the deleted decisions does not change, and its buffer may still hold their contexts. To remove them, `replay`
        the log into a new agent. Backups and saved agents are not changed.

        Parameters
        ----------
        key
            Key that was given with the decisions.

        Returns
        -------
        int
            Number of deleted decisions.

        Examples
        --------
        >>> import tempfile, lim2
        >>> with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/decisions.db") as log:
        ...     bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0, log=log)
        ...     bandit.update(bandit.decide({"country": "AT"}, key="user 1"), 1.0)
        ...     log.erase("user 1"), log.state.erased
        (1, 1)
        """
        person = checked_id(key, "a key")
        catch_up(self.store)  # what is deleted stays in the sums of proofs
        erased = self.store.write(lambda tables: tables.erase(person))
        self.store.purge()
        return erased

    def prune(self, keep: int | timedelta, learned: int) -> int:
        """Delete old settled decisions now; `apply` does so automatically if the log has a limit `keep`.

        Parameters
        ----------
        keep
            Number of settled decisions to keep, or a `timedelta` for how long.
        learned
            Position up to which all agents have learned. Nothing after it is deleted.

        Returns
        -------
        int
            Number of deleted events.
        """
        _check_keep(keep)
        positive_int("learned", learned, least=0)
        if learned > self.position:
            raise LogError(f"learned must be a position of the log, at most {self.position}, got {learned}")
        return prune_now(self.store, keep, learned, self.clock())

    # Learning

    def apply(self, agent: Any, limit: int | None = None, *, batch: Batch = 1, lease: Lease | None = None) -> int:
        """Let an agent learn all new rewards, in order of arrival, each exactly once.

        The agent's position in the log is ``agent.metadata["log_position"]``, which is saved with the agent. After a
        crash, load the saved agent and call `apply` to catch up. Rewards of removed arms are skipped.

        Parameters
        ----------
        agent
            An agent or bandit in the state in which this log began, or one that has learned from this log.
        limit
            Largest number of rewards to learn. None: all.
        batch
            Number of events learned in one update: much faster, for algorithms that support it. ``"auto"`` starts with
            1 and grows to 256. The log stores the batch boundaries, and all learners follow them: a batch is never
            split, not even by `limit`. Give the same `batch` in all learners of a log: with 1, no boundaries are
            stored.
        lease
            The lease that `lead` returned. If another process has taken it over, writing raises a LostLeaseError. None:
            any learner may write.

        Returns
        -------
        int
            Number of rewards learned.
        """
        check_learner(agent)
        if limit is not None:
            positive_int("limit", limit, least=0)
        size = batches.checked(batch, agent.batches, "this agent learns one reward at a time")
        with self._learning:
            self.expire()
            count = learn(self.store, agent, batch=size, limit=limit, lease=lease)
            if not self.read_only:
                prune(self.store, self.keep, position_of(agent), self.clock(), lease=lease)
        return count

    def replay(self, agent: Any, *, decisions: bool = False, allow_partial: bool = False) -> int:
        """Let a new agent learn all rewards of the log from the beginning.

        An agent with the settings and seed of the live agent reaches the same state, bit for bit: decisions and
        learning use separate random streams, and the log stores the batch boundaries. A `lim2.Bandit` with a different
        encoder learns from the raw contexts and items, if they were stored. With ``decisions=True`` the agent also
        repeats the decisions, each after the same number of rewards as the original, and compares them. Its next
        decisions are then those of the live agent, too. This requires that one agent made all decisions through
        `decide`, without a restart.

        Parameters
        ----------
        agent
            A new agent like the live one when the log began, or any other to see what it would have learned.
        decisions
            Whether to repeat the decisions.
        allow_partial
            Replay the rest of the log if its beginning was deleted (see `keep`).

        Returns
        -------
        int
            Number of rewards learned.

        Examples
        --------
        >>> import tempfile, lim2
        >>> with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/decisions.db") as log:
        ...     bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0, log=log)
        ...     bandit.update(bandit.decide({"country": "AT"}, key="user 1"), 1.0)
        ...     again = bandit.clone()
        ...     log.replay(again), again.rounds
        (1, 1)
        """
        check_learner(agent)
        if "log_position" in agent.metadata:
            raise LogError(
                "this agent has learned from a log before: give replay a new agent, such as agent.clone(), or use apply"
            )
        pruned = self.store.look(lambda tables: tables.get("pruned"))
        if pruned and not allow_partial:
            raise PrunedLogError(
                f"the events up to position {pruned} were deleted (keep={self.keep!r}): a full replay is impossible. "
                f"allow_partial=True replays the rest, which gives a different agent."
            )
        with self._learning:
            agent.metadata.update(log_id=self.id, log_position=pruned)
            count = decide_again(self.store, agent) if decisions else 0
            return count + learn(self.store, agent)

    def save(self, agent: Any, path: Path | str) -> None:
        """Save an agent as ``agent.save(path)`` does, but wait while another thread is in `apply`.

        Agents and bandits of lim2 may be saved at any time with ``agent.save(path)``. An agent of another kind stores
        its position after it has learned: saved in between, it would learn the same reward again.
        """
        with self._learning:
            agent.save(path)

    def lead(self) -> Lease | None:
        """Return the lease of the learner, which one process holds at a time; None if another process holds it.

        Use it when one of several processes learns for all. Pass it to `apply` and `publish`: a process that has lost
        the lease then cannot write. The lease ends with ``lease.release()`` or with the process, even after a crash. In
        PostgreSQL it also ends with its connection, and ``lease.held`` is then False.
        """
        return self.store.lead()

    def publish(self, agent: Any, *, lease: Lease | None = None) -> int:
        """Publish an agent in the log, so that other processes can decide with it; return its version.

        Parameters
        ----------
        agent
            An agent that learns from this log.
        lease
            The lease that `lead` returned, as for `apply`.
        """
        with self._learning:
            data, position, now = zlib.compress(agent.to_bytes(), 1), position_of(agent), self.clock()

        def work(tables: Tables) -> int:
            check_lease(tables, lease)
            return tables.add_model(position, now, data)

        return self.store.write(work)

    def model(self, after: int = 0) -> Model | None:
        """Return the latest published agent, or None; `lim2.from_bytes` reads its data.

        Parameters
        ----------
        after
            Return only a version later than this one.
        """
        found = self.store.look(lambda tables: tables.model(after))
        if found is None or found.data.startswith(MAGIC):  # of lim2 0.2 or earlier
            return found
        try:
            return found._replace(data=zlib.decompress(found.data))
        except zlib.error:  # damaged, as whoever reads it will find
            return found

    def add_arm(
        self, agent: Any, name: Hashable, like: Hashable | None = None, *, features: Any = None, batch: Batch = 1
    ) -> bool:
        """Add an arm to an agent and record the change, so that restarts and `replay` add it at the same point.

        If another process has already added it, the agent learns this from the log, and nothing is written.

        Parameters
        ----------
        agent
            The agent. It first learns all new rewards.
        name, like, features
            Arguments of `agent.add_arm`; features only if arms have features.
        batch
            Number of events learned in one update, as for `apply`.

        Returns
        -------
        bool
            Whether this call added the arm.
        """
        values = None if features is None else as_json(features, "an arm")
        return self._change(agent, Change(ADD, name, like, values), batch)

    def remove_arm(self, agent: Any, name: Hashable, *, batch: Batch = 1) -> bool:
        """Remove an arm from an agent and record the change, so that restarts and `replay` remove it at the same point.

        If another process has already removed it, the agent learns this from the log, and nothing is written.

        Parameters
        ----------
        agent
            The agent. It first learns all new rewards.
        batch
            Number of events learned in one update, as for `apply`.

        Returns
        -------
        bool
            Whether this call removed the arm.
        """
        return self._change(agent, Change(REMOVE, name), batch)

    def _change(self, agent: Any, change: Change, batch: Batch) -> bool:
        to_text(change)  # a change that cannot be stored is refused before anything is learned
        present, written = has(agent, change.name), False
        while not written:
            self.apply(agent, batch=batch)
            if has(agent, change.name) != present:  # another process was first
                return False
            make_change(copy.deepcopy(agent), change)  # a change that cannot be made must not be stored
            position, now = position_of(agent), self.clock()
            written = self.store.write(lambda tables: write_change(tables, change, position, now))  # noqa: B023
        self.apply(agent, batch=batch)
        return True

    # Reading

    @property
    def position(self) -> int:
        """Position of the last event, which is the number of events so far."""
        return self.store.look(lambda tables: tables.last())

    def get(self, id: str) -> LoggedDecision:
        """Return a decision, with its reward if it has one."""
        return read_one(self.store, checked_id(id))

    def latest(self, key: str, within: float) -> LoggedDecision | None:
        """Return a person's latest decision, or None.

        Parameters
        ----------
        key
            Key that was given with the decision.
        within
            Its largest age in seconds.
        """
        since, person = self.clock() - within, checked_id(key, "a key")
        id = self.store.look(lambda tables: tables.latest(person, since))
        return None if id is None else read_one(self.store, id)

    def pending(self) -> list[LoggedDecision]:
        """Return the pending decisions, oldest first."""
        return list(entries(self.store, "pending"))

    def table(self, last: int | None = None) -> Table:
        """Return the decisions that have a reward, default rewards included, as arrays for evaluation.

        A slate contributes its first position, whose propensity is known.

        Parameters
        ----------
        last
            Number of newest decisions to consider. None: all in the log.

        Examples
        --------
        >>> import tempfile, lim2
        >>> with tempfile.TemporaryDirectory() as folder, lim2.DecisionLog(f"{folder}/decisions.db") as log:
        ...     bandit = lim2.Bandit(arms=["spring", "shoes"], seed=0, log=log)
        ...     bandit.update(bandit.decide({"country": "AT"}, key="user 1"), 1.0)
        ...     table = log.table()
        ...     len(table), table.rewards.tolist(), table.propensity.tolist()
        (1, [1.0], [0.985])
        """
        if last is not None:
            positive_int("last", last, least=0)
        return read_table(self.store, last)

    def proof(self, against: Any, *, reward_range: tuple[float, float] | None = None, level: float = 0.95) -> Proof:
        """Compare the logged decisions with a rule, by an interval that is valid however often one looks at it.

        It counts all decisions since the log began, in their order, up to the first that still waits for its reward.
        The sums of rules that can be written down are kept in the log, so pruned and erased decisions stay in them.

        Parameters
        ----------
        against
            The rule: name of an arm, ``"always:ARM"``, ``"uniform"``, ``"first"`` (the first candidate); or a function,
            an agent or a bandit, as for :func:`lim2.evaluate`.
        reward_range
            Smallest and largest reward; rewards beyond are capped. None: 0 to 1. If a reward is not between these, the
            interval is approximate, and there is no verdict.
        level
            Confidence level of the interval and of the verdict.

        Examples
        --------
        >>> import tempfile, lim2, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bandit = lim2.Bandit(arms=["spring", "shoes"], log=f"{folder}/visits.db", epsilon=0.5, seed=0)
        ...     for _ in range(400):
        ...         decision = bandit.decide({"country": "AT"})
        ...         bandit.update(decision, float(rng.random() < (0.2 if decision.arm == "spring" else 0.6)))
        ...     print(bandit.log.proof(against="spring"))
        ...     bandit.log.close()
        +82.7% reward per decision against "spring" (at least +14.0%), proved after 140 decisions
        warning: the log says as much about the rule as 21 rewarded decisions by the rule itself, fewer than 50
        """
        return prove(self.store, question_of(against, reward_range, level))

    @property
    def state(self) -> LogState:
        """Counts of pending, rewarded, expired and other decisions, and the size of the log."""
        return read_state(self.store, self.clock())

    def backup(self, path: Path | str) -> None:
        """Write a consistent copy to a new file while the log is in use.

        The copy is an SQLite log, even if this log is in PostgreSQL, where ``pg_dump`` backs up all logs of a database
        at once. Save the agent before the backup: the copy then contains everything that the saved agent has learned.
        """
        self.store.backup(path)

    def close(self) -> None:
        """Close the log. All data is already committed."""
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
    return checked_settings(
        after, None if default_reward is None else rewards.checked_reward(default_reward), aggregate
    )


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < LARGEST:
        raise ValueError(f"{name} must be a positive number of seconds or a timedelta, got {shown(value)}")
    return float(seconds)


def _check_keep(keep: int | timedelta | None) -> None:
    if isinstance(keep, timedelta):
        _seconds("keep", keep)
    elif keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
        raise ValueError(f"keep must be a number of decisions, a timedelta, or None for all, got {keep!r}")
