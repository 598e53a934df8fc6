"""Where the bandits of a service are. All processes that share a catalog see the same bandits."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Literal, NamedTuple, Protocol

from lim2.log import DecisionLog
from lim2.log.reading import LogState
from lim2.serve.outage import Outage
from lim2.serve.snapshots import Board
from lim2.serve.spec import Stored

Added = Literal["added", "taken", "full"]


class NoBanditError(LookupError):
    """There is no bandit of this name."""


class LeftLogError(ValueError):
    """There is a log for a new bandit of this name, and no description."""


class StaleError(LookupError):
    """The description that this process has read is no longer the one that holds."""


def no_bandit(name: str) -> NoBanditError:
    """Return the error for a name that no bandit has."""
    return NoBanditError(f"there is no bandit {name!r}: PUT /v1/bandits/{name} makes one")


class Listed(NamedTuple):
    """A bandit in a list: its description, the counts of its log, and the position that has been learned.

    One that cannot be opened has none of these, and the reason.
    """

    name: str
    stored: Stored | None = None
    state: LogState | None = None
    position: int = 0
    failure: str | None = None


class Documents(Protocol):
    """Files of one kind that belong to a bandit, by id: evaluations, or models to start from."""

    def all(self) -> list[bytes]:
        """Return all of them, in any order."""

    def get(self, id: str) -> bytes | None:
        """Return one; None if it is not there."""

    def put(self, id: str, content: bytes) -> None:
        """Keep one, whole or not at all, whether or not it is there already."""

    def add(self, id: str, content: bytes, most: int) -> Added:
        """Keep a new one, unless its id is taken, or there are as many as may be."""

    def replace(self, id: str, content: bytes) -> None:
        """Keep a new content of one, unless it has been deleted."""

    def delete(self, id: str) -> None:
        """Remove one; it need not be there."""


class Catalog(Protocol):
    """Where bandits live: descriptions, documents and logs. Any thread may use it.

    What a method has returned survives the process. NoBanditError: there is no bandit of the name.
    """

    @property
    def name(self) -> str:
        """Where it is, for messages; without a password."""

    @property
    def shared(self) -> bool:
        """Whether processes on other machines may use it at the same time."""

    @property
    def board(self) -> Board:
        """Its board of snapshots."""

    @property
    def outage(self) -> Outage:
        """Whether the database is unreachable."""

    def ping(self) -> None:
        """Return if the database is there; StoreUnavailableError if it is not."""

    def key(self) -> str:
        """Return the key that the service has made for itself; make it if there is none."""

    def names(self) -> list[str]:
        """Return the names of all bandits, in order."""

    def count(self) -> int:
        """Return the number of bandits."""

    def page(self, after: str, limit: int, logs: Mapping[str, DecisionLog]) -> list[Listed]:
        """Return the first bandits whose names come after a name, in order, at most so many."""

    def stamp(self, name: str) -> Hashable:
        """Return what changes whenever the description of a bandit is written."""

    def read(self, name: str) -> Stored:
        """Return the description of a bandit."""

    def create(self, name: str, stored: Stored) -> Stored | None:
        """Make a bandit with an empty log, and return None; if the name is taken, return the description there.

        ValueError: its log cannot have these settings; nothing has been made then.
        """

    def change(self, name: str, work: Callable[[Stored], Stored]) -> Stored:
        """Replace the description of a bandit by what some work makes of it, and return it.

        Nobody else changes it meanwhile. If the work raises something, the description stays.
        """

    def delete(self, name: str) -> None:
        """Remove a bandit, its documents and its logs."""

    def log_name(self, name: str, revision: int) -> str:
        """Return a name for the log that a bandit begins with a revision."""

    def open_log(self, name: str, stored: Stored) -> DecisionLog:
        """Return the log of a bandit; make it, with the settings of the description, if it is not there."""

    def delete_log(self, name: str, log: str) -> None:
        """Remove a log that a bandit no longer has."""

    # Which bandits have something to learn, without opening them

    def waiting(self, now: float) -> dict[str, Any]:
        """Return the bandits that may have something to learn, with stamps for :meth:`looked`."""

    def looked(self, stamps: Mapping[str, Any]) -> None:
        """Note that a learner has looked at bandits: they wait again when there is something newer."""

    def aged(self, now: float) -> list[str]:
        """Return the bandits that may have events that are kept for longer than their descriptions say."""

    def documents(self, name: str, kind: str) -> Documents:
        """Return the documents of a kind."""

    def close(self) -> None:
        """Let go of it."""
