"""One bandit that learns: its model, in the process that has the lease of its log."""

import logging
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from lim2.bandit import Bandit
from lim2.info import Info
from lim2.loading import from_bytes
from lim2.log import DecisionLog, Lease, LogError, LostLeaseError
from lim2.log.entries import from_row
from lim2.log.learning import history_of, position_of
from lim2.log.pruning import prune
from lim2.persistence import LoadError
from lim2.serve.catalog import Catalog, NoBanditError, StaleError
from lim2.serve.catalog.logs import first_model
from lim2.serve.snapshots import Diagnostics, Snapshot, pack
from lim2.serve.spec import checksum, kept_for

logger = logging.getLogger("lim2.serve")

MIN_REWARDS, STEP_SECONDS = 64, 0.5  # rewards that are learned at least, and seconds, before others are
STANDBY_SECONDS = 1.0  # between attempts to get the lease that another learner has
TIDY_SECONDS = 1.0  # between looks for decisions that are too old
SAVE_SECONDS, SAVE_BYTES_PER_SECOND = 60.0, 10_000.0  # between models that are saved: at least, and by their size
MAX_ATTEMPTS = 3  # to learn an event, before it is passed over


class Step(NamedTuple):
    """What a step has done."""

    rewards: int = 0
    unfinished: bool = False  # whether there was no time for all
    again_in: float | None = None  # seconds until there may be something to do of which nobody tells
    idle: bool = False  # whether there is nothing to learn, as one could see without the lease


class LearningBandit:
    """A bandit that learns. For one thread.

    Its log can be closed while its model stays in memory: a log takes files, of which a process has few.
    """

    def __init__(self, name: str, catalog: Catalog) -> None:
        self.name, self._catalog = name, catalog
        self.stamp = catalog.stamp(name)
        self.stored = catalog.read(name)
        self.log: DecisionLog | None = None
        self._unlisten: Callable[[], None] = lambda: None
        self._lease: Lease | None = None
        self._bandit: Bandit | None = None
        self._posted: _Shown | None = None  # what the latest snapshot shows
        self._version = 0  # of it
        self._saved, self._saves_at, self._tidies_at = 0, math.inf, -math.inf  # position of the model that is saved
        self._behind = True  # until it has caught up, the snapshot before goes on deciding
        self._size = 0  # bytes of the latest snapshot, about those of a saved model
        self._attempts = -1, 0  # the position that could not be learned, and how often
        self.rewards, self.seconds, self.passed_over = 0, 0.0, 0
        self.news_since = math.inf  # when the oldest news that no snapshot shows were learned
        self.urgent = False  # whether somebody waits for the next snapshot

    @property
    def leads(self) -> bool:
        """Whether this process has the right to learn it."""
        return self._lease is not None

    @property
    def has_model(self) -> bool:
        """Whether its model is in memory."""
        return self._bandit is not None

    @property
    def has_news(self) -> bool:
        """Whether there is something to post."""
        return self.news_since < math.inf

    @property
    def info(self) -> Info | None:
        """What the latest update did."""
        return None if self._bandit is None else self._bandit.info

    # Learning

    def step(self) -> Step:
        """Learn what has arrived, for a while.

        NoBanditError: the bandit was deleted, whether or not another one has its name by now.
        """
        self._refresh()
        log = self._opened()
        if self._bandit is None and self._is_idle(log):
            return Step(again_in=self._until_due(log), idle=True)
        if self._is_up_to_date(log):  # without the lease, for which something is written
            return Step(again_in=self._until_due(log), idle=True)
        if not self._stand(log):
            return Step(again_in=STANDBY_SECONDS)
        assert self._lease is not None
        try:
            rewards, arrived = self._learn(log, self._lease)
        except StaleError:
            return Step(unfinished=True)  # it looks again at once
        except LostLeaseError:
            self.rest()
            self._bandit = None
            logger.warning("another process learns the bandit %s: it has got the right to", self.name)
            return Step(again_in=STANDBY_SECONDS)
        return Step(rewards, not arrived, self._until_due(log) if arrived else None)

    def _is_idle(self, log: DecisionLog) -> bool:
        """Return whether there is nothing to learn, as one can see without the model."""
        last, saved, oldest = log.store.look(lambda tables: (tables.last(), tables.published(), tables.oldest()))
        after, now = log.expire_after, log.clock()
        if last != saved or (oldest is not None and after is not None and oldest <= now - after):
            return False
        prune(log.store, kept_for(self.stored), saved, now)
        if not last and not self.stored.revision:
            return True  # deciders make a fresh one themselves
        shown = self._on_board()
        return shown is not None and (shown.description, shown.position) == (checksum(self.stored), last)

    def _is_up_to_date(self, log: DecisionLog) -> bool:
        """Return whether the model of a bandit without a lease has learned all, and is posted."""
        if self._lease is not None or self._bandit is None or self._posted is None:
            return False
        last, due = log.store.look(lambda tables: tables.last()), self._until_due(log)
        return due != 0.0 and self._posted[:2] == (last, checksum(self.stored))

    def _on_board(self) -> Snapshot | None:
        try:
            found = self._catalog.board.latest(self.name, 0)
        except ValueError as error:
            logger.error("%s", error)
            return None
        return found if found is not None and found.created == self.stored.created else None

    def _until_due(self, log: DecisionLog) -> float | None:
        """Return the seconds until the oldest pending decision expires."""
        after, oldest = log.expire_after, log.store.look(lambda tables: tables.oldest())
        return None if after is None or oldest is None else max(oldest + after - log.clock(), 0.0)

    def _learn(self, log: DecisionLog, lease: Lease) -> tuple[int, bool]:
        """Learn for a while; return how many rewards, and whether that was all."""
        if self._bandit is None:
            self._bandit = self._started(log)
        bandit, stored = self._bandit, self.stored
        bandit.epsilon = stored.spec.epsilon
        learned, arrived, before = 0, True, bandit.rounds
        mode = None if stored.personalizer is None else stored.personalizer.learning_mode
        if not stored.spec.paused and mode != "LoggingOnly":
            try:
                learned, arrived = self._apply(bandit, log, lease)
            finally:  # before it failed, it may have learned some
                self.rewards += bandit.rounds - before
        self._behind = self._behind and not arrived
        shown = _Shown(position_of(bandit), checksum(stored), bandit.arms)
        if not self._behind and shown != self._posted:
            self.news_since = min(self.news_since, time.monotonic())
            self.urgent = self._posted is None or shown[1:] != self._posted[1:]
        return learned, arrived

    def _apply(self, bandit: Bandit, log: DecisionLog, lease: Lease) -> tuple[int, bool]:
        until, limit, learned = time.monotonic() + STEP_SECONDS, MIN_REWARDS, 0
        while True:
            try:
                count = log.apply(bandit, limit=limit, batch="auto", lease=lease)
            except LogError:
                raise
            except Exception:
                self._attempted(bandit, log)
                raise
            learned += count
            if count < limit or time.monotonic() >= until:
                return learned, count < limit
            limit *= 2

    def _attempted(self, bandit: Bandit, log: DecisionLog) -> None:
        """Note that the event after the model's position could not be learned; after several attempts, discard it."""
        position, (before, count) = position_of(bandit), self._attempts
        self._attempts = position, count + 1 if before == position else 1
        if self._attempts[1] >= MAX_ATTEMPTS:
            id = culprit(bandit, log)
            if id is not None:
                log.discard(id)
                self.passed_over += 1
                logger.error("the bandit %s cannot learn the reward of decision %r: it is discarded", self.name, id)

    # The model

    def _started(self, log: DecisionLog) -> Bandit:
        """Return the bandit that goes on learning: the one saved last, or the start of a new revision."""
        self._behind, self._posted, shown = True, None, self._on_board()
        self._version = 0 if shown is None else shown.version
        self._saves_at = time.monotonic() + SAVE_SECONDS
        if (saved := log.model()) is not None:
            try:
                bandit: Bandit = from_bytes(saved.data)
            except LoadError as error:
                logger.error("the saved model of the bandit %s is damaged, it learns again: %s", self.name, error)
            else:
                if bandit.metadata.get("revision") == self.stored.revision:
                    self._saved = saved.position
                    bandit.reseed(None)  # no two processes draw the same numbers
                    return bandit
        bandit, self._saved = first_model(self.name, self._catalog, self.stored, log)
        bandit.reseed(None)
        return bandit

    def post(self) -> float:
        """Post a snapshot; return how many seconds that takes of this process and of others."""
        assert self._bandit is not None
        if self._lease is None or not self._lease.held:  # another learner posts, or this one when it has learned again
            self.news_since, self.urgent, self._posted = math.inf, False, None
            return 0.0
        began, bandit, info = time.perf_counter(), self._bandit, self.info
        content = pack(bandit)
        self._version = max(self._version + 1, time.time_ns())
        self._posted = _Shown(position_of(bandit), checksum(self.stored), bandit.arms)
        snapshot = Snapshot(
            version=self._version,
            created=self.stored.created,
            description=self._posted.description,
            position=self._posted.position,
            rewards=self.rewards,
            seconds=self.seconds,
            passed_over=self.passed_over,
            diagnostics=Diagnostics() if info is None else Diagnostics.of(info),
            content=content,
        )
        self.news_since, self.urgent, self._size = math.inf, False, len(content)
        self._catalog.board.post(self.name, snapshot)
        return time.perf_counter() - began + len(content) * self._catalog.board.seconds_per_byte

    def lost(self) -> None:
        """Post again what may have been lost."""
        if self._bandit is not None and not self._behind:
            self._posted, self.news_since = None, time.monotonic()

    def is_due(self, now: float) -> bool:
        """Whether :meth:`tidy` has something to do."""
        return (self._lease is not None and now >= self._tidies_at) or (self._is_unsaved and now >= self._saves_at)

    def tidy(self) -> None:
        """Save the model if it is time to, and delete decisions that are too old and part of a saved model.

        And do for the log what would take its writers longer.
        """
        self._tidies_at = time.monotonic() + TIDY_SECONDS
        log = self._opened()
        if self._is_unsaved and time.monotonic() >= self._saves_at and self._stand(log):
            self._save(log)
        prune(log.store, kept_for(self.stored), self._saved, log.clock(), lease=self._lease)
        log.store.checkpoint()

    @property
    def _is_unsaved(self) -> bool:
        return self._bandit is not None and position_of(self._bandit) > self._saved

    def _save(self, log: DecisionLog) -> None:
        if self._bandit is not None and self._lease is not None:
            log.publish(self._bandit, lease=self._lease)
            self._saved = position_of(self._bandit)
            self._saves_at = time.monotonic() + SAVE_SECONDS + self._size / SAVE_BYTES_PER_SECOND

    # The log and the description

    def _opened(self) -> DecisionLog:
        if self.log is None:
            self.log = self._catalog.open_log(self.name, self.stored)
            self._unlisten = self.log.store.listen(lambda: self._catalog.board.notice(self.name))
        return self.log

    def _stand(self, log: DecisionLog) -> bool:
        """Ask for the right to learn, unless this process has it; return whether it has."""
        if self._lease is not None and not self._lease.held:
            self._release()
        if self._lease is None:
            self._lease = log.lead()
        return self._lease is not None

    def _refresh(self) -> None:
        """Read the description again if it has changed."""
        stamp = self._catalog.stamp(self.name)
        if stamp == self.stamp:
            return
        before, now = self.stored, self._catalog.read(self.name)
        if now.created != before.created:
            raise NoBanditError(f"the bandit {self.name!r} was deleted, and another one has its name")
        if now.log != before.log:
            self.rest()
        if now.revision != before.revision:
            self._bandit = None
        self.stored, self.stamp = now, stamp

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
        self._lease = None

    def rest(self) -> None:
        """Close the log, and keep the model."""
        self._release()
        if self.log is not None:
            self._unlisten()
            self.log.close()
        self.log = None

    def close(self, save: bool = True) -> None:
        """Let go of the log and the model."""
        try:
            if save and self._is_unsaved and self._stand(self._opened()):
                self._save(self._opened())
        except (LogError, LookupError) as error:  # it is lost with this process, and learned again from the log
            logger.warning("the model of the bandit %s is not saved: %s", self.name, error)
        self.rest()
        self._bandit = None


class _Shown(NamedTuple):
    """What a snapshot shows."""

    position: int
    description: int
    arms: tuple[Any, ...] | None


def culprit(bandit: Bandit, log: DecisionLog) -> str | None:
    """Return the id of the decision whose reward a bandit cannot learn next; None if it is not a single one."""

    def following(tables: Any) -> list[Any]:
        begin, end = position_of(bandit), tables.next_batch(position_of(bandit))
        last = end[1] if end[0] == begin else begin + 1
        return list(tables.events(begin, last, last - begin))

    for event in log.store.look(following):
        if not event.row:
            continue
        entry = from_row(event.row, event.kind, event.reward)
        try:
            bandit.copy().learn_logged(history_of([entry]), {})
        except Exception:  # noqa: BLE001 (it is this one, and the learner has said why)
            return entry.id
    return None
