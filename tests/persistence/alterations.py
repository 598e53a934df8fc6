"""Altered files of agents, with right checksums: values, shapes and types of arrays, and any part of the header."""

import copy
import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lim2.persistence.container import FORMAT, MAGIC, unpack

Place = tuple[Any, ...]

FLOATS = (
    float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e200, 1e120, -1e120, 1e90, 1e64, -1e64, 1e40, 1e31,
    -1e31, 1e20, 1e9, -1e9, 1e3, -1e3, -1.0, 0.0, -0.0, 1.0, 0.5, 1e-9, -1e-9, 1e-30, 1e-300, -1e-300, 5e-324,
)  # fmt: skip
WHOLE = (-(2**63), -(2**40), -1, 0, 1, 2, 3, 7, 10**3, 10**9, 2**31, 2**53, 2**62, 2**63 - 1)
FACTORS = (-1.0, 0.0, 1e-6, 0.5, 2.0, 10.0, 1e6, 1e12, 1e30, 1e60)
TYPES = ("<f8", "<f4", "<f2", "<i8", "<i4", "|u1", "<u8", "|b1")
WORDS: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 3, 7, 100, 10**6, 10**9, 2**31, 2**62, 2**63, -(2**70), 10**400, 0.0, 0.5, -0.5,
    1.0, 1e-9, 1e-100, 1e-300, 1e3, 1e9, 1e30, 1e300, "", "nan", "thompson", "ucb", "batch", "sample", "solve", "all",
    "buffer", "full", "cuda", "0x", "0x7", [], [1], [0, 0], [1.5], ["a"], [[]], {}, {"a": 1}, {"tuple": []},
    {"tuple": [3]}, {"tuple": [10**9]}, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"float": 1},
    {"object": "UCB"},
    {"object": "UCB", "settings": {"optimism": 2.0}}, {"object": "UCB", "settings": {"optimism": 1e300}},
    {"object": "Thompson", "settings": {"temperature": 1e200, "optimism": 1e200}}, {"object": "Random", "settings": {}},
    {"object": "Thompson", "settings": {"temperature": {"float": "nan"}, "optimism": 0.0}},
    {"object": "SGD", "settings": {"learning_rate": 1e300, "decay": 0.0, "clip": None}},
    {"object": "SGD", "settings": {"learning_rate": 1e30, "decay": 0.0, "clip": None}},
    {"object": "Adam", "settings": {"learning_rate": 0.1, "decay": 0.0, "clip": None, "keep": [0.5], "epsilon": 1.0}},
    {"object": "Intercept", "settings": {"inner": None}}, {"given": "MLP", "shown": "MLP"},
)  # fmt: skip


class Parts(NamedTuple):
    """What a file is made of."""

    header: dict[str, Any]
    arrays: list[tuple[str, NDArray[Any]]]  # in order, so that an alteration can list one twice

    def names(self) -> list[str]:
        return [name for name, _ in self.arrays]


def parts_of(content: bytes) -> Parts:
    header, arrays = unpack(content)
    return Parts(header, list(arrays.items()))


def sealed(parts: Parts, edit: Callable[[str], str] = str) -> bytes:
    """Return a file as ``docs/reference/file-format.md`` describes it, whose header may be edited as text."""
    table = [{"name": name, "type": array.dtype.str, "shape": list(array.shape)} for name, array in parts.arrays]
    text = edit(json.dumps({**parts.header, "arrays": table}, allow_nan=True)).encode()
    content = bytearray(MAGIC + struct.pack("<IIQ", FORMAT, 0, len(text)) + text)
    for _, array in parts.arrays:
        content += bytes(-len(content) % 64) + array.tobytes()
    return bytes(content + hashlib.sha256(content).digest())


def altered(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return what was done to a file, and its content."""
    how = ALTERATIONS[int(rng.choice(len(ALTERATIONS), p=WEIGHTS))]
    return how(Parts(copy.deepcopy(parts.header), [(name, array.copy()) for name, array in parts.arrays]), rng)


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# Values of arrays


def _array(parts: Parts, rng: np.random.Generator) -> tuple[int, str, NDArray[Any]]:
    index = int(rng.integers(len(parts.arrays)))
    return index, *parts.arrays[index]


def value(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """One value, a row, or all values of an array."""
    _, name, array = _array(parts, rng)
    new = pick(rng, FLOATS if array.dtype.kind == "f" else WHOLE)
    part: Any = ...
    if array.size:
        flat = int(rng.integers(array.size))
        where = np.unravel_index(flat, array.shape)
        part = pick(rng, (where, where, where[:1], ...))
        with np.errstate(over="ignore"):
            array[part] = np.array(new).astype(array.dtype)
    return f"{name}[{part}] = {new}", sealed(parts)


def scale(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """All values of an array, or one, times a factor; or other numbers added."""
    _, name, array = _array(parts, rng)
    factor = pick(rng, FACTORS)
    if array.size and array.dtype.kind == "f":
        part = pick(rng, (..., np.unravel_index(int(rng.integers(array.size)), array.shape)))
        with np.errstate(over="ignore"):
            array[part] *= factor
            if rng.random() < 0.3:
                array[part] += rng.normal(size=np.shape(array[part]))
    elif array.size:
        factor = int(rng.integers(-2, 3))
        array += factor
    return f"{name} * {factor}", sealed(parts)


def bit(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """One bit of an array."""
    index, name, array = _array(parts, rng)
    data = bytearray(array.tobytes())
    place = -1
    if data:
        place = int(rng.integers(8 * len(data)))
        data[place // 8] ^= 1 << place % 8
    parts.arrays[index] = name, np.frombuffer(bytes(data), array.dtype).reshape(array.shape)
    return f"bit {place} of {name}", sealed(parts)


def order(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Values of an array in another order, or two arrays swapped."""
    index, name, array = _array(parts, rng)
    kind = pick(rng, ("swap", "shuffle", "reverse", "transpose", "arrays"))
    flat = array.reshape(-1)
    if kind == "swap" and flat.size:
        one, other = rng.integers(flat.size, size=2)
        flat[[one, other]] = flat[[other, one]]
    elif kind == "shuffle":
        rng.shuffle(flat)
    elif kind == "reverse":
        flat[:] = flat[::-1].copy()
    elif kind == "transpose" and array.ndim > 1:
        parts.arrays[index] = name, np.ascontiguousarray(np.swapaxes(array, -1, -2))
    elif kind == "arrays":
        other = int(rng.integers(len(parts.arrays)))
        parts.arrays[index], parts.arrays[other] = (name, parts.arrays[other][1]), (parts.arrays[other][0], array)
    return f"{kind} {name}", sealed(parts)


# Shapes and types of arrays


def shape(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Rows that are gone or there twice, other axes, or nothing at all."""
    index, name, array = _array(parts, rng)
    kind = pick(rng, ("cut", "repeat", "axis", "flat", "none", "scalar"))
    axis = int(rng.integers(array.ndim)) if array.ndim else 0
    if kind == "cut" and array.ndim:
        array = np.delete(array, slice(-1, None), axis)
    elif kind == "repeat" and array.ndim:
        array = np.concatenate((array, np.take(array, [-1] if array.shape[axis] else [], axis)), axis)
    elif kind == "axis":
        array = array[None]
    elif kind == "flat":
        array = array.reshape(-1)
    elif kind == "none":
        array = array[:0] if array.ndim else array
    elif kind == "scalar":
        array = np.array(array.sum(), dtype=array.dtype)
    parts.arrays[index] = name, np.ascontiguousarray(array) if array.ndim else array
    return f"{kind} {name} {axis}", sealed(parts)


def dtype(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Another type of an array, converted or the same bytes."""
    index, name, array = _array(parts, rng)
    kind = np.dtype(pick(rng, TYPES))
    same = array.dtype.itemsize == kind.itemsize and rng.random() < 0.5
    with np.errstate(all="ignore"):
        parts.arrays[index] = name, array.view(kind) if same else array.astype(kind)
    return f"{name} as {kind}{' bytes' if same else ''}", sealed(parts)


def entry(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """An array that is missing, there twice, or has another name."""
    index, name, array = _array(parts, rng)
    kind = pick(rng, ("gone", "twice", "named", "more"))
    if kind in ("gone", "named"):
        del parts.arrays[index]
    if kind == "twice":
        parts.arrays.insert(index, (name, array))
    if kind in ("named", "more"):
        values = list(parts.header["values"])
        other = pick(rng, ("x", "state/x", f"{name}/x", "", "/", "pulls", "state/memory", *parts.names(), *values))
        parts.arrays.append((other, array))
        name = f"{name} {other}"
    return f"{kind} {name}", sealed(parts)


def branch(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """A part of the state with all that is in it gone, or there where it is absent, or copied from another."""
    values = parts.header["values"]
    leaves = [*parts.names(), *values]
    inner = sorted({"/".join(name.split("/")[:n]) for name in leaves for n in range(2, name.count("/") + 1)})
    place = pick(rng, [*inner, *(name for name, value in values.items() if value is None)] or ["state"])
    parts.arrays[:] = [(name, array) for name, array in parts.arrays if not name.startswith(f"{place}/")]
    for name in [name for name in values if name.startswith(f"{place}/") or name == place]:
        del values[name]
    other = pick(rng, (None, None, "gone", *inner))
    if other is None:
        values[place] = None
    elif other != "gone":
        copies = [
            (f"{place}{name.removeprefix(other)}", array) for name, array in parts.arrays if name.startswith(other)
        ]
        parts.arrays.extend(copies)
        values |= {f"{place}{k.removeprefix(other)}": v for k, v in list(values.items()) if k.startswith(other)}
    return f"{place} like {other}", sealed(parts)


# The header


def places(value: Any, here: Place = ()) -> list[Place]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, part in inner for place in places(part, (*here, key)))]


def at(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _place(parts: Parts, rng: np.random.Generator) -> Place:
    """Return a place in the header: half of them in the settings."""
    within = pick(rng, ("settings", "settings", "values", "streams", *parts.header))
    return pick(rng, places(parts.header[within], (within,)))  # type: ignore[no-any-return]


def word(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Any value in the header replaced by another one."""
    place, new = _place(parts, rng), pick(rng, WORDS)
    at(parts.header, place[:-1])[place[-1]] = new
    return f"{place} = {str(new)[:80]}", sealed(parts)


def like(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """A value in the header replaced by one that resembles it."""
    place = _place(parts, rng)
    old = at(parts.header, place)
    if isinstance(old, bool):
        new = pick(rng, (not old, int(old), float(old), str(old).lower()))
    elif isinstance(old, int | float):
        numbers = (
            old + 1,
            old - 1,
            2 * old,
            -old,
            old / 2,
            100 * old,
            old // 3,
            float(old),
            bool(old),
            str(old),
            [old],
        )
        new = pick(rng, (*numbers, {"tuple": [old, old]}, {"float": str(old)}, int(old)))
    elif isinstance(old, str):
        new = pick(rng, (old.upper(), old[:-1], old + "0", old[::-1], [old], {"tuple": [old]}, len(old)))
    elif isinstance(old, list):
        new = pick(rng, (old[:-1], old[::-1], [*old, *old], [*old, None], [*old, 0], {"tuple": old}, len(old)))
    elif isinstance(old, dict):
        new = pick(rng, (dict(list(old.items())[:-1]), {**old, "x": 1}, list(old.values()), list(old.items())))
    else:
        new = pick(rng, (0, False, "None", [], {}, 5))
    at(parts.header, place[:-1])[place[-1]] = new
    return f"{place} = {str(new)[:80]}", sealed(parts)


def gone(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """A value in the header deleted."""
    place = _place(parts, rng)
    del at(parts.header, place[:-1])[place[-1]]
    return f"no {place}", sealed(parts)


def swapped(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """Two values of the header swapped."""
    one, other = _place(parts, rng), _place(parts, rng)
    first, second = copy.deepcopy((at(parts.header, one), at(parts.header, other)))
    if one != other[: len(one)] and other != one[: len(other)]:
        at(parts.header, one[:-1])[one[-1]] = second
        at(parts.header, other[:-1])[other[-1]] = first
    return f"{one} and {other} swapped", sealed(parts)


def added(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """A value in the header that nobody knows, or one that is also an array."""
    within = pick(rng, ("settings", "values", "streams", "metadata"))
    key = pick(rng, ("x", "", "n_arms", "arms", "state/x", "state/posterior", "state/memory/x", *parts.names()))
    parts.header[within][key] = pick(rng, WORDS)
    return f"{within} {key} = {parts.header[within][key]}", sealed(parts)


def text(parts: Parts, rng: np.random.Generator) -> tuple[str, bytes]:
    """What only the text of a header can be: nested deeply, keys twice, no JSON."""
    place = _place(parts, rng)
    old = json.dumps(at(parts.header, place))
    at(parts.header, place[:-1])[place[-1]] = "ALTERED"
    depth = pick(rng, (50, 900, 20_000))
    nested = "[" * depth + "]" * depth
    object_ = '{"a":' * depth + "1" + "}" * depth
    tuples = '{"tuple":[' * depth + "]}" * depth
    new = pick(
        rng, (nested, object_, tuples, "NaN", "Infinity", "-Infinity", "1e999", "", old + ",", f"{old} {old}", "'")
    )
    twice = f'"x": 1, "x": {old}'
    edit: Callable[[str], str] = lambda whole: whole.replace('"ALTERED"', new, 1)  # noqa: E731
    if rng.random() < 0.2 and isinstance(place[-1], str):
        new = f'{old}, "{place[-1]}": {old}'
    elif rng.random() < 0.1:
        new = "{" + twice + "}"
    return f"{place} = {new[:40]}", sealed(parts, edit)


ALTERATIONS: tuple[Callable[[Parts, np.random.Generator], tuple[str, bytes]], ...] = (
    value, scale, bit, order, shape, dtype, entry, branch, word, like, gone, swapped, added, text,
)  # fmt: skip
WEIGHTS = np.array([16, 8, 10, 6, 6, 4, 4, 3, 19, 15, 2, 3, 2, 2]) / 100.0
