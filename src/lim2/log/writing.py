"""How decisions come into the log: one, many, or the positions of a slate, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lim2.decision import Decision
from lim2.log import names
from lim2.log.decision_input import Situation, in_order
from lim2.log.entries import PLAIN, Extras, LoggedDecision, new_id, to_row
from lim2.log.errors import TakenIdError, taken
from lim2.log.ids import row_id
from lim2.log.rewards import checked_id
from lim2.log.store import Row, Store, Tables, rivals


class Made(NamedTuple):
    """A decision that is to be written, or a position of a slate."""

    decision: Decision
    about: Situation
    id: str | None  # a user's own; None makes one
    more: Extras = PLAIN
    slot: int = 0  # the position in a slate, from 1; its id is that of the slate


def check_free(store: Store, id: str | None) -> None:
    """Refuse an id that is taken, before an agent draws anything for it.

    Parameters
    ----------
    store
        The log's.
    id
        A user's own; None if there is none.
    """
    if id is not None and store.look(lambda tables: tables.taken(rivals(checked_id(id), id))):
        raise taken(id)


def rows_of_made(made: list[Made], now: float) -> list[Row]:
    """Return the rows of decisions; raise ValueError if one does not hold together, or an id is there twice.

    Parameters
    ----------
    made
        The decisions.
    now
        The time.
    """
    rows, id = [], ""
    for one in made:
        if one.id is not None:
            id = checked_id(one.id)
        elif one.slot <= 1:  # later positions have the id of the first
            id = new_id(now)
        rows.append(to_row(one.decision, one.about, row_id(id, one.slot) if one.slot else id, now, one.slot, one.more))
    if len({row[0] for row in rows}) < len(rows):
        raise TakenIdError("two of these decisions have the same id: ids are used once")
    return rows


@dataclass(frozen=True)
class Insertion:
    """Write decisions, all or none.

    Parameters
    ----------
    names
        The ids that a user has given to them, or to their slates; None for those that were made.
    rows
        The decisions.
    position
        Up to which position of the log the agent had learned.
    """

    names: Sequence[str | None]
    rows: Sequence[Row]
    position: int

    def __call__(self, tables: Tables) -> None:
        """Do it, within a transaction."""
        for name, row in zip(self.names, self.rows, strict=True):
            tables.insert(row, self.position, name)


def logged(made: list[Made], rows: list[Row]) -> list[LoggedDecision]:
    """Return decisions as a user sees them who has just made them: what `get` would return.

    Parameters
    ----------
    made, rows
        The decisions, and their rows.
    """
    return [as_logged(*pair) for pair in zip(made, rows, strict=True)]


def as_logged(made: Made, row: Row) -> LoggedDecision:
    """Return the decision that a row holds, without reading it from the row.

    Parameters
    ----------
    made
        The decision.
    row
        Its row.
    """
    decision, about, _, more, slot = made
    arms = names.restored(decision.arms)
    items = None if about.items is None else in_order(about.items, arms)
    raw_items = None if about.raw_items is None else dict(zip(arms, in_order(about.raw_items, arms), strict=True))
    means, stds, propensities = (
        np.array(getattr(decision, name), dtype=np.float64) for name in ("means", "stds", "propensities")
    )
    return LoggedDecision(
        arm=arms[row[6]], propensity=row[7], arms=arms, means=means, stds=stds, propensities=propensities,
        exploit=bool(decision.exploit), id=row[0], time=row[1],
        context=about.raw if about.context is None else about.context.copy(),
        items=raw_items if items is None else np.array(items), raw=about.raw, raw_items=raw_items, position=slot,
        key=more.key, metadata=more.metadata, active=more.active,
    )  # fmt: skip
