"""One logged decision: its row in the database, and the object for the user."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.decision import Assignment, Decision
from lim2.log.decision_input import DecisionInput, in_order
from lim2.log.ids import checked_id
from lim2.log.serialization import JSON, as_json, dump_names, load_names, pack_array, pack_json, unpack, unpacked_size


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedDecision(Decision):
    """A decision in the log.

    Parameters
    ----------
    arm, propensity, arms, means, stds, propensities, exploit, control
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
    "items, raw, raw_items, slot, key, metadata, control, active"
)

_NAMES = COLUMNS.split(", ")


class Attributes(NamedTuple):
    """Optional fields of a decision."""

    key: str | None = None
    metadata: JSON | None = None
    active: bool = True


NO_ATTRIBUTES = Attributes()


def checked_attributes(key: str | None, metadata: Any, active: bool) -> Attributes:
    """Return the optional fields of a decision, converted; raise a ValueError if one is invalid."""
    person = None if key is None else checked_id(key, "a key")
    if not isinstance(active, bool):
        raise ValueError(f"active must be True or False, got {active!r}")
    return Attributes(person, None if metadata is None else as_json(metadata, "metadata"), active)


def to_row(
    decision: Decision,
    input: DecisionInput,
    id: str,
    time: float,
    slot: int = 0,
    attributes: Attributes = NO_ATTRIBUTES,
) -> tuple[Any, ...]:
    """Return a decision as the values of `COLUMNS`; raise a ValueError if its parts are inconsistent."""
    arms = tuple(decision.arms)
    if decision.arm not in arms:
        raise ValueError(f"the decision's arm {decision.arm!r} must be one of its eligible arms {arms!r}")
    if not 0 <= decision.propensity <= 1 + 1e-9:
        raise ValueError(f"a propensity must be between 0 and 1, got {decision.propensity!r}")
    moments = [_blob(decision, name, len(arms)) for name in ("means", "stds", "propensities")]
    context = input.context
    vector = (b"", "", "null") if context is None else (context.tobytes(), context.dtype.str, json.dumps(context.shape))
    items = None if input.items is None else in_order(input.items, arms)
    raw_items = None if input.raw_items is None else in_order(input.raw_items, arms)
    control = None if decision.control is None else json.dumps(decision.control)
    return (
        id, time, *vector, dump_names(arms), arms.index(decision.arm), float(decision.propensity), *moments,
        int(decision.exploit), pack_array(items), pack_json(input.raw, input.encode),
        pack_json(raw_items, input.encode), slot,
        attributes.key, pack_json(attributes.metadata), control, int(attributes.active),
    )  # fmt: skip


def without_features(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with an empty context and no features of candidates."""
    values = dict(zip(_NAMES, row, strict=True))
    empty = {"context": b"", "dtype": "", "shape": "null", "items": None, "raw": pack_json({}), "raw_items": None}
    return tuple({**values, **empty}.values())


def weight(row: tuple[Any, ...]) -> int:
    """Return how much memory a row takes when it is decoded, in units of about 100 bytes, at least one per candidate.

    Examples
    --------
    >>> decision = Decision("a", 1.0, ("a", "b"), np.zeros(2), np.ones(2), np.array([1.0, 0.0]))
    >>> weight(to_row(decision, DecisionInput(None, None, {"country": "AT"}, None), "order", 0.0))
    2
    """
    values = dict(zip(_NAMES, row, strict=True))
    stored = sum(unpacked_size(values[name]) for name in ("items", "raw", "raw_items"))
    return len(values["propensities"]) // 8 + (len(values["context"]) + stored) // 100


def from_row(row: tuple[Any, ...], status: str, reward: float | None) -> LoggedDecision:
    """Return the decision that the values of `COLUMNS` describe."""
    (
        id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit,
        items, raw, raw_items, slot, key, metadata, control, active,
    ) = row  # fmt: skip
    eligible, size, raw = load_names(arms), json.loads(shape), unpack(raw)
    vectors, features = unpack(items), unpack(raw_items)
    by_name = None if features is None else dict(zip(eligible, features, strict=True))
    return LoggedDecision(
        arm=eligible[chosen],
        propensity=propensity,
        arms=eligible,
        means=_array(means),
        stds=_array(stds),
        propensities=_array(propensities),
        exploit=bool(exploit),
        control=None if control is None else Assignment(*json.loads(control)),
        id=id,
        time=time,
        context=raw if size is None else _array(context, dtype).reshape(size),
        items=by_name if vectors is None else vectors,
        raw=raw,
        raw_items=by_name,
        position=slot,
        status=status,
        reward=reward,
        key=key,
        metadata=unpack(metadata),
        active=bool(active),
    )


def _blob(decision: Decision, name: str, size: int) -> bytes:
    array = np.asarray(getattr(decision, name), dtype="<f8")
    if array.shape != (size,):
        raise ValueError(f"a decision's {name} must be {size} numbers, one per eligible arm, got shape {array.shape}")
    return array.tobytes()


def _array(blob: bytes, dtype: str = "<f8") -> NDArray[Any]:
    return np.frombuffer(blob, dtype=dtype).copy()  # PyTorch refuses arrays that cannot be written to
