"""Writes that are kept on disk while the database is unreachable, and done, each once, when it is back.

How far a file has been replayed is written into each log, in the transaction that does the writes. So a process that
is killed at any moment, and the one that takes its file over, do nothing twice.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lim2.log.decisions import Insertion
from lim2.log.errors import LogError, LogFileError, StoreUnavailableError, TakenIdError, UnknownDecisionError
from lim2.log.group_commit import GroupCommit, Request
from lim2.log.ids import rivals
from lim2.log.store import Store
from lim2.serve.spool.entries import Command, Entry, answer_of, entry_of
from lim2.serve.spool.file import SUFFIX, SpoolFile
from lim2.serve.spool.marking import Waiting, changed, key_of, replayed

logger = logging.getLogger("lim2.serve")

CHUNK = 200  # writes per transaction
NEARLY = 1 << 16  # bytes that are left when writers are held up until all is done
PATIENCE = 600.0  # seconds for which a reward waits for a decision that another process may have on its disk
RECENT = 60.0  # seconds after an outage in which a reward of an unknown decision is kept
RETRY = 1.0  # seconds from one attempt to do what is left to the next
REJECTED = "rejected.jsonl"

Open = Callable[[str, str], Store]  # the store of a bandit's log; LookupError if it is gone


class SpoolError(StoreUnavailableError):
    """The database is unreachable, and the write cannot be kept on disk."""


class NotSpoolingError(Exception):
    """The database is back: writes go there."""


class _Place(NamedTuple):
    """Where the row of a decision is."""

    file: SpoolFile
    begin: int
    number: int  # of the row within its entry


class _Replay:
    """A file that is being replayed, and what is left of it."""

    def __init__(self, file: SpoolFile) -> None:
        self.file, self.at, self.since = file, 0, time.monotonic()
        self.left: list[Waiting] = []
        self.logs: set[tuple[str, str]] = set()


class Spool:
    """The writes that wait, of all logs of a process.

    Parameters
    ----------
    folder
        Folder of the files. Files that a process has left behind are taken over.
    limit
        Bytes that may wait.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder, self._limit = folder, limit
        self._lock = threading.RLock()  # of the files
        self._active = False
        self._current: _Replay | None = None
        self._old: list[_Replay] = []
        self._finding = threading.Lock()  # of the index; held for a moment only, since requests wait for it
        self._index: dict[tuple[str, str], _Place] = {}  # (log, id)
        self._ended = self._tried = -math.inf  # when the last outage ended, and when what is left was tried
        self._group = GroupCommit(self._write, lambda: LogError("the service has stopped"))
        self.spooled = self.replayed = self.rejected = 0
        self.adopt()

    # While the database is unreachable

    @property
    def active(self) -> bool:
        """Whether writes are kept on disk."""
        return self._active

    @property
    def waits(self) -> int:
        """Bytes of the files that wait."""
        return sum(own.file.size for own in self._all())  # without the lock, for which a request could wait long

    @property
    def expects(self) -> bool:
        """Whether a decision that nobody knows may be on the disk of another process: an outage has just ended."""
        return self._active or bool(self._old) or time.monotonic() - self._ended < RECENT

    def begin(self) -> None:
        """Keep writes on disk from now on."""
        self._active = True

    async def keep(self, bandit: str, log: str, command: Command, late: bool = False) -> Any:
        """Keep a write, and return what to answer when it is on disk.

        Parameters
        ----------
        bandit, log
            Names of the bandit and of its log.
        command
            The write.
        late
            Whether it is kept though the database is there, since it waits for a decision.

        Raises
        ------
        NotSpoolingError
            If writes are no longer kept.
        """
        import asyncio

        def work(batch: list[tuple[Entry, Command]]) -> Any:
            if not self._active and not late:
                raise NotSpoolingError
            self._refuse_taken(log, command, batch)
            batch.append((entry_of(bandit, log, command), command))
            return answer_of(command)

        return await self._group.submit(work, asyncio.get_running_loop())

    def find(self, log: str, id: str) -> tuple[int, tuple[Any, ...]] | None:
        """Return a decision that waits: the position of who made it, and its row; None if it does not.

        Parameters
        ----------
        log
            Name of the log.
        id
            Id of the decision.
        """
        with self._finding:
            place = self._index.get((log, id))
            if place is None:
                return None
            command = _decode(place.file.record(place.begin)).command
        assert isinstance(command, Insertion)
        return command.position, command.rows[place.number]

    def _refuse_taken(self, log: str, command: Command, batch: list[tuple[Entry, Command]]) -> None:
        if not isinstance(command, Insertion):
            return
        waiting = {(entry.log, row[0]) for entry, other in batch if isinstance(other, Insertion) for row in other.rows}
        for name, row in zip(command.names, command.rows, strict=True):
            if name is not None and any(
                (log, id) in self._index or (log, id) in waiting for id in rivals(row[0], name)
            ):
                raise TakenIdError(f"the id {name!r} is taken by an earlier decision: decision ids must be unique")

    def _write(self, requests: list[Request], meanwhile: Callable[[], list[Request]]) -> None:
        """Write what has come to the file, and flush the disk once for all of it."""
        requests.extend(meanwhile())
        batch: list[tuple[Entry, Command]] = []
        with self._lock:
            for request in requests:
                try:
                    request.result = request.work(batch)
                except Exception as error:  # noqa: BLE001 (raised where the request came from)
                    request.failed(error)
            try:
                if batch:
                    self._append(batch)
            except Exception as error:
                logger.exception("writes cannot be kept on disk")
                for request in requests:
                    request.failed(error)

    def _append(self, batch: list[tuple[Entry, Command]]) -> None:
        contents = [msgspec.msgpack.encode(entry) for entry, _ in batch]
        if self.waits + sum(map(len, contents)) > self._limit:
            raise SpoolError(
                f"the database is unreachable, and {self._limit} bytes wait for it in {self.folder} already"
            )
        if self._current is None:
            self._current = _Replay(SpoolFile.new(self.folder))
        begin, file = self._current.file.size, self._current.file
        try:
            ends = file.append(contents)
        except OSError as error:
            raise SpoolError(
                f"the database is unreachable, and nothing can be written to {file.path}: {error}"
            ) from error
        for (entry, command), end in zip(batch, ends, strict=True):
            self._note(entry, command, _Place(file, begin, 0))
            begin = end
        self.spooled += len(batch)

    def _note(self, entry: Entry, command: Command, place: _Place) -> None:
        if isinstance(command, Insertion):
            with self._finding:
                for number, row in enumerate(command.rows):
                    self._index[entry.log, row[0]] = place._replace(number=number)

    # When it is back

    def adopt(self) -> None:
        """Take over the files of processes that have ended."""
        with self._lock:
            mine = {own.file.path for own in self._all()}
            for path in sorted(self.folder.glob(f"*{SUFFIX}")):
                if path not in mine and (file := SpoolFile.adopted(path)) is not None:
                    self._old.append(_Replay(file))
                    begin = 0
                    for end, content in file.records():
                        entry = _decode(content)
                        self._note(entry, entry.command, _Place(file, begin, 0))
                        begin = end

    @property
    def pending(self) -> bool:
        """Whether something waits to be done."""
        return self._active or bool(self._old) or self._current is not None

    def replay(self, open: Open) -> None:
        """Do what waits, in the order in which it came. Then writes go to the database again.

        Parameters
        ----------
        open
            Returns the store of a bandit's log.

        Raises
        ------
        StoreUnavailableError
            If the database cannot be reached again: what was done is done, the rest still waits.
        """
        for own in list(self._old):
            self._advance(own, own.file.size, open)
        current = self._current
        while current is not None and current.file.size - current.at > NEARLY:
            self._advance(current, current.file.size, open)
        with self._lock:  # writers wait for a moment
            current = self._current
            if current is not None:
                self._advance(current, current.file.size, open)
                self._old.append(current)
                self._current = None
            if self._active:
                self._active, self._ended = False, time.monotonic()
        self._retry(open)
        self._remove(open)

    def _advance(self, own: _Replay, upto: int, open: Open) -> None:
        """Do the entries of a file up to an end, in chunks."""
        chunk: dict[tuple[str, str], list[Waiting]] = {}
        count, at = 0, own.at
        for end, content in own.file.records(own.at, upto):
            entry = _decode(content)
            chunk.setdefault((entry.bandit, entry.log), []).append(Waiting(end, entry))
            count, at = count + 1, end
            if count == CHUNK:
                self._do_all(own, chunk, open)
                chunk, count, own.at = {}, 0, at
        self._do_all(own, chunk, open)
        own.at = at

    def _do_all(self, own: _Replay, chunk: dict[tuple[str, str], list[Waiting]], open: Open) -> None:
        for place, entries in chunk.items():
            own.logs.add(place)
            try:
                store = open(*place)
            except LookupError as error:
                for one in entries:
                    self._reject(one.entry, error)
                continue
            self._do(own, store, entries)

    def _do(self, own: _Replay, store: Store, entries: list[Waiting]) -> None:
        """Do some entries of one log in one transaction; if one of them is refused, each in its own."""
        try:
            self.replayed += store.write(lambda tables: replayed(tables, own.file.id, entries))
        except StoreUnavailableError:
            raise
        except LogError:
            for one in entries:
                self._do_one(own, store, one)

    def _do_one(self, own: _Replay, store: Store, one: Waiting) -> None:
        try:
            self.replayed += store.write(lambda tables: replayed(tables, own.file.id, [one]))
        except StoreUnavailableError:
            raise
        except (UnknownDecisionError, LogFileError) as error:
            if self._is_patient(own):
                store.write(lambda tables: changed(tables, own.file.id, lambda marker: marker.with_left(one.end)))
                if all(other.end != one.end for other in own.left):
                    own.left.append(one)
                return
            self._give_up(own, store, one, error)
        except LogError as error:
            self._give_up(own, store, one, error)

    def _is_patient(self, own: _Replay) -> bool:
        """Return whether a decision may still come: other processes have their spools to replay, too."""
        return self._active or time.monotonic() - max(own.since, self._ended) < PATIENCE

    def _give_up(self, own: _Replay, store: Store, one: Waiting, error: Exception) -> None:
        self._reject(one.entry, error)
        store.write(lambda tables: changed(tables, own.file.id, lambda marker: marker.with_done(one.end)))

    def _reject(self, entry: Entry, error: Exception) -> None:
        """Write down what cannot be done, without contexts, for someone to look at."""
        self.rejected += 1
        logger.warning("a write that waited for the database was refused: %s", error)
        rewards = entry.values[0] if entry.kind == "reward" else None
        line = {"time": time.time(), "bandit": entry.bandit, "kind": entry.kind, "ids": entry.ids, "rewards": rewards}
        with (self.folder / REJECTED).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "reason": str(error)}) + "\n")

    def _retry(self, open: Open) -> None:
        """Try once more what waits for a decision."""
        if time.monotonic() - self._tried < RETRY:
            return
        self._tried = time.monotonic()
        for own in self._old:
            left, own.left = own.left, []
            chunk: dict[tuple[str, str], list[Waiting]] = {}
            for one in left:
                chunk.setdefault((one.entry.bandit, one.entry.log), []).append(one)
            try:
                self._do_all(own, chunk, open)
            except BaseException:
                own.left = left
                raise

    def _remove(self, open: Open) -> None:
        """Delete the files of which nothing is left, and then what logs know of them."""
        for own in list(self._old):
            if own.left or own.at < own.file.size:
                continue
            with self._lock, self._finding:
                self._old.remove(own)
                self._index = {key: place for key, place in self._index.items() if place.file is not own.file}
                own.file.remove()
            for place in own.logs:
                try:
                    open(*place).write(lambda tables: tables.put(key_of(own.file.id), None))  # noqa: B023
                except LookupError:
                    continue

    def _all(self) -> list[_Replay]:
        return [*self._old, *([] if self._current is None else [self._current])]

    def close(self) -> None:
        """Let go of the files: what waits is done by the next process."""
        self._group.end()
        with self._lock, self._finding:
            for own in self._all():
                own.file.close()
            self._old, self._current, self._index = [], None, {}


def _decode(content: bytes) -> Entry:
    return msgspec.msgpack.decode(content, type=Entry)
