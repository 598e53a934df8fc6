"""``lim2.Client`` and ``lim2.AsyncClient``: the same calls, blocking and asynchronous."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lim2.client import calls
from lim2.client.errors import UnreachableError, refused
from lim2.client.exchange import Answer, Call, headers_of, parsed
from lim2.client.retrying import TimeLimits, Tries

if TYPE_CHECKING:
    import ssl

    from lim2.client.connections import Connections
    from lim2.client.streams import Streams

P = ParamSpec("P")
T = TypeVar("T")


class _BanditClient:
    """Base of both clients: a service and the name of a bandit."""

    def __init__(self, url: str, bandit: str | None, timeout: float, deadline: float) -> None:
        self.url, self.bandit = url, bandit
        self._limits = TimeLimits(timeout, deadline).checked()

    def of(self, bandit: str) -> Self:
        """Return a client for another bandit of the service. It shares the connections of this client."""
        twin = copy.copy(self)
        twin.bandit = bandit
        return twin

    def _name(self) -> str:
        if self.bandit is None:
            raise ValueError("this client has no bandit: use Client(url, key, bandit=...), or client.of(name)")
        return self.bandit

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, bandit={self.bandit!r})"


def _method(make: Callable[Concatenate[str, P], Call[T]]) -> Callable[Concatenate[Client, P], T]:
    @functools.wraps(make)
    def call(client: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._send(make(client._name(), *args, **kwargs))

    return call


def _coroutine(
    make: Callable[Concatenate[str, P], Call[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @functools.wraps(make)
    async def call(client: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._send(make(client._name(), *args, **kwargs))

    return call


class Client(_BanditClient):
    """Client of one bandit of ``lim2 serve``, with the methods of :class:`lim2.Bandit`. It is thread-safe.

    A call that fails on the network, or is answered with 429, 502, 503 or 504, is retried with exponential backoff
    until the deadline. Retries are safe: decisions and rewards get an ID before the first attempt, so the service
    executes each of them once. After a fork, make a new client in the child process.

    Parameters
    ----------
    url
        Address of the service, as ``lim2 serve`` prints it.
    timeout
        Seconds that each step of an attempt may take: connect, send, receive.
    deadline
        Seconds after which a call is no longer retried.
    tls
        For HTTPS: the SSL context. None: trust the system's certificates.
    connections
        Number of idle connections that are kept open.

    Examples
    --------
    >>> import lim2
    >>> client = lim2.Client("http://127.0.0.1:8300", "a-key", bandit="shop")
    >>> client
    Client('http://127.0.0.1:8300', bandit='shop')

    With a service that runs:

    >>> client.create(arms=["spring", "shoes"])              # doctest: +SKIP
    >>> decision = client.decide({"country": "AT"})          # doctest: +SKIP
    >>> client.update(decision, reward=1.0)                  # doctest: +SKIP
    'recorded'
    """

    def __init__(
        self,
        url: str,
        key: str,
        bandit: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        tls: ssl.SSLContext | None = None,
        connections: int = 64,
    ) -> None:
        from lim2.client.connections import Connections  # here: importing lim2 loads no HTTP

        super().__init__(url, bandit, timeout, deadline)
        self._connections: Connections = Connections(parsed(url), headers_of(key), tls, connections)

    decide = _method(calls.decide)
    rank = _method(calls.rank)
    decide_many = _method(calls.decide_many)
    reward = _method(calls.reward)
    update = _method(calls.update)
    reward_many = _method(calls.reward_many)
    activate = _method(calls.activate)
    explain = _method(calls.explain)
    evaluate = _method(calls.evaluate)
    proof = _method(calls.proof)
    snapshot = _method(calls.snapshot)
    info = _method(calls.info)
    create = _method(calls.create)
    change = _method(calls.change)
    pin = _method(calls.pin)
    pause = _method(calls.pause)
    resume = _method(calls.resume)
    add_arm = _method(calls.add_arm)
    remove_arm = _method(calls.remove_arm)
    delete = _method(calls.delete)
    erase = _method(calls.erase)

    def bandits(self) -> list[dict[str, Any]]:
        """Return all bandits of the service with their counts, as :meth:`info` does; asked for page by page."""
        infos, after = self._send(calls.bandits())
        while after is not None:
            page, after = self._send(calls.bandits(after))
            infos += page
        return infos

    def close(self) -> None:
        """Close the idle connections."""
        self._connections.close()

    def _send(self, call: Call[T]) -> T:
        connections, tries = self._connections, Tries(call, self._limits, time.monotonic())
        while True:
            outcome: Answer | Exception
            try:
                outcome = connections.exchange(call.request, tries.timeout(time.monotonic()))
            except connections.failures as error:
                outcome = error
            wait = tries.wait(outcome, time.monotonic())
            if wait is None:
                return _result(call, outcome, tries)
            time.sleep(wait)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(_BanditClient):
    """Asynchronous version of :class:`Client`, for one event loop: ``await client.decide(...)``.

    Parameters
    ----------
    timeout
        Seconds that one attempt may take.
    connections
        Largest number of open connections; further calls wait for one.

    Examples
    --------
    >>> import asyncio, lim2
    >>> async def choose():
    ...     async with lim2.AsyncClient("http://127.0.0.1:8300", "a-key", bandit="shop") as client:
    ...         return await client.decide({"country": "AT"})
    >>> asyncio.run(choose()).arm                            # doctest: +SKIP
    'spring'
    """

    def __init__(
        self,
        url: str,
        key: str,
        bandit: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        tls: ssl.SSLContext | None = None,
        connections: int = 64,
    ) -> None:
        from lim2.client.streams import Streams  # here: importing lim2 loads no asyncio

        super().__init__(url, bandit, timeout, deadline)
        self._streams: Streams = Streams(parsed(url), headers_of(key), tls, connections)

    decide = _coroutine(calls.decide)
    rank = _coroutine(calls.rank)
    decide_many = _coroutine(calls.decide_many)
    reward = _coroutine(calls.reward)
    update = _coroutine(calls.update)
    reward_many = _coroutine(calls.reward_many)
    activate = _coroutine(calls.activate)
    explain = _coroutine(calls.explain)
    evaluate = _coroutine(calls.evaluate)
    proof = _coroutine(calls.proof)
    snapshot = _coroutine(calls.snapshot)
    info = _coroutine(calls.info)
    create = _coroutine(calls.create)
    change = _coroutine(calls.change)
    pin = _coroutine(calls.pin)
    pause = _coroutine(calls.pause)
    resume = _coroutine(calls.resume)
    add_arm = _coroutine(calls.add_arm)
    remove_arm = _coroutine(calls.remove_arm)
    delete = _coroutine(calls.delete)
    erase = _coroutine(calls.erase)

    async def bandits(self) -> list[dict[str, Any]]:
        """Return all bandits of the service with their counts, as :meth:`info` does; asked for page by page."""
        infos, after = await self._send(calls.bandits())
        while after is not None:
            page, after = await self._send(calls.bandits(after))
            infos += page
        return infos

    async def close(self) -> None:
        """Close the idle connections."""
        await self._streams.close()

    async def _send(self, call: Call[T]) -> T:
        import asyncio

        streams, tries = self._streams, Tries(call, self._limits, time.monotonic())
        while True:
            outcome: Answer | Exception
            try:
                outcome = await streams.exchange(call.request, tries.timeout(time.monotonic()))
            except streams.failures as error:
                outcome = error
            wait = tries.wait(outcome, time.monotonic())
            if wait is None:
                return _result(call, outcome, tries)
            await asyncio.sleep(wait)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _result(call: Call[T], outcome: Answer | Exception, tries: Tries) -> T:
    assert isinstance(outcome, Answer)  # an error that is final was raised
    if outcome.status < 300 or (outcome.status == call.done_status and tries.failures > 1):
        try:
            return call.result(outcome.content)
        except (ValueError, KeyError, TypeError) as error:
            excerpt = outcome.content[:80].decode("utf-8", "replace")
            raise UnreachableError(
                f"{call.request.method} {call.request.path} was not answered by lim2 serve, check the url: {excerpt!r}"
            ) from error
    raise refused(outcome)
