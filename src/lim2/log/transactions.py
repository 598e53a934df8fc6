"""Calls that write to a log, as transactions with a blocking and an asynchronous interface.

A function checks its arguments and returns a `Transaction`. ``log.reward(...)`` waits for it, and
``await log.areward(...)`` lets other coroutines run meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from lim2.log.store import Store, Tables

P = ParamSpec("P")
R = TypeVar("R")


class Log(Protocol):
    """What a transaction is made from: the store and the clock of a log."""

    store: Store
    clock: Callable[[], float]


class Transaction(NamedTuple, Generic[R]):
    """Work within a transaction, and a function from its result to the result of the call."""

    work: Callable[[Tables], Any]
    finish: Callable[[Any], R]


def sync_and_async(
    prepare: Callable[Concatenate[Log, P], Transaction[R]],
) -> tuple[Callable[Concatenate[Log, P], R], Callable[Concatenate[Log, P], Awaitable[R]]]:
    """Return a blocking and an asynchronous method that run the prepared transaction."""

    @functools.wraps(prepare)
    def call(log: Log, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work, finish = prepare(log, *args, **kwargs)
        return finish(log.store.write(work))

    @functools.wraps(prepare)
    async def acall(log: Log, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work, finish = prepare(log, *args, **kwargs)
        return finish(await log.store.awrite(work))

    acall.__name__ = f"a{prepare.__name__}"
    acall.__doc__ = f"Asynchronous version of `{prepare.__name__}`, which does not block the event loop."
    return call, acall
