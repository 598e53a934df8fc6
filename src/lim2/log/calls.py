"""Writing calls of a log: the caller prepares a request, a transaction executes it.

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
    """Work to do within a transaction, and a function from its result to that of the call."""

    work: Callable[[Tables], Any]
    finish: Callable[[Any], R]


def both(
    prepare: Callable[Concatenate[DecisionLog, P], Request[R]],
) -> tuple[Callable[Concatenate[DecisionLog, P], R], Callable[Concatenate[DecisionLog, P], Awaitable[R]]]:
    """Return two methods for a request: a blocking one and an asynchronous one.

    Parameters
    ----------
    prepare
        Function that returns the request.
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
    acall.__doc__ = f"Asynchronous version of `{prepare.__name__}`, which does not block the event loop."
    return call, acall
