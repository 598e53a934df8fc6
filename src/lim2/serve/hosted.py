"""One bandit of the service, in one process: its log, and the snapshot that decides."""

import contextlib
import logging
import math
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lim2.bandit import Bandit, RawDecider
from lim2.info import Info
from lim2.items import ItemAgent
from lim2.log import (
    ConflictingRewardError,
    DecisionLog,
    LogError,
    LogFileError,
    TakenIdError,
    UnknownDecisionError,
)
from lim2.opening import from_bytes, load
from lim2.serve import spec as specs
from lim2.serve.errors import ApiError, bad_request, not_found
from lim2.serve.spec import Stored

logger = logging.getLogger("lim2.serve")

LIMIT = 2000  # rewards that are learned before the snapshot is swapped


class Hosted:
    """A bandit, its log and its learner's side.

    Any thread may read ``decider``, ``stored`` and ``log``. :meth:`step` is for the thread that learns.

    Parameters
    ----------
    name
        Of the bandit.
    folder
        That keeps it.
    synchronous
        As for :class:`lim2.DecisionLog`.
    learns
        Whether this process may learn.
    publish_every
        Seconds between models that are written down, at least.
    """

    def __init__(
        self, name: str, folder: Path, *, synchronous: str = "full", learns: bool = True, publish_every: float = 1.0
    ) -> None:
        self.name, self.folder, self.synchronous, self.learns = name, folder, synchronous, learns
        self.publish_every = publish_every
        self.stored = specs.read(folder)
        self._seen = _stamp(folder / specs.FILE)
        self.log = self._open()
        self.position, self.rounds, self.modified = 0, 0, self.stored.created
        self.leads = False
        self.failure: str | None = None  # why learning fails, if it does
        self.caught_up = False
        self.mean_reward: tuple[int, float | None] = (-1, None)  # of the latest decisions, at a position of the log
        self._bandit: Bandit | None = None
        self._lease: Any = None
        self._version = 0
        self._revision, self._behind = -1, True
        self._unpublished, self._published = False, -math.inf
        self._stepping = threading.Lock()
        self.decider: RawDecider = self._first()

    # Deciding

    async def decide(
        self,
        context: Any,
        items: Mapping[str, Any] | None,
        arms: Sequence[str] | None,
        *,
        exploit: bool = False,
        id: str | None = None,
        key: str | None = None,
        metadata: Any = None,
        active: bool = True,
    ) -> Any:
        """Decide by the snapshot, and return the decision when it is on disk; a taken id gives its first decision.

        Parameters
        ----------
        context, items, arms, exploit
            As :meth:`lim2.Bandit.decide` takes them.
        id, key, metadata, active
            As :meth:`lim2.DecisionLog.adecide` takes them.
        """
        with refusals("a decision"):
            try:
                return await self.log.adecide(
                    self.decider, context, arms=arms, items=items, exploit=exploit, id=id, key=key, metadata=metadata,
                    active=active,
                )  # fmt: skip
            except TakenIdError:
                return self.log.get(id)  # type: ignore[arg-type]

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

    def step(self) -> int:
        """Learn what has arrived, or take over what another process has learned; return how many rewards."""
        with self._stepping:
            self._refresh()
            if self.learns and self._lease is None:
                self._lease = self.log.lead()
                self.leads = self._lease is not None
            return self._lead() if self.leads else self._follow()

    @property
    def lag(self) -> int:
        """How many events of the log the snapshot has not learned."""
        return max(int(self.log.position) - self.position, 0)

    @property
    def info(self) -> Info | None:
        """What the latest update did, where this process learns."""
        return None if self._bandit is None else self._bandit.info

    def model_file(self) -> bytes:
        """Return the file of the model, as it is where this process learns, and as it was published elsewhere."""
        if self.log.model() is None:
            self.step()  # a new bandit, at which the learner has not looked yet
        with self._stepping:
            if self.leads and self._bandit is not None and self._unpublished:
                self._publish(self._bandit)
            model = self.log.model()
        if model is None:
            raise not_found("no model has been published yet: try again in a moment")
        return bytes(model.data)

    def close(self) -> None:
        """Publish what was learned, and let go of the log."""
        with self._stepping:
            if self.leads and self._unpublished and self._bandit is not None:
                self._publish(self._bandit)
            self._release()
            self.log.close()

    def _lead(self) -> int:
        if self._bandit is None or self._revision != self.stored.revision:
            self._bandit, self._revision = self._started(), self.stored.revision
            self._behind = True  # until it has caught up, the model before goes on deciding
        bandit, limit, learned = self._bandit, LIMIT, 0
        changed = explored(bandit, self.stored.spec.exploration)
        own = self.stored.personalizer
        if own is None or own.learning_mode != "LoggingOnly":
            learned = self.log.apply(bandit, limit=limit, batch="auto")
        arrived = learned < limit
        if (learned or changed or self._behind) and (arrived or not self._behind):
            self._swap(bandit)
            self._behind = False
        if self._unpublished and time.monotonic() - self._published >= self.publish_every:
            self._publish(bandit)
        self.caught_up = self.caught_up or arrived
        return learned

    def _swap(self, bandit: Bandit) -> None:
        self.decider, self.rounds, self.modified = bandit.snapshot(), bandit.rounds, time.time()
        self.position = int(bandit.metadata["log_position"])
        self._unpublished = True

    def _publish(self, bandit: Bandit) -> None:
        self._version = self.log.publish(bandit)
        self._unpublished, self._published = False, time.monotonic()

    def _follow(self) -> int:
        model = self.log.model(after=self._version)
        if model is not None:
            self._take(model)
        self.caught_up = True
        return 0

    def _take(self, model: Any) -> Bandit:
        bandit: Bandit = from_bytes(model.data, seed=secrets.randbits(62))  # no two processes draw the same numbers
        self._version, self._revision = model.version, bandit.metadata.get("revision", -1)
        self.decider, self.rounds, self.modified = bandit.snapshot(), bandit.rounds, time.time()
        self.position = int(bandit.metadata.get("log_position", 0))
        return bandit

    def _first(self) -> RawDecider:
        """Return what decides until the learner has looked: the latest model, or a fresh one."""
        model = self.log.model()
        return specs.made(self.stored.spec).snapshot() if model is None else self._take(model).snapshot()

    def _started(self) -> Bandit:
        """Return the bandit that goes on learning: the latest one published, or the start of a new revision."""
        model = self.log.model()
        if model is not None:
            bandit: Bandit = from_bytes(model.data)
            if bandit.metadata.get("revision") == self.stored.revision:
                self._version = model.version
                return bandit
        stored = self.stored
        fresh = specs.made(stored.spec) if stored.start_file is None else load(self.folder / stored.start_file)
        begin_at(fresh, self.log, max(stored.start, self.log.state.pruned), stored.revision)
        return fresh

    # The folder

    def _refresh(self) -> None:
        """Read the description again if it has changed: another process, or another request, may have written it."""
        stamp = _stamp(self.folder / specs.FILE)
        if stamp == self._seen:
            return
        before, self.stored, self._seen = self.stored, specs.read(self.folder), stamp
        if self.stored.log != before.log:
            self._release()
            old, self.log = self.log, self._open()
            self._bandit, self._version = None, 0
            old.close()
        self.log.keep = specs.kept_for(self.stored)

    def _open(self) -> DecisionLog:
        path = self.folder / self.stored.log
        if path.exists():
            return DecisionLog(path, keep=specs.kept_for(self.stored), synchronous=self.synchronous)
        return new_log(path, self.stored, self.synchronous)

    def _release(self) -> None:
        if self._lease is not None:
            self._lease.release()
        self._lease, self.leads = None, False


def new_log(path: Path, stored: Stored, synchronous: str) -> DecisionLog:
    """Return a new log with the settings of a description.

    Parameters
    ----------
    path
        Its file.
    stored
        The description.
    synchronous
        As for :class:`lim2.DecisionLog`.
    """
    own = stored.spec
    return DecisionLog(
        path,
        expire_after=own.expire_after,
        default_reward=own.default_reward,
        aggregate=own.aggregate,
        keep=specs.kept_for(stored),
        synchronous=synchronous,
    )


def begin_at(bandit: Bandit, log: DecisionLog, position: int, revision: int) -> None:
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


def explored(bandit: Bandit, share: float) -> bool:
    """Set the share of decisions that a bandit with items draws evenly; return whether it has changed.

    Parameters
    ----------
    bandit
        Whose arms come with every call; another one stays as it was made.
    share
        Of decisions.
    """
    if not isinstance(bandit.agent, ItemAgent) or bandit.agent.agent.algorithm.min_propensity == share:
        return False
    inner = bandit.agent.agent
    inner.algorithm = replace(inner.algorithm, min_propensity=share)
    return True


@contextlib.contextmanager
def refusals(what: str) -> Iterator[None]:
    """Answer what a log or an encoder refuses as an error of the client, and a broken file as one of the service.

    Parameters
    ----------
    what
        What is asked for, in a message.
    """
    try:
        yield
    except ApiError:
        raise
    except LogFileError as error:
        logger.error("%s failed: %s", what, error)
        raise ApiError(500, "InternalServerError", f"{what} could not be written or read; see the log") from error
    except UnknownDecisionError as error:
        raise not_found(str(error)) from error
    except ConflictingRewardError as error:
        raise ApiError(409, "InvalidRewardRequest", str(error)) from error
    except (LogError, ValueError, OverflowError, RecursionError) as error:
        raise bad_request(str(error)) from error


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_ino
