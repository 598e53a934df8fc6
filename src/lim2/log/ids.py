"""Slates in the log: one row per position, so that the reward of a position is the reward of its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lim2.decision import Decision
from lim2.log.decision_input import Situation, in_order


def row_id(slate: str, position: int) -> str:
    """Return the id of a position of a slate.

    Parameters
    ----------
    slate
        ID of the slate.
    position
        Position, counted from 1.
    """
    return f"{slate}/{position}"


def rows_of(slate: Sequence[Decision], about: Situation) -> list[tuple[Decision, Situation]]:
    """Return the content of each position's row: all candidates for the first, only its own item for the others.

    Parameters
    ----------
    slate
        A decision per position, all over the same candidates.
    about
        Context and candidates.
    """
    if not len(slate):
        raise ValueError("the slate is empty: it needs at least one decision")
    shown = [entry.arm for entry in slate]
    if len(set(shown)) < len(shown):
        raise ValueError(f"a slate must show each item at most once, got {shown!r}")
    return [(slate[0], about), *(_alone(entry, about) for entry in slate[1:])]


def _alone(entry: Decision, about: Situation) -> tuple[Decision, Situation]:
    arms = tuple(entry.arms)
    place = arms.index(entry.arm) if entry.arm in arms else -1
    if place < 0:
        raise ValueError(f"the slate shows {entry.arm!r}, which is not one of its candidates {arms!r}")
    only = slice(place, place + 1)
    means, stds, propensities = (np.asarray(getattr(entry, name))[only] for name in ("means", "stds", "propensities"))
    decision = Decision(entry.arm, entry.propensity, (entry.arm,), means, stds, propensities, entry.exploit)
    items = None if about.items is None else in_order(about.items, arms)[only]
    raw_items = None if about.raw_items is None else in_order(about.raw_items, arms)[only]
    return decision, about._replace(items=items, raw_items=raw_items)


def by_position(slate: str, rewards: Mapping[Any, float]) -> list[tuple[str, float]]:
    """Return rewards by position as pairs of id and reward.

    Parameters
    ----------
    slate
        ID of the slate.
    rewards
        Position, as 2 or ``"slot 2"`` -> reward.

    Examples
    --------
    >>> by_position("order-7", {"slot 2": 1.0, 1: 0.0})
    [('order-7/2', 1.0), ('order-7/1', 0.0)]
    """
    pairs = [(row_id(slate, position_named(key)), reward) for key, reward in rewards.items()]
    if not pairs:
        raise ValueError("rewards of a slate must be given by position, such as {1: 0.0, 2: 1.0}, got none")
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"rewards must name each position at most once, got {dict(rewards)!r}")
    return pairs


def position_named(key: Any) -> int:
    """Return the position given by a key such as 2 or ``"slot 2"``.

    Parameters
    ----------
    key
        A whole number from 1, or such a number behind "slot ".
    """
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 1:
        return int(key)
    if isinstance(key, str) and key.startswith("slot ") and key[5:].isascii() and key[5:].isdigit() and int(key[5:]):
        return int(key[5:])
    raise ValueError(f"a position must be a whole number, at least 1, such as 2 or 'slot 2', got {key!r}")
