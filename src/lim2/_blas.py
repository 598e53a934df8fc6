"""Limit BLAS to one thread while an agent computes.

An agent's matrices are small: splitting a 50 x 50 product between threads costs more than the product, and sums
in another order change the last bits. Run several agents in parallel instead.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from types import TracebackType

from threadpoolctl import ThreadpoolController

_Switch = tuple[Callable[[], int], Callable[[int], None]]


def _openblas_switches() -> list[_Switch]:
    """Return (get, set) thread counts of every OpenBLAS in the process: NumPy and SciPy bring one each."""
    switches: list[_Switch] = []
    for library in ThreadpoolController().select(internal_api="openblas").lib_controllers:
        dll = ctypes.PyDLL(library.filepath)  # which holds the interpreter for a call this short
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                get = getattr(dll, f"{prefix}openblas_get_num_threads{suffix}", None)
                if get is not None:
                    switches.append((get, getattr(dll, f"{prefix}openblas_set_num_threads{suffix}")))
                    break
    return switches


class OneThread:
    """A reentrant context manager, safe when several threads are inside: the last one out restores the setting.

    The setting of OpenBLAS is global to the process, so BLAS calls of other threads are limited as well while an agent
    computes. Other BLAS libraries are not changed.
    """

    def __init__(self) -> None:
        self._switches: list[_Switch] | None = None
        self._restore: list[tuple[Callable[[int], None], int]] = []
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def _after_fork(self) -> None:
        """Reset in a child process: the threads that were inside, and may have held the lock, do not exist in it."""
        self._begin()
        self._give_back()

    def _give_back(self) -> None:
        while self._restore:
            set_, before = self._restore.pop()
            set_(before)

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._switches is None:
                    self._switches = _openblas_switches()
                for get, set_ in self._switches:
                    before = get()
                    if before != 1:
                        self._restore.append((set_, before))
                        set_(1)
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._restore:
                self._give_back()


one_thread = OneThread()
