"""Values that processes of the service send each other."""

import itertools
import socket
import threading
from typing import Any

import numpy as np
import pytest

from lim2.serve.messages import packed, receive, send


def sent(value: Any, size: int | None = None) -> Any:
    one, other = socket.socketpair()
    with one, other:
        if size is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
        sending = threading.Thread(target=send, args=(one, value))
        sending.start()
        got = receive(other)
        sending.join()
        return got


@pytest.mark.parametrize("size", [None, 1])
def test_arrays_of_all_sizes_arrive_as_they_are(size: int | None) -> None:
    shapes = [*itertools.product((0, 1, 3, 700), repeat=2), *((number % 5,) for number in range(2500))]
    arrays = [np.random.default_rng(place).normal(size=shape) for place, shape in enumerate(shapes)]
    assert len(packed(arrays)) > 2500
    got = sent({"arrays": arrays, "columns": np.asfortranarray(arrays[15])}, size)
    assert all(np.array_equal(*pair) for pair in zip(got["arrays"], arrays, strict=True))
    assert got["columns"].flags.f_contiguous and np.array_equal(got["columns"], arrays[15])


def test_what_stays_keeps_nothing_else_in_memory() -> None:
    got = sent([np.zeros(100_000), np.ones(3)])
    held: Any = got[1]
    while isinstance(held, np.ndarray):
        held = held.base
    assert held.obj.nbytes == 24


def test_a_message_that_is_cut_off_is_an_end() -> None:
    one, other = socket.socketpair()
    with one, other:
        send(one, np.ones(10))
        whole = other.recv(65536)
        one.sendall(whole[:-1])
        one.shutdown(socket.SHUT_RDWR)
        with pytest.raises(EOFError):
            receive(other)
