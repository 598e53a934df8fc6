"""What coroutines ask for at the same time, gathered to be done as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Gathering(Generic[T]):
    """Hands over together what the coroutines of an event loop ask for in passes of it that follow one another.

    Nobody waits for others who may come: it is handed over after the first pass in which nobody has asked for more.

    Parameters
    ----------
    hand_over
        Takes all of it, in the thread of the loop. It raises nothing.
    most
        So many are handed over at once, before the pass is over.
    """

    def __init__(self, hand_over: Callable[[list[T]], None], most: int) -> None:
        self._hand_over, self._most = hand_over, most
        self._waiting: dict[asyncio.AbstractEventLoop, list[T]] = {}  # each is touched by the thread of its loop only

    def add(self, one: T, loop: asyncio.AbstractEventLoop) -> None:
        """Add what a coroutine asks for.

        Parameters
        ----------
        one
            What it asks for.
        loop
            The one that runs.
        """
        waiting = self._waiting.setdefault(loop, [])
        if not waiting:
            loop.call_soon(self._after_pass, loop, waiting, 0)
        waiting.append(one)
        if len(waiting) >= self._most:
            self._pass_on(loop)

    def _after_pass(self, loop: asyncio.AbstractEventLoop, waiting: list[T], before: int) -> None:
        if self._waiting.get(loop) is not waiting:  # it was handed over before
            return
        if len(waiting) > before:
            loop.call_soon(self._after_pass, loop, waiting, len(waiting))
        else:
            self._pass_on(loop)

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hand_over(self._waiting.pop(loop))
