"""One decision as the log keeps it: its row in the file, and the object that a user sees."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lim2.checks import real_numbers
from lim2.decision import Decision
from lim2.log import names


@dataclass(frozen=True, eq=False, kw_only=True)
class LoggedDecision(Decision):
    """A decision that is in the log.

    Parameters
    ----------
    arm, propensity, arms, means, stds, propensities, exploit
        As `agent.decide` returned them.
    id
        By which its reward is recorded.
    time
        When it was made, by the log's clock.
    context
        In which it was made.
    status
        ``"pending"``, until its reward arrives; then ``"reward"``, ``"default"`` (expired, the default reward
        stands in), ``"dropped"`` (expired without one) or ``"discarded"``.
    reward
        None unless there is one.
    """

    id: str
    time: float
    context: NDArray[Any]
    status: str = "pending"
    reward: float | None = None


# The columns of a row, in the order of `to_row` and `from_row`.
COLUMNS = "id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit"
OF_DECISION = ", ".join(f"d.{column}" for column in COLUMNS.split(", "))


def new_id(now: float) -> str:
    """Return an id that no other decision has: 12 hexadecimal digits of time, 20 drawn by the system.

    Parameters
    ----------
    now
        Seconds. Ids that follow one another in time are neighbours in the index.

    Examples
    --------
    >>> new_id(1.7e9)[:12], len(new_id(0.0))
    ('018bcfe56800', 32)
    """
    return f"{max(int(now * 1000), 0) & 0xFFFFFFFFFFFF:012x}{secrets.token_hex(10)}"


def as_context(context: ArrayLike) -> NDArray[Any]:
    """Return a context as the array that the file gives back bit for bit: contiguous, little-endian.

    Parameters
    ----------
    context
        Real numbers, of any shape and type.

    Examples
    --------
    >>> as_context([1, 2.5])
    array([1. , 2.5])
    """
    array = real_numbers(context, "a context")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def to_row(decision: Decision, context: NDArray[Any], id: str, time: float) -> tuple[Any, ...]:
    """Return a decision as the values of `COLUMNS`; raise ValueError if it does not hold together.

    Parameters
    ----------
    decision
        What `agent.decide` returned.
    context
        As `as_context` returned it.
    id, time
        Its id, and when it was made.
    """
    arms = tuple(decision.arms)
    if decision.arm not in arms:
        raise ValueError(f"the arm {decision.arm!r} is not among the decision's eligible arms {arms!r}")
    if not 0 <= decision.propensity <= 1 + 1e-9:
        raise ValueError(f"a propensity must be between 0 and 1, got {decision.propensity!r}")
    moments = [_blob(decision, name, len(arms)) for name in ("means", "stds", "propensities")]
    return (
        id, time, context.tobytes(), context.dtype.str, json.dumps(context.shape), names.dumps(arms),
        arms.index(decision.arm), float(decision.propensity), *moments, int(decision.exploit),
    )  # fmt: skip


def from_row(row: tuple[Any, ...], status: str, reward: float | None) -> LoggedDecision:
    """Return the decision that a row of `COLUMNS` holds.

    Parameters
    ----------
    row
        The values of `COLUMNS`.
    status, reward
        What has become of it.
    """
    id, time, context, dtype, shape, arms, chosen, propensity, means, stds, propensities, exploit = row
    eligible = names.loads(arms)
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
        context=_array(context, dtype).reshape(json.loads(shape)),
        status=status,
        reward=reward,
    )


def _blob(decision: Decision, name: str, size: int) -> bytes:
    array = np.asarray(getattr(decision, name), dtype="<f8")
    if array.shape != (size,):
        raise ValueError(f"a decision's {name} must be {size} numbers, one per eligible arm, got shape {array.shape}")
    return array.tobytes()


def _array(blob: bytes, dtype: str = "<f8") -> NDArray[Any]:
    return np.frombuffer(blob, dtype=dtype).copy()  # which can be written to, as PyTorch wants
