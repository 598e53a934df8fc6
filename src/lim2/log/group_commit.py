"""Group commit: work that comes from many threads and coroutines at the same time shares one transaction.

A disk is flushed as often per second as it can be, whatever is written each time. So a thread takes all the work that
has come while it was flushing, does it in one transaction, and lets all who have waited go on. What the coroutines of
an event loop ask for in one pass of it comes as one: the thread would only get in their way meanwhile.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lim2.log.microbatching import Gathering

if TYPE_CHECKING:
    import asyncio

LINGER = 1.0  # seconds for which the thread waits for more work before it ends
GATHERED = 32  # requests of an event loop that come at once: with more, the disk would have to wait for them


class Request:
    """Work that waits to be done, and then its result or its error.

    Parameters
    ----------
    work
        What to do.
    done
        Called when the result is on disk, or the error is known.
    """

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[Any], Any], done: Callable[[Request], None]) -> None:
        self.work, self.done = work, done
        self.result: Any = None
        self.error: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        """Note an error, unless there is one."""
        self.error = self.error or error


class Group:
    """A thread that does the work of others. It is started when there is some, and ends when there is none for a while.

    Parameters
    ----------
    write
        Does the work of requests in one transaction, and notes results and errors. It raises nothing. When the
        transaction has begun, it adds what has come meanwhile, which its second argument returns.
    closed
        Returns the error for work that comes after `end`.
    afterwards
        Called when those who waited have been let go on. It raises nothing.

    Attributes
    ----------
    writes
        Whether somebody writes at the moment: whoever comes meanwhile should leave the work to the group.
    """

    def __init__(
        self,
        write: Callable[[list[Request], Callable[[], list[Request]]], None],
        closed: Callable[[], Exception],
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        self._write, self._closed, self._afterwards, self.writes = write, closed, afterwards, False
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # entered by `with`, which no exception interrupts
        self._thread: threading.Thread | None = None
        self._gathering = Gathering(self._add_or_refuse, GATHERED)
        self._ending = False

    @property
    def is_busy(self) -> bool:
        """Whether somebody writes, or work waits."""
        return self.writes or not self._waiting.empty()

    @property
    def is_here(self) -> bool:
        """Whether who asks is the group's own thread, which must not wait for itself."""
        return self._thread is threading.current_thread()

    def wait_for(self, work: Callable[[Any], Any]) -> Any:
        """Return the result of some work, once it is on disk.

        Parameters
        ----------
        work
            What to do.
        """
        gate = threading.Lock()
        gate.acquire()
        request = Request(work, lambda _: gate.release())
        self._add([request])
        gate.acquire()  # released when the work is done; if an exception comes here, it may be done all the same
        if request.error is not None:
            raise request.error
        return request.result

    def later(self, work: Callable[[Any], Any], loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
        """Return what a coroutine can wait for.

        Parameters
        ----------
        work
            What to do.
        loop
            The one that runs.
        """
        if self._ending:
            raise self._closed()
        future = loop.create_future()
        self._gathering.add(Request(work, _Resumption(loop, future)), loop)
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
                self._waiting.put(request)  # last: what an exception keeps from being added is not done later

    def _run(self) -> None:
        with self._lock:
            if self._thread not in (None, threading.current_thread()):  # an exception came after the start of this one
                return
            self._thread = threading.current_thread()
        while requests := self._next():
            self._write(requests, self._waiting_now)
            _resume(requests)
            self._afterwards()

    def _waiting_now(self) -> list[Request]:
        """Return what has come meanwhile."""
        found: list[Request] = []
        while True:
            try:
                request = self._waiting.get_nowait()
            except queue.Empty:
                return found
            if request is not None:
                found.append(request)

    def _next(self) -> list[Request]:
        """Return all work that waits; none if there was none for a while, and then the thread ends."""
        try:
            first = self._waiting.get(timeout=0.0 if self._ending else LINGER)
        except queue.Empty:
            first = None
        if first is not None:
            return [first]
        with self._lock:  # nobody adds work between the look and the end of the thread
            requests = self._waiting_now()
            if not requests:
                self._thread = None
        return requests

    def end(self) -> None:
        """Do the work that waits, and take no more."""
        with self._lock:
            self._ending, thread = True, self._thread
            self._waiting.put(None)
        if thread is not None:
            thread.join()


class RefusedError(Exception):
    """One of several requests fails."""


def together(
    requests: list[Request],
    meanwhile: Callable[[], list[Request]],
    transact: Callable[[Callable[[Any], None], bool], None],
    step: Callable[[Any, Request], None],
) -> None:
    """Do the work of several requests in one transaction; what fails is undone alone. This raises nothing.

    Usually none fails. If one does, all are undone, and done once more, each behind a savepoint.

    Parameters
    ----------
    requests
        Whose results or errors are noted.
    meanwhile
        Returns what has come since; it is done with them.
    transact
        Calls a function with the log's tables, within a transaction; the second argument says whether it does all
        requests at once, without savepoints.
    step
        Does the work of one request behind a savepoint, and notes its result or error.
    """

    def at_once(tables: Any) -> None:
        requests.extend(meanwhile())
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
    """How a coroutine goes on: in its own event loop, which is woken once for all of its requests."""

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
    for loop, its_requests in loops.items():
        if not loop.is_closed():  # nobody waits in a closed one
            loop.call_soon_threadsafe(_resume_all, its_requests)


def _resume_all(requests: Sequence[Request]) -> None:
    for request in requests:
        request.done(request)
