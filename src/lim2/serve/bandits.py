"""The bandits of a process that decides, opened when somebody asks for them; and one bandit that decides."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lim2.bandit import Bandit, RawDecider
from lim2.loading import from_bytes
from lim2.log import LogError, LogFileError, StoreUnavailableError
from lim2.log.errors import GoneLogError
from lim2.log.learning import position_of
from lim2.log.microbatching import DecisionBatcher
from lim2.persistence import LoadError
from lim2.serve import spec as specs
from lim2.serve.catalog import Catalog, LeftLogError, NoBanditError
from lim2.serve.catalog.logs import first_model
from lim2.serve.config import Config
from lim2.serve.errors import ApiError, not_found, refusals, shortened
from lim2.serve.old_spool import replay
from lim2.serve.snapshots import Counting, Snapshot, unpack
from lim2.serve.spec import CATEGORIES, BanditSpec, PersonalizerSettings, Stored, checksum

logger = logging.getLogger("lim2.serve")

PERSONALIZER = "personalizer"  # the bandit behind Personalizer's endpoints
ALL_SECONDS = 5.0  # between looks at failures, and at bandits about which nobody has told
PATIENCE = 5.0  # seconds that a request waits until its change has been learned


class DecidingBandit:
    """A bandit that decides: its log, and the latest snapshot."""

    def __init__(self, name: str, catalog: Catalog) -> None:
        self.name, self.catalog = name, catalog
        self.stamp = catalog.stamp(name)
        self.stored = catalog.read(name)
        self.log = catalog.open_log(name, self.stored)
        self.position, self.rounds, self.modified = 0, 0, self.stored.created
        self.snapshot: Snapshot | None = None  # the latest one
        self.failure: str | None = None  # why it is not learned
        self._following, self._closed = threading.Condition(), False
        self.batcher = DecisionBatcher()
        self.requests = 0  # that use it now
        try:
            self.decider = self._first()
            self._unfollow = catalog.board.follow(name, self.log)
        except BaseException:
            self.log.close()
            raise

    def release(self, _: Any) -> None:
        """Note that a request has ended."""
        self.requests -= 1

    @property
    def leads(self) -> bool:
        """Whether a learner has learned it."""
        return self.snapshot is not None

    @property
    def lag(self) -> int:
        """How many events of the log the snapshot has not learned."""
        return max(int(self.log.position) - self.position, 0)

    def get(self, id: str) -> Any:
        """Return a logged decision; an ApiError if there is none."""
        with refusals("a decision"):
            return self.log.get(id)

    def tell(self) -> None:
        """Wake the learner: there is something to learn."""
        self.catalog.board.tell(self.name)

    def follow(self) -> Snapshot | None:
        """Take over the latest description and snapshot; return the snapshot if it is new.

        NoBanditError: the bandit was deleted, whether or not another one has its name by now.
        """
        with self._following:
            if self._closed:
                return None
            self._refresh()
            new = self._latest()
            if new is not None:
                self._put(unpack(new.content))
                self.snapshot = new
            self._following.notify_all()
            return new

    def _latest(self) -> Snapshot | None:
        """Return the latest snapshot, unless this process has it, or it is damaged."""
        try:
            found = self.catalog.board.latest(self.name, 0 if self.snapshot is None else self.snapshot.version)
        except ValueError as error:  # the learner posts another one
            logger.error("%s", error)
            return None
        return found if found is not None and found.created == self.stored.created else None

    def reach(self, position: int) -> None:
        """Wait until the snapshot has learned up to a position by the current description, for some seconds at most."""
        self.tell()
        until = time.monotonic() + PATIENCE

        def is_reached() -> bool:
            found = self.snapshot
            if found is None and not position and not self.stored.revision:  # a fresh one, of which nothing is posted
                return True
            return found is not None and found.position >= position and found.description == checksum(self.stored)

        with contextlib.suppress(NoBanditError), self._following:
            while not is_reached() and (left := until - time.monotonic()) > 0:
                self._following.wait(left)

    def model_file(self) -> bytes:
        """Return the file of the bandit that has learned all that the log has."""
        return self.model().to_bytes()

    def model(self) -> Bandit:
        """Return the bandit that has learned all that the log has.

        It learns here what has come since the learner has last saved it.
        """
        with refusals("a model"):
            self.follow()
            bandit = None
            if (saved := self.log.model()) is not None:
                with contextlib.suppress(LoadError):  # it is damaged: all is learned again
                    bandit = from_bytes(saved.data)
            if bandit is None or bandit.metadata.get("revision") != self.stored.revision:
                bandit, _ = first_model(self.name, self.catalog, self.stored, self.log)
            self.log.apply(bandit, batch="auto")
            return bandit

    def change(self, work: Callable[[Stored], Stored]) -> None:
        """Change the description, for all processes; they take it over when they look next."""

        def changed(stored: Stored) -> Stored:
            if (stored.log, stored.created) != (self.stored.log, self.stored.created):
                self.refresh()  # another process has begun another log
            return work(stored)

        self.catalog.change(self.name, changed)
        self.refresh()

    def refresh(self) -> None:
        """Read the description again if it has changed; NoBanditError as for :meth:`follow`."""
        with self._following:
            if not self._closed:
                self._refresh()

    def _refresh(self) -> None:
        stamp = self.catalog.stamp(self.name)
        if stamp == self.stamp:
            return
        before, now = self.stored, self.catalog.read(self.name)
        if now.created != before.created:
            raise NoBanditError(f"the bandit {self.name!r} was deleted, and another one has its name")
        if now.log != before.log:
            new = self.catalog.open_log(self.name, now)
            self._unfollow()
            old, self.log = self.log, new
            self._unfollow = self.catalog.board.follow(self.name, new)
            old.close()
        self.stored, self.stamp = now, stamp  # last: if the new log cannot be opened, it is tried again
        if self.snapshot is None:
            self._put(self._first())

    def close(self) -> None:
        """Let go of the log."""
        with self._following:
            self._closed = True
            self._unfollow()
            self.log.close()

    def _put(self, decider: RawDecider) -> None:
        """Let a snapshot decide from now on, unless the one that does has learned more of the same log."""
        before, now = self.decider.metadata, decider.metadata
        same = all(before.get(key) == now.get(key) for key in ("log_id", "revision"))
        if same and position_of(decider) < self.position:
            return
        decider.core.succeed(self.decider.core, draws=True)
        self.decider, self.rounds = decider, decider.rounds
        if not same or position_of(decider) != self.position:
            self.position, self.modified = position_of(decider), time.time()

    def _first(self) -> RawDecider:
        """Return what decides at first: the latest snapshot, the saved model, or a fresh one."""
        new = self._latest()
        if new is not None:
            with contextlib.suppress(ValueError):
                return self._begun(unpack(new.content), new)
        saved = self.log.model()
        if saved is not None:
            with contextlib.suppress(LoadError):
                bandit = from_bytes(saved.data)
                if self.stored.start_file is None or bandit.metadata.get("revision") == self.stored.revision:
                    bandit.reseed(None)  # no two processes draw the same numbers
                    self.modified = saved.time
                    return self._begun(bandit.snapshot(prepare=True), None)
        if self.stored.start_file is not None:
            bandit, _ = first_model(self.name, self.catalog, self.stored, self.log)
            bandit.reseed(None)
            return self._begun(bandit.snapshot(prepare=True), None)
        bandit = specs.made(self.stored.spec)
        bandit.reseed(None)
        return bandit.snapshot()

    def _begun(self, decider: RawDecider, snapshot: Snapshot | None) -> RawDecider:
        self.snapshot, self.position, self.rounds = snapshot, position_of(decider), decider.rounds
        return decider


class Bandits:
    """The bandits that this process has open; beyond the limit the least recently used one is closed."""

    def __init__(self, config: Config, catalog: Catalog, most: int) -> None:
        self._config, self.catalog, self._most = config, catalog, most
        self.opened: OrderedDict[str, DecidingBandit] = OrderedDict()
        self._opening = threading.RLock()  # Python may collect what lets go of a bandit at any time
        self.started = False

    def start(self) -> None:
        """Make the bandit behind Personalizer's endpoints, unless it is there, and open it."""
        if not self.started:
            replay(Path(self._config.data) / "spool", self.catalog)
            if PERSONALIZER not in self.catalog.names():
                self._create_personalizer()
        self.started = True
        if PERSONALIZER not in self.opened:
            try:
                self.opening(PERSONALIZER)
            except (NoBanditError, GoneLogError):  # another process is making it anew
                return
            except StoreUnavailableError:
                raise
            except LogError as error:  # only this one does not answer
                logger.error("the bandit %s cannot be opened: %s", PERSONALIZER, error)

    def _create_personalizer(self) -> None:
        log = self.catalog.log_name(PERSONALIZER, 0)
        self.catalog.create(PERSONALIZER, personalizer_of(self._config, log))

    async def get(self, name: str) -> DecidingBandit:
        """Return a bandit; an ApiError if there is none, or if it cannot be opened. It stays open for this request."""
        found = self.opened.get(name)
        if found is None:
            try:
                found = await asyncio.to_thread(self.opening, specs.checked_name(name))
            except NoBanditError as error:
                raise not_found(str(error)) from error
            except (StoreUnavailableError, GoneLogError):  # others answer these
                raise
            except LogError as error:
                raise unavailable(name, error) from error
        else:
            with contextlib.suppress(KeyError):  # another thread has just closed it
                self.opened.move_to_end(name)
        request = asyncio.current_task()
        if request is not None:
            found.requests += 1
            request.add_done_callback(found.release)
        return found

    def opening(self, name: str) -> DecidingBandit:
        """Return a bandit, opened if it is not open; NoBanditError if there is none."""
        with self._opening:
            if name not in self.opened:
                idle = [own for own, bandit in self.opened.items() if own != PERSONALIZER and not bandit.requests]
                for own in idle[: max(len(self.opened) + 1 - self._most, 0)]:
                    self.opened.pop(own).close()
                self.opened[name] = DecidingBandit(name, self.catalog)
            return self.opened[name]

    @property
    def open(self) -> list[DecidingBandit]:
        """The bandits that are open."""
        return list(self.opened.values())

    def create(self, name: str, spec: BanditSpec) -> bool:
        """Make a bandit; return False if the very same is there already, an ApiError if another one has the name."""
        log = self.catalog.log_name(specs.checked_name(name), 0)
        specs.check_size(spec, self._config.model_bytes)
        specs.made(spec)  # what cannot be made is refused before anything is written
        try:
            there = self.catalog.create(name, Stored(spec=spec, created=specs.now(), log=log))
        except LogFileError:
            raise
        except LeftLogError as error:
            raise ApiError(409, "InvalidRequest", str(error), "name") from error
        except ValueError as error:
            raise ApiError(400, "BadRequest", str(error), "spec") from error
        if there is not None and there.spec != spec:
            message = f"bandit {name!r} already exists with different settings; delete it or choose another name"
            raise ApiError(409, "InvalidRequest", message, "name")
        self.renew(name)
        return there is None

    def delete(self, name: str) -> None:
        """Remove a bandit and all that it has logged and learned; the one of Personalizer's endpoints begins anew."""
        try:
            self.catalog.delete(specs.checked_name(name))
        except NoBanditError as error:
            raise not_found(str(error)) from error
        self.catalog.board.tell(name)
        self.renew(name)
        if name == PERSONALIZER:  # its endpoints need one
            self._create_personalizer()
            self.opening(name)

    def renew(self, name: str) -> None:
        """Take over what other processes have done to a bandit: let go of it if it was deleted."""
        found = self.opened.get(name)
        if found is not None:
            try:
                found.refresh()
            except NoBanditError:
                self.let_go(found)

    def let_go(self, bandit: DecidingBandit) -> None:
        """Close a bandit, here only, and not another one that has its name by now."""
        with self._opening:
            if self.opened.get(bandit.name) is bandit:
                del self.opened[bandit.name]
        bandit.close()

    def close(self) -> None:
        """Close all bandits."""
        for bandit in self.open:
            self.let_go(bandit)


class Follower:
    """A thread that takes over new snapshots, descriptions and failures, and notices when the database is back."""

    def __init__(self, bandits: Bandits, catalog: Catalog, poll: float, counts: Counting) -> None:
        self._bandits, self._catalog, self._poll, self._counts = bandits, catalog, poll, counts
        self.failures: dict[str, str] = {}
        self._all_at = 0.0  # when all bandits are looked at
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="lim2 follower", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop = True
        if self._thread.is_alive():
            self._catalog.board.wake()
            self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop:
            try:
                self.look(self._catalog.board.wait(self._poll))
            except Exception:  # such as a full disk; requests are answered meanwhile
                logger.exception("what is new cannot be looked at")
                time.sleep(self._poll)

    def look(self, names: set[str] | None = None) -> None:
        """Take over what is new about some bandits, and from time to time about all. None: about all."""
        if not self._reaches():
            return
        if names is None or time.monotonic() >= self._all_at:
            self._all_at = time.monotonic() + ALL_SECONDS
            names = set(self._bandits.opened)
            self._bandits.start()
        elif not names:
            return
        before, self.failures = self.failures, self._catalog.board.failures()
        for name, reason in self.failures.items():
            if before.get(name) != reason:
                self._counts.learner_failed(name)
        for bandit in self._bandits.open:
            bandit.failure = self.failures.get(bandit.name)
            if bandit.name in names:
                self._follow(bandit)

    def _reaches(self) -> bool:
        """Return whether the database is there."""
        outage = self._catalog.outage
        if outage.since is None and self._bandits.started:
            return True
        try:
            self._catalog.ping()
            if outage.since is not None:
                self._all_at = 0.0
            outage.end()
        except LogError as error:
            outage.begin(error)
            return False
        return True

    def _follow(self, bandit: DecidingBandit) -> None:
        before = bandit.snapshot
        try:
            new = bandit.follow()
        except NoBanditError:  # deleted by another process
            self._bandits.let_go(bandit)
        except (LogError, ValueError, OSError) as error:  # it goes on deciding by the snapshot that it has
            logger.error("the snapshot of the bandit %s cannot be taken over: %s", bandit.name, error)
        else:
            if new is not None:
                start = None if before is None or before.rewards > new.rewards else before  # the learner began anew
                rewards = new.rewards - (0 if start is None else start.rewards)
                seconds = new.seconds - (0.0 if start is None else start.seconds)
                self._counts.learned(bandit.name, rewards, max(seconds, 0.0), new.diagnostics)


def unavailable(name: str, error: Exception) -> ApiError:
    """Return the answer of a bandit that cannot be opened; others are not affected."""
    message = f"bandit {name!r} cannot be opened: {shortened(str(error), 500)}"
    return ApiError(503, "ServiceUnavailable", message, "name", headers={"retry-after": "60"})


def personalizer_of(config: Config, log: str) -> Stored:
    """Return what the bandit behind Personalizer's endpoints is at first."""
    own = config.personalizer
    days = own.log_retention_days
    spec = BanditSpec(
        algorithm=own.algorithm,
        epsilon=own.epsilon,
        encoder=CATEGORIES,
        item_encoder=CATEGORIES,
        expire_after=own.reward_wait_time,
        default_reward=own.default_reward,
        aggregate={"earliest": "first", "sum": "sum"}[own.reward_aggregation],  # type: ignore[arg-type]
        keep_days=None if days == -1 else float(max(days, 1)),
        seed=own.seed,
    )
    return Stored(spec=spec, created=specs.now(), personalizer=PersonalizerSettings(), log=log)
