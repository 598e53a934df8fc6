"""JSON and arrays as bytes for the log's file, compressed where that pays.

The first byte says what follows: ``j`` JSON, ``a`` an array (its type and shape as one line of JSON, then its bytes);
``J`` and ``A`` the same, compressed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lim2.log import serialization as raw

SMALL = 512  # bytes that are not worth compressing
SAMPLE = 4096  # bytes that are tried first
GAIN = 0.8  # of the size, which compressing must reach


def pack_json(value: raw.JSON | None, encode: Callable[[raw.JSON], bytes] = raw.dumps) -> bytes | None:
    """Return JSON as bytes; None for a missing value.

    Parameters
    ----------
    value
        JSON value from `as_json`.
    encode
        Function that returns the value as JSON.
    """
    return None if value is None else _squeezed(b"j", encode(value))


def pack_array(array: NDArray[Any] | None) -> bytes | None:
    """Return an array as bytes.

    Parameters
    ----------
    array
        Contiguous, of numbers.
    """
    if array is None:
        return None
    head = json.dumps([array.dtype.str, array.shape], separators=(",", ":")).encode()
    return _squeezed(b"a", head + b"\n" + array.tobytes())


def unpack(blob: bytes | None) -> Any:
    """Return the value given to `pack_json` or `pack_array`.

    Parameters
    ----------
    blob
        Bytes from one of these.

    Examples
    --------
    >>> unpack(pack_json({"a": [1, 2]})), unpack(pack_array(np.eye(2)))
    ({'a': [1, 2]}, array([[1., 0.],
           [0., 1.]]))
    >>> len(pack_json(["shoes"] * 1000)) < 100
    True
    """
    if blob is None:
        return None
    kind, body = blob[:1], blob[1:]
    if kind in b"JA":
        body = zlib.decompress(body)
    if kind in b"jJ":
        return raw.loads(body)
    head, _, values = body.partition(b"\n")
    dtype, shape = json.loads(head)
    return np.frombuffer(values, dtype=dtype).reshape(shape).copy()


def _squeezed(kind: bytes, body: bytes) -> bytes:
    if len(body) <= SMALL:
        return kind + body
    if len(body) > 2 * SAMPLE and len(_compressed(body[:SAMPLE])) > GAIN * SAMPLE:
        return kind + body  # a sample says that the rest is not worth the time
    small = _compressed(body)
    return kind.upper() + small if len(small) < GAIN * len(body) else kind + body


def _compressed(body: bytes) -> bytes:
    """Compress: with buffers as large as the body needs, since to clear zlib's own takes longer than to fill them."""
    window = min(len(body).bit_length(), zlib.MAX_WBITS)
    made = zlib.compressobj(1, zlib.DEFLATED, window, max(window - 7, 1))
    return made.compress(body) + made.flush()
