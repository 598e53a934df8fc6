"""Limit BLAS to one thread while an agent computes.

An agent's matrices are small: splitting a 50 x 50 product between threads costs more than the product, and sums
in another order change the last bits. Run several agents in parallel instead.
"""

import ctypes
import os
import threading
from collections.abc import Callable
from threading import get_ident
from types import TracebackType

from threadpoolctl import ThreadpoolController

PATIENCE = 1.0  # seconds that a fork waits for threads that compute, and they for it

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

    A fork waits until no other thread is inside (:meth:`before_fork`). OpenBLAS has a lock that a child would inherit
    held by a thread that it does not have, and the child's next product of matrices would never end.
    """

    def __init__(self) -> None:
        self._switches: list[_Switch] | None = None
        self._restore: list[tuple[Callable[[int], None], int]] = []
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, int] = {}  # how often each thread is inside
        self._forks = 0  # that are about to happen

    def _give_back(self) -> None:
        while self._restore:
            set_, before = self._restore.pop()
            set_(before)

    def __enter__(self) -> None:
        thread = get_ident()
        with self._lock:
            if self._forks and thread not in self._inside:
                self._changed.wait_for(lambda: not self._forks, PATIENCE)
            if not self._inside:
                if self._switches is None:
                    self._switches = _openblas_switches()
                for get, set_ in self._switches:
                    before = get()
                    if before != 1:
                        self._restore.append((set_, before))
                        set_(1)
            self._inside[thread] = self._inside.get(thread, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread = get_ident()
        with self._lock:
            depth = self._inside.pop(thread) - 1
            if depth:
                self._inside[thread] = depth
                return
            if not self._inside and self._restore:
                self._give_back()
            if self._forks:
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Let no other thread enter, and wait until none is inside; not for long, since it may wait for this one."""
        thread = get_ident()
        self._forks += 1
        if self._lock.acquire(timeout=PATIENCE):
            self._changed.wait_for(lambda: self._inside.keys() <= {thread}, PATIENCE)
            self._lock.release()

    def after_fork(self) -> None:
        """Let other threads enter again, in the parent."""
        self._forks -= 1
        if self._lock.acquire(timeout=PATIENCE):
            self._changed.notify_all()
            self._lock.release()

    def _in_child(self) -> None:
        """Forget all other threads: they do not exist here, and may have held the lock."""
        thread = get_ident()
        depth = self._inside.get(thread)
        self._begin()
        if depth:
            self._inside[thread] = depth
        else:
            self._give_back()


one_thread = OneThread()
