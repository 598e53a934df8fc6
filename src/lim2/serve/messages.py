"""Python values between processes of the service, over a local socket.

Arrays go beside the rest, so that they are received where they stay, in one call, while other threads run.
"""

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

_COUNT = struct.Struct("<I")
_MOST = 1024  # parts that are received in one call: systems allow no more


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
    (count,) = _COUNT.unpack(*_received(own, [_COUNT.size]))
    sizes = struct.unpack(f"<{count}Q", *_received(own, [8 * count]))
    content, *beside = _received(own, sizes)
    return pickle.loads(content, buffers=beside)


def _received(own: socket.socket, sizes: Sequence[int]) -> list[memoryview]:
    """Return several parts, each in memory of its own, so that a part that stays keeps no other one in memory."""
    parts = [np.empty(size, dtype=np.uint8).data for size in sizes]  # not filled with zeros, as a bytearray is
    for start in range(0, len(parts), _MOST):
        rest = [part for part in parts[start : start + _MOST] if part]
        while rest:
            count = own.recvmsg_into(rest, 0, socket.MSG_WAITALL)[0]
            if not count:
                raise EOFError("the other process has hung up")
            while rest and count >= len(rest[0]):
                count -= len(rest.pop(0))
            if count:
                rest[0] = rest[0][count:]
    return parts
