"""IDs of decisions, slates and the positions of a slate."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2.checks import shown

MAX_ID_CHARACTERS = 512  # an index of PostgreSQL takes 2,704 bytes


def new_id(now: float) -> str:
    """Return a unique ID: 12 hexadecimal digits of the time, so new IDs are neighbours in an index, and 20 random.

    Examples
    --------
    >>> new_id(1.7e9)[:12], len(new_id(0.0))
    ('018bcfe56800', 32)
    """
    return f"{max(int(now * 1000), 0) & 0xFFFFFFFFFFFF:012x}{secrets.token_hex(10)}"


def sticky_id(log: str, key: str, now: float, seconds: float) -> str:
    """Return the ID of a key's new decision that others get again for so many seconds.

    Processes that decide for a key at the same moment give it the same ID, so that the log takes one of them.

    Examples
    --------
    >>> sticky_id("log", "ann", 1.7e9, 3600) == sticky_id("log", "ann", 1.7e9 + 1, 3600)
    True
    """
    start = now - now % seconds
    text = f"{log}\0{start!r}\0{key}"
    return new_id(start)[:12] + hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def row_id(slate: str, position: int) -> str:
    """Return the ID of a position of a slate; positions count from 1."""
    return f"{slate}/{position}"


def rivals(row_id: str, name: str) -> list[str]:
    """Return the IDs that must be free before a user's name is used: its row's, and that of a slate or a decision.

    Examples
    --------
    >>> rivals("order", "order"), rivals("slate/2", "slate")
    (['order', 'order/1'], ['slate/2', 'slate'])
    """
    return [row_id, f"{name}/1" if row_id == name else name]


def checked_id(id: str, label: str = "an id") -> str:
    r"""Return an ID; raise a ValueError if it is empty, or if not every store could hold it.

    Examples
    --------
    >>> checked_id("order-1")
    'order-1'
    >>> checked_id("order\0")
    Traceback (most recent call last):
    ValueError: an id must be text of at most 512 characters, without the character NUL, got 'order\x00'
    """
    if not isinstance(id, str) or not id:
        raise ValueError(f"{label} must be a non-empty string, got {shown(id)}")
    if len(id) > MAX_ID_CHARACTERS or "\0" in id or not _is_text(id):
        limits = f"at most {MAX_ID_CHARACTERS} characters, without the character NUL"
        raise ValueError(f"{label} must be text of {limits}, got {shown(id)}")
    return id


def _is_text(id: str) -> bool:
    """Return whether a string is Unicode text: Python's strings can have half of a surrogate pair."""
    try:
        return id.isascii() or bool(id.encode())
    except UnicodeEncodeError:
        return False


def rewards_by_row(slate: str, rewards: Mapping[Any, float]) -> list[tuple[str, float]]:
    """Return rewards by position as pairs of a row's ID and a reward.

    Examples
    --------
    >>> rewards_by_row("order-7", {"slot 2": 1.0, 1: 0.0})
    [('order-7/2', 1.0), ('order-7/1', 0.0)]
    """
    pairs = [(row_id(slate, position_named(key)), reward) for key, reward in rewards.items()]
    if not pairs:
        raise ValueError("rewards of a slate must be given by position, such as {1: 0.0, 2: 1.0}, got none")
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"rewards must name each position at most once, got {dict(rewards)!r}")
    return pairs


def position_named(key: Any) -> int:
    """Return the position that a key such as 2 or ``"slot 2"`` names."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 1:
        return int(key)
    if isinstance(key, str) and key.startswith("slot ") and key[5:].isascii() and key[5:].isdigit() and int(key[5:]):
        return int(key[5:])
    raise ValueError(f"a position must be a whole number, at least 1, such as 2 or 'slot 2', got {key!r}")
