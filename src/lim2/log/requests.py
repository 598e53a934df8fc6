"""Calls of a log that write: each is prepared by the caller, done in a transaction, and then finished.

One definition serves both interfaces: ``log.reward(...)`` waits for its transaction, ``await log.areward(...)`` lets
other coroutines go on meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from lim2.log.store import Tables

if TYPE_CHECKING:
    from lim2.log.decision_log import DecisionLog

P = ParamSpec("P")
R = TypeVar("R")


class Request(NamedTuple, Generic[R]):
    """What is to be done within a transaction, and how its result becomes that of the call."""

    work: Callable[[Tables], Any]
    finish: Callable[[Any], R]


def both(
    prepare: Callable[Concatenate[DecisionLog, P], Request[R]],
) -> tuple[Callable[Concatenate[DecisionLog, P], R], Callable[Concatenate[DecisionLog, P], Awaitable[R]]]:
    """Return two methods: one that waits until a request is done, and its twin for coroutines.

    Parameters
    ----------
    prepare
        Returns the request.
    """

    @functools.wraps(prepare)
    def call(log: DecisionLog, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work, finish = prepare(log, *args, **kwargs)
        return finish(log.store.write(work))

    @functools.wraps(prepare)
    async def acall(log: DecisionLog, /, *args: P.args, **kwargs: P.kwargs) -> R:
        work, finish = prepare(log, *args, **kwargs)
        return finish(await log.store.awrite(work))

    acall.__name__ = f"a{prepare.__name__}"
    acall.__doc__ = f"Do what `{prepare.__name__}` does, without blocking the event loop."
    return call, acall
