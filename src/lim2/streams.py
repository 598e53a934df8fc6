"""The random streams of an agent, and what a fork does to them."""

import os
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

NAMES = ("init", "act", "learn", "serve")
DECIDING = ("act", "serve")

# Held for microseconds: while rows of a state are written, and while a snapshot or a turn is taken. A fork waits for
# it, so no child inherits it held, or a state that is half written.
lock = threading.Lock()

_era = 0  # how many forks lie between the first process and this one


def era() -> int:
    """Return a number that is another one in every generation of forked processes."""
    return _era


def _in_child() -> None:
    global _era
    _era += 1
    lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_in_child)


class Streams:
    """Streams of their own for the initial parameters, deciding, learning, and the decisions of snapshots.

    So what is learned depends on the updates alone. With a seed, everything can be repeated. Without one, a forked
    process and one that loads a saved agent decide from streams of their own; learning goes on as before.

    Attributes
    ----------
    seeded
        Whether a seed was given.
    """

    def __init__(self, seed: int | None) -> None:
        self.seeded = seed is not None
        made = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(NAMES))]
        self.init, self.act, self.learn, self.serve = made
        self._era = _era

    def reseed(self, seed: int | None) -> None:
        """Decide from new streams; None takes a seed from the system."""
        fresh = Streams(seed)
        self.act, self.serve, self.seeded = fresh.act, fresh.serve, fresh.seeded

    def after_fork(self) -> None:
        """In a child of the process in which this was used last, take new streams unless there is a seed."""
        if self._era != _era:
            self._era = _era
            if not self.seeded:
                self.reseed(None)

    def positions(self) -> dict[str, Any]:
        """Return where every stream is, as JSON values."""
        return {"seeded": self.seeded, **{name: _position(getattr(self, name)) for name in NAMES}}

    @classmethod
    def at(cls, positions: Any) -> "Streams":
        """Return streams at these positions; without a seed those for deciding are new. A ValueError says what is wrong."""
        if not isinstance(positions, Mapping) or set(positions) != {"seeded", *NAMES}:
            raise ValueError(f"streams must be {', '.join(NAMES)} and seeded")
        if not isinstance(positions["seeded"], bool):
            raise ValueError("seeded must be true or false")
        streams = cls(None)
        for name in NAMES:
            if positions["seeded"] or name not in DECIDING:
                _set_position(getattr(streams, name), positions[name])
        streams.seeded = positions["seeded"]
        return streams

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_era"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _era=_era)


def _position(rng: np.random.Generator) -> dict[str, Any]:
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
    if not isinstance(given, Mapping) or set(given) != {"kind", "state", "inc", "has_uint32", "uinteger"}:
        raise ValueError("the position of a stream must have kind, state, inc, has_uint32 and uinteger")
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
        "bit_generator": kind, "state": words, "has_uint32": given["has_uint32"], "uinteger": given["uinteger"],
    }  # fmt: skip
