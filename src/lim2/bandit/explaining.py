"""Explanations of decisions: the contribution of each key to the expected score."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lim2.encoding import Columns, Encoder, EncoderState
from lim2.state import Array

Source = tuple[str, Any, Encoder | Columns, EncoderState]  # context or item, what it is, encoder, its state


class Reason(NamedTuple):
    """Contribution of one key to an expected score."""

    key: str
    value: Any
    source: str  # "context" or "item"
    contribution: float


def reasons(sources: Sequence[Source], mean_of: Callable[[Array], Array]) -> list[Reason]:
    """Return the contribution of each key, largest first: the score minus the same score without the key."""
    parts: list[tuple[str, Any, str]] = []
    without: list[tuple[int, dict[int, float]]] = []  # where a source's columns begin, and what a key adds to them
    vectors, start = [], 0
    for source, raw, encoder, state in sources:
        vectors.append(encoder.encode(state, raw))
        by_key: dict[str, dict[int, float]] = {}
        values: dict[str, Any] = {}
        for path, value, _, column, encoded in encoder.explain(state, raw):
            values[path] = value
            columns = by_key.setdefault(path, {})
            if column is not None:
                columns[column] = columns.get(column, 0.0) + encoded
        for path, columns in by_key.items():
            parts.append((path, values[path], source))
            without.append((start, columns))
        start += len(vectors[-1])
    row = np.concatenate(vectors)
    rows = np.tile(row, (len(parts) + 1, 1))
    for at, (begin, columns) in enumerate(without, start=1):
        for column, encoded in columns.items():
            rows[at, begin + column] -= encoded
    means = mean_of(rows)
    contributions = [Reason(*part, float(means[0] - mean)) for part, mean in zip(parts, means[1:], strict=True)]
    return sorted(contributions, key=lambda reason: -abs(reason.contribution))
