"""Interface between a log and its database. The rest of the log is the same for every database.

A `Store` runs transactions; `Tables` are the operations within one. A store gives four guarantees:

- Atomicity: a transaction is written completely or not at all.
- Durability: once `write` has returned, the data survives the process.
- Isolation: transactions that write run one after another. Those that only insert decisions (`Work.inserts`) may
  overlap with others; if two insert the same ID, one is refused.
- Dense positions: events become visible in the order of their positions, so a reader of one sees all before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from lim2.extras import needs
from lim2.log.errors import LostLeaseError

Result = TypeVar("Result")
Row = tuple[Any, ...]  # a decision, as the values of `entries.COLUMNS`
Span = tuple[float, float]  # from one time to another

ROWS_PER_READ = 256

# Decisions that are pending, those that have a reward or a default reward, or all. The last two are without the later
# positions of slates.
DecisionFilter = Literal["pending", "rewarded", "all"]


class DecisionStatus(NamedTuple):
    """What is needed to settle a decision."""

    seq: int
    time: float
    settled: int | None  # the position of the event that settled it; None while it is pending
    active: bool


class StoredDecision(NamedTuple):
    """A decision with its status and reward."""

    seq: int
    position: int  # up to which the deciding agent had learned
    status: str
    reward: float | None
    row: Row


class Event(NamedTuple):
    """An event, and the row of its decision; the row is empty if the event has no decision."""

    position: int
    kind: str
    reward: float | None
    change: str | None
    token: str | None
    row: Row = ()


class Model(NamedTuple):
    """A published agent.

    Parameters
    ----------
    version
        Version number, counted from 1.
    position
        Position in the log up to which the agent has learned.
    data
        The agent as bytes, to be read by `lim2.from_bytes`.
    """

    version: int
    position: int
    time: float
    data: bytes


class DecisionRecord(NamedTuple):
    """A decision with its rewards and events, for copying."""

    seq: int
    learned: int  # the position up to which the deciding agent had learned
    row: Row
    event: PlainEvent | None  # that settled it
    rewards: list[
        tuple[float, float, str | None]
    ]  # time, reward and name of those that are stored, in order of arrival


class KeptProof(NamedTuple):
    """The sums of a proof, for copying."""

    name: str
    seq: int  # of the last decision that was counted; 0 for none that is in the log
    sums: str


class PlainEvent(NamedTuple):
    """A stored event, for copying."""

    position: int
    time: float
    kind: str
    reward: float | None
    change: str | None
    token: str | None


@dataclass(frozen=True)
class Work:
    """A function to run within a transaction, with hints for the store. A plain function works, too."""

    do: Callable[[Tables], Any]
    ids: Sequence[str] = ()  # of decisions that it reads, which a store may read in one query
    inserts: bool = False  # whether it only inserts decisions, which needs no lock

    def __call__(self, tables: Tables) -> Any:
        """Run the function."""
        return self.do(tables)


class Lease(Protocol):
    """Exclusive right to learn from a log. One process holds it at a time, and it ends with the process.

    Each new lease has a larger epoch, and the log stores the latest one. A transaction compares the two to see whether
    another process has taken over the lease (`check_lease`).
    """

    @property
    def epoch(self) -> int:
        """Number of the lease."""

    @property
    def held(self) -> bool:
        """Whether this process still holds the lease: False after it was released or its connection was lost.

        It never becomes True again: ask the log for a new lease.
        """

    def release(self) -> None:
        """Release the lease, so that another process can take it."""


class Tables(Protocol):
    """The content of a log within one transaction."""

    # Batches of statements

    def expect(self, ids: Sequence[str]) -> None:
        """Announce that these decisions will be read; a store may read them together."""

    def flush(self) -> None:
        """Write buffered rows, and raise any error; the end of a transaction calls it."""

    # Values of the log

    def get(self, name: str) -> Any:
        """Return a stored value, or None."""

    def put(self, name: str, value: Any) -> None:
        """Store a number or a string under a name; None removes it."""

    def counts(self) -> dict[str, int]:
        """Return the number of pending decisions and of events of each kind, from stored counters."""

    # Decisions

    def insert(self, row: Row, position: int, name: str | None = None) -> None:
        """Insert a decision of an agent that had learned up to a position.

        A name is an ID given by the user to the decision or its slate. If it is taken, this call or `flush` raises a
        TakenIdError.
        """

    def taken(self, ids: Sequence[str]) -> bool:
        """Return whether a decision has one of these IDs."""

    def find(self, id: str) -> DecisionStatus | None:
        """Return a decision, or None."""

    def overdue(self, before: float) -> list[DecisionStatus]:
        """Return the pending decisions made up to a time, oldest first."""

    def oldest(self) -> float | None:
        """Return the time of the oldest pending decision, or None."""

    def activate(self, seq: int) -> None:
        """Activate a decision."""

    def decision(self, id: str) -> StoredDecision | None:
        """Return a decision with its status and reward, or None."""

    def decisions(self, filter: DecisionFilter, after: int, limit: int) -> list[StoredDecision]:
        """Return up to ``limit`` decisions with a larger seq, in order of seq."""

    def newest(self, count: int) -> int:
        """Return the seq after which exactly the newest ``count`` decisions follow; 0 if there are not more."""

    def latest(self, key: str, since: float) -> str | None:
        """Return the ID of a key's latest decision since a time, slates left out, or None."""

    def unrewarded(self, after: int) -> int:
        """Return the number of pending or dropped decisions with a larger seq; a slate counts by its first position."""

    # Rewards that are collected before a decision settles, or that came too late

    def add_reward(self, seq: int, time: float, reward: float, name: str | None) -> None:
        """Store a reward of a decision."""

    def rewards(self, seq: int) -> list[tuple[float, str | None]]:
        """Return the stored rewards of a decision with their names, in order of arrival."""

    # Events

    def append(self, time: float, kind: str, seq: int | None, reward: float | None, change: str | None = None) -> int:
        """Append an event, which settles its decision; return its position."""

    def relabel(self, position: int, kind: str) -> None:
        """Change the kind of an event."""

    def event(self, position: int) -> Event | None:
        """Return an event without the decision's row, or None."""

    def events(self, after: int, upto: int, limit: int) -> list[Event]:
        """Return up to ``limit`` events after a position, with the rows of their decisions, in order."""

    def changes(self, after: int = 0, before: int | None = None) -> list[tuple[str, str]]:
        """Return kind and text of the changes of arms strictly between two positions, in order."""

    def last(self) -> int:
        """Return the position of the last event, including deleted ones."""

    def first_after(self, position: int, time: float) -> int | None:
        """Return the first later position whose event is younger than a time."""

    # Batches of events that are learned as one

    def next_batch(self, position: int) -> tuple[int | None, int | None]:
        """Return start and end of the next batch, which begins after this position or a later one."""

    def add_batch(self, position: int, end: int) -> None:
        """Store that the events after one position, up to another, are a batch."""

    # Models

    def add_model(self, position: int, time: float, data: bytes) -> int:
        """Add a model, delete all but the latest two, and return its version."""

    def published(self) -> int:
        """Return the position of the latest model, or 0."""

    def model(self, after: int) -> Model | None:
        """Return the latest model if its version is larger than ``after``, else None."""

    # Proofs

    def proofs(self) -> list[str]:
        """Return the names of the proofs that are kept."""

    def proof(self, name: str) -> tuple[int, str] | None:
        """Return the seq up to which a proof has counted, and its sums; None if it is not kept."""

    def put_proof(self, name: str, seq: int, sums: str) -> None:
        """Keep a proof."""

    def count_after(self, seq: int) -> int:
        """Return the number of decisions with a larger seq."""

    # Deleting

    def prune(self, upto: int) -> None:
        """Delete the events up to a position and their decisions; keep changes of arms."""

    def erase(self, key: str) -> int:
        """Delete all decisions with a key; their events lose reward and decision and become "erased"."""


class Copy(Protocol):
    """The content of a log for copying: one log yields it, another one takes it."""

    def meta(self) -> dict[str, Any]:
        """Return all values of the log, with ``"last"`` and ``"version"`` and without counts."""

    def decisions(self, after: int, limit: int) -> list[DecisionRecord]:
        """Return up to ``limit`` decisions with a larger seq, in order of seq."""

    def events(self, after: int, limit: int) -> list[PlainEvent]:
        """Return up to ``limit`` events without a decision after a position, in order, with all changes of arms."""

    def span(self) -> Span | None:
        """Return the earliest and the latest time of an event, or None."""

    def batches(self) -> list[tuple[int, int]]:
        """Return start and end of all batches."""

    def models(self) -> list[Model]:
        """Return the models."""

    def proofs(self) -> list[KeptProof]:
        """Return the proofs that are kept."""

    def take(
        self,
        meta: dict[str, Any],
        decisions: Iterable[DecisionRecord],
        events: Iterable[PlainEvent],
        batches: Iterable[tuple[int, int]],
        models: Iterable[Model],
        proofs: Iterable[KeptProof],
    ) -> None:
        """Write the content into an empty log. Decisions get a new seq, in the given order; proofs follow them."""


class Store(Protocol):
    """A database that holds a log."""

    @property
    def name(self) -> str:
        """Location of the log, for messages."""

    @property
    def read_only(self) -> bool:
        """Whether the log is open for reading only."""

    def look(self, work: Callable[[Tables], Result]) -> Result:
        """Run a function that reads, on a consistent snapshot, and return its result."""

    def write(self, work: Callable[[Tables], Result]) -> Result:
        """Run a function within a transaction and return its result; on failure nothing is written.

        It may run in any thread, and again after a rollback. See `Work`.
        """

    async def awrite(self, work: Callable[[Tables], Result]) -> Result:
        """Do the same as `write` without blocking the event loop."""

    def lead(self) -> Lease | None:
        """Return the learner's lease, or None if another process holds it."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function in another thread whenever any process may have appended events or published a model.

        It must return at once. Calls can be lost with a connection, and some stores make none: poll as well.
        """

    def nbytes(self) -> int:
        """Return the size of the log."""

    def checkpoint(self) -> None:
        """Do maintenance that keeps later writes short, without blocking writers; call it about once a second."""

    def purge(self) -> None:
        """Remove all traces of deleted rows from the disk."""

    def copying(self, write: bool = False, span: Span | None = None) -> AbstractContextManager[Copy]:
        """Open the whole content of the log for reading, or for writing in one transaction.

        With a span, the store first makes room for events of these times.
        """

    def backup(self, path: Path | str) -> None:
        """Write a consistent copy to a new file while the log is in use."""

    def close(self) -> None:
        """Close the database."""


def check_lease(tables: Tables, lease: Lease | None) -> None:
    """Raise a LostLeaseError if the lease has been taken over."""
    if lease is not None and not (lease.held and lease.epoch == tables.get("epoch")):
        raise LostLeaseError(
            "the lease of this log was lost, and another learner may hold it: nothing was written. Ask for a new "
            "lease (log.lead), and continue from the latest model (log.model)."
        )


def open_store(address: Path | str, synchronous: str, read_only: bool) -> Store:
    """Open the store at an address: a path, ``sqlite:`` and a path, or ``postgresql://...#name``."""
    text = str(address)
    scheme, colon, rest = text.partition("://")
    if colon and scheme in ("postgresql", "postgres"):
        with needs("a log in PostgreSQL", "postgres"):
            from lim2.log.postgres.store import PostgresStore
        return PostgresStore(text, synchronous, read_only)
    if colon and scheme != "sqlite":
        raise ValueError(
            f"unknown kind of log {scheme}://: give the path of a file, sqlite:PATH or postgresql://HOST/DATABASE#NAME"
        )
    from lim2.log.sqlite.store import SQLiteStore  # not for everyone who imports lim2

    return SQLiteStore(rest if colon else text.removeprefix("sqlite:"), synchronous, read_only)
