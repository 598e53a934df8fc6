"""Work beside the requests: evaluations, for which nobody waits at the end, and many decisions at once."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from lim2.log import DecisionLog
from lim2.log.transactions import Transaction

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


async def written(log: DecisionLog, prepare: Callable[[], Transaction[T]]) -> T:
    """Return the result of a request to a log when it is on disk. It is prepared in a thread: that may take a second.

    Parameters
    ----------
    log
        The log.
    prepare
        Returns the request.
    """
    work, finish = await asyncio.to_thread(prepare)
    return finish(await log.store.awrite(work))


def _run(work: Callable[[], T], result: "Future[T]") -> None:
    if result.set_running_or_notify_cancel():
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
            result.set_exception(error)
