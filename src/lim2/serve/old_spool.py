"""What a spool of lim2 0.2 still holds: writes that waited on disk for the database. They are done once, at a start.

A file is a sequence of records: length, CRC-32, and an entry in MessagePack. How far a log knows a file is stored in
the log, in the transaction that does the writes, so that each is done once.
"""

import fcntl
import json
import logging
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from lim2.log import LogError, StoreUnavailableError
from lim2.log.decisions import Insertion
from lim2.log.entries import COLUMNS
from lim2.log.errors import TakenIdError
from lim2.log.rewards import Activation, Reward, Rewarding
from lim2.log.store import Tables
from lim2.serve.catalog import Catalog, NoBanditError

logger = logging.getLogger("lim2.serve")

HEAD = struct.Struct("<II")  # length, CRC-32
SUFFIX = ".spool"
COLUMN_COUNT = len(COLUMNS.split(", "))


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """A write of a bandit's log."""

    bandit: str
    log: str
    kind: str
    values: list[Any]

    @property
    def command(self) -> Insertion | Rewarding | Activation:
        """The write."""
        if self.kind == "insert":
            return Insertion(self.values[0], [_row(values) for values in self.values[1]], self.values[2])
        if self.kind == "reward":
            return Rewarding([Reward(*one) for one in self.values[0]], self.values[1])
        return Activation(*self.values)


def _row(values: list[Any]) -> tuple[Any, ...]:
    """Return a row of today from one that an earlier version may have written, without a control."""
    return tuple(values) if len(values) == COLUMN_COUNT else (*values[:-1], None, values[-1])


class _Write(NamedTuple):
    """An entry, its file, and where it ends there."""

    path: Path
    end: int
    entry: Entry

    @property
    def key(self) -> str:
        """Name of the value of a log that says how far it knows the file."""
        return f"spool {self.path.stem}"


def replay(folder: Path, catalog: Catalog) -> None:
    """Do all writes of a spool's folder, and rename its files; StoreUnavailableError if the database is away.

    Writes that cannot be done are listed in files named ``.refused``; a damaged file is renamed to ``.damaged``.
    """
    with ExitStack() as held:
        files = [held.enter_context(path.open("rb")) for path in sorted(folder.glob(f"*{SUFFIX}"))]
        contents = {Path(file.name): file.read() for file in files if _is_mine(file)}
        writes = {path: list(_writes(path, content)) for path, content in contents.items()}
        ends: dict[tuple[Path, str, str], list[int]] = {}
        for one in chain(*writes.values()):
            ends.setdefault((one.path, one.entry.bandit, one.entry.log), []).append(one.end)
        for one in sorted(chain(*writes.values()), key=lambda one: one.entry.kind != "insert"):
            _try(one, catalog, ends[one.path, one.entry.bandit, one.entry.log])  # rewards may be in other files
        for path, content in contents.items():
            whole = (writes[path][-1].end if writes[path] else 0) == len(content)
            path.rename(path.with_suffix(".replayed" if whole else ".damaged"))
            logger.warning("%d writes of the spool %s were replayed", len(writes[path]), path)
            if not whole:
                logger.error("the spool %s is damaged behind them", path.with_suffix(".damaged"))


def _is_mine(file: BinaryIO) -> bool:
    """Return whether this process may replay a file: another one may do so, or have done it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return Path(file.name).exists()


def _writes(path: Path, content: bytes) -> Iterator[_Write]:
    """Yield the entries up to the first that is damaged or not whole."""
    at = 0
    while at + HEAD.size <= len(content):
        length, crc = HEAD.unpack_from(content, at)
        part = content[at + HEAD.size : at + HEAD.size + length]
        if not length or len(part) < length or zlib.crc32(part) != crc:
            return
        at += HEAD.size + length
        yield _Write(path, at, msgspec.msgpack.decode(part, type=Entry))


def _try(write: _Write, catalog: Catalog, ends: list[int]) -> None:
    entry = write.entry
    try:
        stored = catalog.read(entry.bandit)
        if stored.log != entry.log:
            raise NoBanditError(f"the log {entry.log} of the bandit {entry.bandit!r} was deleted")
        with catalog.open_log(entry.bandit, stored) as log:
            log.store.write(lambda tables: _do(tables, write, ends))
    except StoreUnavailableError:
        raise
    except (LogError, LookupError) as error:
        logger.error("a write of the spool %s was refused: %s", write.path, error)
        line = {"bandit": entry.bandit, "kind": entry.kind, "values": repr(entry.values), "reason": str(error)}
        with write.path.with_suffix(".refused").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _do(tables: Tables, write: _Write, ends: list[int]) -> None:
    """Do a write, unless the log knows it. What it knows is: everything up to an end, except some."""
    upto, left = json.loads(tables.get(write.key) or "[0, []]")
    if write.end <= upto and write.end not in left:
        return
    command = write.entry.command
    if not isinstance(command, Insertion):
        command(tables)
    else:
        there = [(stored, row) for row in command.rows if (stored := tables.decision(row[0])) is not None]
        if any(tuple(stored.row[:-1]) != tuple(row[:-1]) for stored, row in there):
            raise TakenIdError(f"the id {there[0][1][0]!r} was used by another decision: that one holds")
        if not there:
            command(tables)
    unknown = {end for end in ends if end > upto or end in left} - {write.end}
    tables.put(write.key, json.dumps([max(upto, *ends), sorted(unknown)]))
