"""Decisions that wait for their rewards, in a file that survives a crash."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from lim2.checks import LARGEST, positive_int, shown
from lim2.decision import Decision, Slate
from lim2.log import deciders
from lim2.log.changes import ADD, REMOVE, Change, make_change, to_text, write_change
from lim2.log.entries import LoggedDecision
from lim2.log.errors import LogError, PrunedLogError
from lim2.log.learning import decide_again, learn, position_of, prune
from lim2.log.raw import as_json
from lim2.log.reading import LogState, entries, read_one, read_state, read_table
from lim2.log.settings import Settings, agree, read_settings, write_settings
from lim2.log.settling import Outcome, checked_id, checked_reward, expire, find, reward_one, settle
from lim2.log.situation import Situation, situation
from lim2.log.slates import by_position, rows_of
from lim2.log.store import Store
from lim2.log.table import Table
from lim2.log.writing import check_free, write

if TYPE_CHECKING:
    import sqlite3


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
        Seconds, or a `timedelta`, after which a decision is no longer waited for. It is kept in the file, with
        `default_reward`, and holds for all who use the log; another one is a LogError. None: as the file says. If it
        says nothing: forever, and then decisions whose reward never comes pile up.
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
        keep: int | timedelta | None = 1_000_000,
        synchronous: str = "full",
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
    ) -> None:
        given = _settings(expire_after, default_reward)
        if isinstance(keep, timedelta):
            _seconds("keep", keep)
        elif keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 0):
            raise ValueError(f"keep must be a number of decisions, a timedelta, or None for all, got {keep!r}")
        if synchronous not in ("full", "normal"):
            raise ValueError(f"synchronous must be 'full' or 'normal', got {synchronous!r}")
        self.keep, self.read_only = keep, read_only
        self._clock = clock
        self._store = Store(path, synchronous, read_only)
        self._learning = threading.Lock()
        try:
            if given.expire_after is not None and not read_only:
                self._store.write(lambda file: agree(file, given))
        except BaseException:
            self._store.close()
            raise
        self.id: str = self._store.meta("id")

    @property
    def expire_after(self) -> float | None:
        """Seconds after which a decision is no longer waited for; None: forever."""
        return self._store.look(read_settings).expire_after

    @property
    def default_reward(self) -> float | None:
        """The reward of a decision that expires; None: it is dropped."""
        return self._store.look(read_settings).default_reward

    def configure(self, *, expire_after: float | timedelta | None = None, default_reward: float | None = None) -> None:
        """Change, from now on and for all who use the log, when decisions expire and what they earn then.

        Parameters
        ----------
        expire_after
            As for the log itself; None: never.
        default_reward
            As for the log itself; None: expired decisions are dropped.
        """
        given = _settings(expire_after, default_reward)
        self._store.write(lambda file: write_settings(file, given))

    # Deciding

    def decide(
        self,
        agent: Any,
        context: Any,
        arms: Sequence[Hashable] | None = None,
        *,
        items: Any = None,
        raw: Any = None,
        raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
        exploit: bool = False,
        id: str | None = None,
    ) -> LoggedDecision:
        """Let an agent, or a snapshot of one, decide, and write the decision down.

        A `lim2.Bandit` takes raw contexts and items: they are kept as JSON, and converted before it decides, so that
        it sees now what `replay` will show it. Other agents take vectors, and vectors are kept.

        Parameters
        ----------
        agent
            Whose `decide` is asked.
        context, arms, items, exploit
            As `agent.decide` takes them.
        raw, raw_items
            What the vectors were made of, to be kept beside them: a dictionary or row, and features of the items, by
            name or in the order of `items`. A `lim2.Bandit` can then be trained by `replay`.
        id
            Your own, used once; None makes one.
        """
        about = self._about(agent, context, items, raw, raw_items)
        check_free(self._store, id)
        decision = deciders.decide(agent, about, arms, exploit)
        return write(self._store, [(decision, about, 0)], id, self._clock(), position_of(agent))[0]

    def rank(
        self,
        agent: Any,
        context: Any,
        items: Any,
        k: int,
        *,
        raw: Any = None,
        raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
        id: str | None = None,
    ) -> Slate[LoggedDecision]:
        """Let an agent rank items, and write the slate down, a row per position.

        Parameters
        ----------
        agent
            Whose `rank` is asked.
        context, items, k
            As `agent.rank` takes them.
        raw, raw_items
            As for `decide`.
        id
            Of the slate, used once; None makes one.
        """
        about = self._about(agent, context, items, raw, raw_items)
        check_free(self._store, id)
        return self._write_slate(deciders.rank(agent, about, k), about, id, position_of(agent))

    def record(
        self,
        decision: Decision,
        context: ArrayLike | None = None,
        *,
        items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        raw: Any = None,
        raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
        id: str | None = None,
        agent: Any = None,
    ) -> LoggedDecision:
        """Write down a decision that was made elsewhere.

        Parameters
        ----------
        decision
            What `agent.decide` returned.
        context, items
            In which and among which it was made, as vectors.
        raw, raw_items
            The same as dictionaries or rows, instead of vectors or beside them.
        id
            Your own, used once; None makes one.
        agent
            Who made it. `replay` can make decisions again only if it is known after how many rewards they were made.
        """
        about = situation(context, items, raw, raw_items)
        return write(self._store, [(decision, about, 0)], id, self._clock(), position_of(agent))[0]

    def record_slate(
        self,
        slate: Iterable[Decision],
        context: ArrayLike | None = None,
        *,
        items: ArrayLike | Mapping[Any, ArrayLike] | None = None,
        raw: Any = None,
        raw_items: Mapping[Any, Any] | Sequence[Any] | None = None,
        id: str | None = None,
        agent: Any = None,
    ) -> Slate[LoggedDecision]:
        """Write down a slate that was made elsewhere: a row per position, so that each position has its reward.

        Parameters
        ----------
        slate
            A decision per position, over the same candidates. The propensity is that of being first.
        context, items, raw, raw_items
            As for `record`.
        id
            Of the slate, used once; None makes one. Its positions get the ids ``f"{id}/1"``, ``f"{id}/2"``, ...
        agent
            Who made it, as for `record`.
        """
        return self._write_slate(list(slate), situation(context, items, raw, raw_items), id, position_of(agent))

    def _about(self, agent: Any, context: Any, items: Any, raw: Any, raw_items: Any) -> Situation:
        if not deciders.takes_raw(agent):
            return situation(context, items, raw, raw_items)
        if raw is not None or raw_items is not None:
            raise ValueError("raw= and raw_items= go beside vectors; what this agent takes is raw, and kept as it is")
        return situation(None, None, context, items)

    def _write_slate(
        self, slate: list[Decision], about: Situation, id: str | None, position: int
    ) -> Slate[LoggedDecision]:
        rows = [(entry, alone, slot) for slot, (entry, alone) in enumerate(rows_of(slate, about), start=1)]
        decisions = write(self._store, rows, id, self._clock(), position)
        return Slate(decisions[0].id.removesuffix("/1"), tuple(decisions))

    # Rewards

    @overload
    def reward(self, id: str, reward: float) -> Outcome: ...

    @overload
    def reward(self, id: str, reward: Mapping[Any, float]) -> dict[Any, Outcome]: ...

    def reward(self, id: str, reward: float | Mapping[Any, float]) -> Outcome | dict[Any, Outcome]:
        """Record the reward of a decision, or rewards of positions of a slate.

        Parameters
        ----------
        id
            Of the decision, or of the slate.
        reward
            What the decision earned. For a slate: position (``2`` or ``"slot 2"``) -> reward, of all positions or some;
            if one of them is refused, none is written. Positions that are left out go on waiting.

        Returns
        -------
        str or dict
            ``"recorded"``; ``"duplicate"`` if the same reward was recorded before; ``"late"`` if the decision had
            expired or been discarded, and then nothing changes: what stands in for its reward may have been learned.
            For a slate: position -> one of these.
        """
        if isinstance(reward, Mapping):
            return dict(zip(reward, self.reward_many(by_position(checked_id(id), reward)), strict=True))
        return self.reward_many([(id, reward)])[0]

    def reward_many(self, rewards: Iterable[tuple[str, float]]) -> list[Outcome]:
        """Record many rewards in one transaction: all are written, or, if one of them is refused, none.

        Parameters
        ----------
        rewards
            Pairs of id and reward.
        """
        checked = [(checked_id(id), checked_reward(reward)) for id, reward in rewards]
        now = self._clock()

        def record(file: sqlite3.Connection) -> list[Outcome]:
            # Whatever is overdue by now is settled first, so that the outcome depends on the times alone, not on
            # when somebody happened to look.
            expire(file, now)
            return [reward_one(file, id, reward, now) for id, reward in checked]

        return self._store.write(record)

    def expire(self) -> int:
        """Settle the decisions that are overdue, as `apply` and `reward` do by themselves; return how many."""
        after, now = self.expire_after, self._clock()
        if after is None or self.read_only:
            return 0
        due = "SELECT 1 FROM decisions WHERE settled IS NULL AND time <= ? LIMIT 1"
        if not self._store.read(due, (now - after,)):
            return 0
        return self._store.write(lambda file: expire(file, now))

    def discard(self, id: str) -> None:
        """Leave a decision out: nothing is learned from it, and it is not part of any evaluation.

        If an agent has learned its reward already, that stays learned; `replay` then gives a different agent.

        Parameters
        ----------
        id
            Of the decision, with or without a reward.
        """
        key, now = checked_id(id), self._clock()

        def leave_out(file: sqlite3.Connection) -> None:
            seq, settled = find(file, key)
            if settled is None:
                settle(file, [(now, "discarded", seq, None)])
            else:
                file.execute("UPDATE events SET kind = 'discarded' WHERE position = ?", (settled,))

        self._store.write(leave_out)

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
        deciders.check_learner(agent)
        if limit is not None:
            positive_int("limit", limit, least=0)
        with self._learning:
            self.expire()
            learned = learn(self._store, agent, limit=limit)
            if not self.read_only:
                prune(self._store, self.keep, position_of(agent), self._clock())
        return learned

    def replay(self, agent: Any, *, decisions: bool = False, allow_partial: bool = False) -> int:
        """Let a fresh agent learn everything from the beginning.

        An agent with the settings and seed of the one that learned live knows the same, bit for bit, since decisions
        and learning draw from random streams of their own. A `lim2.Bandit` with another encoder learns from the raw
        contexts and items, if they were kept. With ``decisions=True`` the decisions are made again as
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
        deciders.check_learner(agent)
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

    def add_arm(self, agent: Any, name: Hashable, like: Hashable | None = None, *, features: Any = None) -> bool:
        """Add an arm to an agent, and write it down, so that restarts and replay add it at the same place.

        If another agent has added it meanwhile, that is learned from the log, and nothing is written.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name, like, features
            As `agent.add_arm` takes them; features only where arms have some.

        Returns
        -------
        bool
            Whether this call has added it.
        """
        own = None if features is None else as_json(features, "an arm")
        return self._change(agent, Change(ADD, name, like, own))

    def remove_arm(self, agent: Any, name: Hashable) -> bool:
        """Remove an arm from an agent, and write it down, so that restarts and replay remove it at the same place.

        If another agent has removed it meanwhile, that is learned from the log, and nothing is written.

        Parameters
        ----------
        agent
            It learns what has arrived first.
        name
            Of the arm.

        Returns
        -------
        bool
            Whether this call has removed it.
        """
        return self._change(agent, Change(REMOVE, name))

    def _change(self, agent: Any, change: Change) -> bool:
        to_text(change)  # what cannot be written down is refused before anything is learned
        had, written = deciders.has(agent, change.name), False
        while not written:
            self.apply(agent)
            if deciders.has(agent, change.name) != had:  # somebody else was first
                return False
            make_change(copy.deepcopy(agent), change)  # what cannot be done must not be written down
            position, now = position_of(agent), self._clock()
            written = self._store.write(lambda file: write_change(file, change, position, now))  # noqa: B023
        self.apply(agent)
        return True

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
        return read_one(self._store, checked_id(id))

    def pending(self) -> list[LoggedDecision]:
        """Return the decisions that wait for their reward, the oldest first."""
        return list(entries(self._store, "d.settled IS NULL"))

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
        return read_table(self._store, last)

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


def _settings(expire_after: float | timedelta | None, default_reward: float | None) -> Settings:
    if default_reward is not None and expire_after is None:
        raise ValueError("default_reward is given when a decision expires: say when, by expire_after=")
    after = None if expire_after is None else _seconds("expire_after", expire_after)
    return Settings(after, None if default_reward is None else checked_reward(default_reward))


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < LARGEST:
        raise ValueError(f"{name} must be a positive number of seconds or a timedelta, got {shown(value)}")
    return float(seconds)
