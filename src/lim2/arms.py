"""Names of arms: any hashable values, each mapped to an index."""

import operator
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

# How many names an error message lists.
MAX_LISTED = 10
_STRINGS = {str}


def arm_names(arms: Iterable[Hashable]) -> tuple[Hashable, ...]:
    """Return the names of arms in order; raise a ValueError if they are invalid.

    Examples
    --------
    >>> arm_names(["red", "green"])
    ('red', 'green')
    >>> arm_names(["red", "red"])
    Traceback (most recent call last):
    ValueError: the arm 'red' is given twice: every arm needs a distinct name
    """
    if isinstance(arms, str | bytes | set | frozenset) or not isinstance(arms, Iterable):
        raise ValueError(f"arms must be a sequence of names, such as ['red', 'green'], got {arms!r}")
    if type(arms) is dict and arms and set(map(type, arms)) == _STRINGS:  # nearly always, and nothing is wrong
        return tuple(arms)
    # NumPy's scalars become Python's, which print and pickle plainly
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in arms)
    if not names:
        raise ValueError("arms is empty: an agent needs at least one arm")
    names_seen: set[Hashable] = set()
    for name in names:
        if name is None or not isinstance(name, Hashable) or not _equals_itself(name):
            raise ValueError(f"{name!r} cannot be the name of an arm: use a hashable value, such as a string")
        if name in names_seen:
            raise ValueError(f"the arm {name!r} is given twice: every arm needs a distinct name")
        names_seen.add(name)
    return names


def _equals_itself(name: Any) -> bool:
    try:
        return hash(name) == hash(name) and bool(name == name)  # a tuple may hold what is not hashable; NaN != NaN
    except TypeError:
        return False


def is_same(name: Hashable, other: Any) -> bool:
    """Return whether a value equal to an arm's name names the arm: 1.0 and True equal 1, but are not the arm 1.

    Examples
    --------
    >>> is_same(1, np.int64(1)), is_same(1, 1.0), is_same(1, True), is_same("a", np.str_("a"))
    (True, False, False, True)
    """
    if type(name) is type(other):
        return True
    if isinstance(name, bool) or isinstance(other, bool | np.bool_):
        return isinstance(name, bool) and isinstance(other, bool | np.bool_)
    if isinstance(name, int):
        try:
            operator.index(other)
        except TypeError:
            return False
    return True


def describe(names: tuple[Hashable, ...]) -> str:
    """Return the arms as text for an error message.

    Examples
    --------
    >>> describe((0, 1, 2))
    'arms are the whole numbers 0 to 2'
    >>> describe(("red", "green"))
    "arms are 'red', 'green'"
    """
    if is_range(names):
        return f"arms are the whole numbers 0 to {len(names) - 1}"
    rest = "" if len(names) <= MAX_LISTED else f" and {len(names) - MAX_LISTED} more"
    return f"arms are {', '.join(map(repr, names[:MAX_LISTED]))}{rest}"


def is_range(names: tuple[Hashable, ...]) -> bool:
    """Return whether the names are the default ones: 0, 1, 2, ..."""
    return all(type(name) is int and name == index for index, name in enumerate(names))
