"""Work in threads, so that the event loop answers others meanwhile: evaluations, and large decisions."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from lim2.log import DecisionLog
from lim2.log.transactions import Transaction

T = TypeVar("T")

MAX_EVALUATIONS = 2  # at the same time
# Decisions have threads of their own: however many overviews and lists use those of asyncio, a decision does not wait.
_decisions = ThreadPoolExecutor(4, "lim2 decision")


class BackgroundPool:
    """Runs long work in daemon threads, a little at a time: the end of the process does not wait for it.

    Examples
    --------
    >>> asyncio.run(BackgroundPool().run(lambda: 6 * 7))
    42
    """

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_EVALUATIONS)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work."""
        async with self._free:
            result: Future[T] = Future()
            threading.Thread(target=_run, args=(work, result), name="lim2 background", daemon=True).start()
            return await asyncio.wrap_future(result)


async def decided(work: Callable[[], T]) -> T:
    """Return the result of the work of a large decision, which takes milliseconds."""
    return await asyncio.get_running_loop().run_in_executor(_decisions, work)


async def written(log: DecisionLog, prepare: Callable[[], Transaction[T]]) -> T:
    """Return the result of a request to a log when it is on disk; it is prepared in a thread."""
    work, finish = await decided(prepare)
    return finish(await log.store.awrite(work))


def _run(work: Callable[[], T], result: "Future[T]") -> None:
    if result.set_running_or_notify_cancel():
        try:
            result.set_result(work())
        except Exception as error:  # noqa: BLE001 (it is raised where the result is awaited)
            result.set_exception(error)
