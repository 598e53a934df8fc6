"""One logged decision: its row in the database, and the object for the user."""

from __future__ import annotations

import json
import secrets
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.decision import Decision
from lim2.log import names
from lim2.log.decision_input import Situation, in_order
from lim2.log.payload import pack_array, pack_json, unpack
from lim2.log.rewards import checked_id
from lim2.log.serialization import JSON, as_json


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedDecision(Decision):
    """A decision in the log.

    Parameters
    ----------
    arm, propensity, arms, means, stds, propensities, exploit
        The same as in `lim2.Decision`. In a slate, only the first position lists all candidates.
    id
        ID of the decision, used to record its reward.
    time
        Time of the decision, by the log's clock.
    context
        The context: a vector, or the raw context if there was no vector.
    items
        The candidates: vectors (k, e) in the order of `arms`, or raw features by name if there were no vectors. None
        if arms have no features.
    raw
        Raw context as JSON, if it was stored.
    raw_items
        Raw candidates as JSON, if they were stored.
    position
        Position in a slate, counted from 1; 0 if the decision is not part of a slate.
    status
        ``"pending"`` until it is settled; then ``"reward"``, ``"default"`` (expired with the default reward),
        ``"dropped"`` (expired without a reward) or ``"discarded"``.
    reward
        The reward, or None.
    key
        Key of the person concerned, used by `DecisionLog.erase`; None if none was given.
    metadata
        JSON value stored with the decision; None if none was given.
    active
        Whether the decision counts. False if it was made with ``active=False`` and has not been activated.
    """

    id: str
    time: float
    context: Any
    items: NDArray[Any] | dict[Hashable, JSON] | None = None
    raw: JSON | None = None
    raw_items: dict[Hashable, JSON] | None = None
    position: int = 0
    status: str = "pending"
    reward: float | None = None
    key: str | None = None
    metadata: JSON | None = None
    active: bool = True

    @property
    def vector(self) -> NDArray[Any] | None:
        """The context as a vector, None if there is none."""
        return self.context if isinstance(self.context, np.ndarray) else None

    @property
    def vectors(self) -> NDArray[Any] | None:
        """The candidates as vectors, None if there are none."""
        return self.items if isinstance(self.items, np.ndarray) else None


# The columns of a row, in the order of `to_row` and `from_row`.
COLUMNS = (
    "id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit, "
    "items, raw, raw_items, slot, key, metadata, active"
)


class Extras(NamedTuple):
    """Optional fields of a decision: key, metadata and active."""

    key: str | None = None
    metadata: JSON | None = None
    active: bool = True


PLAIN = Extras()


def extras(key: str | None, metadata: Any, active: bool) -> Extras:
    """Return the optional fields of a decision, checked and converted.

    Parameters
    ----------
    key
        Key of a person.
    metadata
        A dictionary, or another value that `as_json` can convert.
    active
        Whether the decision counts from the start.
    """
    person = None if key is None else checked_id(key, "a key")
    if not isinstance(active, bool):
        raise ValueError(f"active must be True or False, got {active!r}")
    return Extras(person, None if metadata is None else as_json(metadata, "metadata"), active)


def new_id(now: float) -> str:
    """Return a unique ID: 12 hexadecimal digits of the time, then 20 random digits.

    Parameters
    ----------
    now
        Time in seconds. IDs of consecutive decisions are neighbours in the index.

    Examples
    --------
    >>> new_id(1.7e9)[:12], len(new_id(0.0))
    ('018bcfe56800', 32)
    """
    return f"{max(int(now * 1000), 0) & 0xFFFFFFFFFFFF:012x}{secrets.token_hex(10)}"


def to_row(
    decision: Decision, about: Situation, id: str, time: float, slot: int = 0, more: Extras = PLAIN
) -> tuple[Any, ...]:
    """Return a decision as the values of `COLUMNS`; raise a ValueError if its parts are inconsistent.

    Parameters
    ----------
    decision
        The result of `agent.decide`.
    about
        Its context and candidates.
    id, time
        Its ID, and the time of the decision.
    slot
        Its position in a slate, 0 if it is not part of one.
    more
        Its optional fields.
    """
    arms = tuple(decision.arms)
    if decision.arm not in arms:
        raise ValueError(f"the decision's arm {decision.arm!r} must be one of its eligible arms {arms!r}")
    if not 0 <= decision.propensity <= 1 + 1e-9:
        raise ValueError(f"a propensity must be between 0 and 1, got {decision.propensity!r}")
    moments = [_blob(decision, name, len(arms)) for name in ("means", "stds", "propensities")]
    context = about.context
    vector = (b"", "", "null") if context is None else (context.tobytes(), context.dtype.str, json.dumps(context.shape))
    items = None if about.items is None else in_order(about.items, arms)
    raw_items = None if about.raw_items is None else in_order(about.raw_items, arms)
    return (
        id, time, *vector, names.dumps(arms), arms.index(decision.arm), float(decision.propensity), *moments,
        int(decision.exploit), pack_array(items), pack_json(about.raw, about.encode),
        pack_json(raw_items, about.encode), slot,
        more.key, pack_json(more.metadata), int(more.active),
    )  # fmt: skip


def from_row(row: tuple[Any, ...], status: str, reward: float | None) -> LoggedDecision:
    """Return the decision stored in a row of `COLUMNS`.

    Parameters
    ----------
    row
        The values of `COLUMNS`.
    status, reward
        Its status and reward.
    """
    id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit, *rest = row
    items, raw, raw_items = map(unpack, rest[:3])
    eligible, size = names.loads(arms), json.loads(shape)
    by_name = None if raw_items is None else dict(zip(eligible, raw_items, strict=True))
    return LoggedDecision(
        arm=eligible[chosen],
        propensity=propensity,
        arms=eligible,
        means=_array(means),
        stds=_array(stds),
        propensities=_array(propensities),
        exploit=bool(exploit),
        id=id,
        time=time,
        context=raw if size is None else _array(context, dtype).reshape(size),
        items=by_name if items is None else items,
        raw=raw,
        raw_items=by_name,
        position=rest[3],
        status=status,
        reward=reward,
        key=rest[4],
        metadata=unpack(rest[5]),
        active=bool(rest[6]),
    )


def _blob(decision: Decision, name: str, size: int) -> bytes:
    array = np.asarray(getattr(decision, name), dtype="<f8")
    if array.shape != (size,):
        raise ValueError(f"a decision's {name} must be {size} numbers, one per eligible arm, got shape {array.shape}")
    return array.tobytes()


def _array(blob: bytes, dtype: str = "<f8") -> NDArray[Any]:
    return np.frombuffer(blob, dtype=dtype).copy()  # which can be written to, as PyTorch wants
