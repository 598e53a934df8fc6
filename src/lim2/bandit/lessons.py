"""Batches of rewards for raw contexts: check them and encode them together."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lim2.bandit.deciding import Encoding
from lim2.checks import as_floats
from lim2.encoding import Known
from lim2.state import Array

Source = tuple[str, Any, Encoding, Known]  # context or item, what it is, its encoder, what that has learned


class Lessons(NamedTuple):
    """A batch of choices and their rewards; all fields have the same length."""

    contexts: Sequence[Any]
    arms: Sequence[Hashable]
    rewards: Array
    items: Sequence[Any]  # None where the bandit knows the features, or there are none
    positions: Sequence[int]

    def part(self, rows: slice) -> "Lessons":
        """Return the given rows."""
        contexts, arms, rewards, items, positions = self
        return Lessons(contexts[rows], arms[rows], rewards[rows], items[rows], positions[rows])


def lessons(
    contexts: Iterable[Any],
    arms: Iterable[Hashable],
    rewards: ArrayLike,
    items: Iterable[Any] | None,
    positions: Iterable[int] | None,
) -> Lessons:
    """Return the arguments as a batch; raise a ValueError if lengths differ or a position is invalid."""
    given, played, earned = list(contexts), list(arms), as_floats(rewards, "rewards")
    n = len(given)
    features = [None] * n if items is None else list(items)
    places = [1] * n if positions is None else list(positions)
    for name, part in (("arms", played), ("items", features), ("positions", places)):
        if len(part) != n:
            raise ValueError(f"{name} must have {n} entries, one per context, got {len(part)}")
    if earned.shape != (n,):
        raise ValueError(f"rewards must be {n} numbers, one per context, got shape {earned.shape}")
    for place in places:
        check_position(place)
    return Lessons(given, played, earned, features, places)


def check_position(position: Any) -> None:
    """Raise a ValueError unless the argument is a position in a slate."""
    if isinstance(position, bool) or not isinstance(position, int) or position < 1:
        raise ValueError(f"position must be a whole number, at least 1, got {position!r}")


def encoded(sources: Sequence[Sequence[Source]]) -> tuple[list[Known], Array]:
    """Let the encoders observe all rows, then encode the rows; return the new encoder states and the vectors.

    Parameters
    ----------
    sources
        At least one row; each row has a context, or a context and an item.
    """
    moved, vectors = [], []
    for part in zip(*sources, strict=True):
        _, _, encoder, known = part[0]
        raws = [raw for _, raw, _, _ in part]
        for raw in raws:
            known = encoder.observe(known, raw)
        moved.append(known)
        vectors.append(encoder.encode_many(known, raws))
    return moved, vectors[0] if len(vectors) == 1 else np.hstack(vectors)
