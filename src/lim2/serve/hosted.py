"""One bandit of the service, in one process: its log, and the snapshot that decides."""

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from lim2.bandit import Bandit, RawDecider
from lim2.info import Info
from lim2.loading import from_bytes
from lim2.log import Lease, LogError, LostLeaseError
from lim2.log.learning import position_of
from lim2.log.microbatching import DecisionBatcher
from lim2.log.pruning import prune
from lim2.serve import spec as specs
from lim2.serve.catalog import Catalog, NoBanditError, StaleError
from lim2.serve.learner_link import Report
from lim2.serve.refusals import refusals
from lim2.serve.spec import START, Stored

logger = logging.getLogger("lim2.serve")

FEW, A_WHILE = 64, 0.5  # rewards that are learned at least, and seconds, before the snapshot is swapped
OFTEN, SELDOM = 1.0, 5.0  # seconds between looks where logs say what is new: who learns, and who only decides

Ask = Callable[[str, bool], int]  # asks the process that learns to look at a bandit now, and whether to publish it


class Hosted:
    """A bandit, its log and its learner's side.

    Any thread may read ``decider``, ``stored`` and ``log``. :meth:`step` is for the thread that learns.

    Parameters
    ----------
    name
        Of the bandit.
    catalog
        Where it lives.
    learns
        Whether this process may learn.
    decides
        Whether this process decides: then it takes over what others publish.
    publish_every
        Seconds between models that are written down, at least.
    wake
        Called, in another thread, when there is something new in the log.
    ask
        Asks another process of this service, which learns the bandit; None: there is no such process.
    """

    def __init__(
        self,
        name: str,
        catalog: Catalog,
        *,
        learns: bool = True,
        decides: bool = True,
        publish_every: float = 1.0,
        wake: Callable[[], None] = lambda: None,
        ask: Ask | None = None,
    ) -> None:
        self.name, self.catalog, self.learns, self.decides = name, catalog, learns, decides
        self.publish_every, self._wake, self._ask = publish_every, wake, ask
        self.stamp = catalog.stamp(name)
        self.stored = catalog.read(name)
        self.log = catalog.open_log(name, self.stored)
        self.position, self.rounds, self.modified = 0, 0, self.stored.created
        self.leads = False
        self.own_failure: str | None = None  # why a step failed here, if it did
        self.caught_up = False
        self.mark = -1  # of the latest report of the process that learns
        self._elsewhere: str | None = None  # why learning fails there
        self._bandit: Bandit | None = None
        self._lease: Lease | None = None
        self._news, self._stepped = True, -math.inf
        self._version = 0
        self._revision, self._behind = -1, True
        self._unpublished, self._published = False, -math.inf
        self._safe, self._tidied = 0, -math.inf  # a position up to which a model is published
        self._stepping, self._closed = threading.Lock(), False
        self.batcher = DecisionBatcher()
        self.decider: RawDecider = self._first()
        self._unlisten = self.log.store.listen(self._heard)

    def get(self, id: str) -> Any:
        """Return a logged decision; an ApiError if there is none.

        Parameters
        ----------
        id
            Of the decision.
        """
        with refusals("a decision"):
            return self.log.get(id)

    # Learning

    @property
    def due(self) -> bool:
        """Whether a step is worth while: there is something new, or one should look whether there is."""
        if self._news or not self.catalog.tells:
            return True
        return time.monotonic() - self._stepped >= (OFTEN if self.learns else SELDOM)

    def step(self) -> int:
        """Learn what has arrived, or take over what another process has learned; return how many rewards.

        NoBanditError: the bandit was deleted, whether or not another one has its name by now.
        """
        with self._stepping:
            if self._closed:
                return 0
            self._news, self._stepped = False, time.monotonic()
            self._refresh()
            if self.learns:
                self._stand()
            try:
                return self._follow() if self._lease is None else self._lead(self._lease)
            except StaleError:
                self._news = True  # it looks again at once
                return 0
            except LostLeaseError:
                self._release()
                logger.warning("another process learns the bandit %s: it has got the right to", self.name)
                return 0

    def learn_now(self) -> None:
        """Read the description, and learn what has arrived, in whichever process of this service learns."""
        self.step()
        if self._ask is not None:
            self._ask(self.name, False)

    def take(self, report: Report) -> None:
        """Take over how the bandit is doing in the process that learns, and its snapshot.

        Parameters
        ----------
        report
            Of that process.
        """
        with self._stepping:
            if self._closed or report.created != self.stored.created:
                return
            self.mark, self.leads, self._elsewhere = report.mark, report.leads, report.failure
            self.caught_up = self.caught_up or report.caught_up
            if report.decider is not None:
                # The other process may have a seed, and so always the same draws.
                report.decider.core.succeed(self.decider.core, draws=True)
                self._go_on(report.decider)

    def unanswered(self) -> None:
        """Follow what is published, as long as the process that learns does not answer: another service may learn."""
        self.mark, self.leads = -1, False

    @property
    def failure(self) -> str | None:
        """Why learning fails, if it does."""
        return self.own_failure or self._elsewhere

    def has_news(self) -> None:
        """Let the next pass of the learner look at the log."""
        self._news = True

    def _heard(self) -> None:
        self._news = True
        self._wake()

    def _stand(self) -> None:
        """Ask for the right to learn, unless this process has it."""
        if self._lease is not None and not self._lease.held:
            self._release()
        if self._lease is None:
            self._lease = self.log.lead()
            self.leads = self._lease is not None

    @property
    def lag(self) -> int:
        """How many events of the log the snapshot has not learned."""
        return max(int(self.log.position) - self.position, 0)

    @property
    def info(self) -> Info | None:
        """What the latest update did, where this process learns."""
        return None if self._bandit is None else self._bandit.info

    def model_file(self) -> bytes:
        """Return the file of the model: the current one where this process learns, else the one last published.

        A bandit whose learner has published nothing of this revision yet has the model that it starts from.
        """
        if self._ask is not None:
            self._ask(self.name, True)
        self.publish()
        with self._stepping:
            model = self.log.model()
            if model is not None and self._is_current(from_bytes(model.data)):
                return bytes(model.data)
            return self._fresh()[0].to_bytes()

    def publish(self) -> None:
        """Write the model to the log, if this process learns it and the log has an older one."""
        with self._stepping:
            if not self._closed:
                self._refresh()
            if self._revision == self.stored.revision:
                self._publish_now()

    def change(self, work: Callable[[Stored], Stored]) -> None:
        """Change the description, for all processes; they take it over when they look next.

        Parameters
        ----------
        work
            Returns the new description for the one that holds. Meanwhile, ``log`` is the log of that one.
        """

        def changed(stored: Stored) -> Stored:
            if (stored.log, stored.created) != (self.stored.log, self.stored.created):
                self.refresh()  # another process has begun another log
            return work(stored)

        self.catalog.change(self.name, changed)

    def close(self, publish: bool = True) -> None:
        """Let go of the log.

        Parameters
        ----------
        publish
            Whether what was learned is published first; not where the bandit has been deleted.
        """
        with self._stepping:
            self._closed = True
            self._unlisten()
            try:
                if publish:
                    self._publish_now()
            except LogError as error:  # it is lost with this process, and learned again from the log
                logger.warning("the model of the bandit %s is not published: %s", self.name, error)
            self._release()
            self.log.close()

    def _publish_now(self) -> None:
        if self._lease is not None and self._bandit is not None and self._unpublished:
            self._publish(self._bandit, self._lease)

    def _lead(self, lease: Lease) -> int:
        if self._bandit is None or self._revision != self.stored.revision:
            self._bandit, self._revision = self._started(), self.stored.revision
            self._behind = True  # until it has caught up, the model before goes on deciding
        bandit, learned, arrived = self._bandit, 0, True
        changed = bandit.epsilon != self.stored.spec.epsilon
        bandit.epsilon = self.stored.spec.epsilon
        own = self.stored.personalizer
        if not self.stored.spec.paused and (own is None or own.learning_mode != "LoggingOnly"):
            learned, arrived = self._learn(bandit, lease)
        changed = changed or bandit.arms != self.decider.arms
        moved = position_of(bandit) != self.position  # also past events from which nothing is learned
        self._news = self._news or not arrived
        if (moved or changed or self._behind) and (arrived or not self._behind):
            self._swap(bandit)
            self._behind = False
        if self._unpublished and time.monotonic() - self._published >= self.publish_every:
            self._publish(bandit, lease)
        self._tidy(lease)
        self.caught_up = self.caught_up or arrived
        return learned

    def _learn(self, bandit: Bandit, lease: Lease) -> tuple[int, bool]:
        """Learn what has arrived, for a while; return how many rewards, and whether that was all."""
        until, limit, learned = time.monotonic() + A_WHILE, FEW, 0
        while True:
            count = self.log.apply(bandit, limit=limit, batch="auto", lease=lease)
            learned += count
            if count < limit or time.monotonic() >= until:
                return learned, count < limit
            limit *= 2

    @property
    def latest(self) -> RawDecider | None:
        """The snapshot of what this process has learned; None if it does not learn, or has not caught up yet."""
        return self.decider if self.leads and not self._behind else None

    def _swap(self, bandit: Bandit) -> None:
        self._put(bandit.snapshot(prepare=self.decides))
        self._unpublished = True

    def _go_on(self, decider: RawDecider) -> None:
        """Let a snapshot decide, unless the one that does has learned more of the same log."""
        before, now = self.decider.metadata, decider.metadata
        same = all(before.get(key) == now.get(key) for key in ("log_id", "revision"))
        if not same or position_of(decider) >= self.position:
            self._put(decider)

    def _put(self, decider: RawDecider) -> None:
        """Let a snapshot decide from now on."""
        decider.core.succeed(self.decider.core)
        before, self.decider, self.rounds = self.decider, decider, decider.rounds
        if position_of(decider) != self.position or decider.metadata.get("revision") != before.metadata.get("revision"):
            self.position, self.modified = position_of(decider), time.time()

    def _publish(self, bandit: Bandit, lease: Lease) -> None:
        self._version = self.log.publish(bandit, lease=lease)
        self._safe = position_of(bandit)
        self._unpublished, self._published = False, time.monotonic()

    def _tidy(self, lease: Lease) -> None:
        """Delete what is too old, if a model has learned it from which another process could go on.

        And do for the log what would take its writers longer.
        """
        if time.monotonic() - self._tidied >= OFTEN:
            self._tidied = time.monotonic()
            prune(self.log.store, specs.kept_for(self.stored), self._safe, self.log.clock(), lease=lease)
            self.log.store.checkpoint()

    def _follow(self) -> int:
        """Take over the latest model that was published."""
        if self._ask is None:
            self.caught_up = True
        elif self.leads:  # the process that learns sends its own
            return 0
        model = self.log.model(after=self._version) if self.decides else None
        if model is not None:
            self._go_on(self._read(model).snapshot(prepare=True))
        return 0

    def _read(self, model: Any) -> Bandit:
        bandit: Bandit = from_bytes(model.data, seed=secrets.randbits(62))  # no two processes draw the same numbers
        self._version, self._revision = model.version, bandit.metadata.get("revision", -1)
        return bandit

    def _first(self) -> RawDecider:
        """Return what decides until the learner has looked: the latest model, or a fresh one."""
        model = self.log.model()
        if model is None:
            return self._own(specs.made(self.stored.spec)).snapshot()
        bandit = self._own(self._read(model))
        self.rounds, self.modified, self.position = bandit.rounds, model.time, position_of(bandit)
        return bandit.snapshot(prepare=True)

    def _own(self, bandit: Bandit) -> Bandit:
        """Return a bandit that decides from a stream of its own: no two processes draw the same numbers."""
        if self.catalog.shared or self._ask is not None:
            bandit.reseed(None)
        return bandit

    def _started(self) -> Bandit:
        """Return the bandit that goes on learning: the latest one published, or the start of a new revision."""
        model = self.log.model()
        if model is not None:
            bandit: Bandit = from_bytes(model.data)
            if self._is_current(bandit):
                self._version, self._safe = model.version, model.position
                return self._own(bandit)
        fresh, self._safe = self._fresh()
        return self._own(fresh)

    def _is_current(self, bandit: Bandit) -> bool:
        return bool(bandit.metadata.get("revision") == self.stored.revision)

    def _fresh(self) -> tuple[Bandit, int]:
        """Return the start of the revision, and the position of the log after which it learns."""
        stored = self.stored
        fresh = specs.made(stored.spec) if stored.start_file is None else self._start(stored.start_file)
        fresh.control = None  # an uploaded model may have one; here it is part of the description
        fresh.resume()
        position = max(stored.start, self.log.state.pruned)
        begin_at(fresh, self.log, position, stored.revision)
        return fresh, position

    def _start(self, id: str) -> Bandit:
        content = self.catalog.documents(self.name, START).get(id)
        if content is None:
            if self.catalog.stamp(self.name) != self.stamp:
                raise StaleError(f"the bandit {self.name!r} was changed meanwhile")
            raise LookupError(
                f"the model {id!r}, from which the bandit {self.name!r} starts, is not in {self.catalog.name}"
            )
        bandit: Bandit = from_bytes(content)
        return bandit

    # The catalog

    def refresh(self) -> None:
        """Read the description again if it has changed; NoBanditError as for :meth:`step`."""
        with self._stepping:
            if not self._closed:
                self._refresh()

    def _refresh(self) -> None:
        """Read the description again if it has changed: another process, or another request, may have written it."""
        stamp = self.catalog.stamp(self.name)
        if stamp == self.stamp:
            return
        before, now = self.stored, self.catalog.read(self.name)
        if now.created != before.created:
            raise NoBanditError(f"the bandit {self.name!r} was deleted, and another one has its name")
        if now.log != before.log:
            new = self.catalog.open_log(self.name, now)
            self._release()
            self._unlisten()
            old, self.log, self._version, self.mark = self.log, new, 0, -1
            self._unlisten = self.log.store.listen(self._heard)
            old.close()
        self.stored, self.stamp = now, stamp  # last: if the new log cannot be opened, it is tried again

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
        self._lease, self.leads, self._bandit, self._unpublished = None, False, None, False


def begin_at(bandit: Bandit, log: Any, position: int, revision: int) -> None:
    """Let a bandit go on from a position of a log, whatever it has learned from before.

    Parameters
    ----------
    bandit
        Who learns.
    log
        From which it learns.
    position
        After which it learns.
    revision
        Of the description that asked for it.
    """
    for key in ("log_id", "log_position", "log_event"):
        bandit.metadata.pop(key, None)
    bandit.metadata.update(log_id=log.id, log_position=position, revision=revision)
