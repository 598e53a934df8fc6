"""Work of seconds or minutes, such as evaluations: beside the requests, and nobody waits for it at the end."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 2  # the others wait


class Labour:
    """Runs work in threads of its own: those of asyncio stay free, and the end of the process ends it.

    Examples
    --------
    >>> asyncio.run(Labour().done(lambda: 6 * 7))
    42
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)

    async def done(self, work: Callable[[], T]) -> T:
        """Return the result of work.

        Parameters
        ----------
        work
            Takes no arguments.
        """
        async with self._free:
            result: Future[T] = Future()
            threading.Thread(target=_run, args=(work, result), name="lim2 labour", daemon=True).start()
            return await asyncio.wrap_future(result)


def _run(work: Callable[[], T], result: "Future[T]") -> None:
    if result.set_running_or_notify_cancel():
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
            result.set_exception(error)
