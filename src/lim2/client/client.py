"""``lim2.Client`` and ``lim2.AsyncClient``: the same calls, for threads and for coroutines."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from lim2.client import calls
from lim2.client.errors import UnreachableError, refused
from lim2.client.exchange import Answer, Call, headers_of, parsed
from lim2.client.retrying import Patience, Tries

if TYPE_CHECKING:
    import ssl

    from lim2.client.connections import Connections
    from lim2.client.streams import Streams

P = ParamSpec("P")
T = TypeVar("T")


class _Named:
    """What both clients have: a service, and a bandit of it."""

    def __init__(self, url: str, bandit: str | None, timeout: float, deadline: float) -> None:
        self.url, self.bandit = url, bandit
        self._patience = Patience(timeout, deadline).checked()

    def of(self, bandit: str) -> Self:
        """Return a client of another bandit of the service, which shares the connections of this one.

        Parameters
        ----------
        bandit
            Its name.
        """
        other = copy.copy(self)
        other.bandit = bandit
        return other

    def _name(self) -> str:
        if self.bandit is None:
            raise ValueError("say which bandit: Client(url, key, bandit=...), or client.of(name)")
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


class Client(_Named):
    """A bandit of a service, with the methods of :class:`lim2.Bandit`; any number of threads may use one client.

    A call that fails on the way, or is answered with 429, 502, 503 or 504, is tried again after a random wait that
    doubles, until the deadline. That is safe: decisions and rewards carry names that are made before the first try, so
    the service does each of them once. Make a client after a process has forked.

    Parameters
    ----------
    url
        As ``lim2 serve`` prints it.
    key
        One of the service's keys.
    bandit
        The name of the bandit that methods are about.
    timeout
        Seconds that each step of a try may take: to connect, to send, to receive.
    deadline
        Seconds after which a call is not tried again.
    tls
        For HTTPS: whom to trust. None: the system's certificates.
    connections
        How many connections are kept open while nobody uses them.

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
    snapshot = _method(calls.snapshot)
    info = _method(calls.info)
    create = _method(calls.create)
    change = _method(calls.change)
    delete = _method(calls.delete)
    erase = _method(calls.erase)

    def bandits(self) -> list[dict[str, Any]]:
        """Return all bandits of the service and how they are doing."""
        return self._send(calls.bandits())

    def close(self) -> None:
        """Close the connections that are open and unused."""
        self._connections.close()

    def _send(self, call: Call[T]) -> T:
        connections, tries = self._connections, Tries(call, self._patience, time.monotonic())
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


class AsyncClient(_Named):
    """The same as :class:`Client`, for coroutines of one event loop: ``await client.decide(...)``.

    Parameters
    ----------
    url, key, bandit, deadline, tls
        As for :class:`Client`.
    timeout
        Seconds that a try may take.
    connections
        How many connections are open at the same time, at most; further calls wait for one.

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
    snapshot = _coroutine(calls.snapshot)
    info = _coroutine(calls.info)
    create = _coroutine(calls.create)
    change = _coroutine(calls.change)
    delete = _coroutine(calls.delete)
    erase = _coroutine(calls.erase)

    async def bandits(self) -> list[dict[str, Any]]:
        """Return all bandits of the service and how they are doing."""
        return await self._send(calls.bandits())

    async def close(self) -> None:
        """Close the connections that are open and unused."""
        await self._streams.close()

    async def _send(self, call: Call[T]) -> T:
        import asyncio

        streams, tries = self._streams, Tries(call, self._patience, time.monotonic())
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
    if outcome.status < 300 or (outcome.status == call.gone and tries.failures > 1):
        try:
            return call.result(outcome.content)
        except (ValueError, KeyError, TypeError) as error:
            shown = outcome.content[:80].decode("utf-8", "replace")
            raise UnreachableError(
                f"{call.request.method} {call.request.path} was answered by something that is not lim2 serve: {shown!r}"
            ) from error
    raise refused(outcome)
