"""How far a log knows a spool's file. It is written in the transaction that does the writes, so each is done once."""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lim2.log.decisions import Insertion
from lim2.log.store import Tables
from lim2.serve.spool.entries import Entry, done_later, ids_of


class Waiting(NamedTuple):
    """An entry of a file, and where it ends."""

    end: int
    entry: Entry


class Marker(NamedTuple):
    """Everything up to an end, except some entries.

    Examples
    --------
    >>> marker = Marker().with_done(10).with_left(20).with_done(30)
    >>> [marker.has(end) for end in (10, 20, 30, 40)]
    [True, False, True, False]
    """

    upto: int = 0
    left: tuple[int, ...] = ()

    def has(self, end: int) -> bool:
        """Return whether the entry that ends there has been done."""
        return end <= self.upto and end not in self.left

    def with_done(self, end: int) -> "Marker":
        """Return it with an entry done; those before it are, or are left."""
        return Marker(max(self.upto, end), tuple(one for one in self.left if one != end))

    def with_left(self, end: int) -> "Marker":
        """Return it with an entry that is to be done later than others."""
        return Marker(max(self.upto, end), tuple({*self.left, end}))


def key_of(file: str) -> str:
    """Return the name of the value of a log that says how far it knows a file.

    Parameters
    ----------
    file
        Its id.
    """
    return f"spool {file}"


def replayed(tables: Tables, file: str, entries: Sequence[Waiting]) -> int:
    """Do the entries that a log does not know yet, note that it does, and return how many.

    Parameters
    ----------
    tables
        The log's.
    file
        The id of the file.
    entries
        Entries of this log, in order.
    """
    marker = read(tables, file)
    todo = [(end, entry.command) for end, entry in entries if not marker.has(end)]
    decided = [id for _, command in todo if isinstance(command, Insertion) for id in ids_of(command)]
    fresh = not decided or not tables.taken(decided)
    for end, command in todo:
        if fresh:
            command(tables)
        else:
            done_later(tables, command)
        marker = marker.with_done(end)
    if todo:
        write(tables, file, marker)
    return len(todo)


def changed(tables: Tables, file: str, change: Callable[[Marker], Marker]) -> None:
    """Change what a log knows of a file, and nothing else.

    Parameters
    ----------
    tables
        The log's.
    file
        The id of the file.
    change
        Returns the new marker.
    """
    write(tables, file, change(read(tables, file)))


def read(tables: Tables, file: str) -> Marker:
    """Return how far a log knows a file.

    Parameters
    ----------
    tables
        The log's.
    file
        The id of the file.
    """
    text = tables.get(key_of(file))
    if text is None:
        return Marker()
    upto, left = json.loads(text)
    return Marker(upto, tuple(left))


def write(tables: Tables, file: str, marker: Marker) -> None:
    """Write down how far a log knows a file.

    Parameters
    ----------
    tables
        The log's.
    file
        The id of the file.
    marker
        How far.
    """
    tables.put(key_of(file), json.dumps(marker))
