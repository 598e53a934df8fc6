"""What of an object changes as it works: taken as plain values to be saved or put back, or frozen to be read.

A class names its changing attributes in ``_kept``; that is all that saving, undoing a failed update and snapshots need
to know of it. The rest of an object follows from the settings that it was made with.
"""

import copy
import threading
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from lim2._arrays import OwnsArrays

# Arrays, numbers, words, None, and mappings of these.
State = dict[str, Any]

# Counts in a file must stay below this, so that no sum of them overflows an array of int64.
LARGEST_COUNT = 2**62

Part = TypeVar("Part")


class Stateful(OwnsArrays):
    """An object whose state is in the attributes that its class names.

    Examples
    --------
    >>> class Tally(Stateful):
    ...     _kept = ("_sums", "count")
    ...     def __init__(self) -> None:
    ...         self._sums, self.count = np.zeros(2), 0
    >>> tally = Tally()
    >>> before = tally.state()
    >>> tally._sums += 1.0
    >>> tally.restore(before)
    >>> tally._sums.tolist(), sorted(before)
    ([0.0, 0.0], ['count', 'sums'])
    """

    _kept: ClassVar[tuple[str, ...]] = ()

    def state(self) -> State:
        """Return a copy of everything that changes."""
        return state_of(self, self._kept)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state` returned; a ValueError tells what does not fit."""
        put_back(self, self._kept, state)

    def frozen(self) -> Self:
        """Return a copy that nothing done to this object reaches; its arrays are read-only."""
        twin = shallow(self)
        for name in self._kept:
            twin.__dict__[name] = frozen(getattr(self, name))
        return twin


class Locks:
    """The locks of an agent: ``learning`` is held while it changes, ``turns`` while arms take turns.

    A copy, or what is unpickled, gets locks of its own.
    """

    def __init__(self) -> None:
        self.learning, self.turns = threading.Lock(), threading.Lock()

    def __reduce__(self) -> tuple[type["Locks"], tuple[()]]:
        return Locks, ()


def state_of(owner: object, names: Iterable[str]) -> State:
    """Return a copy of the named attributes, under their names without a leading underscore."""
    return {name.lstrip("_"): _taken(getattr(owner, name)) for name in names}


def _taken(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, np.random.Generator):
        return _position(value)
    return dict(value.state()) if hasattr(value, "state") else value


def put_back(owner: object, names: Iterable[str], state: Mapping[str, Any]) -> None:
    """Set the named attributes to what :func:`state_of` returned; a ValueError tells what does not fit."""
    current = {name.lstrip("_"): (name, getattr(owner, name)) for name in names}
    # In a file a component that has no state leaves no trace.
    empty: State = {key: {} for key, (_, now) in current.items() if hasattr(now, "restore")}
    check_names({**empty, **state}, current)
    for key, (name, now) in current.items():
        try:
            if isinstance(now, np.random.Generator):
                _set_position(now, state[key])
            elif key in empty:
                now.restore(_mapping(state.get(key, {})))
            else:
                setattr(owner, name, fitting(state[key], now))
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error


def check_names(state: Mapping[str, Any], expected: Iterable[str]) -> None:
    """Raise unless a state has exactly these entries."""
    names = set(expected)
    if missing := sorted(names - set(state)):
        raise ValueError(f"{', '.join(missing)} is missing")
    if unknown := sorted(set(state) - names):
        raise ValueError(f"{', '.join(unknown)} is not known here")


def fitting(given: Any, like: Any) -> Any:
    """Return a value that has the type of another, and if it is an array also its shape; else a ValueError."""
    if isinstance(like, np.ndarray):
        array = an_array(given, like.dtype)
        if array.shape != like.shape:
            raise ValueError(f"its shape is {array.shape}, expected {like.shape}")
        return array
    if type(given) is not type(like):
        raise ValueError(f"it is {type(given).__name__}, expected {type(like).__name__}")
    return a_count(given) if isinstance(given, int) else given


def a_count(given: Any) -> int:
    """Return a whole number from 0 (or a bool), else a ValueError."""
    if not isinstance(given, int) or not 0 <= given < LARGEST_COUNT:
        raise ValueError(f"it is {given!r}, expected a whole number from 0")
    return given


def an_array(given: Any, dtype: Any) -> NDArray[Any]:
    """Return a copy of an array in some type, in which it must have the same values; else a ValueError."""
    if not isinstance(given, np.ndarray) or given.dtype.kind != np.dtype(dtype).kind:
        kind = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise ValueError(f"it is {kind}, expected an array of {np.dtype(dtype)}")
    array = given.astype(dtype, order="C")  # whole numbers may be longer or shorter on another machine
    if given.dtype != array.dtype and (array.dtype.kind == "f" or not np.array_equal(array, given)):
        raise ValueError(f"it is an array of {given.dtype}, expected {array.dtype}")
    return array


def _mapping(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ValueError(f"it is {type(given).__name__}, expected the state of a component")
    return given


def note(part: Any) -> Any:
    """Return what :func:`undo` needs to put a component back; one with a quicker way than its state has a ``note``."""
    return part.note() if hasattr(part, "note") else part.state()


def undo(part: Any, noted: Any) -> None:
    """Put a component back to what :func:`note` returned."""
    (part.undo if hasattr(part, "undo") else part.restore)(noted)


# Random streams


def _position(rng: np.random.Generator) -> State:
    with rng.bit_generator.lock:  # another thread may be drawing
        position: Any = rng.bit_generator.state
    numbers = position["state"]
    return {
        "kind": position["bit_generator"],
        "state": f"{numbers['state']:#x}",  # 128 bits, which other readers of JSON would round
        "inc": f"{numbers['inc']:#x}",
        "has_uint32": position["has_uint32"],
        "uinteger": position["uinteger"],
    }


def _set_position(rng: np.random.Generator, given: Any) -> None:
    given = _mapping(given)
    check_names(given, ("kind", "state", "inc", "has_uint32", "uinteger"))
    kind = rng.bit_generator.state["bit_generator"]
    if given["kind"] != kind:
        raise ValueError(f"it is the state of {given['kind']!r}, expected {kind}")
    words = {}
    for name in ("state", "inc"):
        word = given[name]
        try:
            words[name] = int(word, 16) if isinstance(word, str) else -1
        except ValueError:
            words[name] = -1
        if not 0 <= words[name] < 2**128:
            raise ValueError(f"its {name} is {word!r}, expected 128 bits in hexadecimal")
    for name, bits in (("has_uint32", 1), ("uinteger", 32)):
        if type(given[name]) is not int or not 0 <= given[name] < 2**bits:
            raise ValueError(f"its {name} is {given[name]!r}, expected {bits} bits")
    rng.bit_generator.state = {
        "bit_generator": kind,
        "state": words,
        "has_uint32": given["has_uint32"],
        "uinteger": given["uinteger"],
    }


# Copies to read


def shallow(value: Part) -> Part:
    """Return another object with the same attributes."""
    twin = object.__new__(type(value))
    twin.__dict__.update(value.__dict__)
    return twin


def frozen(value: Any) -> Any:
    """Return a copy that can be read while the original changes; its arrays are read-only."""
    if isinstance(value, np.ndarray):
        array = value.copy()
        array.flags.writeable = False
        return array
    make = getattr(value, "frozen", None)
    return copy.deepcopy(value) if make is None else make()
