"""Collect requests of coroutines for a moment, to serve them as one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

    from lim2.decision import Decision

T = TypeVar("T")

MAX_DECISIONS = 32  # per batch: with more, the disk and other requests would wait
LARGE_VALUES = 64_000  # of questions together: from here on their decisions take milliseconds


class Microbatcher(Generic[T]):
    """Collects requests made in consecutive event-loop iterations into one batch.

    A batch is served after the first iteration without a new request, so no request waits for others that may come.
    """

    def __init__(self, serve: Callable[[list[T]], None], max_size: int) -> None:
        self._serve, self._max_size = serve, max_size  # it runs in the thread of the loop, and must not raise
        self._batches: dict[asyncio.AbstractEventLoop, list[T]] = {}  # each is touched by the thread of its loop only

    def add(self, request: T, loop: asyncio.AbstractEventLoop) -> None:
        """Add a request of a coroutine to the batch of its running loop."""
        batch = self._batches.setdefault(loop, [])
        if not batch:
            loop.call_soon(self._end_iteration, loop, batch, 0)
        batch.append(request)
        if len(batch) >= self._max_size:
            self._serve(self._batches.pop(loop))

    def _end_iteration(self, loop: asyncio.AbstractEventLoop, batch: list[T], size: int) -> None:
        if self._batches.get(loop) is not batch:  # it was full, and has been served
            return
        if len(batch) > size:
            loop.call_soon(self._end_iteration, loop, batch, len(batch))
        else:
            self._serve(self._batches.pop(loop))


class Decider(Protocol):
    """A snapshot that answers several questions at once."""

    def decide_many(self, questions: Sequence[Any]) -> list[Decision]:
        """Return a decision for each question; ``rows`` of a question are an array."""


class _DecisionRequest(NamedTuple):
    decider: Decider
    question: Any
    future: asyncio.Future[Decision]


class DecisionBatcher:
    """Makes the decisions of concurrent requests together: one pass over a model's matrices serves all."""

    def __init__(self) -> None:
        self._requests = Microbatcher(_decide_all, MAX_DECISIONS)

    async def decide(self, decider: Decider, question: Any) -> Decision:
        """Return the decision of a snapshot, computed with those of other requests."""
        import asyncio  # not for everyone who opens a log

        loop = asyncio.get_running_loop()
        future: asyncio.Future[Decision] = loop.create_future()
        self._requests.add(_DecisionRequest(decider, question, future), loop)
        return await future


def _decide_all(requests: list[_DecisionRequest]) -> None:
    by_decider: dict[int, list[_DecisionRequest]] = {}  # a new snapshot may have come in between
    for request in requests:
        if not request.future.done():  # cancelled: the client has gone
            by_decider.setdefault(id(request.decider), []).append(request)
    for batch in by_decider.values():
        decide = partial(batch[0].decider.decide_many, [request.question for request in batch])
        if sum(request.question.rows.size for request in batch) < LARGE_VALUES:
            _resolve(batch, decide)
        else:  # in a thread: other requests are answered meanwhile
            computing = batch[0].future.get_loop().run_in_executor(None, decide)
            computing.add_done_callback(partial(_resolve_computed, batch))


def _resolve_computed(batch: list[_DecisionRequest], computed: asyncio.Future[list[Decision]]) -> None:
    _resolve(batch, computed.result)


def _resolve(batch: list[_DecisionRequest], decide: Callable[[], list[Decision]]) -> None:
    try:
        results: list[Any] = decide()
    except Exception as error:  # noqa: BLE001 (raised where the requests wait)
        results = [error] * len(batch)
    for request, result in zip(batch, results, strict=True):
        if request.future.done():  # cancelled meanwhile
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)
