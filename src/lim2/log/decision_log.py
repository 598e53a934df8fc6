"""Decisions that wait for their rewards, in a file that survives a crash."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike, NDArray

from lim2.checks import LARGEST
from lim2.decision import Decision
from lim2.log import names
from lim2.log.entries import COLUMNS, OF_DECISION, LoggedDecision, as_context, from_row, new_id, to_row
from lim2.log.errors import ConflictingRewardError, LogError, PrunedLogError, UnknownDecisionError
from lim2.log.learning import CHUNK, decide_again, learn, position_of, prune
from lim2.log.state import LogState, read_state
from lim2.log.store import Store
from lim2.log.table import Table, make_table

if TYPE_CHECKING:
    import sqlite3

Outcome = Literal["recorded", "duplicate", "late"]


class DecisionLog:
    """A file of decisions and their rewards, from which an agent learns each reward exactly once.

    What a call has returned is in the file: it survives `kill -9` at any later moment. Any number of threads and
    processes on one machine may use one log; SQLite lets them write one at a time. An agent still belongs to one
    thread.

    Parameters
    ----------
    path
        The file, an SQLite database in WAL mode (two files named ``-wal`` and ``-shm`` live beside it); on a local
        disk, not on a network share. It is made when it is not there.
    expire_after
        Seconds, or a `timedelta`, after which a decision is no longer waited for. None: forever, and then decisions
        whose reward never comes pile up.
    default_reward
        The reward of a decision that expires, say 0 for a click that never came. None: it is dropped, nothing is
        learned.
    keep
        How many settled decisions stay in the file, or for how long (a `timedelta`): for `replay`, for evaluation, and
        for saved agents to catch up with. None: all. They are deleted when an agent that has learned from them calls
        `apply`.
    synchronous
        ``"full"``: what was acknowledged survives a loss of power as well, at the price of one flush of the disk each.
        ``"normal"``: quicker; a loss of power may take the last few decisions and rewards with it, which can leave a
        saved agent ahead of its log.
    clock
        Returns the time in seconds. Give all processes that share a log the same clock and the same settings.

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
        keep: int | timedelta | None = 1_000_000,
        synchronous: str = "full",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.expire_after = None if expire_after is None else _seconds("expire_after", expire_after)
        self.default_reward = None if default_reward is None else _checked_reward(default_reward)
        if default_reward is not None and expire_after is None:
            raise ValueError("default_reward is given when a decision expires: say when, by expire_after=")
        if isinstance(keep, timedelta):
            _seconds("keep", keep)
        elif keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
            raise ValueError(f"keep must be a number of decisions, a timedelta, or None for all, got {keep!r}")
        if synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', got {synchronous!r}")
        self.keep = keep
        self._clock = clock
        self._store = Store(path, synchronous)
        self._learning = threading.Lock()
        self.id: str = self._store.meta("id")

    # Deciding

    def decide(
        self,
        agent: Any,
        context: ArrayLike,
        arms: Sequence[Hashable] | None = None,
        *,
        exploit: bool = False,
        id: str | None = None,
    ) -> LoggedDecision:
        """Let an agent, or a snapshot of one, decide, and write the decision down.

        Parameters
        ----------
        agent
            Whose `decide` is asked.
        context, arms, exploit
            As `agent.decide` takes them.
        id
            Your own, used once; None makes one.
        """
        x = as_context(context)
        if id is not None and self._store.read("SELECT 1 FROM decisions WHERE id = ?", (_checked_id(id),)):
            raise LogError(f"the id {id!r} is taken by an earlier decision: ids are used once")
        return self._record(agent.decide(x, arms, exploit=exploit), x, id, position_of(agent))

    def record(self, decision: Decision, context: ArrayLike, *, id: str | None = None) -> LoggedDecision:
        """Write down a decision that was made elsewhere.

        Parameters
        ----------
        decision
            What `agent.decide` returned.
        context
            In which it was made.
        id
            Your own, used once; None makes one.
        """
        return self._record(decision, as_context(context), id, 0)

    def _record(self, decision: Decision, context: NDArray[Any], id: str | None, position: int) -> LoggedDecision:
        now = self._clock()
        key = new_id(now) if id is None else _checked_id(id)
        row = to_row(decision, context, key, now)
        with self._store.writing() as file:
            if id is not None and _found(file, key):
                raise LogError(f"the id {key!r} is taken by an earlier decision: ids are used once")
            marks = ", ".join("?" * (len(row) + 1))
            file.execute(f"INSERT INTO decisions ({COLUMNS}, position) VALUES ({marks})", (*row, position))
        return from_row(row, "pending", None)

    # Rewards

    def reward(self, id: str, reward: float) -> Outcome:
        """Record the reward of a decision.

        Parameters
        ----------
        id
            Of the decision.
        reward
            What it earned.

        Returns
        -------
        str
            ``"recorded"``; ``"duplicate"`` if the same reward was recorded before; ``"late"`` if the decision had
            expired or been discarded, and then nothing changes: what stands in for its reward may have been learned.
        """
        return self.reward_many([(id, reward)])[0]

    def reward_many(self, rewards: Iterable[tuple[str, float]]) -> list[Outcome]:
        """Record many rewards in one transaction: all are written, or, if one of them is refused, none.

        Parameters
        ----------
        rewards
            Pairs of id and reward.
        """
        checked = [(_checked_id(id), _checked_reward(reward)) for id, reward in rewards]
        now = self._clock()
        with self._store.writing() as file:
            # Whatever is overdue by now is settled first, so that the outcome depends on the times alone, not on
            # when somebody happened to look.
            self._expire(file, now)
            return [self._reward(file, id, reward, now) for id, reward in checked]

    def _reward(self, file: sqlite3.Connection, id: str, reward: float, now: float) -> Outcome:
        seq, settled = _find(file, id)
        if settled is None:
            _settle(file, [(now, "reward", seq, reward)])
            return "recorded"
        kind, known = file.execute("SELECT kind, reward FROM events WHERE position = ?", (settled,)).fetchone()
        if kind != "reward":
            file.execute("UPDATE meta SET value = value + 1 WHERE key = 'late'")
            return "late"
        if known != reward:
            raise ConflictingRewardError(
                f"decision {id!r} has the reward {known!r}, and now {reward!r} is given: a decision has one reward. "
                f"Nothing has changed."
            )
        return "duplicate"

    def expire(self) -> int:
        """Settle the decisions that are overdue, as `apply` and `reward` do by themselves; return how many."""
        if self.expire_after is None:
            return 0
        now = self._clock()
        due = "SELECT 1 FROM decisions WHERE settled IS NULL AND time <= ? LIMIT 1"
        if not self._store.read(due, (now - self.expire_after,)):
            return 0
        with self._store.writing() as file:
            return self._expire(file, now)

    def _expire(self, file: sqlite3.Connection, now: float) -> int:
        if self.expire_after is None:
            return 0
        query = "SELECT seq, time FROM decisions WHERE settled IS NULL AND time <= ? ORDER BY time, seq"
        overdue = file.execute(query, (now - self.expire_after,)).fetchall()
        kind = "dropped" if self.default_reward is None else "default"
        _settle(file, [(made + self.expire_after, kind, seq, self.default_reward) for seq, made in overdue])
        return len(overdue)

    def discard(self, id: str) -> None:
        """Leave a decision out: nothing is learned from it, and it is not part of any evaluation.

        If an agent has learned its reward already, that stays learned; `replay` then gives a different agent.

        Parameters
        ----------
        id
            Of the decision, with or without a reward.
        """
        with self._store.writing() as file:
            seq, settled = _find(file, _checked_id(id))
            if settled is None:
                _settle(file, [(self._clock(), "discarded", seq, None)])
            else:
                file.execute("UPDATE events SET kind = 'discarded' WHERE position = ?", (settled,))

    # Learning

    def apply(self, agent: Any, limit: int | None = None) -> int:
        """Let an agent learn the rewards that have arrived since it last did, in order of arrival, each exactly once.

        How far it has come is in ``agent.metadata["log_position"]``, and saved with the agent: after a crash, a saved
        agent catches up here. A reward of an arm that was removed meanwhile is passed over.

        Parameters
        ----------
        agent
            It must have been made, or loaded, as it was when this log began, or have learned from this log.
        limit
            Learn at most this many. None: all.

        Returns
        -------
        int
            How many rewards were learned.
        """
        with self._learning:
            self.expire()
            learned = learn(self._store, agent, limit=limit)
            prune(self._store, self.keep, position_of(agent), self._clock())
        return learned

    def replay(self, agent: Any, *, decisions: bool = False, allow_partial: bool = False) -> int:
        """Let a fresh agent learn everything from the beginning.

        An agent with the settings and seed of the one that learned live knows the same, bit for bit, since decisions
        and learning draw from random streams of their own. With ``decisions=True`` the decisions are made again as
        well, each after as many rewards as it had been made after, and compared: then the agent goes on deciding like
        the live one, too. That needs a life without a restart, in which one agent made all decisions through `decide`.

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
        if "log_position" in agent.metadata:
            raise LogError("replay starts from the beginning: give it a fresh agent, or use apply to go on")
        pruned = self._store.meta("pruned")
        if pruned and not allow_partial:
            raise PrunedLogError(
                f"the log begins after position {pruned}: what came before was deleted, as keep={self.keep!r} says. "
                f"allow_partial=True replays the rest, which gives a different agent."
            )
        with self._learning:
            agent.metadata.update(log_id=self.id, log_position=pruned)
            learned = decide_again(self._store, agent) if decisions else 0
            return learned + learn(self._store, agent)

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

    def add_arm(self, agent: Any, name: Hashable, like: Hashable | None = None) -> None:
        """Add an arm to an agent, and write it down, so that restarts and replay add it at the same place.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name, like
            As `agent.add_arm` takes them.
        """
        given = {} if like is None else {"like": like}
        self._change(agent, "add_arm", name, given)

    def remove_arm(self, agent: Any, name: Hashable) -> None:
        """Remove an arm from an agent, and write it down, so that restarts and replay remove it at the same place.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name
            Of the arm.
        """
        self._change(agent, "remove_arm", name, {})

    def _change(self, agent: Any, kind: str, name: Hashable, given: dict[str, Hashable]) -> None:
        text = names.dumps([name, *given.values()])
        self.apply(agent)
        getattr(copy.deepcopy(agent), kind)(name, **given)  # what cannot be done must not be written down
        with self._store.writing() as file:
            file.execute("INSERT INTO events (time, kind, change) VALUES (?, ?, ?)", (self._clock(), kind, text))
        self.apply(agent)

    # Looking

    @property
    def position(self) -> int:
        """The position of the last event: how many there have been."""
        return self._store.last()

    def get(self, id: str) -> LoggedDecision:
        """Return a decision, with its reward if it has one.

        Parameters
        ----------
        id
            Of the decision.
        """
        rows = list(self._entries("d.id = ?", (_checked_id(id),)))
        if not rows:
            raise _unknown(id)
        return rows[0]

    def pending(self) -> list[LoggedDecision]:
        """Return the decisions that wait for their reward, the oldest first."""
        return list(self._entries("d.settled IS NULL"))

    def _entries(self, where: str, values: tuple[Any, ...] = ()) -> Iterator[LoggedDecision]:
        """Yield some decisions in the order in which they were made, read a chunk at a time."""
        query = (
            f"SELECT d.seq, coalesce(e.kind, 'pending'), e.reward, {OF_DECISION} FROM decisions d "
            f"LEFT JOIN events e ON e.position = d.settled WHERE d.seq > ? AND {where} ORDER BY d.seq LIMIT {CHUNK}"
        )
        after = 0
        while rows := self._store.read(query, (after, *values)):
            for _, status, reward, *row in rows:
                yield from_row(tuple(row), status, reward)
            after = rows[-1][0]

    def table(self, last: int | None = None) -> Table:
        """Return the decisions that have a reward, default rewards included, as arrays for evaluation.

        Parameters
        ----------
        last
            Only the newest of all decisions, as many. None: all that are in the file.
        """
        newest = self._store.read("SELECT coalesce(max(seq), 0) FROM decisions")[0][0]
        first = 0 if last is None else newest - last
        entries = self._entries("d.seq > ? AND coalesce(e.kind, '') IN ('reward', 'default')", (first,))
        query = (
            "SELECT count(*) FROM decisions d LEFT JOIN events e ON e.position = d.settled "
            "WHERE d.seq > ? AND coalesce(e.kind, 'pending') IN ('pending', 'dropped')"
        )
        return make_table(entries, missing=self._store.read(query, (first,))[0][0])

    @property
    def state(self) -> LogState:
        """How many decisions wait, since when, what became of the others, and how large the file is."""
        return read_state(self._store, self._clock())

    def backup(self, path: Path | str) -> None:
        """Write a consistent copy to a new file, while others go on using the log.

        Save the agent first: then the copy has everything that the saved agent has learned, and it catches up.

        Parameters
        ----------
        path
            The copy.
        """
        self._store.copy(path)

    def close(self) -> None:
        """Let go of the file; nothing needs to be written."""
        self._store.close()

    def __enter__(self) -> DecisionLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DecisionLog({str(self._store.path)!r})"


def _settle(file: sqlite3.Connection, events: list[tuple[float, str, int, float | None]]) -> None:
    """Append (time, kind, decision, reward) events, and point the decisions to them."""
    for event in events:
        row = file.execute("INSERT INTO events (time, kind, decision, reward) VALUES (?, ?, ?, ?)", event)
        file.execute("UPDATE decisions SET settled = ? WHERE seq = ?", (row.lastrowid, event[2]))


def _found(file: sqlite3.Connection, id: str) -> Any:
    return file.execute("SELECT seq, settled FROM decisions WHERE id = ?", (id,)).fetchone()


def _find(file: sqlite3.Connection, id: str) -> tuple[int, int | None]:
    row = _found(file, id)
    if row is None:
        raise _unknown(id)
    return row[0], row[1]


def _unknown(id: str) -> UnknownDecisionError:
    return UnknownDecisionError(
        f"no decision {id!r} is in the log: it was never recorded, or it was settled and has been deleted since (keep)"
    )


def _checked_id(id: str) -> str:
    if not isinstance(id, str) or not id:
        raise ValueError(f"an id must be a string that is not empty, got {id!r}")
    return id


def _checked_reward(reward: float) -> float:
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = math.nan
    if not abs(value) < LARGEST or isinstance(reward, str):
        raise ValueError(f"a reward must be one number, finite and smaller than {LARGEST:g}, got {reward!r}")
    return value


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ValueError(f"{name} must be a positive number of seconds or a timedelta, got {value!r}")
    return float(seconds)
