"""Makes an impure algorithm an error: no function may write to the state that it is given.

All arrays of a state are read-only while a function of an algorithm has it, and its values are compared before and
after, because BLAS writes through read-only views. Two things are allowed to change: the rows of a memory in which it
holds nothing, and, after the function has returned, the rows that the shell writes in place.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from lim2.algorithms import Algorithm
from lim2.memory import Memory

PURE = ("score", "learn", "learn_many", "add_arm", "remove_arm")


class ImpureError(AssertionError):
    """A function has written to a state that it was given."""


STORAGE = ("contexts", "arms", "rewards", "stamps")


class Held(NamedTuple):
    """What a state holds, found in one pass: guards run at every round of a thousand tests."""

    arrays: list[NDArray[Any]]
    memories: list[Memory]
    dicts: list[tuple[dict[Any, Any], dict[Any, Any]]]  # each with a copy

    def bits(self) -> list[bytes]:
        """Return the values that nothing may change."""
        rows = [memory.rows() for memory in self.memories]
        stored = [
            (getattr(memory, name), own) for memory, own in zip(self.memories, rows, strict=True) for name in STORAGE
        ]
        return [*(array.tobytes() for array in self.arrays), *(array[own].tobytes() for array, own in stored)]

    def same_keys(self) -> bool:
        """Return whether the dictionaries hold the objects that they held."""
        return all(
            one.keys() == other.keys() and all(one[key] is other[key] for key in one) for one, other in self.dicts
        )


def held(tree: Any) -> Held:
    """Return what a state holds."""
    found = Held([], [], [])
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, np.ndarray):
            found.arrays.append(one)
        elif isinstance(one, Memory):
            found.memories.append(one)
            waiting += one[len(STORAGE) :]
        elif isinstance(one, tuple):
            waiting += one
        elif isinstance(one, dict):
            found.dicts.append((one, dict(one)))
            waiting += one.values()
    return found


def values_of(tree: Any) -> Any:
    """Return the values of a state that nothing may change, in arrays of their own."""
    if isinstance(tree, Memory):
        tree = tree.canonical()
    if isinstance(tree, np.ndarray):
        return tree.copy()
    if isinstance(tree, dict):
        return {key: values_of(value) for key, value in tree.items()}
    return tuple(map(values_of, tree)) if hasattr(tree, "_fields") else tree


def same(one: Any, other: Any) -> bool:
    """Return whether two results of :func:`values_of` are equal, bit for bit."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return all(map(same, one, other))
    return one is other or bool(one == other)


@contextmanager
def untraced() -> Iterator[None]:
    """Hide what the guard itself calls from those who count the calls of an update."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


@contextmanager
def frozen(state: Any, what: str) -> Iterator[None]:
    """Hold all arrays of a state read-only, and raise ImpureError if a value has changed all the same."""
    with untraced():
        own = held(state)
        before = own.bits()
        writeable = [array for array in own.arrays if array.flags.writeable]
        for array in writeable:
            array.flags.writeable = False
    try:
        yield
    finally:
        with untraced():
            for array in writeable:
                with suppress(ValueError):  # an array whose memory is PyTorch's stays frozen
                    array.flags.writeable = True
            if not own.same_keys() or own.bits() != before:
                raise ImpureError(f"{what} has changed the state that it was given")


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of an algorithm that raises when it is impure."""

    @functools.wraps(method)
    def call(self: Algorithm, state: Any, *args: Any, **options: Any) -> Any:
        with frozen(state, f"{type(self).__name__}.{method.__name__}"):
            return method(self, state, *args, **options)

    return call


def kinds(base: type[Algorithm] = Algorithm) -> Iterator[type[Algorithm]]:
    """Yield every class of algorithms, abstract ones too."""
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


def guard(patch: pytest.MonkeyPatch, only: type[Algorithm] = Algorithm) -> None:
    """Let every algorithm be guarded, or one of them."""
    for kind in set(kinds(only)):
        for name in PURE:
            method = kind.__dict__.get(name)
            if method is not None and not getattr(method, "__isabstractmethod__", False):
                patch.setattr(kind, name, guarded(method))
