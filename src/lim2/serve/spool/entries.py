"""What is kept on disk: writes of a log as values, with the bandit and the log that they belong to."""

from typing import Any

import msgspec

from lim2.log.decisions import Insertion
from lim2.log.entries import COLUMNS
from lim2.log.errors import TakenIdError
from lim2.log.rewards import Activation, Reward, Rewarding
from lim2.log.store import Tables

Command = Insertion | Rewarding | Activation
COLUMN_COUNT = len(COLUMNS.split(", "))
SPOOLED = "spooled"  # the status of a reward that will be known later


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """A write that waits for the database.

    Parameters
    ----------
    bandit, log
        Names of the bandit, and of its log within its catalog.
    kind
        ``"insert"``, ``"reward"`` or ``"activate"``.
    values
        The fields of the command.
    """

    bandit: str
    log: str
    kind: str
    values: list[Any]

    @property
    def command(self) -> Command:
        """The write."""
        own = self.values
        if self.kind == "insert":
            return Insertion(own[0], [_today(row) for row in own[1]], own[2])
        if self.kind == "reward":
            return Rewarding([Reward(*one) for one in own[0]], own[1])
        return Activation(*own)

    @property
    def ids(self) -> list[str]:
        """The decisions that it is about."""
        return ids_of(self.command)


def _today(row: list[Any]) -> tuple[Any, ...]:
    """Return a row of today from one that an earlier version may have written, without a control."""
    return tuple(row) if len(row) == COLUMN_COUNT else (*row[:-1], None, row[-1])


def entry_of(bandit: str, log: str, command: Command) -> Entry:
    """Return what is kept of a write.

    Parameters
    ----------
    bandit, log
        Names of the bandit and of its log.
    command
        The write.
    """
    if isinstance(command, Insertion):
        return Entry(bandit, log, "insert", [command.names, command.rows, command.position])
    if isinstance(command, Rewarding):
        return Entry(bandit, log, "reward", [command.rewards, command.now])
    return Entry(bandit, log, "activate", [command.id, command.now])


def ids_of(command: Command) -> list[str]:
    """Return the decisions that a write is about.

    Parameters
    ----------
    command
        The write.
    """
    if isinstance(command, Insertion):
        return [row[0] for row in command.rows]
    return [reward.id for reward in command.rewards] if isinstance(command, Rewarding) else [command.id]


def answer_of(command: Command) -> Any:
    """Return what is answered to a write before the database knows of it.

    Parameters
    ----------
    command
        The write.
    """
    if isinstance(command, Rewarding):
        return [SPOOLED for _ in command.rewards]
    return True if isinstance(command, Activation) else None


def done_later(tables: Tables, command: Command) -> None:
    """Do a write that has waited. Decisions that are there already, in every value, were written before they waited.

    Parameters
    ----------
    tables
        The log's.
    command
        The write.
    """
    if not isinstance(command, Insertion):
        command(tables)
        return
    there = [tables.decision(row[0]) for row in command.rows]
    known = [(stored, row) for stored, row in zip(there, command.rows, strict=True) if stored is not None]
    if not known:
        command(tables)
    elif not all(_same(stored.row, row) for stored, row in known):
        raise TakenIdError(f"the id {known[0][1][0]!r} was used by another decision: that one holds")


def _same(row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return tuple(row[:-1]) == tuple(other[:-1])  # the last says whether it counts, which may have changed
