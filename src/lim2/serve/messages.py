"""Python values between processes of the service, over a local socket.

Arrays go beside the rest, so that they are received where they stay, in one call, while other threads run.
"""

import pickle
import socket
import struct
from typing import Any

import numpy as np

_COUNT = struct.Struct("<I")
_ALIGN = 64  # bytes; what NumPy computes with begins at a multiple of its size
_PADDING = bytes(_ALIGN)


def set_patience(own: socket.socket, seconds: int) -> None:
    """Let a call that waits for the other process fail after some time, with an OSError.

    Parameters
    ----------
    own
        The socket.
    seconds
        How long each step of a message may take.
    """
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        own.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))


def send(own: socket.socket, value: Any) -> None:
    """Send a value that can be pickled.

    Parameters
    ----------
    own
        The socket.
    value
        The value.
    """
    send_packed(own, packed(value))


def packed(value: Any) -> list[memoryview]:
    """Return the parts of a message: a pickle, and the arrays beside it.

    Parameters
    ----------
    value
        The value.
    """
    beside: list[pickle.PickleBuffer] = []
    content = pickle.dumps(value, 5, buffer_callback=beside.append)
    return [memoryview(content), *(buffer.raw() for buffer in beside)]


def send_packed(own: socket.socket, parts: list[memoryview]) -> None:
    """Send the parts of a message.

    Parameters
    ----------
    own
        The socket.
    parts
        What :func:`packed` has returned.
    """
    sizes = [part.nbytes for part in parts]
    own.sendall(_COUNT.pack(len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes))
    for part in parts:
        own.sendall(part)
        own.sendall(_PADDING[: -part.nbytes % _ALIGN])


def receive(own: socket.socket) -> Any:
    """Return the value that the other process has sent; an EOFError if it has hung up.

    It is unpickled: the other process must be one of this service.

    Parameters
    ----------
    own
        The socket.

    Examples
    --------
    >>> import numpy as np
    >>> one, other = socket.socketpair()
    >>> with one, other:
    ...     send(one, {"mean": np.arange(3.0)})
    ...     receive(other)
    {'mean': array([0., 1., 2.])}
    """
    (count,) = _COUNT.unpack(_received(own, _COUNT.size))
    sizes = struct.unpack(f"<{count}Q", _received(own, 8 * count))
    content = _received(own, sum(size + -size % _ALIGN for size in sizes))
    parts, start = [], 0
    for size in sizes:
        parts.append(content[start : start + size])
        start += size + -size % _ALIGN
    return pickle.loads(parts[0], buffers=parts[1:])


def _received(own: socket.socket, size: int) -> memoryview:
    content = np.empty(size, dtype=np.uint8).data  # not filled with zeros, as a bytearray is
    rest = content
    while rest:
        count = own.recv_into(rest, len(rest), socket.MSG_WAITALL)
        if not count:
            raise EOFError("the other process has hung up")
        rest = rest[count:]
    return content
