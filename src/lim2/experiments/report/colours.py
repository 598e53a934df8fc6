"""One colour per agent, the same in every figure of every report, in a light and a dark shade."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

# (on white, on black)
SHADES = (
    ("#2160c4", "#78aeff"),
    ("#d2600a", "#ffa25c"),
    ("#17854a", "#55cf8e"),
    ("#7a4cc2", "#b99aff"),
    ("#c02f48", "#ff8295"),
    ("#0b8490", "#4bcdd8"),
    ("#8a5a2b", "#d8a873"),
    ("#bb3f8a", "#ff92d0"),
    ("#6f7812", "#c6cf58"),
)
GREY = ("#6a7079", "#9ea6b1")  # of the random policy

# Agents of lim2 keep their colours from report to report; others take what is free.
KEPT = (
    "LiM2", "LinearTS", "NeuralLinear", "NeuralLinearNTK", "NeuralLinearMM", "NeuralLinearNaive", "NeuralUCB",
    "NeuralTS", "AdaptiveTS",
)  # fmt: skip


def colours(sources: Mapping[str, str], fixed: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the number of each agent's shade; -1 is grey. Numbers past the last shade take the same shades again.

    Examples
    --------
    >>> colours({"mine": "my:Agent", "LiM2": "LiM2", "wide": "LiM2", "Uniform": "Uniform"})
    {'LiM2': 0, 'Uniform': -1, 'mine': 1, 'wide': 2}
    >>> colours({"a": "x:a", "b": "LiM2"}, {"a": 0})  # a colour that is taken
    {'a': 0, 'b': 1}
    """
    chosen = {label: number for label, number in (fixed or {}).items() if label in sources}
    for label, source in sources.items():
        if source == "Uniform":
            chosen[label] = -1
        elif label not in chosen and source in KEPT and KEPT.index(source) not in chosen.values():
            chosen[label] = KEPT.index(source)
    for label in sources:
        if label not in chosen:
            chosen[label] = next(i for i in count() if i not in chosen.values())
    return chosen


def shade(index: int, dark: bool = False) -> str:
    """Return a colour."""
    return (GREY if index < 0 else SHADES[index % len(SHADES)])[dark]
