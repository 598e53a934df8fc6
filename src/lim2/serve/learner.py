"""The learner: it opens the bandits that have something to learn, learns it, and posts what decides.

`lim2 serve` runs it in a process of its own (``python -m lim2.serve.learner``), which a :class:`LearnerProcess` starts
and restarts. `lim2 serve --role learn` runs it beside health and metrics. On Ray, each actor that learns runs one.
"""

import contextlib
import logging
import logging.config
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lim2.log import LogError, StoreUnavailableError
from lim2.serve.catalog import Catalog, NoBanditError, open_catalog
from lim2.serve.config import Config
from lim2.serve.learning import LearningBandit
from lim2.serve.limits import most_logs
from lim2.serve.log_format import log_settings
from lim2.serve.snapshots import Counting

logger = logging.getLogger("lim2.serve")

PASS_SECONDS = 0.05  # in which rewards are gathered: fewer passes, larger batches
LOOK_SECONDS = 1.0  # between looks for bandits about which nobody has told
IDLE_SECONDS = 30.0  # for which a bandit stays open that has nothing to learn
RETRY_SECONDS = 5.0  # before a bandit whose learning failed is tried again
CARE_SECONDS = 3600.0  # between looks for bandits that have decisions to delete
CARE = 4  # of them that are opened at once
POST_SHARE = 0.1  # of the time, in which snapshots are posted
NICE = 10  # requests come first where processors are scarce
READY = "LIM2_SERVE_LEARNER"  # path of a file that is there while the learner runs and has caught up
SETTINGS = "LIM2_SERVE_SETTINGS"  # the settings, for all processes of the service
RESTART_SECONDS = 1.0  # before it is started again
SILENCE_SECONDS = 15.0  # after which a learner counts as standing still
END_SECONDS = 20.0  # in which it must have saved what it has learned; if not, that is learned again


class Learner:
    """Learns bandits. Those that have nothing to learn are in their catalog, not in memory.

    Two learners never learn one bandit at once: who learns needs the lease of the bandit's log.
    """

    def __init__(
        self,
        catalog: Catalog,
        most: int,
        logs: int,
        counts: Counting,
        owns: Callable[[str], bool] = lambda _: True,
        poll: float = LOOK_SECONDS,
        passed: Callable[["Learner"], None] = lambda _: None,
    ) -> None:
        self.catalog, self._most, self._logs = catalog, most, logs
        self._counts, self._owns, self._poll, self._passed = counts, owns, poll, passed
        self.opened: dict[str, LearningBandit] = {}
        self.failures: dict[str, str] = {}
        self.caught_up = False  # whether everything was learned that was there at the start
        self.learned = 0
        self._due: dict[str, float] = {}  # when a bandit is looked at next
        self._used: dict[str, float] = {}  # when an open one last had something to learn
        self._stamps: dict[str, Any] = {}  # of what the catalog has seen of those that wait
        self._looks_at, self._posts_at, self._cares_at = -math.inf, -math.inf, -math.inf
        self._aged: list[str] = []
        self._stop = False
        self._thread = threading.Thread(target=self.run, name="lim2 learner", daemon=True)

    def start(self) -> None:
        """Learn in a thread from now on."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Let :meth:`run` return."""
        self._stop = True
        self.catalog.board.wake()

    def stop(self) -> None:
        """End the thread; what was learned is saved."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()
        self.close()

    def run(self) -> None:
        """Learn until :meth:`end` is called."""
        while not self._stop:
            try:
                self.step(self.catalog.board.wait(self._pause()))
                self._passed(self)
            except Exception:  # such as a full disk; it is tried again
                logger.exception("bandits cannot be learned")
                time.sleep(LOOK_SECONDS)

    def _pause(self) -> float:
        """Return for how many seconds there is nothing to do, unless somebody tells of something."""
        now = time.monotonic()
        nexts = [self._looks_at, *self._due.values()]
        if any(own.has_news for own in self.opened.values()):
            nexts.append(self._posts_at)
        return min(max(min(nexts) - now, PASS_SECONDS), self._poll)

    def step(self, told: set[str] | None = None) -> int:
        """Learn what some bandits have got, and from time to time what others have; return how many rewards."""
        if not self._reaches():
            return 0
        now = time.monotonic()
        if told is None or now >= self._looks_at:
            self._look(now)
        for name in told or ():
            if self._owns(name):
                self._due[name] = -math.inf
        learned, before = 0, len(self._due)
        for name in [name for name, at in self._due.items() if at <= now]:
            learned += self._learn(name)
            self._post()
        if not before or all(name in self.failures or at > now for name, at in self._due.items()):
            self.caught_up = True
        self._post()
        self._tidy()
        self.learned += learned
        return learned

    def _reaches(self) -> bool:
        """Return whether the database is there."""
        outage = self.catalog.outage
        if outage.since is None:
            return True
        try:
            self.catalog.ping()
        except LogError:
            return False
        outage.end()
        self._looks_at = -math.inf
        for bandit in self.opened.values():
            bandit.lost()  # what was posted may be lost
        return True

    def _look(self, now: float) -> None:
        """Find the bandits that have something to learn, or to delete."""
        try:
            waiting = self.catalog.waiting(time.time())
            if now >= self._cares_at:
                self._aged = [name for name in self.catalog.aged(time.time()) if self._owns(name)]
                self._cares_at = now + CARE_SECONDS
        except StoreUnavailableError as error:
            self.catalog.outage.begin(error)
            return
        self._looks_at = now + LOOK_SECONDS
        self._stamps = {name: stamp for name, stamp in waiting.items() if self._owns(name)}
        some, self._aged = self._aged[:CARE], self._aged[CARE:]
        for name in (*self._stamps, *some):
            if name not in self.failures:  # which have their own time
                self._due[name] = -math.inf

    def _learn(self, name: str) -> int:
        """Learn one bandit; whatever goes wrong with it, others are learned."""
        self._due.pop(name, None)
        began = time.perf_counter()
        try:
            bandit = self._opening(name)
            step = bandit.step()
            self._succeeded(name, step.idle)
        except NoBanditError:  # it was deleted
            self._forget(name)
            return 0
        except StoreUnavailableError as error:
            self.catalog.outage.begin(error)
            self._due[name] = -math.inf
            return 0
        except Exception as error:  # noqa: BLE001 (it is said in the log and on the board)
            self._failed(name, error)
            return 0
        now = time.monotonic()
        if step.unfinished:
            self._due[name] = -math.inf
        elif step.again_in is not None:
            self._due[name] = now + step.again_in
        if step.idle and not bandit.has_model:
            self._close(name)
        elif step.rewards or step.unfinished:
            self._used[name] = now
        if step.rewards:
            seconds = time.perf_counter() - began
            bandit.seconds += seconds
            self._counts.learned(name, step.rewards, seconds, bandit.info)
        return step.rewards

    def _opening(self, name: str) -> LearningBandit:
        if name not in self.opened:
            for own in self._oldest(self.opened, self._most - 1):
                self._close(own)
            self.opened[name] = LearningBandit(name, self.catalog)
        if self.opened[name].log is None:
            for own in self._oldest([own for own in self.opened if self.opened[own].log is not None], self._logs - 1):
                self._rest(self.opened[own])
        self._used[name] = time.monotonic()
        return self.opened[name]

    def _rest(self, bandit: LearningBandit) -> None:
        if bandit.has_news:
            self._tried(bandit, bandit.post)  # for which it needs the lease
        bandit.rest()

    def _oldest(self, names: Iterable[str], most: int) -> list[str]:
        """Return the names that must go so that ``most`` are left: those that were not used for the longest."""
        ordered = sorted(names, key=lambda name: self._used.get(name, 0.0))
        return ordered[: max(len(ordered) - most, 0)]

    def _failed(self, name: str, error: Exception) -> None:
        notes = "; ".join(getattr(error, "__notes__", ()))
        reason = f"{type(error).__name__}: {error} {notes}".strip()
        if self.failures.get(name) != reason:
            logger.exception("the bandit %s cannot learn: %s", name, notes)
        self.failures[name] = reason
        self._counts.learner_failed(name)
        self._due[name] = time.monotonic() + RETRY_SECONDS
        if isinstance(error, LogError):  # it is opened again
            self._close(name, save=False)
        self._report(name, reason)

    def _succeeded(self, name: str, idle: bool) -> None:
        if self.failures.pop(name, None) is not None:
            self._report(name, None)
        if name in self._stamps and (idle or self.opened[name].leads):
            self.catalog.looked({name: self._stamps[name]})
            del self._stamps[name]

    def _report(self, name: str, reason: str | None) -> None:
        with contextlib.suppress(StoreUnavailableError, NoBanditError, OSError):  # it is in the log already
            self.catalog.board.fail(name, reason)

    def _post(self) -> None:
        """Post snapshots: the oldest news first, for a share of the time. Those that somebody waits for are posted now.

        So a lone bandit is posted as often as its size permits, and many quiet ones share that.
        """
        waiting = [bandit for bandit in self.opened.values() if bandit.has_news]
        for bandit in sorted(waiting, key=lambda own: (not own.urgent, own.news_since)):
            if not bandit.urgent and time.monotonic() < self._posts_at:
                return
            seconds = self._tried(bandit, bandit.post)
            if seconds is not None:
                self._posts_at = time.monotonic() + seconds * (1.0 / POST_SHARE - 1.0)

    def _tidy(self) -> None:
        """Save models, delete what is too old, and close what has been idle."""
        now = time.monotonic()
        for bandit in list(self.opened.values()):
            if bandit.is_due(now):
                self._tried(bandit, bandit.tidy)
            if self._used.get(bandit.name, now) < now - IDLE_SECONDS and not bandit.has_news:
                self._close(bandit.name)

    def _tried(self, bandit: LearningBandit, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except NoBanditError:
            self._forget(bandit.name)
        except StoreUnavailableError as error:
            self.catalog.outage.begin(error)
        except Exception as error:  # noqa: BLE001 (it is said in the log and on the board)
            self._failed(bandit.name, error)
        return None

    def _forget(self, name: str) -> None:
        self.failures.pop(name, None)
        self._report(name, None)
        self._close(name, save=False)

    def _close(self, name: str, save: bool = True) -> None:
        self._used.pop(name, None)
        bandit = self.opened.pop(name, None)
        if bandit is not None:
            bandit.close(save)

    def close(self) -> None:
        """Save what was learned, and let go of all bandits."""
        for name in list(self.opened):
            self._close(name)


# In a process of its own


class LearnerProcess:
    """Starts the process that learns, and keeps it running until :meth:`stop`."""

    def __init__(self, config: Config) -> None:
        own = msgspec.structs.replace(config, role="learn", workers=1, demo=False)
        self._settings, self._ending = msgspec.json.encode(own).decode(), threading.Event()
        try:
            self._folder = tempfile.mkdtemp(prefix="lim2-")
        except OSError:  # there is no folder for temporary files
            Path(config.data).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder = tempfile.mkdtemp(prefix="lim2-", dir=config.data)
        self.ready = Path(self._folder) / "ready"
        try:
            self._process = self._started()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._thread = threading.Thread(target=self._keep, name="lim2 learner process", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it: it saves what it has learned first."""
        self._ending.set()
        _end(self._process)
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            logger.warning("the learner does not end, and is killed: what it has not saved is learned again")
            self._process.kill()
            self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _started(self) -> "subprocess.Popen[bytes]":
        own = {
            SETTINGS: self._settings,
            READY: str(self.ready),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),  # it finds what this process finds
        }
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "lim2.serve.learner"],
            env={**os.environ, **own}, process_group=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def _keep(self) -> None:
        while True:
            status = self._process.wait()
            _end(self._process)
            self.ready.unlink(missing_ok=True)
            if self._ending.is_set():
                return
            logger.error("the learner has ended with status %d, and is started again", status)
            while not self._ending.wait(RESTART_SECONDS):
                try:
                    self._process = self._started()
                    if self._ending.is_set():  # meanwhile, so that `stop` may have ended the one before
                        _end(self._process)
                    break
                except OSError as error:  # no memory, or too many processes
                    logger.error("the learner cannot be started: %s", error)


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


@contextlib.contextmanager
def learner_process(config: Config) -> Iterator[None]:
    """Run the process that learns for as long as requests are answered, if this service does both."""
    if config.role != "all":
        yield
        return
    process = LearnerProcess(config)
    os.environ[READY] = str(process.ready)
    try:
        yield
    finally:
        del os.environ[READY]
        process.stop()


class _Uncounted:
    """The deciders count, from what is posted."""

    def learned(self, *_: Any) -> None:
        """Do nothing."""

    def learner_failed(self, _: str) -> None:
        """Do nothing."""


def main() -> None:
    """Learn until the parent ends, and with it the standard input."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent gets them, too, and then ends this process
        signal.signal(number, signal.SIG_IGN)
    config = msgspec.json.decode(os.environ[SETTINGS], type=Config)
    logging.config.dictConfig(log_settings(config))
    os.nice(NICE)
    catalog = open_catalog(config)
    ready = Path(os.environ[READY])
    learner = Learner(
        catalog, config.open_bandits, most_logs(), _Uncounted(), poll=config.poll, passed=lambda own: _beat(own, ready)
    )
    learner.start()
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 4096):
            pass
    learner.stop()
    catalog.close()
    shutil.rmtree(ready.parent, ignore_errors=True)  # which a parent that was killed has left


def _beat(learner: Learner, ready: Path) -> None:
    """Note in a file that the learner is alive, once it has caught up."""
    if learner.caught_up:
        with contextlib.suppress(OSError):
            ready.touch()


def answers(ready: Path) -> bool:
    """Return whether a learner has noted lately that it is alive."""
    try:
        return time.time() - ready.stat().st_mtime < SILENCE_SECONDS
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    main()
