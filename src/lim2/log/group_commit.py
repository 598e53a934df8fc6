"""Group commit: concurrent writes of threads and coroutines share one transaction.

A disk completes few flushes per second, whatever their size. So one thread runs all work that arrived during the last
flush in one transaction. Requests of an event loop arrive as one batch, because the thread would compete with the loop.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lim2.log.microbatching import Microbatcher

if TYPE_CHECKING:
    import asyncio

IDLE_SECONDS = 1.0  # for which the thread waits for work before it ends
MAX_REQUESTS = 32  # of an event loop in one batch: more would keep the disk idle


class Request:
    """Work, and its result or error; ``done`` is called when the result is on disk."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[Any], Any], done: Callable[[Request], None]) -> None:
        self.work, self.done = work, done
        self.result: Any = None
        self.error: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        """Set the error, unless there is one."""
        self.error = self.error or error


class GroupCommit:
    """A thread that writes for others; the first request starts it, and it ends after an idle second."""

    # `write` runs requests in one transaction and sets their results and errors; once it has begun, it adds those that
    # its second argument returns. `closed` returns the error for work after `end`. `finished` is called after the
    # callers were resumed. Neither `write` nor `finished` may raise.
    def __init__(
        self,
        write: Callable[[list[Request], Callable[[], list[Request]]], None],
        closed: Callable[[], Exception],
        finished: Callable[[], None] = lambda: None,
    ) -> None:
        self._write, self._closed, self._finished = write, closed, finished
        self.writes = False  # whether a thread writes now: others then leave their work to the group
        self._queue: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # entered by `with`, which no exception interrupts
        self._thread: threading.Thread | None = None
        self._batcher = Microbatcher(self._add_or_refuse, MAX_REQUESTS)
        self._ending = False

    @property
    def is_busy(self) -> bool:
        """Whether a thread writes, or work waits."""
        return self.writes or not self._queue.empty()

    @property
    def is_current(self) -> bool:
        """Whether the caller is the group's thread, which must not wait for itself."""
        return self._thread is threading.current_thread()

    def wait_for(self, work: Callable[[Any], Any]) -> Any:
        """Return the result of work, once it is on disk."""
        gate = threading.Lock()
        gate.acquire()
        request = Request(work, lambda _: gate.release())
        self._add([request])
        gate.acquire()  # released when the work is done; if an exception comes here, it may be done all the same
        if request.error is not None:
            raise request.error
        return request.result

    def submit(self, work: Callable[[Any], Any], loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return a future of the running loop for the result of work."""
        if self._ending:
            raise self._closed()
        future = loop.create_future()
        self._batcher.add(Request(work, _Resumption(loop, future)), loop)
        return future

    def _add_or_refuse(self, requests: list[Request]) -> None:
        try:
            self._add(requests)
        except Exception as error:  # noqa: BLE001 (raised where the requests came from)
            for request in requests:
                request.failed(error)
                request.done(request)

    def _add(self, requests: Sequence[Request]) -> None:
        with self._lock:
            if self._ending:
                raise self._closed()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="lim2-log", daemon=True)
                thread.start()
                self._thread = thread  # now: one that an exception kept from starting would be waited for
            for request in requests:
                self._queue.put(request)  # last: a request that an exception keeps from being added is never done

    def _run(self) -> None:
        with self._lock:
            if self._thread not in (None, threading.current_thread()):  # an exception came after the start of this one
                return
            self._thread = threading.current_thread()
        while requests := self._next():
            self._write(requests, self._drained)
            _resume(requests)
            self._finished()

    def _drained(self) -> list[Request]:
        """Return the requests that wait."""
        requests: list[Request] = []
        while True:
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                return requests
            if request is not None:
                requests.append(request)

    def _next(self) -> list[Request]:
        """Return requests, at least one; none after an idle second, and then the thread ends."""
        try:
            first = self._queue.get(timeout=0.0 if self._ending else IDLE_SECONDS)
        except queue.Empty:
            first = None
        if first is not None:
            return [first]
        with self._lock:  # nobody adds work between the look and the end of the thread
            requests = self._drained()
            if not requests:
                self._thread = None
        return requests

    def end(self) -> None:
        """Do the work that waits, and refuse any other."""
        with self._lock:
            self._ending, thread = True, self._thread
            self._queue.put(None)
        if thread is not None:
            thread.join()


class RefusedError(Exception):
    """One of several requests fails."""


def write_group(
    requests: list[Request],
    drained: Callable[[], list[Request]],
    transact: Callable[[Callable[[Any], None], bool], None],
    step: Callable[[Any, Request], None],
) -> None:
    """Run requests in one transaction; never raise.

    If one fails, all are rolled back and run again, each by `step` behind a savepoint. `drained` returns requests that
    arrived meanwhile. `transact` calls a function with the log's tables; its second argument says whether it is the
    first attempt, of all requests at once.
    """

    def at_once(tables: Any) -> None:
        requests.extend(drained())
        try:
            tables.expect([id for request in requests for id in getattr(request.work, "ids", ())])
            for request in requests:
                request.result = request.work(tables)
            tables.flush()
        except Exception as error:
            raise RefusedError from error

    def one_by_one(tables: Any) -> None:
        for request in requests:
            step(tables, request)

    try:
        try:
            transact(at_once, True)
        except RefusedError:
            transact(one_by_one, False)
    except BaseException as error:  # noqa: BLE001 (raised where the requests came from)
        for request in requests:
            request.failed(error)


class _Resumption:
    """Resumes a coroutine in its event loop, which is woken once for all of its requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> None:
        self.loop, self.future = loop, future

    def __call__(self, request: Request) -> None:
        if self.future.done():  # cancelled
            return
        if request.error is not None:
            self.future.set_exception(request.error)
        else:
            self.future.set_result(request.result)


def _resume(requests: Sequence[Request]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        if isinstance(request.done, _Resumption):
            loops.setdefault(request.done.loop, []).append(request)
        else:
            request.done(request)
    for loop, batch in loops.items():
        if not loop.is_closed():  # nobody waits in a closed one
            loop.call_soon_threadsafe(_resume_all, batch)


def _resume_all(requests: Sequence[Request]) -> None:
    for request in requests:
        request.done(request)
