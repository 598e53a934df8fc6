"""Random streams of an agent, and their behaviour after a fork."""

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from lim2._blas import one_thread

NAMES = ("init", "act", "learn", "serve")
DECIDING = ("act", "serve")

# Held for microseconds: while rows of a state are written, and while a snapshot or a turn is taken. A fork waits for
# it, so no child inherits it held, or a state that is half written.
lock = threading.Lock()

_alive: "weakref.WeakSet[Streams]" = weakref.WeakSet()


def _before_fork() -> None:
    one_thread.before_fork()  # first: who computes may want the lock
    lock.acquire()


def _in_parent() -> None:
    lock.release()
    one_thread.after_fork()


def _in_child() -> None:
    lock.release()
    for streams in _alive:
        streams.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


class Streams:
    """Separate random streams for initial parameters, decisions, learning, and decisions of snapshots.

    Learning therefore depends only on the updates. With a seed, everything is reproducible. Without a seed, a forked
    process, or one that loads a saved agent, decides from new streams, and the stream of learning continues.
    """

    init: np.random.Generator
    act: np.random.Generator
    learn: np.random.Generator
    serve: np.random.Generator

    def __init__(self, seed: int | None) -> None:
        self.__dict__.update(_fresh(seed), seeded=seed is not None)
        _alive.add(self)

    def reseed(self, seed: int | None) -> None:
        """Replace the streams of decisions; None takes a random seed from the operating system."""
        fresh = _fresh(seed)
        self.act, self.serve, self.seeded = fresh["act"], fresh["serve"], seed is not None

    def after_fork(self) -> None:
        """Replace the generators in a child process, where they may stay locked; without a seed, by new streams."""
        self.__dict__.update({name: _twin(getattr(self, name)) for name in NAMES})
        if not self.seeded:
            self.reseed(None)

    def positions(self) -> dict[str, Any]:
        """Return the positions of the streams as JSON values; without a seed, streams of decisions are left out."""
        names = NAMES if self.seeded else [name for name in NAMES if name not in DECIDING]
        return {"seeded": self.seeded, **{name: _position(getattr(self, name)) for name in names}}

    @classmethod
    def at(cls, positions: Any) -> "Streams":
        """Return streams at these positions; without a seed, streams of decisions are new."""
        seeded = positions.get("seeded") if isinstance(positions, Mapping) else None
        if not isinstance(seeded, bool):
            raise ValueError("seeded must be true or false in the description of the streams")
        streams = cls(None)
        streams.seeded = seeded
        names = [name for name in NAMES if seeded or name not in DECIDING]
        if set(positions) != {"seeded", *names}:
            raise ValueError(f"the description of the streams must have {', '.join(names)} and seeded")
        for name in names:
            _set_position(getattr(streams, name), positions[name])
        return streams

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _alive.add(self)


def _fresh(seed: int | None) -> dict[str, np.random.Generator]:
    generators = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(NAMES)))
    return dict(zip(NAMES, generators, strict=True))


def _twin(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator at the same position with a separate lock."""
    twin = np.random.default_rng(0)
    twin.bit_generator.state = rng.bit_generator.state
    return twin


def _position(rng: np.random.Generator) -> dict[str, Any]:
    with rng.bit_generator.lock:  # another thread may be drawing
        state = rng.bit_generator.state
    return described(state)


def described(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of NumPy's bit generator as JSON values."""
    numbers = state["state"]
    return {
        "kind": state["bit_generator"],
        "state": f"{numbers['state']:#x}",  # 128 bits, which other readers of JSON would round
        "inc": f"{numbers['inc']:#x}",
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def _set_position(rng: np.random.Generator, position: Any) -> None:
    if not isinstance(position, Mapping) or set(position) != {"kind", "state", "inc", "has_uint32", "uinteger"}:
        raise ValueError("the position of a stream must have kind, state, inc, has_uint32 and uinteger")
    kind = rng.bit_generator.state["bit_generator"]
    if position["kind"] != kind:
        raise ValueError(f"it is the state of {position['kind']!r}, expected {kind}")
    words = {}
    for name in ("state", "inc"):
        word = position[name]
        try:
            words[name] = int(word, 16) if isinstance(word, str) else -1
        except ValueError:
            words[name] = -1
        if not 0 <= words[name] < 2**128:
            raise ValueError(f"its {name} is {word!r}, expected 128 bits in hexadecimal")
    for name, bits in (("has_uint32", 1), ("uinteger", 32)):
        if type(position[name]) is not int or not 0 <= position[name] < 2**bits:
            raise ValueError(f"its {name} is {position[name]!r}, expected {bits} bits")
    rng.bit_generator.state = {
        "bit_generator": kind, "state": words, "has_uint32": position["has_uint32"], "uinteger": position["uinteger"],
    }  # fmt: skip
