"""The container: named arrays and a JSON header with a checksum; ``docs/reference/file-format.md`` describes it.

Reading allocates no more than the size of the file: arrays are views of its bytes.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# As in PNG: not text, and spoiled by whatever changes line ends on the way.
MAGIC = b"\x89LIM2\r\n\x1a"
FORMAT = 2
START = 24  # bytes that check_start needs
TYPES = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")

_PREFIX = struct.Struct("<8sIIQ")  # magic, format, 0, bytes of the header
_DIGEST = 32
_ALIGN = 64
_MOST_AXES = 32


class LoadError(ValueError):
    """The file is not a saved agent, is damaged, has an unsupported version, or does not fit the representation."""


def pack(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return header and arrays as the bytes of a file.

    Examples
    --------
    >>> content = pack({"agent": "none"}, {"numbers": np.arange(3.0)})
    >>> header, arrays = unpack(content)
    >>> header, arrays["numbers"].tolist()
    ({'agent': 'none'}, [0.0, 1.0, 2.0])
    """
    table, blocks = [], []
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        if kind not in TYPES:
            raise ValueError(f"{name} has dtype {array.dtype}, which cannot be saved; supported: {TYPES}")
        table.append({"name": name, "type": kind, "shape": list(array.shape)})
        blocks.append(np.ascontiguousarray(array, dtype=kind).tobytes())
    text = json.dumps({**header, "arrays": table}, allow_nan=False, separators=(",", ":")).encode()
    content = bytearray(_PREFIX.pack(MAGIC, FORMAT, 0, len(text)))
    content += text
    for block in blocks:
        content += bytes(-len(content) % _ALIGN)
        content += block
    content += hashlib.sha256(content).digest()
    return bytes(content)


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and read-only arrays of a file's bytes; raise a LoadError if they are invalid."""
    check_start(content[:START])
    end = len(content) - _DIGEST
    if end < START or hashlib.sha256(memoryview(content)[:end]).digest() != content[end:]:
        raise LoadError("the file is damaged: its checksum is wrong, it was truncated or altered. Use a backup.")
    _, _, zero, length = _PREFIX.unpack_from(content)
    if zero or length > end - START:
        raise LoadError("the file is damaged: its header is longer than the file")
    header = _json(content[START : START + length])
    table = header.pop("arrays", None)
    if not isinstance(table, list):
        raise LoadError("the header has no list of arrays")
    arrays: dict[str, NDArray[Any]] = {}
    position = START + length
    for entry in table:
        name, kind, shape = _entry(entry)
        start = position + -position % _ALIGN
        size = math.prod(shape)
        position = start + size * kind.itemsize
        if position > end or name in arrays:
            raise LoadError(f"the header lists an array {name} that is not in the file, or lists it twice")
        try:
            arrays[name] = np.frombuffer(content, kind, size, start).reshape(shape)
        except (ValueError, OverflowError) as error:  # more numbers than can be counted, times 0
            raise LoadError(f"the array {name} cannot have the shape {shape}: {error}") from error
        if kind.kind == "b" and size and arrays[name].view(np.uint8).max() > 1:
            raise LoadError(f"the array {name} has values that are neither true nor false")
    if position != end:
        raise LoadError(f"the file has {end - position} bytes that its header does not list")
    return header, arrays


def check_start(start: bytes) -> None:
    """Raise a LoadError unless the start of a file is that of a supported version."""
    if len(start) < START and MAGIC.startswith(start[: len(MAGIC)]):
        raise LoadError(f"the file is truncated: it ends after {len(start)} bytes")
    if start[: len(MAGIC)] != MAGIC:
        raise LoadError("this is not a file written by agent.save or bandit.save")
    version = _PREFIX.unpack_from(start)[1]
    if version > FORMAT:
        raise LoadError(
            f"the file has format {version}, but this version of lim2 reads up to {FORMAT}: use a newer lim2"
        )
    if version == 1:
        raise LoadError(
            f"the file has format 1, which was never released; this version of lim2 reads from format {FORMAT} on. "
            "Train a new agent on the decision log."
        )
    if version < 1:
        raise LoadError("the file is damaged: there is no format 0")


def _json(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), parse_constant=_refuse, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise LoadError("the header is not a JSON object")
    return header


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("an object has the same key twice")
    return out


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _entry(entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    if not isinstance(entry, dict) or set(entry) != {"name", "type", "shape"}:
        raise LoadError("every array in the header must have exactly a name, a type and a shape")
    name, kind, shape = entry["name"], entry["type"], entry["shape"]
    if not isinstance(name, str) or kind not in TYPES:
        raise LoadError(f"the header lists an array {name!r} of unknown type {kind!r}")
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or any(type(n) is not int or n < 0 for n in shape):
        raise LoadError(f"the header lists an array {name} of impossible shape")
    return name, np.dtype(kind), tuple(shape)
