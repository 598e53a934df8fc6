"""What a log needs of a database. All else about a log is written once, above this, whichever database it is.

A `Store` opens transactions; `Tables` is what can be done within one. A store keeps four promises, on which all of the
log stands: a transaction is written whole or not at all; what `write` has returned survives the process; transactions
that write come one after another; and positions are dense, in the order in which events become visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

Result = TypeVar("Result")
Row = tuple[Any, ...]  # a decision, as the values of `entries.COLUMNS`

CHUNK = 256  # rows that are read at once

# Which decisions: those that wait, those that have a reward or a default reward, or all. The last two are without the
# later positions of slates.
Which = Literal["pending", "rewarded", "all"]


class Found(NamedTuple):
    """A decision, as far as settling it needs."""

    seq: int
    time: float
    settled: int | None  # the position of the event that settled it; None while it waits
    active: bool


class Stored(NamedTuple):
    """A decision with what has become of it."""

    seq: int
    position: int  # up to which the agent that made it had learned
    status: str
    reward: float | None
    row: Row


class Event(NamedTuple):
    """What an agent learns from, and the row of the decision that it is about; empty if it is about none."""

    position: int
    kind: str
    reward: float | None
    change: str | None
    token: str | None
    row: Row = ()


class Model(NamedTuple):
    """An agent that was published.

    Parameters
    ----------
    version
        From 1; a later one is larger.
    position
        Up to which it had learned.
    time
        When it was published.
    data
        What `lim2.from_bytes` makes the agent of.
    """

    version: int
    position: int
    time: float
    data: bytes


class Lease(Protocol):
    """The right to learn from a log, which one process has at a time. It ends with the process, whatever happens."""

    def release(self) -> None:
        """Let another one have it."""


class Tables(Protocol):
    """The content of a log within one transaction."""

    # What belongs to the whole log

    def get(self, name: str) -> Any:
        """Return a value; None if there is none."""

    def put(self, name: str, value: Any) -> None:
        """Set a value: a number or a string."""

    def counts(self) -> dict[str, int]:
        """Return how many decisions are pending, and how many events there are of each kind; no row is counted."""

    # Decisions

    def insert(self, row: Row, position: int) -> None:
        """Add a decision, made by an agent that had learned up to a position."""

    def taken(self, ids: Sequence[str]) -> bool:
        """Return whether a decision has one of these ids."""

    def find(self, id: str) -> Found | None:
        """Return a decision, None if it is not there."""

    def overdue(self, before: float) -> list[Found]:
        """Return the pending decisions that were made until a time, the oldest first."""

    def oldest(self) -> float | None:
        """Return when the oldest pending decision was made; None if none is pending."""

    def activate(self, seq: int) -> None:
        """Make a decision active."""

    def decision(self, id: str) -> Stored | None:
        """Return a decision and what has become of it; None if it is not there."""

    def decisions(self, which: Which, after: int, limit: int) -> list[Stored]:
        """Return some decisions with a larger seq, in its order."""

    def newest(self) -> int:
        """Return the seq of the newest decision, 0 if there is none."""

    def unrewarded(self, after: int) -> int:
        """Return how many decisions with a larger seq wait or were dropped; of slates, first positions count."""

    # Rewards that are collected before a decision settles, or that came too late

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:
        """Keep a reward of a decision."""

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:
        """Return the kept rewards of a decision with their names, in the order in which they came."""

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:
        """Add an event, at the next position, which is returned; the decision that it is about is settled by it."""

    def relabel(self, position: int, kind: str) -> None:
        """Change the kind of an event."""

    def event(self, position: int) -> Event | None:
        """Return an event without the decision's row; None if it is not there."""

    def events(self, after: int, upto: int, limit: int) -> list[Event]:
        """Return some events after a position, with the rows of their decisions, in order."""

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:
        """Return kind and text of the changes of arms between two positions, both left out, in order."""

    def last(self) -> int:
        """Return the position of the last event there was, deleted ones included."""

    def first_after(self, position: int, time: float) -> int | None:
        """Return the first position after another one whose event is younger than a time."""

    # Batches, which are learned as one

    def next_batch(self, position: int) -> tuple[int | None, int | None]:
        """Return after which position the next batch begins, that one or a later one, and where it ends."""

    def add_batch(self, position: int, end: int) -> None:
        """Note that what comes after a position, up to another one, is a batch."""

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:
        """Add a model, drop all but the latest two, and return its version."""

    def model(self, after: int) -> Model | None:
        """Return the latest model if its version is larger than a number."""

    # Deleting

    def prune(self, upto: int) -> None:
        """Delete the events up to a position, and the decisions that they settled; changes of arms stay."""

    def erase(self, key: str) -> int:
        """Delete all decisions with a key; their events lose reward and decision, and become "erased"."""


class Store(Protocol):
    """A database that holds a log."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""

    def look(self, work: Callable[[Tables], Result]) -> Result:
        """Return what some work reads, all of it as the log was at one moment."""

    def write(self, work: Callable[[Tables], Result]) -> Result:
        """Do some work within a transaction, and return its result: all of it is kept then, or nothing.

        Calls of several threads share a commit. Work must not depend on the thread in which it is done.
        """

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:
        """Do the same without blocking the event loop."""

    def lead(self) -> Lease | None:
        """Return the right to learn, None if somebody else has it."""

    def nbytes(self) -> int:
        """Return the size of the log."""

    def purge(self) -> None:
        """Let nothing of what was deleted be left behind."""

    def copy(self, path: Path | str) -> None:
        """Write a consistent copy to a new file while others go on using the log."""

    def close(self) -> None:
        """Let go of the database."""


def open_store(address: Path | str, synchronous: str, read_only: bool) -> Store:
    """Open the store that an address names.

    Parameters
    ----------
    address
        A path, or ``sqlite:`` and a path.
    synchronous, read_only
        See `DecisionLog`.
    """
    text = str(address)
    scheme, colon, rest = text.partition("://")
    if colon and scheme != "sqlite":
        raise ValueError(f"a log is a file, given by its path or as sqlite:PATH; there is no store for {scheme}://")
    from lim2.log.sqlite.store import SQLiteStore  # not for everyone who imports lim2

    return SQLiteStore(rest if colon else text.removeprefix("sqlite:"), synchronous, read_only)
